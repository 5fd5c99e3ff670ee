"""Batches of random actions, among those that are allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.connectors import ActionDecoder, ConnectorV2, ModuleToEnvPipeline, NormalizeAndClipActions
from episodia.connectors.batches.row_items import rows_of
from episodia.connectors.pipelines.piece_lookup import leaves as piece_leaves
from episodia.episodes import MultiAgentEpisode
from episodia.modules.random_actions import Range, random_actions
from episodia.spaces import ARRAY_SPACES
from episodia.stacking import stack


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


# Under which an observation or an info holds the mask of allowed actions, as in PettingZoo's games.
ACTION_MASK = "action_mask"


def pieces_for_random_actions(module_to_env: ModuleToEnvPipeline) -> list[ConnectorV2]:
    """Return the pieces that bring random actions from the units of the module to those of the environment.

    Exploration and pieces of users do not run on random actions.
    """
    places = piece_leaves(module_to_env)
    return [place.piece for place in places if isinstance(place.piece, (ActionDecoder, NormalizeAndClipActions))]


Owners = Sequence[tuple[int, Any]]


def mask_of(episode: MultiAgentEpisode, agent: Any) -> Any:
    """Return the mask of an agent's allowed actions, from its last observation or info; None if there is none."""
    single = episode.agent_episodes[agent]
    observation = single.get_observations(-1)
    if isinstance(observation, dict) and ACTION_MASK in observation:
        return observation[ACTION_MASK]
    return single.get_infos(-1).get(ACTION_MASK)


def random_items(
    episodes: Sequence[MultiAgentEpisode],
    owners: Owners,
    space_of: Callable[[int, Any], Space[Any]],
    rng: np.random.Generator,
    real_range: Range | None,
) -> list[Any]:
    """Draw an action for each of some agents.

    Args:
        episodes: The episodes.
        owners: Position of the episode and agent, of each that acts.
        space_of: Returns the action space of one of them.
        rng: Where the randomness comes from.
        real_range: For elements of a `Box` with two bounds; None takes the bounds.
    """
    groups: dict[int, tuple[Space[Any], list[int]]] = {}
    for row, (position, agent) in enumerate(owners):
        space = space_of(position, agent)
        groups.setdefault(id(space), (space, []))[1].append(row)
    drawn: list[Any] = [None] * len(owners)
    for space, rows in groups.values():
        masks = [mask_of(episodes[owners[row][0]], owners[row][1]) for row in rows]
        batched = None if any(mask is None for mask in masks) else stack(masks)
        for row, item in zip(rows, rows_of(random_batch(space, len(rows), rng, real_range, batched)), strict=True):
            drawn[row] = item
    return drawn


def random_batch(
    space: Space[Any], count: int, rng: np.random.Generator, real_range: Range | None, masks: Any = None
) -> Any:
    """Return a batch of random actions, nested as `space` is; masks are nested in the same way.

    >>> random_batch(spaces.Dict({"x": spaces.Discrete(2)}), 3, np.random.default_rng(0), None)
    {'x': array([1, 1, 1])}
    """
    if isinstance(space, spaces.Dict):
        masks = masks if isinstance(masks, dict) else {}
        return {key: random_batch(child, count, rng, real_range, masks.get(key)) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        children = zip(space.spaces, masks if isinstance(masks, tuple) else (None,) * len(space.spaces), strict=True)
        return tuple(random_batch(child, count, rng, real_range, mask) for child, mask in children)
    return random_actions(space, (count,), rng, real_range, masks).astype(space.dtype, copy=False)
