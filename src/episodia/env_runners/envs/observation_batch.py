"""The observations of all lanes as one batch, filled lane by lane; what does not belong to the space is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import concatenate, create_empty_array

from episodia.errors import EnvError, EpisodiaError
from episodia.space_rules import admission
from episodia.spaces import ARRAY_SPACES
from episodia.trees import describe


class ObservationBatch(ABC):
    """A batch whose memory is used again for each step: read it before the next one."""

    @abstractmethod
    def put(self, lane: int, observation: Any) -> None:
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


def checked_observation(space: Space[Any], lane: int, observation: Any) -> Any:
    """Return a private copy of `observation`, if structure, shape and dtype are those of `space`.

    Raises:
        EnvError: If they are not.
    """
    try:
        return admission(space)(observation)
    except EpisodiaError as error:
        raise EnvError(f"environment {lane}: in its observation {error}") from error


@final
class _Plain(ObservationBatch):
    """Observations that are one array each."""

    def __init__(self, space: Space[Any], num_lanes: int) -> None:
        self._space = space
        self._dtype, self._shape = np.dtype(space.dtype), tuple(space.shape or ())
        self._batch = np.zeros((num_lanes, *self._shape), self._dtype)

    def put(self, lane: int, observation: Any) -> None:
        if type(observation) is not np.ndarray or observation.dtype != self._dtype or observation.shape != self._shape:
            observation = self._converted(lane, observation)
        self._batch[lane] = observation

    def _converted(self, lane: int, observation: Any) -> Any:
        admitted = np.asarray(checked_observation(self._space, lane, observation))
        cast = admitted.astype(self._dtype)
        # The space allows Python numbers and smaller dtypes; what it would silently cut is refused.
        if not np.array_equal(cast, admitted, equal_nan=self._dtype.kind == "f") and self._dtype.kind != "f":
            raise EnvError(
                f"environment {lane}: found the observation {describe(observation)}, expected numbers that {self._dtype} "
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
        self._out: Any = create_empty_array(space, num_lanes)

    def put(self, lane: int, observation: Any) -> None:
        self._items[lane] = checked_observation(self._space, lane, observation)

    def batch(self) -> Any:
        self._out = concatenate(self._space, self._items, self._out)
        return self._out
