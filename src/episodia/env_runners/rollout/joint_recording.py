"""Steps in which nothing has to be decided for any agent of an environment, recorded for all such environments at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import countOf
from time import perf_counter
from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.envs.multi_agent_env import StepResult
from episodia.env_runners.rollout.multi_agent_lane import Choice, Lane
from episodia.episodes import MultiAgentEpisode
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.joint_rows import JointRows, JointStep, RowKinds
from episodia.stacking import SCALAR_DTYPES, joined_rows

# Agents that end with a step, and whether each of them terminates and is truncated.
_Ends = dict[Any, tuple[bool, bool]]


_FLAG_TYPES = frozenset({bool, np.bool_})


@final
class JointRecording:
    """Stores steps in which all agents that acted are shown what follows and are paid; agents may end by them.

    Args:
        actor: Knows the outputs for each agent.
    """

    def __init__(self, actor: MultiAgentActor) -> None:
        self._actor = actor
        self._is_open = self._is_trusted = False
        # The last list of agents, and its rows.
        self._agents: LiveAgents | None = None
        self._rows: dict[Any, JointRows] = {}
        # The agents whose columns have been found to take rows of some kinds, and these kinds.
        self._fitting: dict[Any, tuple[RowKinds, set[AgentRecord]]] = {}
        self._reading: tuple[object, object] | None = None  # the pieces of both pipelines, one of which reads episodes

    def open(self, *, wanted: bool, is_watched: bool) -> None:
        """Take steps from now on.

        Args:
            wanted: Whether to take any.
            is_watched: Whether callbacks get the episodes after each step. Columns are then looked at again at each step.
        """
        self._is_open = wanted and self._actor.modules is not None
        self._is_trusted = not is_watched and self._pieces() != self._reading

    def close(self) -> None:
        """Take no more steps, and keep no episode in memory."""
        self._is_open = False
        self._forget()

    def _forget(self) -> None:
        self._agents, self._rows = None, {}
        self._fitting.clear()

    def _pieces(self) -> tuple[object, object]:
        return self._actor.env_to_module.connectors, self._actor.module_to_env.connectors

    def record(
        self,
        lanes: Sequence[Lane],
        episodes: Sequence[MultiAgentEpisode],
        choices: Sequence[Choice],
        outcomes: Sequence[StepResult | BaseException],
    ) -> Collection[int]:
        """Store the step of each lane that has such a step, and return the positions of these lanes."""
        agents, mapped = self._actor.last_act
        if agents is None:
            return ()
        agents.show_none()
        if not self._is_open:
            return ()
        if self._is_trusted and agents.was_read:
            # A piece that got hold of an episode may change it whenever it runs.
            self._is_trusted, self._reading = False, self._pieces()
        if not (self._is_trusted or all(rows.holds() for rows in self._rows.values())):
            self._forget()
        ends = _ends_by_lane(agents, lanes, episodes, choices, outcomes)
        steps = self._joint_steps(agents, episodes, mapped, outcomes, ends)
        now = _store(steps, lanes, episodes, ends)
        for position, ended in ends.items():
            lane = lanes[position]
            episodes[position].roster.settle_step(choices[position].actions, ended, now)
            lane.is_mid_step = lane.is_recording = False
        if len(ends) < len(lanes):
            self._forget_others(ends)
            return ends
        if self._is_trusted:
            agents.show(
                [(module_id, step.observations) for module_id, (_, step) in zip(self._rows, steps, strict=True)]
            )
        leaving = {(position, agent) for position, of_lane in ends.items() for agent in of_lane}
        if leaving:
            self._let_leave(agents, leaving)
        else:
            agents.note_moment()
        return ends

    def _let_leave(self, agents: LiveAgents, ended: set[tuple[int, Any]]) -> None:
        """Go on without the agents that have ended."""
        self._agents = self._actor.agents = agents.without(ended)
        for module_id, rows in list(self._rows.items()):
            kept = [owner not in ended for owner in rows.owners]
            if any(kept):
                self._rows[module_id] = rows.of(kept)
            else:
                del self._rows[module_id]

    def _joint_steps(
        self,
        agents: LiveAgents,
        episodes: Sequence[MultiAgentEpisode],
        mapped: dict[Any, Any],
        outcomes: Sequence[Any],
        ends: dict[int, _Ends],
    ) -> list[tuple[JointRows, JointStep]]:
        """Return the step of each module with its agents; lanes that do not fit are removed from `ends`."""
        while ends:
            steps: list[tuple[JointRows, JointStep]] = []
            misfits: set[int] = set()
            for module_id, rows in self._rows_of(agents, episodes).items():
                some, kept = (rows, None) if len(ends) == len(outcomes) else _some(rows, ends)
                step = _joint_step(some, kept, mapped.get(module_id), outcomes) if some.owners else None
                if step is not None:
                    steps.append((some, step))
                    misfits |= self._misfits(module_id, some, step)
                elif some.owners:
                    misfits.update(ends)
            if not misfits:
                return steps
            for position in misfits:
                del ends[position]
        return []

    def _rows_of(self, agents: LiveAgents, episodes: Sequence[MultiAgentEpisode]) -> dict[Any, JointRows]:
        if agents is not self._agents:
            self._rows = {}
            for module_id, owners in agents.owners_by_module().items():
                records = [episodes[position].roster.records[agent] for position, agent in owners]
                self._rows[module_id] = JointRows(owners, records)
            self._agents = agents
        return self._rows

    def _misfits(self, module_id: Any, rows: JointRows, step: JointStep) -> set[int]:
        """Return the positions of the episodes with an agent whose columns do not take the rows as they are."""
        kinds = step.kinds()
        if kinds is None:
            return {position for position, _ in rows.owners}
        if kinds == rows.kinds:
            return set()
        known, fitting = self._fitting.get(module_id, (None, set()))
        if known != kinds:
            fitting = set()
            self._fitting[module_id] = kinds, fitting
        misfits = set()
        for (position, _), record in zip(rows.owners, rows.records, strict=True):
            if record not in fitting:
                if kinds.fit(record):
                    fitting.add(record)
                else:
                    misfits.add(position)
        if not misfits:
            rows.kinds = kinds
        return misfits

    def _forget_others(self, recorded: Collection[int]) -> None:
        """Forget what is known of the agents of all other lanes: what is recorded of them may be a step of any kind."""
        for module_id, rows in self._rows.items():
            fitting = self._fitting[module_id][1] if module_id in self._fitting else set()
            fitting.difference_update(
                record
                for (position, _), record in zip(rows.owners, rows.records, strict=True)
                if position not in recorded
            )
        self._agents, self._rows = None, {}


def _ends_by_lane(
    agents: LiveAgents,
    lanes: Sequence[Lane],
    episodes: Sequence[MultiAgentEpisode],
    choices: Sequence[Choice],
    outcomes: Sequence[Any],
) -> dict[int, _Ends]:
    """Return the positions of the lanes in which nothing has to be decided, and the agents that end in each of them."""
    ends: dict[int, _Ends] = {}
    for position, (lane, episode, choice, outcome) in enumerate(zip(lanes, episodes, choices, outcomes, strict=True)):
        if lane.is_last(episode.roster.clock.env_t + 1) or len(choice.actions) != agents.num_acting[position]:
            continue
        ended = _ends_of(choice, outcome)
        if ended is not None and not (ended and lane.ignores_terminations):
            ends[position] = ended
    return ends


def _ends_of(choice: Choice, outcome: Any) -> _Ends | None:
    """Return which agents end, if exactly those who acted are shown something and paid; None for any other step.

    The last agent of an episode does not end by such a step, because the episode ends with it.
    """
    if isinstance(outcome, BaseException):
        return None
    observations, rewards, terminateds, truncateds, infos = outcome
    try:
        acted = choice.actions.keys()
        if not acted or observations.keys() != acted or rewards.keys() != acted or (infos and any(infos.values())):
            return None
        terminateds, truncateds = terminateds or {}, truncateds or {}
        all_flags = [*terminateds.values(), *truncateds.values()]
        if not _FLAG_TYPES.issuperset(map(type, all_flags)):
            return None  # left to the episode
    except (AttributeError, TypeError, ValueError):  # no dicts
        return None
    if True not in all_flags:
        return {}
    ended = {
        agent: (bool(terminateds.get(agent)), bool(truncateds.get(agent)))
        for flags in (terminateds, truncateds)
        for agent, flag in flags.items()
        if flag
    }
    return ended if ended.keys() < acted else None


def _some(rows: JointRows, ends: dict[int, _Ends]) -> tuple[JointRows, np.ndarray]:
    """Return the rows of the lanes in `ends`, and for each of all rows whether it is one of them."""
    kept = [position in ends for position, _ in rows.owners]
    return rows.of(kept), np.array(kept, bool)


def _joint_step(rows: JointRows, kept: np.ndarray | None, columns: Any, outcomes: Sequence[Any]) -> JointStep | None:
    """Return the step of `rows`, which are those `kept` of the outputs of their module; None if they do not fit together."""
    if columns is None or Columns.ACTIONS not in columns:
        return None
    items = [outcomes[position][0][agent] for position, agent in rows.owners]
    observations = joined_rows(items)
    if observations is None:
        observations = _joined_numbers(items)
    if observations is None:
        return None
    # The caller must not write into it, because it is the recorded data.
    observations.setflags(write=False)
    rewards = [outcomes[position][1][agent] for position, agent in rows.owners]
    stored = {}
    for name, column in columns.items():
        if name == Columns.ACTIONS or name not in NOT_RECORDED:
            # Copies: a module may use the memory of its outputs again.
            is_array = type(column) is np.ndarray
            stored[name] = column if not is_array else column.copy() if kept is None else column[kept]
    return JointStep(observations, stored.pop(Columns.ACTIONS), rewards, stored)


def _joined_numbers(items: list[Any]) -> np.ndarray | None:
    """Return NumPy numbers of one dtype as a new array; None for other items."""
    first = items[0]
    if isinstance(first, np.generic) and type(first) in SCALAR_DTYPES:
        return np.array(items) if countOf(map(type, items), type(first)) == len(items) else None
    return None


def _store(
    steps: list[tuple[JointRows, JointStep]],
    lanes: Sequence[Lane],
    episodes: Sequence[MultiAgentEpisode],
    positions: Collection[int],
) -> float:
    """Store the agents' parts of the steps, and return the time.

    An interrupt leaves no half step in a lane that is not `is_recording`.
    """
    for position in positions:
        lanes[position].is_recording = True
    try:
        for rows, step in steps:
            rows.push(step)
    except BaseException:
        for rows, _ in steps:
            rows.take_back()
        for position in positions:
            lanes[position].is_recording = False
        raise
    now, env_ts = perf_counter(), [episode.roster.clock.env_t + 1 for episode in episodes]
    for rows, _ in steps:
        rows.settle(env_ts, now)
    return now
