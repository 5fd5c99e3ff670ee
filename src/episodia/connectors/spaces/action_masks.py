"""Action masks: the allowed actions of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import is_tensor
from episodia.connectors.batches.module_outputs import ModuleOutputs, agent_episode, episodes_of_rows, memorized_rows
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import BatchError
from episodia.trees import fresh, map_batch
from episodia.types import Item, ModuleID

# Key under which a runner stores the rows whose action is ignored, because their environment is about to be reset.
IGNORED_ROWS = "_ignored_rows"

_LAST = slice(-1, None)


def action_masks(
    outputs: ModuleOutputs, episodes: Sequence[Any] | None, shared_data: dict[Any, Any] | None, key: str | None
) -> Any:
    """Return the action masks of a module's rows, or None if there are no masks, so that all actions are allowed.

    A mask has one entry for each action of a `Discrete` space, or for each action of all parts of a `MultiDiscrete` space, one
    part after another. Entries of allowed actions are nonzero. Masks are nested like actions. They are read from the first of
    these that has them: the batch column `action_mask`; `key` in the observations of the batch; `key` in the last
    observations of the episodes, as in PettingZoo's games.

    Args:
        outputs: The outputs of the module.
        episodes: The episodes that the module acts in; None if they are unknown.
        shared_data: The shared dict that holds the owner of each row.
        key: The key of the mask in an observation; None reads only the batch column.

    >>> import numpy as np
    >>> observations = {"board": np.zeros((1, 9)), "action_mask": np.array([[1, 0, 1]])}
    >>> action_masks(ModuleOutputs(None, {"obs": observations}, None), [], None, "action_mask")
    array([[1, 0, 1]])
    """
    masks = _found(outputs, () if episodes is None else episodes, shared_data, key)
    ignored = (shared_data or {}).get(IGNORED_ROWS)
    return masks if masks is None or not ignored else map_batch(lambda leaf: _allowing_all(leaf, ignored), masks)


def _found(outputs: ModuleOutputs, episodes: Sequence[Any], shared_data: dict[Any, Any] | None, key: str | None) -> Any:
    columns = outputs.columns
    if Columns.ACTION_MASK in columns:
        return columns[Columns.ACTION_MASK]
    if key is None:
        return None
    observations = columns.get(Columns.OBS)
    if isinstance(observations, dict) and key in observations:
        return observations[key]
    if isinstance(episodes, LiveAgents):
        if not episodes.module_has_in_observations(outputs.module_id, key):
            return None
    elif isinstance(episodes, LiveEpisodes) and key not in episodes.observation_keys:
        return None
    first = _first_episode(outputs.module_id, episodes, shared_data)
    # The first row decides whether to collect the observations of all rows.
    if first is None or not first.is_reset or not _has(first.get_observations(-1), key):
        return None
    rows = EpisodeList(episodes_of_rows(outputs.module_id, episodes, shared_data))
    return rows.latest(Columns.OBS)[key]


def masks_in_infos(episodes: Sequence[MultiAgentEpisode], owners: Sequence[tuple[int, Any]]) -> np.ndarray | None:
    """Return the action masks in the last infos of agents, `[B, n]`; None if no info has a mask.

    Args:
        episodes: The episodes.
        owners: For each row, the position of its episode and its agent.

    Raises:
        BatchError: If only some infos have a mask, or the shapes of the masks differ.
    """
    by_agent = [episode.agent_episodes for episode in episodes]
    # Straight from the storages: this is done for each agent at each step, and most infos are empty.
    infos = [by_agent[position][agent].infos.storage.lend(_LAST)[0] for position, agent in owners]
    masks: list[Any] = [fresh(info.get(Columns.ACTION_MASK)) if info else None for info in infos]
    without = [owner for owner, mask in zip(owners, masks, strict=True) if mask is None]
    if len(without) == len(owners):
        return None
    if without:
        raise BatchError(
            f"action masks: found no mask in the infos of (episode, agent) {without[:3]}, but masks for other agents of the "
            f"same module, expected masks for all agents or for no agent. Give each agent {Columns.ACTION_MASK!r}."
        )
    try:
        return np.stack(masks)
    except (TypeError, ValueError) as error:
        raise BatchError(
            f"action masks: found {masks!r} in the infos of agents of one module, expected arrays of one shape ({error}). Let "
            "the environment return such an array for each agent."
        ) from error


def _allowing_all(mask: Any, rows: Sequence[int]) -> Any:
    """Return the mask with all actions allowed in `rows`: the last observation of an episode often allows no action."""
    if mask is None:
        return None
    allowing = mask.clone() if is_tensor(mask) else np.array(mask)
    allowing[list(rows)] = 1
    return allowing


def _first_episode(
    module_id: ModuleID, episodes: Sequence[Any], shared_data: dict[Any, Any] | None
) -> SingleAgentEpisode | None:
    if not len(episodes):
        return None
    if module_id is None:
        return episodes[0] if isinstance(episodes[0], SingleAgentEpisode) else None
    rows = memorized_rows(shared_data, module_id)
    return agent_episode(episodes[rows[0][0]], rows[0][1]) if rows else None


def _has(observation: Item, key: str) -> bool:
    return isinstance(observation, dict) and key in observation
