"""One agent's record: all that a multi-agent episode knows of that agent.

A record holds the agent's own episode, the timeline of its observations, its pending step, its end and what belongs to no
step of it. It applies the rules of `pending_step` to what an environment step has for the agent. Whatever is done to a
multi-agent episode (cut, slice, copy, join, save) is done to its clock and to each of its records.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import added, total_of
from episodia.episodes.multi_agent import pending_step as rules
from episodia.episodes.multi_agent.pending_step import NOTHING, PendingStep, StepRule, merged, rule_for
from episodia.episodes.multi_agent.timeline import Clock, Timeline
from episodia.episodes.single_agent import single_agent_chunks as chunks
from episodia.episodes.single_agent.single_agent_columns import as_observation, extra_columns, take_back
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import freeze, own, own_info
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_stepping import EnvStep


@final
@dataclass(frozen=True, slots=True)
class Departed:
    """The last steps of an agent that ended before a chunk begins, kept for rows of the chunk that may still see them.

    An agent that waits at a cut has its first row of the next chunk at its last observation, which is before the cut. When it
    acted there, another agent may still have been alive that has ended since.
    """

    episode: SingleAgentEpisode
    shown_at: list[int]
    ended_at: int

    def since(self, env_t: int) -> Departed:
        """Return the steps from environment step `env_t` on; at least the last observation, as of agents that go on."""
        whole = self.episode
        first = min(bisect_left(self.shown_at, env_t), len(self.shown_at) - 1)
        index = first - whole.observations.lookback
        kept = chunks.part(whole, slice(max(0, index), None), max(0, -index))
        kept.is_terminated, kept.is_truncated = whole.is_terminated, whole.is_truncated
        return Departed(kept, self.shown_at[first:], self.ended_at)


@final
class AgentRecord:
    """All that a multi-agent episode, or a chunk of it, knows of one agent.

    Attributes:
        agent: The agent's id.
        episode: The agent's own episode; None before its first observation, and if it ended in an earlier chunk.
        timeline: The environment steps at which the observations of `episode` were shown.
        pending: The parts of its next step that are known; None without such parts.
        ended_at: The environment step at which it ended in this chunk; None otherwise.
        gone: How it ended in an earlier chunk, "terminated" or "truncated"; None otherwise.
        departed: Its last steps, if it is gone and rows of this chunk may still see them.
        early_rewards: Rewards that belong to no step, each after the environment step that it came with. They came before or
            with the first observation, or after the end and the last step is in an earlier chunk.
        is_split: Whether the pending step is, in a slice, a part of one that was complete later.
        is_carried: Whether the first step of this chunk was chosen in the chunk before.
    """

    __slots__ = (
        "agent",
        "departed",
        "early_rewards",
        "ended_at",
        "episode",
        "gone",
        "is_carried",
        "is_split",
        "pending",
        "timeline",
    )

    def __init__(self, agent: AgentID) -> None:
        """Make the record of an agent that has not come."""
        self.agent = agent
        self.episode: SingleAgentEpisode | None = None
        self.timeline = Timeline([])
        self.pending: PendingStep | None = None
        self.ended_at: int | None = None
        self.gone: str | None = None
        self.departed: Departed | None = None
        self.early_rewards: list[tuple[int, Any]] = []
        self.is_split = False
        self.is_carried = False

    # --- What it says -----------------------------------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it."""
        return self.episode is None and self.pending is None and self.gone is None and not self.early_rewards

    @property
    def has_acted(self) -> bool:
        """Whether the agent's action is pending."""
        return self.pending is not None and self.pending.action is not NOTHING

    @property
    def is_alive(self) -> bool:
        """Whether the agent has come and has not ended."""
        return self.episode is not None and not self.episode.is_done

    @property
    def is_free(self) -> bool:
        """Whether the agent can act on its last observation, and nothing is pending for it."""
        return self.is_alive and self.pending is None

    @property
    def known(self) -> SingleAgentEpisode:
        """The agent's own episode, where it has one."""
        if self.episode is None:
            raise EpisodeError(
                f"agent {self.agent!r}: found no episode, expected one. Look only for agents in `agent_episodes`."
            )
        return self.episode

    @property
    def end(self) -> str | None:
        """The end of the agent, "terminated" or "truncated"; None if it goes on."""
        if self.episode is None or not self.episode.is_done:
            return self.gone
        return "terminated" if self.episode.is_terminated else "truncated"

    def shown_at(self) -> list[int]:
        """Return at which environment step each stored observation was shown, the lookback included."""
        steps = self.timeline.env_steps
        if self.ended_at is not None and len(steps) < self.known.observations.len_incl_lookback():
            # It was not shown its last observation, and has its previous one repeated, at its end.
            return [*steps, self.ended_at]
        return steps

    def check_timeline(self, env_t: int) -> None:
        """Check that the timeline fits the agent's episode and a clock at `env_t`.

        Raises:
            EpisodeError: If it does not.
        """
        steps = self.timeline.env_steps
        # An agent that was not shown its last observation has its previous one repeated, at no environment step.
        missing = self.known.observations.len_incl_lookback() - len(steps)
        if missing not in ((0, 1) if self.known.is_done else (0,)):
            raise EpisodeError(f"found {missing} observations more than environment steps, expected one step for each.")
        if steps != sorted(set(steps)) or (steps and steps[-1] > env_t):
            raise EpisodeError(f"found the environment steps {steps}, expected ascending ones up to {env_t}.")

    def use_version(self, version: int) -> None:
        """Let a version of the weights hold from the agent's next step on: a pending action was chosen before."""
        if self.is_alive and not self.has_acted and self.known.weights_version != version:
            self.known.weights_version = version

    # --- Storing one step -------------------------------------------------------------------------------------------

    def store(self, step: EnvStep) -> None:
        """Store what `step` has for this agent, and note in `step` how to take that back.

        Raises:
            EpisodiaError: If a part of it does not fit.
        """
        situation = self._standing() | (step.parts_for_all or step.parts_for(self.agent))
        if step.has_ends:
            situation |= step.ending_of(self.agent)
        rule = rule_for(situation)
        if rule is StepRule.COMPLETES or rule is StepRule.REPEATS:
            self.complete(step, rule is StepRule.REPEATS)
        elif rule is StepRule.WAITS:
            self._wait(step)
        elif rule is not StepRule.HAS_ENDED or situation & (rules.PAID | rules.INFORMED):
            self._remember(step)
            self._apply(rule, step)
        if situation & (rules.TERMINATES | rules.TRUNCATES) and self.ended_at is None and self.is_alive:
            self._end(step)

    def _apply(self, rule: StepRule, step: EnvStep) -> None:
        """Store what a rule says that completes no step."""
        if rule is StepRule.ABSENT:
            self._be_absent(step)
        elif rule is StepRule.STARTS:
            self._start(step)
        elif rule is StepRule.REPLACES:
            self._replace_observation(step)
        elif rule is StepRule.ENDS:
            self._end_without_step(step)
        else:
            self._add_after_end(step)

    def _standing(self) -> int:
        """Return where the agent stands, as a part of its situation."""
        episode, pending = self.episode, self.pending
        if episode is None:
            return rules.NEW if self.gone is None else rules.IS_DONE
        if episode.is_terminated or episode.is_truncated:
            return rules.IS_DONE
        return rules.IS_KNOWN if pending is None or pending.action is NOTHING else rules.HAS_ACTED

    def _taken(self, step: EnvStep) -> PendingStep:
        """Return what is known of the agent's next step, with what `step` adds to it."""
        before = self.pending
        reward, infos, extras = step.parts(self.agent)
        action = step.actions.get(self.agent, NOTHING)
        if before is None:
            return PendingStep(action, extras, reward, infos)
        if action is NOTHING:
            action, extras = before.action, before.extra_model_outputs
        return PendingStep(action, extras, added(before.reward, reward), merged(before.infos, infos))

    def complete(self, step: EnvStep, repeats: bool = False) -> None:
        """Complete the agent's next step, with the observation in `step` or with the last one once more."""
        agent, single, pending = self.agent, self.episode, self.pending
        if single is None:
            return  # no rule says so
        if pending is None:
            action, reward = step.actions[agent], step.rewards.get(agent)
            infos, extras = step.infos.get(agent), step.extra_model_outputs.get(agent)
        else:
            taken = self._taken(step)
            action, reward, infos, extras = taken.action, taken.reward, taken.infos, taken.extra_model_outputs
        if reward is None:
            rule_for(self._standing() | step.parts_for(agent))  # which may say that one is missing
            reward = 0.0
        if single.observations.finalized:
            # Arrays may change their dtype by what is appended, so a copy is the way back.
            self._remember(step)
            step.undo.append(_restoring(single))
        else:
            step.completed.append((self, pending, single.t, single._last_step_time, single.extra_model_outputs))
        if extras is not None or single.extra_model_outputs:
            extras = self._fit_outputs({} if extras is None else extras, step)
        shown = single.get_observations(-1) if repeats else step.observations[agent]
        single.add_env_step(shown, action, reward, infos, extra_model_outputs=extras)
        if not repeats:
            self.timeline.env_steps.append(step.env_t)
        if pending is not None:
            self.pending = None
            step.answered.append(self)

    def take_back_step(
        self, pending: PendingStep | None, t: int, last_step_time: float | None, columns: dict[str, LookbackBuffer]
    ) -> None:
        """Remove the last step, which was completed while this was so, as far as it was stored."""
        single = self.known
        single.t = t
        single.is_terminated = single.is_truncated = False
        take_back(single)
        single.extra_model_outputs = columns
        single._last_step_time = last_step_time
        del self.timeline.env_steps[single.observations.len_incl_lookback() :]
        self.pending, self.ended_at = pending, None

    def _remember(self, step: EnvStep) -> None:
        """Note how to make the record what it is now; the agent's own episode is noted where it is changed."""
        steps = self.timeline.env_steps
        last, counts = steps[-1:], (len(steps), len(self.early_rewards))
        step.undo.append(partial(self._put_back, self.episode, self.pending, self.ended_at, last, counts))

    def _put_back(
        self,
        episode: SingleAgentEpisode | None,
        pending: PendingStep | None,
        ended_at: int | None,
        last: list[int],
        counts: tuple[int, int],
    ) -> None:
        if self.ended_at != ended_at:
            self.known.is_terminated = self.known.is_truncated = False
        self.episode, self.pending, self.ended_at = episode, pending, ended_at
        self.timeline.env_steps[max(0, counts[0] - 1) :] = last
        del self.early_rewards[counts[1] :]

    def _start(self, step: EnvStep) -> None:
        reward, infos, _ = step.parts(self.agent)
        waiting = None if self.pending is None else self.pending.infos
        single, finalized = step.episode._new_agent_episode(self.agent), step.episode.is_finalized
        shown = step.observations[self.agent]
        self.start(single, shown, merged(waiting, infos), step.env_t, finalized=finalized)
        self._add_early(step, reward)

    def start(self, episode: SingleAgentEpisode, observation: Any, infos: Any, env_t: int, *, finalized: bool) -> None:
        """Begin `episode`, which is new, with the agent's first observation."""
        episode.add_env_reset(observation, infos)
        if finalized:
            episode.finalize()
        self.episode, self.pending = episode, None
        self.timeline.env_steps.append(env_t)

    def _wait(self, step: EnvStep) -> None:
        taken = self._taken(step)
        if self.agent in step.actions:
            self._own_action(taken)
        step.undo.append(partial(setattr, self, "pending", self.pending))
        if taken.action is not NOTHING:
            taken.infos = own_info(taken.infos) if taken.infos else None
            self.pending = taken
        else:
            self.pending = _waiting(taken.reward, taken.infos)
        step.answered.append(self)

    def _be_absent(self, step: EnvStep) -> None:
        taken = self._taken(step)
        self.pending = _waiting(None, taken.infos)
        self._add_early(step, taken.reward)

    def _replace_observation(self, step: EnvStep) -> None:
        single, taken = self.known, self._taken(step)
        step.undo.append(partial(_set_fields, single, {"observations": single.observations, "infos": single.infos}))
        single.observations, single.infos = single.observations.fork(), single.infos.fork()
        single.observations.replace_last(as_observation(single.observations, step.observations[self.agent]))
        single.infos.replace_last(taken.infos or {})
        self.timeline.env_steps[-1] = step.env_t
        if step.has_ends and step.ending_of(self.agent):
            self.pending = None
            self._add_to_last_step(step, taken.reward)
        else:
            self.pending = _waiting(taken.reward, None)
        step.answered.append(self)

    def _end_without_step(self, step: EnvStep) -> None:
        taken, self.pending = self._taken(step), None
        self._add_to_last_infos(step, taken.infos)
        self._add_to_last_step(step, taken.reward)

    def _add_after_end(self, step: EnvStep) -> None:
        reward, infos, _ = step.parts(self.agent)
        if self.episode is None:
            # The flags of an agent whose episode is in an earlier chunk wait until the chunks are joined.
            self.pending = _waiting(None, merged(self.pending.infos if self.pending else None, infos))
        else:
            self._add_to_last_infos(step, infos)
        self._add_to_last_step(step, reward)

    def _add_early(self, step: EnvStep, reward: Any) -> None:
        if reward is not None:
            self.early_rewards.append((step.env_t, reward))

    def _add_to_last_step(self, step: EnvStep, reward: Any) -> None:
        single = self.episode
        if single is None or not len(single):
            # The step that it belongs to, if there was one, is in an earlier chunk.
            self._add_early(step, reward)
        elif reward is not None:
            step.undo.append(partial(_set_fields, single, {"rewards": single.rewards}))
            single.rewards = single.rewards.fork()
            single.set_rewards(new_data=added(single.rewards.get(-1), reward), at_indices=-1)

    def _add_to_last_infos(self, step: EnvStep, infos: Mapping[str, Any] | None) -> None:
        if infos:
            single = self.known
            step.undo.append(partial(_set_fields, single, {"infos": single.infos}))
            single.infos = single.infos.fork()
            single.infos.replace_last({**single.infos.get(-1), **infos})

    def _end(self, step: EnvStep) -> None:
        ending = step.ending_of(self.agent)
        self.end_at(step.env_t, terminated=bool(ending & rules.TERMINATES), truncated=bool(ending & rules.TRUNCATES))
        step.num_ended += 1

    def end_at(self, env_t: int, *, terminated: bool, truncated: bool) -> None:
        """Let the agent end at environment step `env_t`."""
        self.known.is_terminated, self.known.is_truncated = terminated, truncated
        self.ended_at = env_t

    # --- Extra model outputs ----------------------------------------------------------------------------------------

    def _own_action(self, taken: PendingStep) -> None:
        """Replace a new action and its outputs by private copies; they are checked when taken, not when answered."""
        single, extras = self.known, taken.extra_model_outputs
        if type(taken.action) not in single.actions.free_types:
            taken.action = freeze(_checked(single.actions.admit, taken.action, "action"))
        if extras or single.extra_model_outputs:
            extras = extras or {}
            columns, outputs = self._fitted(extras)
            if columns is single.extra_model_outputs:
                columns = _checked(partial(extra_columns, single), outputs, "extra_model_outputs")
            owned = {name: freeze(_checked(columns[name].admit, output, name)) for name, output in extras.items()}
            taken.extra_model_outputs = owned or None

    def _fit_outputs(self, extras: Any, step: EnvStep) -> Any:
        """Return extra model outputs for the agent's columns; the columns may be masked for them."""
        single = self.known
        before = single.extra_model_outputs
        if (type(extras) is dict and extras.keys() == before.keys()) or not isinstance(extras, Mapping):
            return extras
        columns, extras = self._fitted(extras)
        if columns is not before:
            step.undo.append(partial(_set_fields, single, {"extra_model_outputs": before}))
            single.extra_model_outputs = columns
        return extras

    def _fitted(self, extras: Mapping[str, Any]) -> tuple[dict[str, LookbackBuffer], dict[str, Any]]:
        """Return the columns for the agent's next step, and the items for them; both as they are if they fit already.

        A chunk may have other extra columns than the chunk before it. If an action was pending at the cut, the first step of
        the new chunk was chosen in the old one, and has its outputs. The columns are then filled and masked as
        `concat_episode` does.
        """
        single = self.known
        columns = single.extra_model_outputs
        if not len(single) or extras.keys() == columns.keys() or not self._may_differ(extras):
            return columns, dict(extras)
        ours = dict(columns)
        theirs = {key: LookbackBuffer([value]) for key, value in extras.items()}
        chunks.fill_missing(ours, theirs, len(single), 1, single.is_finalized)
        chunks.fill_missing(theirs, ours, 1, len(single), finalized=False)
        return ours, {key: column.get(0) for key, column in theirs.items()}

    def _may_differ(self, extras: Mapping[str, Any]) -> bool:
        """Tell whether the step follows the one that was carried over, or has the outputs of the step before it."""
        columns = self.known.extra_model_outputs
        masks = {chunks.mask_name(key): key for key in columns if chunks.mask_name(key) in columns}
        absent = {key for mask, key in masks.items() if not columns[mask].get(-1)}
        has_outputs_of_before = bool(masks) and extras.keys() == columns.keys() - masks.keys() - absent
        return (self.is_carried and len(self.known) == 1) or has_outputs_of_before

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def fork(self) -> AgentRecord:
        """Return an equal record that shares the data until either of them is changed."""
        forked = AgentRecord(self.agent)
        for name in self.__slots__:
            setattr(forked, name, getattr(self, name))
        forked.episode = None if self.episode is None else chunks.fork(self.episode)
        forked.timeline = self.timeline.part(0)
        forked.early_rewards = list(self.early_rewards)
        return forked

    def cut(self, lookback_env_t: int) -> AgentRecord:
        """Return the record of the chunk that begins now, with the agent's steps from `lookback_env_t` on as lookback."""
        successor = AgentRecord(self.agent)
        successor.gone, successor.pending = self.end, self.pending
        successor.is_split, successor.is_carried = self.is_split, self.has_acted
        if self.episode is not None and self.is_alive:
            # The last observation is the first of the new chunk; before it, the steps that lie in the lookback.
            last = len(self.timeline) - 1
            steps_back = max(0, last - self.timeline.count_before(lookback_env_t))
            successor.episode = self.episode.cut(steps_back)
            successor.timeline = self.timeline.part(last - steps_back)
        return successor

    def part(self, whole: Clock, part: Clock) -> AgentRecord:
        """Return the record for the environment steps of `part`, a slice of what has the clock `whole`."""
        picked = AgentRecord(self.agent)
        picked.gone = self.gone
        picked.early_rewards = [entry for entry in self.early_rewards if part.env_t_started < entry[0] <= part.env_t]
        if self.episode is not None:
            picked.is_carried = self.is_carried and part.env_t_started == whole.env_t_started
            self._pick_steps(picked, whole, part)
        elif part.env_t == whole.env_t:
            picked.pending = self.pending
        return picked

    def _pick_steps(self, picked: AgentRecord, whole: Clock, part: Clock) -> None:
        """Give `picked` the agent as a cut at the start of a slice would have it, stepped on to the end of the slice."""
        start, stop, single, timeline = part.env_t_started, part.env_t, self.known, self.timeline
        last = timeline.count_before(stop + 1) - 1
        if last < 0:
            return  # it comes later
        ended_at = self.ended_at
        if ended_at is not None and timeline.env_steps[last] < start > whole.env_t_started and ended_at <= start:
            picked.gone = self.end
            return
        ends_here = ended_at is not None and ended_at <= stop
        # It goes on from its last observation up to the start, but not from one in the lookback.
        first = max(single.observations.lookback, timeline.count_before(start + 1) - 1)
        earliest = timeline.count_before(part.first_env_t)
        if first > last < earliest and not ends_here:
            return  # the observation that it had there has been replaced by a later one
        # An agent that was not shown its last observation has its previous one repeated.
        repeats = ends_here and last + 1 == len(timeline) < single.observations.len_incl_lookback()
        first = min(first, last + repeats)
        lookback = max(0, first - earliest)
        if last + repeats > first:
            index = first - single.observations.lookback
            chosen = chunks.part(single, slice(index, index + last + repeats - first), lookback)
        else:
            chosen = chunks.pause(single, first, lookback)
        chosen.is_terminated = ends_here and single.is_terminated
        chosen.is_truncated = ends_here and single.is_truncated
        picked.episode, picked.timeline = chosen, timeline.part(first - lookback, last + 1)
        if ends_here:
            picked.ended_at = ended_at
        else:
            picked.pending = self._pending_at(last, whole.env_t, stop)
            picked.is_split = picked.has_acted and (stop < whole.env_t or self.is_split)

    def _pending_at(self, position: int, now: int, env_t: int) -> PendingStep | None:
        """Return what was pending at environment step `env_t`, after the observation at `position`."""
        single = self.known
        if env_t == now:
            return self.pending
        if self.timeline.env_steps[position] == env_t:
            return None  # it acts later
        if position == single.rewards.len_incl_lookback():
            return self.pending if self.has_acted else None
        index = position - single.rewards.lookback
        extras = {
            key: column.get(position - column.lookback - missing_steps(single, column), neg_index_as_lookback=True)
            for key, column in single.extra_model_outputs.items()
            if position >= missing_steps(single, column)
        }
        return PendingStep(
            single.get_actions(index, neg_index_as_lookback=True),
            extras or None,
            single.get_rewards(index, neg_index_as_lookback=True),
        )

    def departed_at(self, env_t: int) -> Departed | None:
        """Return the last steps of an agent that has ended by environment step `env_t`; None if it goes on or is unknown."""
        if self.episode is None or self.ended_at is None:
            return self.departed
        return Departed(self.episode, self.shown_at(), self.ended_at) if self.ended_at <= env_t else None

    def join(self, theirs: AgentRecord, *, finalized: bool) -> None:
        """Append `theirs`, the agent's record in the chunk that continues this one, which is not changed.

        Args:
            theirs: The later record.
            finalized: Whether the joined episodes are finalized.

        Raises:
            EpisodiaError: If their episodes do not fit together. This record may have changed then.
        """
        was_known = self.episode is not None
        if theirs.episode is not None and self.episode is None:
            self.episode, self.timeline = _in_form(theirs.episode, finalized), theirs.timeline.part(0)
        elif theirs.episode is not None:
            self._join_episode(theirs, theirs.episode)
        self.pending, self.is_split = theirs.pending, theirs.is_split
        if theirs.ended_at is not None:
            self.ended_at = theirs.ended_at
        self._settle_what_came_after_the_end(theirs.early_rewards, was_known=was_known)

    def _join_episode(self, theirs: AgentRecord, later: SingleAgentEpisode) -> None:
        ours, our_steps, their_steps = self.known, self.timeline.env_steps, theirs.timeline.env_steps
        if ours.is_done and later.is_done and not len(later):
            return  # a slice has the agents that end where it begins
        seam = later.observations.lookback
        if later.t_started == ours.t + 1 and not len(ours) and self.pending is not None:
            _move_pending_to_lookback(ours, self.pending, later)
            our_steps = [*our_steps, their_steps[seam]]
        elif our_steps[-1] != their_steps[seam]:
            # The agent did not act on the observation at the seam and was shown another.
            ours.observations.replace_last(later.get_observations(0))
            ours.infos.replace_last(later.get_infos(0))
        ours.concat_episode(later)
        self.timeline = Timeline(our_steps[:-1] + their_steps[seam:])

    def _settle_what_came_after_the_end(self, early_rewards: list[tuple[int, Any]], *, was_known: bool) -> None:
        """Give an agent whose end is here now the flags that the later chunk got for it."""
        single = self.episode
        is_done = single is not None and single.is_done
        if single is not None and is_done and self.pending is not None:
            single.infos.replace_last({**single.infos.get(-1), **(self.pending.infos or {})})
            self.pending = None
        if single is not None and is_done and was_known and len(single) and early_rewards:
            # Its last step was in the earlier chunk, and is here now.
            total = total_of([single.get_rewards(-1), *(reward for _, reward in early_rewards)])
            single.set_rewards(new_data=total, at_indices=-1)
        else:
            self.early_rewards += early_rewards

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self, state_of: Callable[[SingleAgentEpisode], Any]) -> dict[str, Any]:
        """Return the record as plain data; `state_of` says what an agent's own episode is in it."""
        departed = self.departed
        return {
            "agent": self.agent,
            "episode": None if self.episode is None else state_of(self.episode),
            "timeline": list(self.timeline.env_steps),
            "pending": None if self.pending is None else _pending_state(self.pending),
            "ended_at": self.ended_at,
            "gone": self.gone,
            "departed": departed and [state_of(departed.episode), list(departed.shown_at), departed.ended_at],
            "early_rewards": [list(entry) for entry in self.early_rewards],
            "is_split": self.is_split,
            "is_carried": self.is_carried,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], restored: Callable[[Any], SingleAgentEpisode]) -> AgentRecord:
        """Return the record that `get_state` described; `restored` makes an agent's own episode of what is in it."""
        record = cls(state["agent"])
        record.episode = None if state["episode"] is None else restored(state["episode"])
        record.timeline = Timeline(list(state["timeline"]))
        pending, departed = state["pending"], state["departed"]
        if pending is not None:
            record.pending = PendingStep(
                **{key: own_info(value) if key == "infos" else own(value) for key, value in pending.items()}
            )
        record.ended_at, record.gone = state["ended_at"], state["gone"]
        if departed is not None:
            single, shown_at, ended_at = departed
            record.departed = Departed(restored(single), list(shown_at), ended_at)
        record.early_rewards = [(t, reward) for t, reward in state["early_rewards"]]
        record.is_split, record.is_carried = state["is_split"], state["is_carried"]
        return record

    def check_fits(self, env_t: int) -> None:
        """Check that the parts of a record from outside belong together, at environment step `env_t`.

        Raises:
            EpisodeError: If they do not.
        """
        is_done = self.episode is not None and self.episode.is_done
        fits = {
            "a timeline": bool(self.timeline.env_steps) == (self.episode is not None),
            "an end": self.ended_at is None or is_done,
            "a pending action": not self.has_acted or self.is_alive,
            "a part of a step": not self.is_split or self.pending is not None,
            "an action of the chunk before": not self.is_carried or self.episode is not None,
        }
        wrong = [name for name, fit in fits.items() if not fit]
        if wrong:
            raise EpisodeError(
                f"agent {self.agent!r}: found {wrong[0]} that does not fit the agent's episode, expected a record of "
                "`get_state()`. Pass a state as `get_state()` returned it."
            )
        if self.episode is not None:
            self.check_timeline(env_t)


