"""The episodes of a sample, one for each of its stretches."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, offsets_of
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay.draws.drawn import Drawn
from episodia.replay.rows.row_columns import TRACKS
from episodia.replay.rows.row_index import TERMINATED, TRUNCATED
from episodia.replay.samples.sample_source import SampleSource
from episodia.types import Item


def made_episodes(
    sampled: EpisodeList[SingleAgentEpisode], source: SampleSource, drawn: Drawn
) -> list[SingleAgentEpisode]:
    """Return the stretches of a sample as episodes.

    Raises:
        ReplayError: If the steps stand for several, and need a lookback.
    """
    if drawn.is_macro and drawn.lookbacks is not None:
        raise ReplayError(
            "found single episodes asked for of n-step transitions with a lookback, expected whole columns: between the "
            "observations of such a step are others. Sample without a lookback, or draw `Sequences`."
        )
    stored = [Columns.OBS, Columns.ACTIONS, Columns.REWARDS, *source.columns.extras]
    parts = drawn.parts
    counts = {name: parts.lookbacks + parts.counts(is_track=name in TRACKS) for name in stored}
    if drawn.is_macro:
        counts = {name: drawn.lengths + int(name in TRACKS) for name in stored}
    whole = {
        name: _split(source.take(name, parts.rows_with_past(is_track=name in TRACKS)), counts[name]) for name in stored
    }
    beside = {name: sampled.flat(name).split() for name in (Columns.KEYS, *drawn.added)}
    facts = zip(drawn.ends.tolist(), sampled.t_started.tolist(), sampled.lookbacks.tolist(), strict=True)
    made = []
    for position, (origin, (ends, t_started, lookback)) in enumerate(zip(sampled.origins, facts, strict=True)):
        columns = {name: each[position] for name, each in whole.items()}
        columns |= {name: LookbackBuffer(each[position]) for name, each in beside.items()}
        if Columns.REWARDS in beside:
            columns[Columns.REWARDS] = beside[Columns.REWARDS][position]
        made.append(_made(source, origin, columns, ends, t_started, lookback))
    return made


def _made(
    source: SampleSource, origin: Any, columns: dict[str, Any], ends: int, t_started: int, lookback: int
) -> SingleAgentEpisode:
    id_, agent = origin if isinstance(origin, tuple) else (origin, None)
    return SingleAgentEpisode(
        id_=id_,
        observations=columns.pop(Columns.OBS),
        actions=columns.pop(Columns.ACTIONS),
        rewards=columns.pop(Columns.REWARDS),
        infos=_listed(columns.pop(Columns.INFOS, None)),
        observation_space=source.spaces.get(Columns.OBS),
        action_space=source.spaces.get(Columns.ACTIONS),
        terminated=bool(ends & TERMINATED),
        truncated=bool(ends & TRUNCATED),
        extra_model_outputs=columns,
        t_started=t_started,
        len_lookback_buffer=lookback,
        agent_id=agent,
        module_id=None if agent is None else source.module_id,
        multi_agent_episode_id=None if agent is None else id_,
    )


def _split(values: Item, counts: np.ndarray) -> list[Any]:
    return Ragged(values, offsets_of(counts)).split()


def _listed(infos: Item) -> Any:
    return None if infos is None else list(infos)
