"""Reading a multi-agent episode: by environment steps, for all agents at once, or by the agents' own steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from episodia.episodes.columns import indexing
from episodia.episodes.columns.indexing import Index, as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.multi_agent.agent_columns import (
    REWARDS,
    Source,
    column_with_pending,
    extended,
    extra_output,
    missing_steps,
)
from episodia.episodes.multi_agent.pending_step import NOTHING
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, EpisodiaError
from episodia.trees import batch_length, describe, fresh

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID, MultiAgentFacts


class Query(NamedTuple):
    """What a caller wants to know of a column: the arguments of a getter, as they were given."""

    indices: Index
    agent_ids: Any
    env_steps: Any
    neg_index_as_lookback: Any
    fill: Any
    one_hot_discrete: Any
    return_list: Any


def read(episode: MultiAgentFacts, source: Source, query: Query) -> Any:
    """Return what `query` asks of `source`."""
    try:
        _check_flags(query)
        agents = _agents(episode, query.agent_ids)
        if not query.env_steps:
            return _by_agent_steps(episode, source, query, agents)
        if query.return_list:
            return _as_list(episode, source, query, agents)
        return _by_env_steps(episode, source, query, agents)
    except EpisodiaError as error:
        raise type(error)(f"episode {episode.id_!r}, {source.name}: {error}") from error


def read_extra_outputs(episode: MultiAgentFacts, key: Any, query: Query) -> Any:
    """Return what `query` asks of one extra model output, or of all of them as `{agent: {name: ...}}`."""
    pending = [step.extra_model_outputs or {} for step in episode._pending.values() if step.has_action]
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


def _agents(episode: MultiAgentFacts, agent_ids: Any) -> Iterable[AgentID]:
    if agent_ids is None:
        return episode.agent_episodes
    try:
        wanted = set(agent_ids) if _is_collection(agent_ids, episode) else {agent_ids}
    except TypeError as error:
        raise EpisodeError(
            f"found `agent_ids={describe(agent_ids)}`, expected the id of an agent or a collection of ids; ids are hashable. "
            "Pass None for all agents."
        ) from error
    return [agent for agent in episode.agent_episodes if agent in wanted]


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


def _is_collection(agent_ids: Any, episode: MultiAgentFacts) -> bool:
    # A tuple or a frozenset may be the id of an agent.
    try:
        is_an_agent = agent_ids in episode.agent_episodes
    except TypeError:  # a list, or a tuple of lists
        is_an_agent = False
    return isinstance(agent_ids, Iterable) and not isinstance(agent_ids, (str, bytes)) and not is_an_agent


def _by_agent_steps(
    episode: MultiAgentFacts, source: Source, query: Query, agents: Iterable[AgentID]
) -> dict[AgentID, Any]:
    found = {}
    # Of what is pending alone, the rest of the column is not asked for.
    latest = query.indices == -1 if type(query.indices) is int and not query.neg_index_as_lookback else False
    is_single = indexing.is_single(query.indices)
    for agent in agents:
        column = column_with_pending(episode, source, agent, only_end=latest)
        if column is None:
            continue
        try:
            items = column.read(query.indices, query.neg_index_as_lookback, query.fill, query.one_hot_discrete)
        except EpisodiaError as error:
            # An agent that has had no step at all has nothing to show, whatever is asked for.
            if query.fill is None and not column.len_incl_lookback():
                continue
            raise _naming(agent, error) from error
        if is_single or query.fill is not None or _count(items):
            found[agent] = items
    return found


def _naming(agent: AgentID, error: EpisodiaError) -> EpisodiaError:
    return type(error)(f"agent {agent!r}: {error}")


def _count(items: Any) -> int:
    """Return how many items a getter has returned: a list, or a batch of arrays."""
    return len(items) if isinstance(items, (list, np.ndarray)) else batch_length(items)


def _by_env_steps(
    episode: MultiAgentFacts, source: Source, query: Query, agents: Iterable[AgentID]
) -> dict[AgentID, Any]:
    places, single = _env_places(episode, source, query)
    if single:
        return _at_one_env_step(episode, source, query, agents, places[0])
    # Neighbouring environment steps are neighbours in each agent's column too.
    is_window = query.fill is None and isinstance(query.indices, slice) and query.indices.step is None
    window = [env_t for env_t in places if env_t is not None] if is_window else []
    found = {}
    for agent in agents:
        try:
            items = _of_agent(episode, source, query, agent, places, window)
        except EpisodiaError as error:
            raise _naming(agent, error) from error
        if items is not NOTHING:
            found[agent] = items
    return found


def _of_agent(
    episode: MultiAgentFacts,
    source: Source,
    query: Query,
    agent: AgentID,
    places: list[int | None],
    window: list[int],
) -> Any:
    """Return an agent's items at the environment steps `places`, `NOTHING` if there are none.

    If there is a `window`, the places are all environment steps from its first to its last.
    """
    if window:
        rows = episode._timelines[agent].positions_between(window[0], window[-1] + 1)
        items = _run_of(episode, source, agent, rows, query.one_hot_discrete) if rows else NOTHING
        if items is not None:
            return items
    positions = [_position(episode, source, agent, env_t) for env_t in places]
    if query.fill is None:
        positions = [position for position in positions if position is not None]
        if not positions:
            return NOTHING
    column = _column_for(episode, source, agent, positions)
    return NOTHING if column is None else _pick(column, positions, query)


def _run_of(episode: MultiAgentFacts, source: Source, agent: AgentID, rows: range, hot: bool) -> Any:
    """Return an agent's items at neighbouring rows, of which the last may be pending; `NOTHING` if there are none.

    None if that is not so simple: the column has not all of the agent's steps.
    """
    single = episode.agent_episodes[agent]
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
    pending = episode._pending.get(agent)
    item = NOTHING if pending is None else source.pending(pending)
    if item is NOTHING:
        return column.pick(slice(rows.start, steps), hot) if rows.start < steps else NOTHING
    if hot or column.finalized:
        return extended(column, rows.start, item).pick(slice(0, len(rows)), hot)
    stored: list[Any] = column.pick(slice(rows.start, steps), False)
    return [*stored, fresh(item)]


def _at_one_env_step(
    episode: MultiAgentFacts, source: Source, query: Query, agents: Iterable[AgentID], env_t: int | None
) -> dict[AgentID, Any]:
    found = {}
    for agent in agents:
        position = _position(episode, source, agent, env_t)
        if position is None and query.fill is None:
            continue
        try:
            item = _item_of(episode, source, query, agent, position)
        except EpisodiaError as error:
            raise _naming(agent, error) from error
        if item is not NOTHING:
            found[agent] = item
    return found


def _item_of(episode: MultiAgentFacts, source: Source, query: Query, agent: AgentID, position: int | None) -> Any:
    """Return one item of an agent, the filling if there is no `position`; `NOTHING` if the agent has no such column."""
    single = episode.agent_episodes[agent]
    column = source.column(single)
    stored = 0 if column is None else column.len_incl_lookback()
    if position is not None and position >= stored:
        if not (query.one_hot_discrete or single.is_finalized):
            return fresh(source.pending(episode._pending[agent]))  # type: ignore[misc]  # it is pending
        column = column_with_pending(episode, source, agent, only_end=True)
        position = 0 if column is None else column.len_incl_lookback() - 1
    elif not stored:
        column = column_with_pending(episode, source, agent)
    if column is None:
        return NOTHING
    index = _ABSENT if position is None else position - column.lookback
    return column.read(index, True, query.fill, query.one_hot_discrete)


def _as_list(
    episode: MultiAgentFacts, source: Source, query: Query, agents: Iterable[AgentID]
) -> list[dict[AgentID, Any]] | dict[AgentID, Any]:
    places, single = _env_places(episode, source, query)
    agents = list(agents)
    rows = [_at_one_env_step(episode, source, query, agents, env_t) for env_t in places]
    return rows[0] if single else rows


# An index that no column has, to be filled.
_ABSENT = 2**60


def _env_places(episode: MultiAgentFacts, source: Source, query: Query) -> tuple[list[int | None], bool]:
    """Return the environment steps that the indices mean, None for those outside, and whether it was a single index."""
    first = episode.env_t_started - episode.env_lookback
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


def _check_inside(episode: MultiAgentFacts, indices: Any, positions: list[int], size: int) -> None:
    for index, position in zip(indices, positions, strict=True):
        if not 0 <= position < size:
            raise EpisodeIndexError(
                f"found the environment step {index}, expected one within the "
                f"{size - episode.env_lookback} environment steps and {episode.env_lookback} steps of lookback that are "
                "stored. "
                "Pass `fill=` to read over the ends."
            )


def _position(episode: MultiAgentFacts, source: Source, agent: AgentID, env_t: int | None) -> int | None:
    """Return the position in the agent's column of what stands at environment step `env_t`."""
    position = None if env_t is None else episode._timelines[agent].position_at(env_t)
    if position is None or source.pending is None:
        return position
    single = episode.agent_episodes[agent]
    column = source.column(single)
    if position < single.rewards.len_incl_lookback():
        if column is single.rewards or column is single.actions:
            return position
        # An extra column may be shorter: it came later than the steps in the lookback.
        offset = position + 1 if column is None else missing_steps(single, column)
        return position - offset if position >= offset else None
    pending = episode._pending.get(agent)
    if pending is None or not pending.has_action or source.pending(pending) is NOTHING:
        return None
    return 0 if column is None else column.len_incl_lookback()


def _column_for(
    episode: MultiAgentFacts, source: Source, agent: AgentID, positions: list[int | None]
) -> LookbackBuffer | None:
    column = source.column(episode.agent_episodes[agent])
    stored = 0 if column is None else column.len_incl_lookback()
    # Where nothing is stored yet, what is pending tells what an item that is not there is filled like.
    if not stored or any(position is not None and position >= stored for position in positions):
        return column_with_pending(episode, source, agent)
    return column


def _pick(column: LookbackBuffer, positions: list[int | None], query: Query) -> Any:
    indices = [_ABSENT if position is None else position - column.lookback for position in positions]
    return column.read(indices, True, query.fill, query.one_hot_discrete)