def missing_steps(single: SingleAgentEpisode, column: LookbackBuffer) -> int:
    """Return how many steps of the lookback an extra column does not have."""
    return single.rewards.len_incl_lookback() - column.len_incl_lookback()


def _waiting(reward: Any, infos: Mapping[str, Any] | None) -> PendingStep | None:
    """Return what waits for the agent's next step, with a private copy of the infos; None if nothing does."""
    return (
        None if reward is None and not infos else PendingStep(reward=reward, infos=own_info(infos) if infos else None)
    )


def _checked(check: Callable[[Any], Any], value: Any, column: str) -> Any:
    """Return `check(value)`; what it raises also names the column."""
    try:
        return check(value)
    except EpisodiaError as error:
        raise type(error)(f"{column}: {error}") from error


def _restoring(single: SingleAgentEpisode) -> Callable[[], None]:
    saved = copy.copy(single)
    fields = {name: getattr(saved, name) for name in SingleAgentEpisode.__slots__ if name != "__weakref__"}
    return partial(_set_fields, single, fields)


def _set_fields(single: SingleAgentEpisode, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(single, name, value)


def _pending_state(step: PendingStep) -> dict[str, Any]:
    state = {"reward": step.reward, "infos": own_info(step.infos)}
    if step.has_action:
        state["action"] = own(step.action)
        state["extra_model_outputs"] = own(step.extra_model_outputs)
    return state


def _move_pending_to_lookback(ours: SingleAgentEpisode, step: PendingStep, theirs: SingleAgentEpisode) -> None:
    """Continue an agent with its next observation, the first one of `theirs`; the step before is the past.

    A slice has it pending, because that observation has taken the place of one at the beginning of the chunk.
    """
    ours.observations.append(theirs.get_observations(0))
    ours.infos.append(theirs.get_infos(0))
    ours.actions.append(step.action)
    ours.rewards.append(step.reward)
    for key, output in (step.extra_model_outputs or {}).items():
        ours.extra_model_outputs[key].append(output)
    for column in (ours.actions, ours.rewards, *ours.extra_model_outputs.values()):
        column.lookback = column.len_incl_lookback()
    ours.observations.lookback = ours.infos.lookback = ours.rewards.lookback
    ours.t_started = ours.t = theirs.t_started


def _in_form(single: SingleAgentEpisode, finalized: bool) -> SingleAgentEpisode:
    """Return a copy of the episode of an agent that came in a later chunk, growing or finalized as all others are."""
    if single.is_finalized == finalized:
        return chunks.fork(single)
    if finalized:
        return chunks.fork(single).finalize()
    growing = SingleAgentEpisode(
        single.id_,
        observation_space=single.observation_space,
        action_space=single.action_space,
        agent_id=single.agent_id,
        module_id=single.module_id,
        multi_agent_episode_id=single.multi_agent_episode_id,
    )
    growing.env_index, growing.agent_index = single.env_index, single.agent_index
    growing.add_env_reset(single.get_observations(0), single.get_infos(0))
    growing._start_time = single._start_time
    growing.concat_episode(single)
    return growing
