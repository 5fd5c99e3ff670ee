"""Which actions are allowed at the moment, row by row."""

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
from episodia.trees import map_batch
from episodia.types import Item, ModuleID

# Where a runner notes the rows whose action nobody looks at, because their environment is about to be reset.
IGNORED_ROWS = "_ignored_rows"


def action_masks(
    outputs: ModuleOutputs, episodes: Sequence[Any] | None, shared_data: dict[Any, Any] | None, key: str | None
) -> Any:
    """Return the action masks of a module's rows, or None if there are none and everything is allowed.

    A mask has an entry for each action of a `Discrete` space, or of all parts of a `MultiDiscrete` one after another, nonzero
    where the action is allowed; masks are nested as actions are. They are looked for in the batch column `action_mask`; then
    under `key` in the observations of the batch; then under `key` in the last observations of the episodes, which is where
    PettingZoo's games have them.

    Args:
        outputs: What the module put out.
        episodes: The episodes that it acts in; None if they are not known.
        shared_data: Where it was noted to whom each row belongs.
        key: Under which an observation holds its mask; None looks into the batch column only.

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
    if isinstance(episodes, LiveEpisodes) and not episodes.has_in_observations(key):
        return None
    if isinstance(episodes, LiveAgents) and not episodes.module_has_in_observations(outputs.module_id, key):
        return None
    first = _first_episode(outputs.module_id, episodes, shared_data)
    # One look decides whether the observations of all rows are worth collecting.
    if first is None or not first.is_reset or not _has(first.get_observations(-1), key):
        return None
    rows = EpisodeList(episodes_of_rows(outputs.module_id, episodes, shared_data))
    return rows.latest(Columns.OBS)[key]


def masks_in_infos(episodes: Sequence[MultiAgentEpisode], owners: Sequence[tuple[int, Any]]) -> np.ndarray | None:
    """Return the action masks that the last infos of some agents hold, `[B, n]`; None if none of them does.

    Args:
        episodes: The episodes.
        owners: The position of the episode, and the agent, of each row.

    Raises:
        BatchError: If only some of them hold one, or if they do not fit together.
    """
    infos = [episodes[position].agent_episodes[agent].get_infos(-1) for position, agent in owners]
    masks: list[Any] = [(info or {}).get(Columns.ACTION_MASK) for info in infos]
    without = [owner for owner, mask in zip(owners, masks, strict=True) if mask is None]
    if len(without) == len(owners):
        return None
    if without:
        raise BatchError(
            f"action masks: found none in the infos of (episode, agent) {without[:3]}, and some in those of others of the same "
            f"module, expected one for all or for none. Give each of them {Columns.ACTION_MASK!r}."
        )
    try:
        return np.stack(masks)
    except (TypeError, ValueError) as error:
        raise BatchError(
            f"action masks: found {masks!r} in the infos of agents of one module, expected arrays of one shape ({error}). Let "
            "the environment give each of them such an array."
        ) from error


def _allowing_all(mask: Any, rows: Sequence[int]) -> Any:
    """Return a mask that allows everything in `rows`: the last observation of an episode often allows nothing."""
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
