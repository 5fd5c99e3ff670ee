"""Columns of a recorder: their nesting, and the dtype and shape of each leaf, fixed by the first data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.episodes.columns.rewards import REWARD_SPACE
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodeKeyError, EpisodiaError, ShapeError, SpaceError
from episodia.space_rules import admission, rules_of
from episodia.spaces import ARRAY_SPACES
from episodia.trees import describe, own, rebuild_tuple
from episodia.types import Item

if TYPE_CHECKING:
    from episodia.episodes.recorder.recorded_chunk import Chunk

# Leaves of the nesting are numbers: positions in the list of leaves.
_Nesting: TypeAlias = Any

_ARRAY_KINDS = "biufcmM"
_LARGE_ROW = 1024  # bytes


@final
class Leaf:
    """One leaf of a column: an array of one dtype and shape, or objects (`dtype` is then `object`)."""

    __slots__ = ("admit", "dtype", "path", "shape")

    def __init__(self, path: str, dtype: np.dtype[Any], shape: tuple[int, ...], admit: Callable[[Any], Any]) -> None:
        self.path = path
        self.dtype = dtype
        self.shape = shape
        # Checks one item and returns a private copy of it; for objects.
        self.admit = admit

    @property
    def is_object(self) -> bool:
        """Whether items are kept as they are."""
        return self.dtype.hasobject


@final
class RecorderColumn:
    """The layout of one column, for all lanes and all blocks.

    `is_track` tells whether its rows belong to observations (one more than steps). `written` are the lanes whose episode
    was written into (a plugin's `set_observations`): there, the column differs from the blocks.

    >>> column = RecorderColumn.from_first("obs", spaces.Discrete(3), np.array([0, 2]), is_track=True)
    >>> column.flat(np.array([1, 1]), 2)
    [array([1, 1])]
    """

    __slots__ = ("_nesting", "is_leaf", "is_plain", "is_track", "leaves", "name", "rules", "space", "written")

    def __init__(
        self, name: str, space: Space[Any] | None, nesting: _Nesting, leaves: list[Leaf], *, is_track: bool
    ) -> None:
        self.name = name
        self.space = space
        self.rules = None if space is None else rules_of(space)
        self.leaves = leaves
        self.is_track = is_track
        self.written: set[int] = set()
        self.is_leaf = nesting == 0  # not nested
        self.is_plain = self.is_leaf and not leaves[0].is_object  # a batch is one array
        self._nesting = nesting

    @classmethod
    def from_first(cls, name: str, space: Space[Any] | None, batch: Item, *, is_track: bool = False) -> RecorderColumn:
        """Return the layout that `space` and the first batch of data, one row for each lane, give.

        The dtype is that of the data, if the space allows it for single items too.

        Raises:
            SpaceError: If the data does not belong to the space.
        """
        leaves: list[Leaf] = []
        try:
            nesting = _nesting_of(space, batch, "", leaves)
        except EpisodiaError as error:
            raise type(error)(f"{name}: {error}") from error
        return cls(name, space, nesting, leaves, is_track=is_track)

    def flat(self, batch: Item, count: int) -> list[Any]:
        """Return the leaves of `batch`, `count` rows each: arrays, and lists of private objects.

        Raises:
            ShapeError: If the nesting, a shape or a dtype is not that of the column.
        """
        found = self.collected(batch)
        return [self._fitting(leaf, value, count) for leaf, value in zip(self.leaves, found, strict=True)]

    def collected(self, batch: Item) -> list[Any]:
        """Return the leaves of `batch`; only the nesting is checked."""
        found: list[Any] = []
        _collect(self._nesting, batch, found, self.name)
        return found

    def nested(self, leaves: list[Any]) -> Any:
        """Return `leaves` in the nesting of the column."""
        return leaves[0] if self.is_leaf else _rebuilt(self._nesting, leaves)

    def _fitting(self, leaf: Leaf, value: Any, count: int) -> Any:
        where = f"{self.name}{leaf.path}"
        if leaf.is_object:
            return _objects(leaf, value, count, where)
        array = as_array(value, where)
        if array.dtype != leaf.dtype or array.shape != (count, *leaf.shape):
            raise ShapeError(
                f"{where}: found {describe(array)}, expected {leaf.dtype}{[count, *leaf.shape]} (one row for each lane) as at "
                "first: recorded columns have one dtype and one shape. Cast or reshape it; nothing was recorded."
            )
        return array


@final
@dataclass(frozen=True)
class RecorderLayout:
    """The columns of a recorder. Those of steps are not known before the first step, observations not before a reset."""

    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    observations: RecorderColumn | None = None
    actions: RecorderColumn | None = None
    rewards: RecorderColumn | None = None
    extras: Mapping[str, RecorderColumn] = field(default_factory=dict)
    episode_class: type[SingleAgentEpisode] = SingleAgentEpisode

    @cached_property
    def stored_columns(self) -> dict[str, RecorderColumn] | None:
        """All columns by name, after the first step; None before it."""
        if self.observations is None or self.actions is None or self.rewards is None:
            return None
        usual = {Columns.OBS: self.observations, Columns.ACTIONS: self.actions, Columns.REWARDS: self.rewards}
        return {**usual, **self.extras}

    def columns(self) -> list[RecorderColumn]:
        """Return all columns that are known."""
        all_columns = (self.observations, self.actions, self.rewards, *self.extras.values())
        return [column for column in all_columns if column is not None]

    def column(self, name: str) -> RecorderColumn:
        """Return the column `name`: one of `Columns`, or of an extra model output.

        Raises:
            EpisodeKeyError: If it is not known, or not yet.
        """
        if name == Columns.OBS:
            found = self.observations
        elif name == Columns.ACTIONS:
            found = self.actions
        else:
            found = self.rewards if name == Columns.REWARDS else self.extras.get(name)
        if found is None:
            raise EpisodeKeyError(
                f"recorder: found the column {name!r}, expected one of {[column.name for column in self.columns()]}. "
                "Observations are known after the first reset, all other columns after the first step."
            )
        return found

    @property
    def known_observations(self) -> RecorderColumn:
        """The column of observations, after the first reset."""
        return _known(self.observations)

    @property
    def known_actions(self) -> RecorderColumn:
        """The column of actions, after the first step."""
        return _known(self.actions)

    @property
    def known_rewards(self) -> RecorderColumn:
        """The column of rewards, after the first step."""
        return _known(self.rewards)

    def extras_of(self, chunk: Chunk) -> Mapping[str, RecorderColumn]:
        """Return the extra columns that the episode of `chunk` has: none before its first step."""
        return self.extras if chunk.t else {}

    @property
    def has_large_rows(self) -> bool:
        """Whether the memory of a step matters more than the time in which it is copied.

        An episode that continues in another block is joined by a copy, and is stored twice while the block is kept.
        """
        return bytes_of_row(self.columns()) >= _LARGE_ROW

    def columns_of(self, chunk: Chunk) -> list[RecorderColumn]:
        """Return the columns that the episode of `chunk`, which has steps, has."""
        return [self.known_observations, self.known_actions, self.known_rewards, *self.extras_of(chunk).values()]


def _known(column: RecorderColumn | None) -> RecorderColumn:
    if column is None:
        raise EpisodeError("recorder: found a question about a column before its first data, expected `reset` first.")
    return column


def bytes_of_row(columns: Iterable[RecorderColumn]) -> int:
    """Return how many bytes one row of all `columns` takes.

    >>> bytes_of_row([RecorderColumn.from_first("obs", None, np.zeros((2, 3), np.float32))])
    12
    """
    return sum(leaf.dtype.itemsize * math.prod(leaf.shape) for column in columns for leaf in column.leaves)


def as_array(value: object, where: str) -> np.ndarray:
    """Return `value` as an array in the byte order of this machine.

    Raises:
        ShapeError: If it does not become an array.
    """
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(
            f"{where}: found {describe(value)}, which does not become an array ({error}). Expected one row for each lane. "
            "Of a tensor, pass `tensor.detach().cpu().numpy()`."
        ) from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _objects(leaf: Leaf, value: Any, count: int, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple, np.ndarray)) or len(value) != count:
        raise ShapeError(
            f"{where}: found {describe(value)}, expected {count} items, one for each lane, in a list or tuple."
        )
    try:
        return [leaf.admit(item) for item in value]
    except EpisodiaError as error:
        raise type(error)(f"{where}: {error}") from error


# --- The nesting ----------------------------------------------------------------------------------------------------


def _nesting_of(space: Space[Any] | None, batch: Any, path: str, leaves: list[Leaf]) -> _Nesting:
    """Return the nesting of `batch`, and append its leaves to `leaves`."""
    if isinstance(space, spaces.Dict) or (space is None and isinstance(batch, Mapping)):
        children = dict.fromkeys(batch) if space is None else dict(space.spaces)
        if not isinstance(batch, Mapping) or batch.keys() != children.keys():
            raise SpaceError(f"found {describe(batch)}{path}, expected a dict with the keys {list(children)}.")
        return {key: _nesting_of(child, batch[key], f"{path}[{key!r}]", leaves) for key, child in children.items()}
    if isinstance(space, spaces.Tuple) or (space is None and isinstance(batch, tuple)):
        parts = [None] * len(batch) if space is None else list(space.spaces)
        if not isinstance(batch, (tuple, list)) or len(batch) != len(parts):
            raise SpaceError(f"found {describe(batch)}{path}, expected a tuple of {len(parts)} batches.")
        found = (_nesting_of(part, batch[i], f"{path}[{i}]", leaves) for i, part in enumerate(parts))
        return rebuild_tuple(batch, found) if isinstance(batch, tuple) and space is None else tuple(found)
    leaves.append(_leaf_of(space, batch, path))
    return len(leaves) - 1


def _leaf_of(space: Space[Any] | None, value: Any, path: str) -> Leaf:
    if space is not None and not isinstance(space, ARRAY_SPACES):
        return Leaf(path, np.dtype(object), (), admission(space))
    array = as_array(value, path)
    if not array.ndim or not len(array):
        raise ShapeError(f"found {describe(value)}{path}, expected an array with one row for each lane.")
    if space is None and array.dtype.kind not in _ARRAY_KINDS:
        return Leaf(path, np.dtype(object), (), own)
    if space is REWARD_SPACE:
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise EpisodeError(
                f"found {describe(value)}, expected a one-dimensional array of numbers, one for each lane."
            )
    elif space is not None:
        try:
            admitted = admission(space)(array[0])
        except EpisodiaError as error:
            raise type(error)(f"{path}{': ' if path else ''}{error}") from error
        if np.asarray(admitted).dtype != array.dtype:
            raise SpaceError(f"found {describe(array)}{path}, expected the dtype of {space}. Cast it first.")
    return Leaf(path, array.dtype, array.shape[1:], own)


def _collect(nesting: _Nesting, batch: Any, found: list[Any], path: str) -> None:
    """Append the leaves of `batch` to `found`, in the order of `nesting`."""
    if isinstance(nesting, dict):
        if not isinstance(batch, Mapping) or batch.keys() != nesting.keys():
            raise ShapeError(
                f"{path}: found {describe(batch)}, expected a dict with the keys {list(nesting)} as at first."
            )
        for key, child in nesting.items():
            _collect(child, batch[key], found, f"{path}[{key!r}]")
    elif isinstance(nesting, tuple):
        if not isinstance(batch, (tuple, list)) or len(batch) != len(nesting):
            raise ShapeError(
                f"{path}: found {describe(batch)}, expected a tuple of {len(nesting)} batches as at first."
            )
        for position, child in enumerate(nesting):
            _collect(child, batch[position], found, f"{path}[{position}]")
    else:
        found.append(batch)


def _rebuilt(nesting: _Nesting, leaves: list[Any]) -> Any:
    if isinstance(nesting, dict):
        return {key: _rebuilt(child, leaves) for key, child in nesting.items()}
    if isinstance(nesting, tuple):
        return rebuild_tuple(nesting, (_rebuilt(child, leaves) for child in nesting))
    return leaves[nesting]
