"""Extra model outputs of an agent that acted before a cut and was answered after it.

A chunk may have other extra columns than the chunk before it. If an action was pending at the cut, the first step of the
new chunk was chosen in the old one, and has its outputs. The columns are then filled and masked as `concat_episode` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.single_agent.single_agent_chunks import fill_missing, mask_name
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

Columns = dict[str, LookbackBuffer]


def fitted(single: SingleAgentEpisode, extras: Mapping[str, Any], *, carried: bool) -> tuple[Columns, dict[str, Any]]:
    """Return the columns for the next step of an agent, and what goes into them; both as they are if they fit already.

    Args:
        single: The agent's episode, which is not changed.
        extras: The outputs of the step.
        carried: Whether the first step of the chunk was chosen in the chunk before.
    """
    columns = single.extra_model_outputs
    if not len(single) or extras.keys() == columns.keys() or not _may_differ(single, extras, carried):
        return columns, dict(extras)
    ours: Columns = dict(columns)
    theirs = {key: LookbackBuffer([value]) for key, value in extras.items()}
    fill_missing(ours, theirs, len(single), 1, single.is_finalized)
    fill_missing(theirs, ours, 1, len(single), finalized=False)
    return ours, {key: column.get(0) for key, column in theirs.items()}


def _may_differ(single: SingleAgentEpisode, extras: Mapping[str, Any], carried: bool) -> bool:
    """Tell whether the step follows the one that was carried over, or has the outputs of the step before it."""
    columns = single.extra_model_outputs
    masks = {mask_name(key): key for key in columns if mask_name(key) in columns}
    absent = {key for mask, key in masks.items() if not columns[mask].get(-1)}
    return (carried and len(single) == 1) or (bool(masks) and extras.keys() == columns.keys() - masks.keys() - absent)
