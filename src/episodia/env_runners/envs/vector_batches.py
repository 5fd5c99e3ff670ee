"""Batches of vector environments: observations filled lane by lane, rows of some lanes, and infos by lane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from episodia.episodes.recorder.vector_infos import InfoEntry
from episodia.errors import EnvError, EpisodiaError
from episodia.space_rules import rules_of, with_float32
from episodia.spaces import ARRAY_SPACES
from episodia.trees import describe
from episodia.types import Item


class ObservationBatch(ABC):
    """A batch whose memory is used again for each step: read it before the next one.

    Attributes:
        rows: For each lane, where an array of exactly `dtype` and `shape` may be written instead of calling `put`.
        dtype: None if there are no such arrays.
        shape: Of one observation.
    """

    rows: Sequence[Any]
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]

    @abstractmethod
    def put(self, lane: int, observation: Item) -> None:
        """Let `observation` be that of `lane`.

        Raises:
            EnvError: If it does not belong to the space; bounds are not looked at.
        """

    @abstractmethod
    def batch(self) -> Any:
        """Return the observations of all lanes, as vector environments do."""


def observation_batch(space: Space[Any], num_lanes: int) -> ObservationBatch:
    """Return an empty batch of observations of `space`.

    >>> from gymnasium.spaces import Discrete
    >>> batch = observation_batch(Discrete(5), 2)
    >>> batch.put(1, 4)
    >>> batch.batch()
    array([0, 4])
    """
    return _Plain(space, num_lanes) if isinstance(space, ARRAY_SPACES) else _Nested(space, num_lanes)


def checked_observation(space: Space[Any], lane: int, observation: Item) -> Any:
    """Return a private copy of `observation`, if structure, shape and dtype are those of `space`.

    Raises:
        EnvError: If they are not.
    """
    try:
        return rules_of(space).admit(with_float32(space, observation))
    except EpisodiaError as error:
        raise EnvError(f"environment {lane}: in its observation {error}") from error


@final
class _Plain(ObservationBatch):
    """Observations that are one array each."""

    def __init__(self, space: Space[Any], num_lanes: int) -> None:
        self._space = space
        self.dtype: np.dtype[Any] = np.dtype(space.dtype)
        self.shape = tuple(space.shape or ())
        self._batch = np.zeros((num_lanes, *self.shape), self.dtype)
        self.rows = [self._batch[lane, ...] for lane in range(num_lanes)]

    def put(self, lane: int, observation: Any) -> None:
        if type(observation) is not np.ndarray or observation.dtype != self.dtype or observation.shape != self.shape:
            observation = self._converted(lane, observation)
        self._batch[lane] = observation

    def _converted(self, lane: int, observation: Any) -> Any:
        admitted = np.asarray(checked_observation(self._space, lane, observation))
        cast = admitted.astype(self.dtype)
        # The space allows Python numbers and smaller dtypes; what it would silently cut is rejected.
        if not np.array_equal(cast, admitted, equal_nan=self.dtype.kind == "f") and self.dtype.kind != "f":
            raise EnvError(
                f"environment {lane}: found the observation {describe(observation)}, expected numbers that {self.dtype} "
                "holds. Declare another observation space."
            )
        return cast

    def batch(self) -> Any:
        return self._batch


@final
class _Nested(ObservationBatch):
    """Observations that are dicts or tuples, or no arrays at all."""

    def __init__(self, space: Space[Any], num_lanes: int) -> None:
        self._space = space
        self._items: list[Any] = [None] * num_lanes
        self.rows, self.dtype, self.shape = range(num_lanes), None, ()
        self._out: Any = create_empty_array(space, num_lanes)

    def put(self, lane: int, observation: Any) -> None:
        self._items[lane] = checked_observation(self._space, lane, observation)

    def batch(self) -> Any:
        self._out = concatenate(self._space, self._items, self._out)
        return self._out


def taken_rows(space: Space[Any], batch: Item, lanes: Sequence[int]) -> Any:
    """Return the batch of some lanes: a copy.

    >>> taken_rows(spaces.Discrete(9), np.array([5, 6, 7]), [2, 0])
    array([7, 5])
    """
    return _mapped(space, lambda leaf: leaf[list(lanes)], lambda items: tuple(items[lane] for lane in lanes), batch)


def with_rows(space: Space[Any], batch: Item, lanes: Sequence[int], items: Sequence[Any]) -> Any:
    """Return a copy of `batch` that has `items` in the rows of `lanes`.

    >>> with_rows(spaces.Discrete(9), np.array([5, 6, 7]), [1], [0])
    array([5, 0, 7])
    """
    if isinstance(space, spaces.Dict):
        return {
            key: with_rows(child, batch[key], lanes, [item[key] for item in items])
            for key, child in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            with_rows(child, batch[position], lanes, [item[position] for item in items])
            for position, child in enumerate(space.spaces)
        )
    if isinstance(space, ARRAY_SPACES):
        changed = np.array(batch)
        for lane, item in zip(lanes, items, strict=True):
            changed[lane] = item
        return changed
    listed = list(batch)
    for lane, item in zip(lanes, items, strict=True):
        listed[lane] = item
    return tuple(listed)


def _mapped(space: Space[Any], array: Callable[[Any], Any], items: Callable[[Any], Any], batch: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _mapped(child, array, items, batch[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_mapped(child, array, items, batch[position]) for position, child in enumerate(space.spaces))
    return array(batch) if isinstance(space, ARRAY_SPACES) else items(batch)


Infos = dict[Any, Any]


def is_by_lane(infos: Infos) -> bool:
    """Tell whether `infos` are `{lane: info}`, as environments that we built return them."""
    return type(next(iter(infos), None)) is int


def recorded_infos(infos: Infos, num_lanes: int) -> Any:
    """Return `infos` as a recorder takes them.

    >>> recorded_infos({1: {"lives": 3}}, 2)
    [{}, {'lives': 3}]
    """
    return [infos.get(lane, {}) for lane in range(num_lanes)] if is_by_lane(infos) else infos


def infos_by_lane(infos: Infos, num_lanes: int) -> list[Infos]:
    """Return the info of each lane.

    >>> infos_by_lane({"lives": np.array([3, 0]), "_lives": np.array([True, False])}, 2)
    [{'lives': np.int64(3)}, {}]
    """
    if is_by_lane(infos):
        return [infos.get(lane, {}) for lane in range(num_lanes)]
    entry = InfoEntry.of(infos, range(num_lanes))
    return [{} if entry is None else entry.info(lane) for lane in range(num_lanes)]


def masks_by_lane(infos: Infos, key: str, num_lanes: int) -> dict[int, Any]:
    """Return the action masks in `infos`, by the lanes that have one.

    >>> masks_by_lane({1: {"action_mask": [0, 1]}}, "action_mask", 2)
    {1: [0, 1]}
    """
    if is_by_lane(infos):
        return {lane: info[key] for lane, info in infos.items() if key in info}
    masks = infos.get(key)
    if not isinstance(masks, np.ndarray):
        return {}
    return {int(lane): masks[lane] for lane in np.flatnonzero(_has(infos, key, num_lanes))}


def _has(infos: Infos, key: str, num_lanes: int) -> np.ndarray:
    return np.asarray(infos.get(f"_{key}", np.ones(num_lanes, np.bool_)))
