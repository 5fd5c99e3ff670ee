"""Gaussian and uniform noise on real-valued actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from episodia.connectors.module_to_env.exploration import Exploration
from episodia.connectors.spaces.action_spaces import PerSpace, RowsOfSpace, change_actions
from episodia.modules.random_actions import Range, within
from episodia.schedules import Schedule, schedule_within
from episodia.types import Item


class GaussianNoise(Exploration):
    """Adds normal noise to the real-valued parts of actions while exploring, and clips the sum to the range of actions.

    All other parts (discrete ones, for example) are unchanged. With `action_logp` in the batch the sum goes to
    `actions_for_env` only; without it, as for deterministic policies, to `actions`. `Exploration` explains why, and which
    steps are counted.

    Args:
        std: The standard deviation, in the units of `real_range`: a number, or a schedule of the steps so far.
        real_range: See `Exploration`.
        seed: For the piece's random generator.

    >>> piece = GaussianNoise(input_action_space=Box(-2.0, 2.0, (1,)), std=0.1, seed=0)
    >>> batch = {"actions": np.array([[0.0], [1.0]])}
    >>> piece(rl_module=None, batch=batch, episodes=[], explore=True)["actions"].round(3)
    array([[0.013],
           [0.987]])
    """

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        std: float | Schedule,
        real_range: Range | None = (-1.0, 1.0),
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        schedule = schedule_within("std", std, 0.0, math.inf)
        super().__init__(
            input_observation_space, input_action_space, schedule=schedule, real_range=real_range, seed=seed, name=name
        )

    @property
    def std(self) -> Schedule:
        """The schedule of the standard deviation."""
        return self.schedule

    def _explored(self, parts: list[RowsOfSpace], actions: Item, masks: Any, amount: float) -> Any:
        return _noisy(parts, actions, self._ranges, lambda shape: amount * self._rng.standard_normal(shape))


def _noisy(
    parts: list[RowsOfSpace], actions: Item, bounds: PerSpace[Any], draw: Callable[[tuple[int, ...]], Any]
) -> Any:
    """Return `actions` with noise from `draw` on all floats of a `Box`, within the bounds of each."""

    def changed(space: Space[Any], leaf: np.ndarray, _: Any) -> np.ndarray:
        # A module may return floats for a Box of integers; unsquashing rounds them.
        if not isinstance(space, Box) or leaf.dtype.kind != "f":
            return leaf
        return within(leaf + draw(leaf.shape), *bounds(space)).astype(leaf.dtype, copy=False)

    return change_actions(parts, changed, actions)


class UniformNoise(Exploration):
    """Adds uniform noise between -amplitude and amplitude; otherwise like `GaussianNoise`.

    Args:
        amplitude: The largest change, in the units of `real_range`: a number, or a schedule of the steps so far.
        real_range: See `Exploration`.
        seed: For the piece's random generator.

    >>> from gymnasium.spaces import Box
    >>> piece = UniformNoise(input_action_space=Box(-2.0, 2.0, (1,)), amplitude=0.1, seed=0)
    >>> batch = {"actions": np.array([[0.0], [1.0]])}
    >>> piece(rl_module=None, batch=batch, episodes=[], explore=True)["actions"].round(3)
    array([[0.027],
           [0.954]])
    """

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        amplitude: float | Schedule,
        real_range: Range | None = (-1.0, 1.0),
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        schedule = schedule_within("amplitude", amplitude, 0.0, math.inf)
        super().__init__(
            input_observation_space, input_action_space, schedule=schedule, real_range=real_range, seed=seed, name=name
        )

    @property
    def amplitude(self) -> Schedule:
        """The schedule of the largest noise."""
        return self.schedule

    def _explored(self, parts: list[RowsOfSpace], actions: Item, masks: Any, amount: float) -> Any:
        return _noisy(parts, actions, self._ranges, lambda shape: amount * self._rng.uniform(-1.0, 1.0, shape))
