"""The roster of a multi-agent episode: the record of each agent, and the clock of all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, final

from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.multi_agent_stepping import check_name
from episodia.episodes.multi_agent.timeline import Clock
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodiaError
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_stepping import EnvStep


@final
class Roster:
    """The agents of a multi-agent episode, or of a chunk of it; whatever is done to the episode is done to each record.

    Args:
        records: The records, in the order in which the agents came; those with nothing in them are left out.
        clock: The environment's clock.

    Attributes:
        records: The record of each agent that the episode has met or heard of.
        clock: The environment's clock.
        episodes: The own episode of each agent that has one in this chunk.
        observed_last: The agents with an observation at the last environment step. Replaced, never changed.
        num_ended: How many agents have ended in this chunk.
        has_split_steps: Whether a record is split; see `AgentRecord`.
    """

    __slots__ = ("clock", "episodes", "has_split_steps", "num_ended", "observed_last", "records")

    def __init__(self, records: Iterable[AgentRecord], clock: Clock) -> None:
        self.records = {record.agent: record for record in records if not record.is_blank}
        self.clock = clock
        known = self.records.values()
        self.episodes: dict[AgentID, SingleAgentEpisode] = {
            record.agent: record.episode for record in known if record.episode is not None
        }
        self.num_ended = sum(record.ended_at is not None for record in known)
        self.has_split_steps = any(record.is_split for record in known)
        self.observed_last = {
            agent for agent in self.episodes if self.records[agent].timeline.env_steps[-1:] == [clock.env_t]
        }

    def present(self) -> Collection[AgentRecord]:
        """Return the records of the agents that have an episode in this chunk."""
        records = self.records
        if len(records) == len(self.episodes):
            return records.values()
        return [records[agent] for agent in self.episodes]

    # --- Steps ------------------------------------------------------------------------------------------------------

    def store(self, step: EnvStep) -> None:
        """Store an environment step; if any part of it does not fit, nothing is stored.

        Raises:
            EpisodiaError: Naming the agent.
        """
        records, completes, has_ends, agent = self.records, step.completes, step.has_ends, None
        clock, before = self.clock, (self.num_ended, self.observed_last)
        try:
            for agent in step.agents(self.episodes):
                record = records.get(agent)
                single = None if record is None else record.episode
                if record is None or single is None:
                    self._store_unseen(agent, record, step)
                elif (
                    completes
                    and record.pending is None
                    and not (single.is_terminated or single.is_truncated)
                    and not (has_ends and (agent in step.terminateds or agent in step.truncateds))
                ):
                    record.complete(step)  # by the rule for all agents that are free, looked up once for the step
                else:
                    record.store(step)
            self.num_ended += step.num_ended
            self.observed_last = set(step.observations)
            clock.tick()  # from here on the step is stored
        except BaseException as error:  # an interrupt, or from the mapping function of the user, for a new agent
            if clock.env_t == step.env_t:
                raise
            step.take_back()
            self.num_ended, self.observed_last = before
            if isinstance(error, EpisodiaError):
                where = f"episode {step.episode.id_!r}, agent {agent!r}, environment step {step.env_t}"
                raise type(error)(f"{where}: {error}") from error
            raise
        version = clock.weights_version if step.answered and clock.weights_versions else None
        if version is not None:
            self.use_version(version, step.answered)

    def _store_unseen(self, agent: AgentID, record: AgentRecord | None, step: EnvStep) -> None:
        """Store what a step has for an agent without an episode: it may come with the step."""
        records, episodes = self.records, self.episodes
        if record is None:
            check_name(agent)
            record = AgentRecord(agent)
        record.store(step)
        step.undo.append(partial(self._forget, agent, records.get(agent)))
        if record.episode is not None:
            episodes[agent] = record.episode
            records.pop(agent, None)  # agents stand in the order in which they came
        if not record.is_blank:
            records[agent] = record

    def _forget(self, agent: AgentID, record: AgentRecord | None) -> None:
        """Take back what `_store_unseen` stores; `record` is that of the agent before, if there was one."""
        self.episodes.pop(agent, None)
        if record is None:
            self.records.pop(agent, None)
        else:
            self.records[agent] = record

    def settle_step(self, observed: Collection[AgentID], ends: Mapping[AgentID, tuple[bool, bool]], now: float) -> None:
        """Settle a step that the records of all agents in `observed` have settled; see `JointStep`.

        Args:
            observed: The agents that acted, which are all that were to act, and were shown what followed.
            ends: Some of them, which end by the step, and whether they terminate and are truncated.
            now: The time of the step.
        """
        clock = self.clock
        clock.env_t += 1
        clock.last_step_time = now
        if len(observed) < len(self.observed_last):  # else the same agents were shown the last observations
            self.observed_last = set(observed)
        for agent, (terminated, truncated) in ends.items():
            self.records[agent].end_at(self.clock.env_t, terminated=terminated, truncated=truncated)
        self.num_ended += len(ends)

    def use_version(self, version: int, records: Iterable[AgentRecord]) -> None:
        """Let a version of the weights hold from the next step of `records` on."""
        for record in records:
            record.use_version(version)

    def ends(self, terminated: bool, truncated: bool) -> tuple[bool, bool]:
        """Return whether the episode terminates and is truncated: as the environment says, or with its last agent."""
        # Counted, as asking each agent would make every step as dear as there are agents.
        if terminated or truncated or not self.num_ended or self.num_ended < len(self.episodes):
            return terminated, truncated
        is_terminated = "terminated" in {record.end for record in self.records.values()}
        return is_terminated, not is_terminated

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def fork(self) -> Roster:
        """Return an equal roster that shares the data until either of them is changed."""
        return Roster([record.fork() for record in self.records.values()], self.clock.fork())

    def cut(self, lookback: int) -> Roster:
        """Return the roster of the chunk that begins now, with up to `lookback` environment steps of the past."""
        clock = self.clock.cut(lookback)
        successor = Roster([record.cut(clock.first_env_t) for record in self.records.values()], clock)
        self._keep_departed(successor)
        return successor

    def part(self, start: int, stop: int, lookback: int) -> Roster:
        """Return the environment steps from `start` to `stop`, with up to `lookback` steps of the past."""
        clock = self.clock.part(start, stop, lookback)
        picked = Roster([record.part(self.clock, clock) for record in self.records.values()], clock)
        self._keep_departed(picked)
        return picked

    def _keep_departed(self, chunk: Roster) -> None:
        """Give `chunk` the last steps of agents that ended before it begins, as far as its rows may see them."""
        start = chunk.clock.env_t_started
        rows = (record.shown_at()[record.known.observations.lookback] for record in chunk.present())
        earliest = min(rows, default=start)
        if earliest >= start:
            return
        for agent, record in chunk.records.items():
            departed = self.records[agent].departed_at(start) if record.gone is not None else None
            if departed is not None and departed.ended_at > earliest:
                record.departed = departed.since(chunk.clock.first_env_t)

    def joined(self, other: Roster, *, finalized: bool) -> Roster:
        """Return the roster of this chunk and of `other`, which continues it; neither of them is changed.

        Raises:
            EpisodiaError: If the chunks do not fit together, naming the agent.
        """
        joined = {agent: record.fork() for agent, record in self.records.items()}
        for agent in joined.keys() - other.records.keys():
            joined[agent].pending, joined[agent].is_split = None, False
        for agent, theirs in other.records.items():
            record = joined.get(agent) or AgentRecord(agent)
            try:
                record.join(theirs, finalized=finalized)
            except EpisodiaError as error:
                raise type(error)(f"agent {agent!r}: {error}") from error
            if theirs.episode is not None and agent not in self.episodes:
                joined.pop(agent, None)  # agents stand in the order in which they came
            joined[agent] = record
        return Roster(joined.values(), self.clock.joined(other.clock))

    def env_steps_back(self, agent_steps: int) -> int:
        """Return how many environment steps to look back, so that agents that go on see `agent_steps` of their own."""
        if not agent_steps:
            return 0
        now, present = self.clock.env_t, self.present()
        first_row = min((record.timeline.env_steps[-1] for record in present if record.is_alive), default=now)
        firsts = []
        for record in present:
            timeline = record.timeline
            if record.is_alive:
                firsts.append(timeline.env_steps[-min(len(timeline), agent_steps + 1)])
            if record.ended_at is None or record.ended_at > first_row:
                seen = timeline.count_before(first_row - agent_steps + 1) - 1
                firsts.append(timeline.env_steps[max(0, seen)])
        return max(agent_steps, now - min(firsts, default=now))

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self, state_of: Callable[[SingleAgentEpisode], Any]) -> dict[str, Any]:
        """Return the roster as plain data; `state_of` says what an agent's own episode is in it."""
        return {
            "clock": self.clock.get_state(),
            "records": [record.get_state(state_of) for record in self.records.values()],
            # In the order of the agents, not of a set: equal episodes have equal states.
            "observed_last": [agent for agent in self.episodes if agent in self.observed_last],
        }
