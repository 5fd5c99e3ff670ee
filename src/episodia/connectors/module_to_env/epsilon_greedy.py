"""Epsilon-greedy exploration: random actions with probability epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from episodia.connectors.batches.module_outputs import ModuleOutputs
from episodia.connectors.module_to_env.exploration import Exploration
from episodia.connectors.spaces.action_masks import action_masks
from episodia.connectors.spaces.action_spaces import RowsOfSpace, change_actions
from episodia.modules.random_actions import Range, random_actions, random_reals
from episodia.schedules import Schedule, schedule_within
from episodia.trees import leaves, map_batch
from episodia.types import Item


class EpsilonGreedy(Exploration):
    """Replaces the whole action of a row by a random one, with probability epsilon, while exploring.

    Random actions are uniform over the action space, or over the actions that masks allow (see `action_masks`). With
    `action_logp` in the batch the random action goes to `actions_for_env` only; without it, as in Q-learning, to `actions`.
    `Exploration` explains why, and which steps are counted.

    Args:
        epsilon: The probability, from 0 to 1: a number, or a schedule of the steps so far.
        real_range: See `Exploration`.
        action_mask_key: The key of the mask of allowed actions in observations; None if there are no masks.
        seed: For the piece's random generator.

    >>> from gymnasium import spaces
    >>> piece = EpsilonGreedy(input_action_space=spaces.Discrete(100), epsilon=0.5, seed=0)
    >>> piece(rl_module=None, batch={"actions": np.array([1, 2, 3, 4])}, episodes=[], explore=True)
    {'actions': array([ 1, 81, 64, 91])}
    """

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        epsilon: float | Schedule,
        real_range: Range | None = (-1.0, 1.0),
        action_mask_key: str | None = "action_mask",
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        schedule = schedule_within("epsilon", epsilon, 0.0, 1.0)
        super().__init__(
            input_observation_space, input_action_space, schedule=schedule, real_range=real_range, seed=seed, name=name
        )
        self.action_mask_key = action_mask_key

    @property
    def epsilon(self) -> Schedule:
        """The schedule of the probability of a random action."""
        return self.schedule

    def _explored(self, parts: list[RowsOfSpace], actions: Item, masks: Any, amount: float) -> Any:
        chosen = self._rng.random(len(next(leaves(actions))[1])) < amount
        if not chosen.any():
            return actions
        drawn = change_actions(parts, self._drawn, actions, masks)
        return map_batch(lambda old, new: _where_rows(chosen, new, old), actions, drawn)

    def _drawn(self, space: Space[Any], actions: np.ndarray, mask: Any) -> np.ndarray:
        leading = actions.shape[: actions.ndim - len(space.shape or ())]
        # A module may return floats for a Box of integers; unsquashing rounds them.
        if isinstance(space, Box) and actions.dtype.kind == "f" and mask is None:
            drawn = random_reals(*self._ranges(space), leading, self._rng)
        else:
            drawn = random_actions(space, leading, self._rng, self.real_range, mask)
        return drawn.astype(actions.dtype, copy=False)

    def _masks(self, outputs: ModuleOutputs, episodes: Sequence[Any], shared_data: dict[Any, Any] | None) -> Any:
        return action_masks(outputs, episodes, shared_data, self.action_mask_key)


def _where_rows(chosen: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return rows of `new` where `chosen`, else rows of `old`."""
    return np.where(chosen.reshape(-1, *(1,) * (old.ndim - 1)), new, old)
