"""Actions at random for all lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.modules.random_actions import Range, random_actions
from episodia.spaces import ARRAY_SPACES


@final
class RandomActions:
    """Draws an action for each lane: uniform where the space has bounds, and among the allowed ones if there is a mask.

    Args:
        space: The action space of one lane.
        num_lanes: How many lanes there are.
        rng: Where the randomness comes from.
        real_range: Stands for the bounds of real-valued actions that have two, where a module's actions are of that size.

    >>> RandomActions(spaces.Discrete(3), 2, np.random.default_rng(0)).drawn(np.array([[0, 0, 1], [1, 0, 0]]))
    array([2, 0])
    """

    def __init__(
        self, space: Space[Any], num_lanes: int, rng: np.random.Generator, real_range: Range | None = None
    ) -> None:
        self._space = space
        self._num_lanes = num_lanes
        self.rng = rng
        self._real_range = real_range

    def drawn(self, masks: Any = None) -> Any:
        """Return a batch of actions; `masks` are nested as the space is, None allows everything."""
        return self._drawn(self._space, masks)

    def _drawn(self, space: Space[Any], masks: Any) -> Any:
        if isinstance(space, spaces.Dict):
            parts: Mapping[Any, Any] = {} if masks is None else masks
            return {key: self._drawn(child, parts.get(key)) for key, child in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            entries = (None,) * len(space.spaces) if masks is None else masks
            return tuple(self._drawn(child, entry) for child, entry in zip(space.spaces, entries, strict=True))
        if not isinstance(space, ARRAY_SPACES):
            return tuple(self._sampled(space) for _ in range(self._num_lanes))
        actions = random_actions(space, (self._num_lanes,), self.rng, self._real_range, masks)
        return actions.astype(space.dtype, copy=False)

    def _sampled(self, space: Space[Any]) -> Any:
        # Such spaces only draw from a generator of their own: give it one that follows from ours.
        space.seed(int(self.rng.integers(2**31)))
        return space.sample()
