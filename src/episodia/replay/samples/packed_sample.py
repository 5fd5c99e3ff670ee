"""A sample as the table that lists travel as, read column by column; its episodes are made of that table."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.episodes.lists import list_state
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, offsets_of
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay.draws.drawn import Drawn
from episodia.replay.rows.row_columns import TRACKS
from episodia.replay.rows.row_index import TERMINATED, TRUNCATED
from episodia.replay.samples.sample_source import SampleSource
from episodia.space_codec import encoded_once
from episodia.trees import leaves
from episodia.types import Item, State

_NAMES = {"observations": Columns.OBS, "actions": Columns.ACTIONS, "rewards": Columns.REWARDS}


def packed_sample(sampled: EpisodeList[SingleAgentEpisode], source: SampleSource, drawn: Drawn) -> State:
    """Return what `list_state.pack` returns of the stretches of a sample, without making episodes.

    Raises:
        ReplayError: If the steps stand for several, and need a lookback.
    """
    if drawn.is_macro and drawn.lookbacks is not None:
        raise ReplayError(
            "found single episodes asked for of n-step transitions with a lookback, expected whole columns: between the "
            "observations of such a step are others. Sample without a lookback, or draw `Sequences`."
        )
    lookbacks = sampled.lookbacks
    columns = {name: _stored(source, drawn, name, lookbacks) for name in (*_NAMES.values(), *source.columns.extras)}
    for name in (Columns.KEYS, *drawn.added):
        columns[name] = _packed(sampled.flat(name).values, drawn.lengths, np.zeros_like(lookbacks))
    usual = {name: columns.pop(column) for name, column in _NAMES.items()}
    infos = columns.pop(Columns.INFOS, None)
    counts = (drawn.lengths + lookbacks + 1).tolist()
    usual["infos"] = infos or [list_state.items_of(counts, lookbacks.tolist())]
    return list_state.table_of(len(counts), _fields(sampled, source, drawn), usual, columns)


def _fields(sampled: EpisodeList[SingleAgentEpisode], source: SampleSource, drawn: Drawn) -> State:
    """Return the fields of all stretches."""
    pairs = [origin if isinstance(origin, tuple) else (origin, None) for origin in sampled.origins]
    is_agent = [agent is not None for _, agent in pairs]
    each = {
        "id_": [id_ for id_, _ in pairs],
        "agent_id": [agent for _, agent in pairs],
        "module_id": [source.module_id if own else None for own in is_agent],
        "multi_agent_episode_id": [id_ if own else None for (id_, _), own in zip(pairs, is_agent, strict=True)],
        "is_terminated": (drawn.ends & TERMINATED).astype(np.bool_).tolist(),
        "is_truncated": (drawn.ends & TRUNCATED).astype(np.bool_).tolist(),
        "t_started": sampled.t_started.tolist(),
        "t": (sampled.t_started + drawn.lengths).tolist(),
        "custom_data": [{} for _ in pairs],
    }
    alike = {
        "env_index": None,
        "agent_index": 0,
        "_observation_space": encoded_once(source.spaces.get(Columns.OBS)),
        "_action_space": encoded_once(source.spaces.get(Columns.ACTIONS)),
        "_start_time": None,
        "_last_step_time": None,
        "weights_versions": [],
    }
    fields = {name: list_state.each(values) for name, values in each.items()}
    return fields | {name: list_state.alike(value) for name, value in alike.items()}


def _stored(source: SampleSource, drawn: Drawn, name: str, lookbacks: np.ndarray) -> list[State]:
    is_track = name in TRACKS
    values = source.take(name, drawn.parts.rows_with_past(is_track=is_track))
    return _packed(values, drawn.lengths + lookbacks + int(is_track), lookbacks)


def _packed(values: Item, counts: np.ndarray, lookbacks: np.ndarray) -> list[State]:
    if any(leaf.dtype.hasobject for _, leaf in leaves(values)):
        return [list_state.items_of(_split(values, counts), lookbacks.tolist())]
    return [list_state.values_of(values, counts, lookbacks)]


def _split(values: Item, counts: np.ndarray) -> list[Any]:
    return Ragged(values, offsets_of(counts)).split()
