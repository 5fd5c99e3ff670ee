"""Episodes as records of a store on disk, and back: rows of arrays in column files, all other values beside them."""

from __future__ import annotations

import math
from typing import Any, Final, final

import numpy as np

from episodia.episodes.multi_agent import multi_agent_state
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent import single_agent_state as episode_state
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import DamagedStoreError, EpisodiaError, StoreError
from episodia.store import NewRecord, Rows, RowStore, packed, unpacked
from episodia.store.record_writer import RecordWriter
from episodia.trees import describe, rebuild_tuple
from episodia.types import State

#: The column with what is not in other columns: ids, spaces, infos, items without a fixed shape.
VALUES: Final = "values"
_COLUMNS: Final = ("observations", "actions", "rewards")
_EXTRAS: Final = "extra_model_outputs"
# The number of bounds of a space: a few bytes in a file could request any amount of memory.
_MAX_ELEMENTS: Final = 2**26


def record_of(episode: SingleAgentEpisode | MultiAgentEpisode, writer: RecordWriter) -> NewRecord:
    """Return `episode` as a record.

    Raises:
        StoreError: If it is of a subclass, or holds a value that cannot be stored; the message says where.
    """
    taker = _RowTaker(writer)
    where = f"the episode {describe(episode.id_)}"
    if type(episode) is SingleAgentEpisode:
        state: State = taker.moved(episode_state.compact_state(episode))
    elif type(episode) is MultiAgentEpisode:
        state = multi_agent_state.compact_state(episode, lambda own: taker.moved(episode_state.compact_state(own)))
        # A function cannot be stored without running code when it is read; the ids of the modules are stored.
        state["agent_to_module_mapping_fn"] = None
    else:
        raise StoreError(
            f"{where}: found a {type(episode).__name__}, expected a SingleAgentEpisode or a MultiAgentEpisode, because "
            "subclasses may have more fields. Convert it; nothing was written."
        )
    try:
        _check_shapes(state)
        values = np.frombuffer(packed(state), np.uint8)
    except StoreError as error:
        raise StoreError(f"{where}: {error}") from error
    meta = {"id": str(episode.id_)[:80], "multi": type(episode) is MultiAgentEpisode, "steps": len(episode)}
    return NewRecord(meta, [(taker.values_column, values), *taker.rows])


def episode_at(store: RowStore, position: int) -> SingleAgentEpisode | MultiAgentEpisode:
    """Return the episode at `position` of a store, on the arrays of its files.

    Raises:
        DamagedStoreError: If it is damaged.
    """
    rows = store.rows(position)
    try:
        values, *others = rows
        state = unpacked(values.data, others)
        _check_shapes(state)
        single = _Borrower(sum(part.nbytes for part in rows))
        if (store.meta(position) or {})["multi"]:
            return multi_agent_state.from_state(MultiAgentEpisode, state, single.episode)
        return single.episode(state)
    except (EpisodiaError, TypeError, ValueError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise DamagedStoreError(
            f"{store.directory}: found values of episode {position} that are not those of an episode ({error}), expected "
            "what was appended. Another program wrote them; the other episodes can be read.",
            file=f"{VALUES}.rows",
        ) from error


@final
class _RowTaker:
    """Replaces the arrays of states by instances of `Rows`, and collects the arrays with their columns."""

    def __init__(self, writer: RecordWriter) -> None:
        self._writer = writer
        column = writer.column_of(VALUES, np.empty(0, np.uint8))
        if column is None:
            raise StoreError("found no room for a column of values, expected it as the first one. Use another store.")
        self.values_column = column
        self.rows: list[tuple[int, np.ndarray]] = []

    def moved(self, state: State) -> State:
        """Return the state of a single-agent episode without the rows of its columns."""
        extras = {key: self._column(column, f"{_EXTRAS}[{key!r}]") for key, column in state[_EXTRAS].items()}
        return {**state, **{name: self._column(state[name], name) for name in _COLUMNS}, _EXTRAS: extras}

    def _column(self, column: State, path: str) -> State:
        moved = self._batch if column["finalized"] else self._growing
        return {**column, "data": moved(column["data"], path)}

    def _batch(self, batch: Any, path: str) -> Any:
        if isinstance(batch, dict):
            return {key: self._batch(value, f"{path}[{key!r}]") for key, value in batch.items()}
        if isinstance(batch, tuple):
            return rebuild_tuple(batch, (self._batch(value, f"{path}[{n}]") for n, value in enumerate(batch)))
        return self._leaf(batch, path)

    def _growing(self, column: tuple[str, Any], path: str) -> tuple[str, Any]:
        """Return a column in list form, as `compact_state` describes it, without its rows."""
        how, data = column
        if how == "rows":
            return how, self._leaf(data, path)
        if how == "dicts":
            return how, {key: self._growing(value, f"{path}[{key!r}]") for key, value in data.items()}
        if how == "tuples":
            return how, [self._growing(value, f"{path}[{n}]") for n, value in enumerate(data)]
        return column

    def _leaf(self, leaf: Any, path: str) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.dtype.hasobject:
            return leaf
        column = self._writer.column_of(path, leaf)
        if column is None:
            return leaf
        self.rows.append((column, leaf))
        return Rows(len(self.rows) - 1)


@final
class _Borrower:
    """Makes episodes of states of which nothing is known yet; the record they come from has `num_bytes`."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes

    def episode(self, state: Any) -> SingleAgentEpisode:
        """Return the episode on the arrays of `state`.

        Raises:
            EpisodeError: If `state` is not that of an episode; the cause may be of any other type.
        """
        infos = state["infos"]["data"]
        # Empty infos are stored as their number, and each step has at least one byte elsewhere.
        if isinstance(infos, int) and not 0 <= infos <= self._num_bytes + 1:
            raise StoreError(f"found {infos} infos, expected no more than there are bytes")
        return episode_state.borrowing(SingleAgentEpisode, state)


def _check_shapes(state: Any) -> None:
    """Reject spaces whose bounds take much more memory than their description."""
    if isinstance(state, dict):
        shape = state.get("shape")
        if (
            isinstance(shape, list)
            and all(isinstance(size, int) for size in shape)
            and math.prod(shape) > _MAX_ELEMENTS
        ):
            raise StoreError(f"found a space of the shape {shape}, expected at most {_MAX_ELEMENTS} elements")
        for key in ("_observation_space", "_action_space", "observation_space", "action_space", "spaces", "records"):
            _check_shapes(state.get(key))
        for key in ("feature_space", "node_space", "edge_space", "episode"):
            _check_shapes(state.get(key))
    elif isinstance(state, (list, tuple)):
        for child in state:
            _check_shapes(child)
