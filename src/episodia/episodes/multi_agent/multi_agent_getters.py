"""Reading and overwriting the columns of a multi-agent episode.

They are read by environment steps, for all agents at once, or by the agents' own steps, and overwritten by the latter.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from episodia.episodes.columns import indexing
from episodia.episodes.columns.indexing import Index, as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.multi_agent.agent_columns import (
    REWARDS,
    AgentColumn,
    column_with_pending,
    extended,
    extra_output,
    pending_item,
)
from episodia.episodes.multi_agent.agent_record import AgentRecord, missing_steps
from episodia.episodes.multi_agent.multi_agent_stepping import check_mapping, flag_of
from episodia.episodes.multi_agent.pending_step import NOTHING
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, EpisodiaError
from episodia.trees import batch_length, describe, fresh
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode


class Query(NamedTuple):
    """The arguments of a getter, as they were given."""

    indices: Index
    agent_ids: Any
    env_steps: Any
    neg_index_as_lookback: Any
    fill: Any
    one_hot_discrete: Any
    return_list: Any


def read(episode: MultiAgentEpisode, source: AgentColumn, query: Query) -> Any:
    """Return what `query` asks of `source`."""
    try:
        _check_flags(query)
        records = _records(episode, query.agent_ids)
        if not query.env_steps:
            return _by_agent_steps(source, query, records)
        if query.return_list:
            return _as_list(episode, source, query, records)
        return _by_env_steps(episode, source, query, records)
    except EpisodiaError as error:
        raise type(error)(f"episode {episode.id_!r}, {source.name}: {error}") from error


def read_extra_outputs(episode: MultiAgentEpisode, key: Any, query: Query) -> Any:
    """Return what `query` asks of one extra model output, or of all of them as `{agent: {name: ...}}`."""
    waiting = [record.pending for record in episode.roster.records.values() if record.pending is not None]
    pending = [step.extra_model_outputs or {} for step in waiting if step.has_action]
    stored = [single.extra_model_outputs for single in episode.agent_episodes.values()]
    names = list(dict.fromkeys(name for columns in (*stored, *pending) for name in columns))
    if key is not None and not (isinstance(key, Hashable) and key in names):
        raise EpisodeKeyError(
            f"episode {episode.id_!r}: found the extra model output {key!r}, expected one of {names}. "
            "Pass None for all of them."
        )
    if key is not None:
        return read(episode, extra_output(key), query)
    if isinstance(query.agent_ids, Iterator):  # which can be gone through once
        query = query._replace(agent_ids=list(query.agent_ids))
    if not names:
        return read(episode, REWARDS, query._replace(agent_ids=[]))
    return _by_agent({name: read(episode, extra_output(name), query) for name in names}, query.return_list)


def _by_agent(columns: dict[str, Any], return_list: bool) -> Any:
    """Turn `{name: {agent: ...}}` into `{agent: {name: ...}}`, in each row of a list."""
    if return_list and any(isinstance(column, list) for column in columns.values()):
        return [_by_agent(dict(zip(columns, row, strict=True)), False) for row in zip(*columns.values(), strict=True)]
    by_agent: dict[Any, dict[str, Any]] = {}
    for name, column in columns.items():
        for agent, items in column.items():
            by_agent.setdefault(agent, {})[name] = items
    return by_agent


def _records(episode: MultiAgentEpisode, agent_ids: Any) -> Collection[AgentRecord]:
    """Return the records of the agents that are asked for and have come."""
    if agent_ids is None:
        return episode.roster.present()
    try:
        wanted = set(agent_ids) if _is_collection(agent_ids, episode) else {agent_ids}
    except TypeError as error:
        raise EpisodeError(
            f"found `agent_ids={describe(agent_ids)}`, expected the id of an agent or a collection of ids; ids are hashable. "
            "Pass None for all agents."
        ) from error
    return [record for record in episode.roster.present() if record.agent in wanted]


def _check_flags(query: Query) -> None:
    _, _, by_steps, as_lookback, _, hot, as_list = query
    if not (type(by_steps) is type(as_lookback) is type(hot) is type(as_list) is bool):
        for name in ("env_steps", "return_list", "neg_index_as_lookback", "one_hot_discrete"):
            as_flag(getattr(query, name), name)
    if as_list and not by_steps:
        raise EpisodeError(
            "found `env_steps=False` together with `return_list=True`, expected one of them: a list has one entry for "
            "each environment step. Drop one of the two."
        )


def _is_collection(agent_ids: Any, episode: MultiAgentEpisode) -> bool:
    # A tuple or a frozenset may be the id of an agent.
    try:
        is_an_agent = agent_ids in episode.agent_episodes
    except TypeError:  # a list, or a tuple of lists
        is_an_agent = False
    return isinstance(agent_ids, Iterable) and not isinstance(agent_ids, (str, bytes)) and not is_an_agent


def _by_agent_steps(source: AgentColumn, query: Query, records: Collection[AgentRecord]) -> dict[AgentID, Any]:
    found = {}
    # Of what is pending alone, the rest of the column is not asked for.
    latest = query.indices == -1 if type(query.indices) is int and not query.neg_index_as_lookback else False
    is_single = indexing.is_single(query.indices)
    for record in records:
        column = column_with_pending(record, source, only_end=latest)
        if column is None:
            continue
        try:
            items = column.read(query.indices, query.neg_index_as_lookback, query.fill, query.one_hot_discrete)
        except EpisodiaError as error:
            # An agent that has had no step at all has nothing to show, whatever is asked for.
            if query.fill is None and not column.len_incl_lookback():
                continue
            raise _naming(record, error) from error
        if is_single or query.fill is not None or _count(items):
            found[record.agent] = items
    return found


def _naming(record: AgentRecord, error: EpisodiaError) -> EpisodiaError:
    return type(error)(f"agent {record.agent!r}: {error}")


def _count(items: Any) -> int:
    """Return how many items a getter has returned: a list, or a batch of arrays."""
    return len(items) if isinstance(items, (list, np.ndarray)) else batch_length(items)


def _by_env_steps(
    episode: MultiAgentEpisode, source: AgentColumn, query: Query, records: Collection[AgentRecord]
) -> dict[AgentID, Any]:
    places, single = _env_places(episode, source, query)
    if single:
        return _at_one_env_step(source, query, records, places[0])
    # Neighbouring environment steps are neighbours in each agent's column too.
    is_window = query.fill is None and isinstance(query.indices, slice) and query.indices.step is None
    window = [env_t for env_t in places if env_t is not None] if is_window else []
    found = {}
    for record in records:
        try:
            items = _of_agent(record, source, query, places, window)
        except EpisodiaError as error:
            raise _naming(record, error) from error
        if items is not NOTHING:
            found[record.agent] = items
    return found


def _of_agent(
    record: AgentRecord, source: AgentColumn, query: Query, places: list[int | None], window: list[int]
) -> Any:
    """Return an agent's items at the environment steps `places`, `NOTHING` without items.

    If there is a `window`, the places are all environment steps from its first to its last.
    """
    if window:
        rows = record.timeline.positions_between(window[0], window[-1] + 1)
        items = _run_of(record, source, rows, query.one_hot_discrete) if rows else NOTHING
        if items is not None:
            return items
    positions = [_position(record, source, env_t) for env_t in places]
    if query.fill is None:
        positions = [position for position in positions if position is not None]
        if not positions:
            return NOTHING
    column = _column_for(record, source, positions)
    return NOTHING if column is None else _pick(column, positions, query)


def _run_of(record: AgentRecord, source: AgentColumn, rows: range, hot: bool) -> Any:
    """Return an agent's items at neighbouring rows, of which the last may be pending; `NOTHING` without items.

    None if that is not so simple: the column has not all of the agent's steps.
    """
    single = record.known
    column = source.column(single)
    if column is None:
        return None
    if source.pending is None:
        return column.pick(slice(rows.start, rows.stop), hot)
    steps = column.len_incl_lookback()
    if column is not single.rewards and steps != single.rewards.len_incl_lookback():
        return None
    if rows.stop <= steps:
        return column.pick(slice(rows.start, rows.stop), hot)
    item = pending_item(record, source)
    if item is NOTHING:
        return column.pick(slice(rows.start, steps), hot) if rows.start < steps else NOTHING
    if hot or column.finalized:
        return extended(column, rows.start, item).pick(slice(0, len(rows)), hot)
    stored: list[Any] = column.pick(slice(rows.start, steps), False)
    return [*stored, fresh(item)]


def _at_one_env_step(
    source: AgentColumn, query: Query, records: Collection[AgentRecord], env_t: int | None
) -> dict[AgentID, Any]:
    found = {}
    for record in records:
        position = _position(record, source, env_t)
        if position is None and query.fill is None:
            continue
        try:
            item = _item_of(record, source, query, position)
        except EpisodiaError as error:
            raise _naming(record, error) from error
        if item is not NOTHING:
            found[record.agent] = item
    return found


def _item_of(record: AgentRecord, source: AgentColumn, query: Query, position: int | None) -> Any:
    """Return one item of an agent, the filling if there is no `position`; `NOTHING` if the agent has no such column."""
    single = record.episode
    if single is None:
        return NOTHING
    column = source.column(single)
    stored = 0 if column is None else column.len_incl_lookback()
    if position is not None and position >= stored:
        if not (query.one_hot_discrete or single.is_finalized):
            return fresh(pending_item(record, source))
        column = column_with_pending(record, source, only_end=True)
        position = 0 if column is None else column.len_incl_lookback() - 1
    elif not stored:
        column = column_with_pending(record, source)
    if column is None:
        return NOTHING
    index = _ABSENT if position is None else position - column.lookback
    return column.read(index, True, query.fill, query.one_hot_discrete)


def _as_list(
    episode: MultiAgentEpisode, source: AgentColumn, query: Query, records: Collection[AgentRecord]
) -> list[dict[AgentID, Any]] | dict[AgentID, Any]:
    places, single = _env_places(episode, source, query)
    rows = [_at_one_env_step(source, query, records, env_t) for env_t in places]
    return rows[0] if single else rows


# An index that no column has, to be filled.
_ABSENT = 2**60


def _env_places(episode: MultiAgentEpisode, source: AgentColumn, query: Query) -> tuple[list[int | None], bool]:
    """Return the environment steps that the indices mean, None for those outside, and whether it was a single index."""
    first = episode.roster.clock.first_env_t
    # The last environment step has no actions yet.
    size = episode.env_t - first + (1 if source.pending is None else 0)
    if not episode.is_reset:
        size = 0
    indices, lookback, negative_is_lookback = query.indices, episode.env_lookback, query.neg_index_as_lookback
    if indices is None:
        indices = slice(None)
    single = False
    if isinstance(indices, slice):
        if query.fill is None:
            positions: Any = range(size)[indexing.clip_slice(indices, size, lookback, negative_is_lookback)]
        else:
            positions = indexing.positions_of_slice(indices, size, lookback, negative_is_lookback)
    else:
        single = indexing.is_single(indices)
        several: Any = [indexing.as_int(indices)] if single else indexing.as_list(indices)
        positions = indexing.positions_of_list(several, size, lookback, negative_is_lookback)
        if query.fill is None:
            _check_inside(episode, several, positions, size)
    return [first + position if 0 <= position < size else None for position in positions], single


def _check_inside(episode: MultiAgentEpisode, indices: Any, positions: list[int], size: int) -> None:
    for index, position in zip(indices, positions, strict=True):
        if not 0 <= position < size:
            raise EpisodeIndexError(
                f"found the environment step {index}, expected one within the "
                f"{size - episode.env_lookback} environment steps and {episode.env_lookback} steps of lookback that are "
                "stored. "
                "Pass `fill=` to read over the ends."
            )


def _position(record: AgentRecord, source: AgentColumn, env_t: int | None) -> int | None:
    """Return the position in the agent's column of what stands at environment step `env_t`."""
    position = None if env_t is None else record.timeline.position_at(env_t)
    single = record.episode
    if position is None or source.pending is None or single is None:
        return position
    column = source.column(single)
    if position < single.rewards.len_incl_lookback():
        if column is single.rewards or column is single.actions:
            return position
        # An extra column may be shorter: it came later than the steps in the lookback.
        offset = position + 1 if column is None else missing_steps(single, column)
        return position - offset if position >= offset else None
    if pending_item(record, source) is NOTHING:
        return None
    return 0 if column is None else column.len_incl_lookback()


