"""Episodes as plain data: for `get_state` / `from_state`, and compactly for pickling."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.arguments import checked_ids
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.indexing import as_count, as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Storage, may_nest
from episodia.episodes.single_agent.single_agent_columns import check_lengths
from episodia.errors import EpisodeError
from episodia.space_codec import decode_space, encode_space, encoded_once
from episodia.stacking import stack, unstack
from episodia.trees import SCALAR_TYPES, describe, freeze, map_batch

if TYPE_CHECKING:
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

_COLUMNS = ("observations", "infos", "actions", "rewards")
_IDS = ("id_", "agent_id", "module_id", "multi_agent_episode_id")
_FIELDS = (
    *_IDS,
    "env_index",
    "agent_index",
    "is_terminated",
    "is_truncated",
    "t_started",
    "t",
)
_PRIVATE = (
    "extra_model_outputs",
    "_observation_space",
    "_action_space",
    "_start_time",
    "_last_step_time",
    "custom_data",
    "weights_versions",
)


def get_state(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return `episode` as numbers, strings, lists, dicts and arrays."""
    return {
        **_plain_state(episode, encode_space),
        **{name: _column_state(getattr(episode, name)) for name in _COLUMNS},
        "extra_model_outputs": {key: _column_state(column) for key, column in episode.extra_model_outputs.items()},
        "custom_data": copy.deepcopy(episode.custom_data),
    }


def _plain_state(episode: SingleAgentEpisode, encode: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        **{field: getattr(episode, field) for field in _FIELDS},
        "_observation_space": encode(episode.observation_space),
        "_action_space": encode(episode.action_space),
        "_start_time": episode._start_time,
        "_last_step_time": episode._last_step_time,
        "weights_versions": [list(entry) for entry in episode.weights_versions],
    }


def _column_state(column: LookbackBuffer) -> dict[str, Any]:
    # The spaces are stored once, with the episode.
    data = column.snapshot(-column.lookback, len(column))
    return {"data": data, "lookback": column.lookback, "finalized": column.finalized}


def from_state(cls: type[SingleAgentEpisode], state: dict[str, Any]) -> SingleAgentEpisode:
    """Return the episode that `get_state` described, with copies of its arrays."""
    _check_fields(state)
    for name, column in [*((name, state[name]) for name in _COLUMNS), *state["extra_model_outputs"].items()]:
        _check_column(name, column)
    return _build(cls, state, _copied_storage, copy.deepcopy(state["custom_data"]))


def _check_fields(state: dict[str, Any]) -> None:
    check_keys(state, (*_FIELDS, *_COLUMNS, *_PRIVATE), "an episode's state")
    for name in ("t", "t_started", "agent_index"):
        as_count(name, state[name], "an episode's state")
    for name in ("is_terminated", "is_truncated"):
        as_flag(state[name])
    for name, kinds in _KINDS.items():
        if not isinstance(state[name], kinds):
            raise EpisodeError(
                f"found `{name}={describe(state[name])}` in an episode's state, expected what `get_state()` returns."
            )
    for entry in state["weights_versions"]:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not all(isinstance(n, int) for n in entry):
            raise EpisodeError(f"found the weights version {describe(entry)} in a state, expected `[t, version]`.")


# The types of the fields of a state that have no check of their own.
_KINDS: dict[str, Any] = {
    "extra_model_outputs": dict,
    "custom_data": dict,
    "weights_versions": (list, tuple),
    "env_index": (int, type(None)),
    "_start_time": (float, int, type(None)),
    "_last_step_time": (float, int, type(None)),
}


def _check_column(name: str, column: Any) -> None:
    what = f"a state of the column {name!r}"
    check_keys(column, ("data", "lookback", "finalized"), what)
    as_count("lookback", column["lookback"], what)
    is_list = isinstance(column["data"], (list, tuple))
    if type(column["finalized"]) is not bool or not (is_list or (column["finalized"] and name != "infos")):
        raise EpisodeError(
            f"found {what} with the data {describe(column['data'])} and `finalized={describe(column['finalized'])}`, "
            "expected a list of items, or arrays and True. Pass what `get_state()` returned."
        )


def check_keys(state: object, keys: tuple[str, ...], what: str) -> None:
    """Reject a state that is not a dict with all `keys`."""
    missing = [key for key in keys if key not in state] if isinstance(state, dict) else list(keys)
    if missing:
        raise EpisodeError(f"found {what} without {missing}, expected what `get_state()` returns.")


def _copied_storage(data: Any, finalized: bool, is_info: bool) -> Storage:
    if is_info:
        return ObjectStorage.copied(data)
    return ArrayStorage.copied(data) if finalized else ListStorage.copied(data)


