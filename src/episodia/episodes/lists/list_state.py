"""Lists of episodes for pickling: each column of all episodes as one flat array with offsets, each field as one list.

Episodes of a recorder are views on blocks that hold many more steps, and a pickle of each episode would repeat
the same fields. The state holds the rows of the episodes, their lookbacks included, and nothing else of the blocks.
The arrays are contiguous, so that protocol 5 moves them out of band.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from episodia.episodes.lists.ragged import offsets_of
from episodia.episodes.multi_agent import multi_agent_state
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent import single_agent_state as episode_state
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.trees import freeze, leaves, map_batch
from episodia.types import State

_COLUMNS = ("observations", "actions", "rewards", "infos")
_EXTRAS = "extra_model_outputs"


def pack(episodes: Sequence[Any]) -> State:
    """Return all of `episodes` as plain data with few arrays."""
    rows: list[State] = []
    packed: list[Any] = []
    for episode in episodes:
        if type(episode) is SingleAgentEpisode:
            packed.append(_moved(rows, episode_state.compact_state(episode)))
        elif type(episode) is MultiAgentEpisode:
            packed.append(
                multi_agent_state.compact_state(episode, lambda row: _moved(rows, episode_state.compact_state(row)))
            )
        else:
            packed.append(episode)  # of a subclass, which may have more fields
    # A list of single-agent episodes is its table.
    return {"rows": _table(rows), "episodes": None if packed == list(range(len(rows))) else packed}


def unpack(packed: State) -> list[Any]:
    """Return the episodes that `pack` was given, on the arrays of `packed`."""
    rows = [episode_state.restore(SingleAgentEpisode, state) for state in _states(packed["rows"])]
    if packed["episodes"] is None:
        return rows
    return [_unpacked(entry, rows) for entry in packed["episodes"]]


def _moved(rows: list[State], state: State) -> int:
    """Append `state` to `rows`, and return its position there."""
    rows.append(state)
    return len(rows) - 1


def _unpacked(entry: Any, rows: list[SingleAgentEpisode]) -> Any:
    if isinstance(entry, int):
        return rows[entry]
    if isinstance(entry, dict):
        return multi_agent_state.restore(MultiAgentEpisode, entry, rows.__getitem__)
    return entry


# --- Parts of a table -------------------------------------------------------------------------------------------------


def table_of(count: int, fields: State, columns: State, extras: State) -> State:
    """Return what `pack` returns of `count` single-agent episodes, which all have the same `extras`."""
    everywhere = _small(list(range(count)))
    return {
        "rows": {
            "count": count,
            "fields": fields,
            "columns": columns,
            "extras_order": alike(list(extras)),
            "extras": {name: (everywhere, groups) for name, groups in extras.items()},
        },
        "episodes": None,
    }


def alike(value: Any) -> tuple[str, Any]:
    """Return a field that has the same value in all episodes."""
    return "all", value


def each(values: list[Any]) -> tuple[str, Any]:
    """Return a field with a value for each episode."""
    return "each", values


def values_of(values: Any, counts: np.ndarray, lookbacks: np.ndarray) -> State:
    """Return a finalized column of all episodes, which has `counts` rows of each in `values`, `lookbacks` included."""
    sizes = _small(counts.tolist())
    return {"rows": None, "lookbacks": _small(lookbacks.tolist()), "finalized": True, "values": values, "counts": sizes}


def items_of(items: list[Any], lookbacks: list[int]) -> State:
    """Return a finalized column of all episodes, with the items of each as they are."""
    return {"rows": None, "lookbacks": _small(lookbacks), "finalized": True, "items": items}


def field_of(table: State, name: str) -> list[Any]:
    """Return the values of a field, one for each row of a table."""
    return _unpacked_field(table["fields"][name], table["count"])


def orders_of(table: State, rows: list[int]) -> list[list[str]]:
    """Return the names of the extra columns of some rows of a table."""
    orders = _unpacked_field(table["extras_order"], table["count"])
    return [orders[row] for row in rows]


# --- From states of single-agent episodes to a table, and back --------------------------------------------------------


def _table(states: list[State]) -> State:
    """Return one entry for each field and column of all `states`."""
    if not states:
        return {"count": 0}
    fields = [name for name in states[0] if name not in (*_COLUMNS, _EXTRAS)]
    names = dict.fromkeys(name for state in states for name in state[_EXTRAS])
    having = {name: [row for row, state in enumerate(states) if name in state[_EXTRAS]] for name in names}
    return {
        "count": len(states),
        "fields": {name: _field([state[name] for state in states]) for name in fields},
        "columns": {name: _packed_column([state[name] for state in states]) for name in _COLUMNS},
        # Two episodes may have their extra columns in different orders.
        "extras_order": _field([list(state[_EXTRAS]) for state in states]),
        "extras": {
            name: (_small(rows), _packed_column([states[row][_EXTRAS][name] for row in rows]))
            for name, rows in having.items()
        },
    }


def _states(table: State) -> Iterable[State]:
    count = table["count"]
    if not count:
        return
    fields = {name: _unpacked_field(field, count) for name, field in table["fields"].items()}
    columns = {name: _unpacked_column(packed) for name, packed in table["columns"].items()}
    extras = {
        name: dict(zip(rows.tolist(), _unpacked_column(packed), strict=True))
        for name, (rows, packed) in table["extras"].items()
    }
    order = _unpacked_field(table["extras_order"], count)
    for row in range(count):
        state = {name: values[row] for name, values in (*fields.items(), *columns.items())}
        state[_EXTRAS] = {name: extras[name][row] for name in order[row]}
        yield state


def _field(values: list[Any]) -> tuple[str, Any]:
    """Return the values of one field, as one where they are all alike."""
    first = values[0]
    if isinstance(first, (str, int, type(None), list)) and all(
        type(value) is type(first) and value == first for value in values
    ):
        return alike(first)
    return each(values)


def _unpacked_field(field: tuple[str, Any], count: int) -> list[Any]:
    how, values = field
    return values if how == "each" else [values] * count


def _packed_column(columns: list[State]) -> list[State]:
    """Return one entry for all rows whose arrays fit together; columns without arrays are listed."""
    groups: dict[Any, list[int]] = {}
    for row, column in enumerate(columns):
        groups.setdefault(_signature(column), []).append(row)
    if len(groups) == 1:
        return [_packed_rows(columns, None, next(iter(groups)))]
    return [_packed_rows([columns[row] for row in rows], rows, signature) for signature, rows in groups.items()]


def _packed_rows(columns: list[State], rows: list[int] | None, signature: Any) -> State:
    packed = {
        "rows": None if rows is None else _small(rows),
        "lookbacks": _small([column["lookback"] for column in columns]),
        "finalized": columns[0]["finalized"],
    }
    data = [column["data"] for column in columns]
    if signature[0] != "arrays":
        return {**packed, "items": data}
    counts = _small([len(next(leaves(batch))[1]) for batch in data])
    return {**packed, "values": data[0] if len(data) == 1 else _joined(data), "counts": counts}


def _small(numbers: list[int]) -> np.ndarray:
    """Return `numbers` as the smallest integers that hold them."""
    return np.array(numbers, np.min_scalar_type(max(numbers, default=0)))


def _joined(batches: list[Any]) -> Any:
    return map_batch(lambda *parts: np.concatenate(parts), *batches)


def _signature(column: State) -> tuple[Any, ...]:
    """Return what has to be the same in columns that are stored as one."""
    if not column["finalized"]:
        return "items", False
    found = list(leaves(column["data"]))
    # Names alone do not tell a dict from a tuple.
    nesting = type(column["data"])
    if not found or not all(isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject for _, leaf in found):
        return "items", True
    return "arrays", nesting, tuple((path, leaf.dtype, leaf.shape[1:]) for path, leaf in found)


def _unpacked_column(packed: list[State]) -> list[State]:
    by_row: dict[int, State] = {}
    for group in packed:
        data = group["items"] if "items" in group else _parts(group["values"], group["counts"])
        rows = range(len(data)) if group["rows"] is None else group["rows"].tolist()
        for row, part, lookback in zip(rows, data, group["lookbacks"].tolist(), strict=True):
            by_row[row] = {"data": part, "lookback": lookback, "finalized": group["finalized"]}
    return [by_row[row] for row in range(len(by_row))]


def _parts(values: Any, counts: np.ndarray) -> list[Any]:
    frozen = map_batch(freeze, values)
    return [
        map_batch(lambda leaf, start=start, stop=stop: leaf[start:stop], frozen)
        for start, stop in pairwise(offsets_of(counts.astype(np.int64)).tolist())
    ]