def _column_for(record: AgentRecord, source: AgentColumn, positions: list[int | None]) -> LookbackBuffer | None:
    column = source.column(record.known)
    stored = 0 if column is None else column.len_incl_lookback()
    # Where nothing is stored yet, what is pending tells what an item that is not there is filled like.
    if not stored or any(position is not None and position >= stored for position in positions):
        return column_with_pending(record, source)
    return column


def _pick(column: LookbackBuffer, positions: list[int | None], query: Query) -> Any:
    indices = [_ABSENT if position is None else position - column.lookback for position in positions]
    return column.read(indices, True, query.fill, query.one_hot_discrete)


def set_column(
    episode: MultiAgentEpisode,
    column: str,
    new_data: Mapping[AgentID, Any],
    indices: Index,
    negative_is_lookback: Any,
    **key: str,
) -> None:
    """Overwrite items of one column, at the agents' own steps.

    Args:
        episode: The episode to change.
        column: The name of the column.
        new_data: The new items of each agent.
        indices: Which items.
        negative_is_lookback: Whether negative indices count from the first step to the left.
        **key: The name of an extra model output, as `key`.
    """
    singles = episode.agent_episodes
    new_data = check_mapping(episode, "new_data", new_data)
    unknown = [agent for agent in new_data if agent not in singles]
    if unknown:
        raise EpisodeKeyError(
            f"episode {episode.id_!r}: found data for the agents {unknown}, expected some of {list(singles)}. "
            "Agents come with an observation, in `add_env_reset` or `add_env_step`."
        )
    if type(negative_is_lookback) is not bool:
        negative_is_lookback = flag_of(episode, "neg_index_as_lookback", negative_is_lookback)
    changed = {agent: copy.copy(singles[agent]) for agent in new_data}
    for agent, single in changed.items():
        setter = getattr(single, f"set_{column}")
        try:
            setter(**key, new_data=new_data[agent], at_indices=indices, neg_index_as_lookback=negative_is_lookback)
        except EpisodiaError as error:
            raise type(error)(f"episode {episode.id_!r}, agent {agent!r}: {error}") from error
    for agent, single in changed.items():
        setattr(singles[agent], column, getattr(single, column))