def compact_state(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return the state for a pickle: contiguous arrays, which protocol 5 moves out of band, and no empty infos."""
    columns = {name: _compact_column(getattr(episode, name)) for name in _COLUMNS}
    infos = columns["infos"]["data"]
    if not any(infos):
        columns["infos"]["data"] = len(infos)
    extras = {key: _compact_column(column) for key, column in episode.extra_model_outputs.items()}
    plain = _plain_state(episode, encoded_once)
    return {**plain, **columns, "extra_model_outputs": extras, "custom_data": episode.custom_data}


def _compact_column(column: LookbackBuffer) -> dict[str, Any]:
    return {"data": _contiguous(column), "lookback": column.lookback, "finalized": column.finalized}


def _contiguous(column: LookbackBuffer) -> Any:
    stored = column.lend()
    if column.holds_objects:
        return stored
    if column.finalized:
        return map_batch(np.ascontiguousarray, stored)
    # A recorded episode is in list form while it grows, but its items are rows of arrays.
    return _pack(stored if isinstance(stored, list) else unstack(stored))


def restore(cls: type[SingleAgentEpisode], state: dict[str, Any]) -> SingleAgentEpisode:
    """Return the episode that was pickled, on the arrays of the pickle, which also holds the attributes of a subclass."""
    return _build(cls._without_subclass, state, _adopted_storage, state["custom_data"])


def borrowing(cls: type[SingleAgentEpisode], state: dict[str, Any]) -> SingleAgentEpisode:
    """Return the episode that `compact_state` described in a file, on the arrays of the file, after checking its fields."""
    _check_fields(state)
    return restore(cls, state)


def _adopted_storage(data: Any, finalized: bool, is_info: bool) -> Storage:
    if is_info:
        return ObjectStorage.of_empty(data) if isinstance(data, int) else ObjectStorage(list(freeze(data)))
    if finalized:
        return ArrayStorage(map_batch(freeze, data), owned=False)
    items = _unpack(data)
    return ListStorage(items, nested=may_nest(items))


def _pack(items: list[Any]) -> tuple[str, Any]:
    """Return the items of a growing column as few arrays: one for each leaf that has one type in all items."""
    kinds = set(map(type, items))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is np.ndarray and items[0].ndim and len({(item.shape, item.dtype) for item in items}) == 1:
        return "rows", stack(items)
    if kind in SCALAR_TYPES and issubclass(kind, np.generic):
        return "rows", np.array(items)
    if kind is dict and items[0] and all(list(item) == list(items[0]) for item in items):
        return "dicts", {key: _pack([item[key] for item in items]) for key in items[0]}
    if kind is tuple and items[0] and len(set(map(len, items))) == 1:
        return "tuples", [_pack(list(column)) for column in zip(*items, strict=True)]
    return "items", items


def _unpack(packed: tuple[str, Any]) -> list[Any]:
    how, data = packed
    if how == "rows":
        return list(freeze(data))
    if how == "dicts":
        rows = zip(*map(_unpack, data.values()), strict=True)
        return [dict(zip(data, row, strict=True)) for row in rows]
    if how == "tuples":
        return list(zip(*map(_unpack, data), strict=True))
    return [freeze(item) for item in data]


def _build(
    make: Callable[..., SingleAgentEpisode], state: dict[str, Any], storage: Any, custom_data: Any
) -> SingleAgentEpisode:
    observation_space = decode_space(state["_observation_space"])
    action_space = decode_space(state["_action_space"])
    if state["id_"] is None:
        raise EpisodeError(
            "state: found None as `id_`, expected the id of an episode. Pass what `get_state()` returned."
        )
    checked_ids(EpisodeError, "state", tuple(state[name] for name in _IDS))
    # An empty episode has the fields that a state lacks, such as the space of rewards.
    episode = make(state["id_"], observation_space=observation_space, action_space=action_space)
    for field in _FIELDS:
        setattr(episode, field, state[field])
    for name in _COLUMNS:
        space = getattr(episode, name).space
        setattr(episode, name, _column(state[name], space, storage, is_info=name == "infos"))
    episode.extra_model_outputs = {
        key: _column(column, None, storage, is_info=False) for key, column in state["extra_model_outputs"].items()
    }
    weights_versions = tuple((start, version) for start, version in state["weights_versions"])
    episode._set_history(weights_versions, custom_data, state["_start_time"], state["_last_step_time"])
    check_lengths(episode)
    return episode


def _column(state: dict[str, Any], space: Any, storage: Any, *, is_info: bool) -> LookbackBuffer:
    stored = storage(state["data"], state["finalized"], is_info)
    lookback = min(int(state["lookback"]), len(stored))
    return LookbackBuffer.adopt(stored, lookback, space, finalized=state["finalized"])
