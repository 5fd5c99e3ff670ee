"""The loop: environments are reset and stepped until what was asked for is recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter
from typing import final

import numpy as np

from episodia.env_runners.acting.acting import masks_to_act
from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.callbacks import Watcher
from episodia.env_runners.envs.multi_agent_env import StepResult
from episodia.env_runners.rollout.delayed_reward_chunks import settle
from episodia.env_runners.rollout.episode_totals import MultiAgentTotals
from episodia.env_runners.rollout.joint_recording import JointRecording
from episodia.env_runners.rollout.multi_agent_lane import Choice, Lane
from episodia.env_runners.rollout.nan_and_bounds_checks import (
    BoundsWatch,
    FiniteWatch,
    cannot_act_on,
    is_finite,
    no_action_allowed,
    note_not_finite,
)
from episodia.env_runners.rollout.sample_goals import CountStepsBy, Goal, SampleMode
from episodia.env_runners.rollout.waiting_chunks import Harvest
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.runner_settings import CheckFinite
from episodia.episodes import MultiAgentEpisode
from episodia.errors import EpisodiaError


@final
class MultiAgentLoop:
    """Plays in all lanes at once, and collects what happened.

    Whatever is raised while it plays, what was recorded before stays, and the next call goes on from there.

    Args:
        lanes: The environments.
        actor: Chooses actions.
        watcher: Calls callbacks.
        metrics: Where to count.
        check_finite: What becomes of NaN and infinite numbers.

    Attributes:
        lanes: The environments.
        actor: Chooses actions.
        weights_version: The version of the weights, which new episodes begin with.
    """

    def __init__(
        self,
        lanes: list[Lane],
        actor: MultiAgentActor,
        watcher: Watcher,
        metrics: RunnerMetrics,
        *,
        check_finite: CheckFinite,
    ) -> None:
        self.lanes = lanes
        self.actor = actor
        self.weights_version = 0
        self._watcher = watcher
        self._metrics = metrics
        self._num_begun = 0
        self._harvest = Harvest()
        self._is_settled = True  # whether the last call has come to its end
        self._joint = JointRecording(actor)
        self._bounds = BoundsWatch()
        self._finite = FiniteWatch(check_finite)
        self._totals = [MultiAgentTotals() for _ in lanes]
        self._mode = SampleMode(at_random=False, explore=True)
        self._count_steps_by: CountStepsBy = "env_steps"

    def use_version(self, version: int) -> None:
        """Let `version` hold from the current step of all running episodes on."""
        self.weights_version = version
        for lane in self.lanes:
            if lane.is_running:
                lane.running.weights_version = version

    def play(
        self,
        goal: Goal,
        mode: SampleMode,
        lookback: int,
        *,
        reward_delay: int,
        force_reset: bool,
        on_complete: Callable[[], None],
    ) -> list[MultiAgentEpisode]:
        """Play until `goal` is reached, and return what was recorded for it.

        Args:
            goal: The number of steps or episodes.
            mode: How to act.
            lookback: How many of its own steps each agent can look back to in a chunk that goes on.
            reward_delay: For how many ticks rewards may still be set; steps that are younger are not returned.
            force_reset: Whether to begin new episodes everywhere.
            on_complete: Called after the last step, before the observations go through a pipeline that are acted on next.
        """
        self._count_steps_by = goal.count_steps_by
        if not self._is_settled:
            self._recover()
        self._is_settled = False
        try:
            self._prepare(mode, lookback)
            if force_reset or goal.episodes is not None:
                self.abandon_episodes()
            if goal.episodes is not None:
                self._play_episodes(goal.episodes)
                on_complete()
                self._bounds.warn()
                return self._harvest.whole(goal.episodes, self._metrics)
            self._play_steps(goal, on_complete)
            self._cut_running()
            complete = len(self._harvest)
            self._settle_rewards(reward_delay)
            self._bounds.warn()
            return self._harvest.first(complete, self._metrics)
        finally:
            self._joint.close()

    def release(self) -> None:
        """Forget what `play` has returned last; before that, an interrupt lets the next call return it again."""
        self._is_settled = True
        self._harvest.release()

    def _recover(self) -> None:
        """Settle what an exception or an interrupt has left: chunks that were being cut."""
        self.actor.forget()
        for lane in self.lanes:
            self._finish_cut(lane)

    def _drop_bad_observations(self, error: Exception) -> None:
        """Drop running episodes in which agents cannot act: the next call would fail at them again.

        Raises:
            EnvError: If last observations are NaN or infinite, or masks allow no action; instead of `error`.
        """
        running = [(lane, lane.running) for lane in self.lanes if lane.is_running]
        bad = [(lane, episode) for lane, episode in running if not is_finite(episode.get_observations(-1))]
        masked = [(lane, episode) for lane, episode in running if not all(map(np.any, masks_to_act(episode)))]
        for lane, episode in bad or masked:
            lane.leave()
            self._metrics.num_episodes_dropped += 1
            self._metrics.num_env_steps_dropped += len(episode)
        if bad:
            raise cannot_act_on([lane.index for lane, _ in bad], error) from error
        if masked:
            raise no_action_allowed([lane.index for lane, _ in masked]) from error

    def _prepare(self, mode: SampleMode, lookback: int) -> None:
        """Settle what an earlier call has left behind."""
        self._harvest.recount()
        for lane in self.lanes:
            lane.lookback = lookback
            if lane.is_mid_step:
                lane.give_up()
                self._count_failures(lane)
            self._collect(lane)
        self._mode = mode
        self._joint.open(wanted=not mode.at_random, is_watched=self._watcher.sees_steps)

    def _play_steps(self, goal: Goal, on_complete: Callable[[], None]) -> None:
        is_complete = self._recorded() >= (goal.steps or 0)
        if not is_complete:
            self._begin_all()
        while not is_complete:
            self._tick()
            is_complete = self._recorded() >= (goal.steps or 0)
            if is_complete:
                on_complete()
            self._observe()

    def _tick(self) -> None:
        """Step all lanes, each of which has a running episode before and after."""
        self._step(self.lanes)
        self._begin_all()

    def _observe(self) -> None:
        episodes = [lane.episode for lane in self.lanes if lane.episode is not None]
        try:
            self.actor.observe(episodes, explore=self._mode.explore)
        except Exception as error:
            self._drop_bad_observations(error)
            raise

    def _settle_rewards(self, delay: int) -> None:
        """Play on until no reward is open in what waits; what is played is the beginning of the next sample."""
        shapers = self.actor.shapers
        if not (delay or shapers):
            return
        if not all(chunk.is_done for chunk in self._harvest.chunks):
            open_ = {lane.running.id_ for lane in self.lanes if lane.episode is not None}
            self._begin_all()
            for _ in range(delay):
                if open_.isdisjoint(lane.running.id_ for lane in self.lanes if lane.episode is not None):
                    break
                self._tick()
                self._observe()
        running = {lane.running.id_: lane.running for lane in self.lanes if lane.episode is not None}
        settle(self._harvest.chunks, running, shapers, set())

    def _recorded(self) -> int:
        """Return how many steps could be returned."""
        episodes = [lane.episode for lane in self.lanes if lane.episode is not None]
        if self._count_steps_by == "env_steps":
            clocks = [episode.roster.clock for episode in episodes]
            return self._harvest.env_steps + sum([clock.env_t - clock.env_t_started for clock in clocks])
        return self._harvest.agent_steps + sum(episode.agent_steps() for episode in episodes)

    def _begin_all(self) -> None:
        idle = [lane for lane in self.lanes if lane.episode is None]
        if idle:
            self._begin(idle)

    def _play_episodes(self, count: int) -> None:
        while self._harvest.num_whole < count:
            running = [lane for lane in self.lanes if lane.episode is not None]
            idle = [lane for lane in self.lanes if lane.episode is None]
            # No more begin than are goal: choosing among more by their ends would favour short ones.
            self._begin(idle[: count - self._harvest.num_whole - len(running)])
            self._step([lane for lane in self.lanes if lane.episode is not None])

    def _begin(self, lanes: list[Lane]) -> None:
        """Begin an episode in each of `lanes`; those in processes of their own do so at the same time."""
        for lane in lanes:
            lane.start_reset()
        for lane in lanes:
            self._begin_one(lane)

    def _begin_one(self, lane: Lane) -> None:
        self._totals[lane.index] = MultiAgentTotals()
        try:
            lane.begin()
        finally:
            self._count_failures(lane)
        lane.order = self._num_begun
        self._num_begun += 1
        lane.running.weights_version = self.weights_version
        self._watcher.started(lane.running, lane.env, lane.index)

    def _step(self, lanes: list[Lane]) -> None:
        """Step all of `lanes` once; all of them have a running episode."""
        choices = self._choices(lanes)
        episodes = [lane.episode for lane in lanes if lane.episode is not None]
        metrics, started = self._metrics, perf_counter()
        outcomes: list[StepResult | BaseException] = []
        try:
            if lanes[0].is_remote:  # as all of them are, or none
                for lane, choice in zip(lanes, choices, strict=True):
                    lane.start(choice)
            outcomes.extend(map(Lane.advance, lanes, choices))
        finally:
            stepped = perf_counter()
            metrics.env_step_time_s += stepped - started
            # After an interrupt, what other environments have returned is recorded all the same.
            is_whole = len(outcomes) == len(lanes)
            recorded = self._joint.record(lanes, episodes, choices, outcomes) if is_whole else ()
            if len(recorded) < len(lanes) or self._watcher.sees_steps:
                self._settle(list(zip(lanes, episodes, choices, outcomes, strict=False)), recorded)
            metrics.record_time_s += perf_counter() - stepped

    def _choices(self, lanes: list[Lane]) -> list[Choice]:
        """Return what to do in each of `lanes`; lanes whose process is found gone are reset."""
        while True:
            try:
                return self.actor.act(
                    [lane.episode for lane in lanes if lane.episode is not None],
                    lambda position, agent: lanes[position].env.get_action_space(agent),
                    explore=self._mode.explore,
                    at_random=self._mode.at_random,
                )
            except Exception as error:
                lost = [lane for lane in lanes if lane.is_lost]
                if not lost:
                    self._drop_bad_observations(error)
                    raise
                self.actor.forget()
                self._settle([(lane, lane.running, Choice({}, {}, dict), error) for lane in lost])
                self._begin([lane for lane in lost if lane.episode is None])

    def _settle(
        self,
        stepped: list[tuple[Lane, MultiAgentEpisode, Choice, StepResult | BaseException]],
        recorded: Collection[int] = (),
    ) -> None:
        """Record a step of each lane, but of those at `recorded`; what one of them raises does not keep the others from it."""
        first: Exception | None = None
        for position, (lane, episode, choice, outcome) in enumerate(stepped):
            try:
                if position not in recorded:
                    lane.settle(episode, choice, outcome)
                if lane.episode is not None:
                    self._watcher.stepped(lane.episode, lane.env, lane.index)
                if lane.episode is not None and lane.episode.is_done:
                    self._collect(lane)
            except Exception as error:  # noqa: BLE001  # raised below
                first = first or error
            self._count_failures(lane)
        if first is not None:
            raise first

    # --- What is ready ----------------------------------------------------------------------------------------------

    def _collect(self, lane: Lane) -> None:
        """Take what a lane has finished."""
        episode = lane.episode
        if episode is None or not episode.is_done:
            return
        try:
            self.actor.observe_end(episode, explore=self._mode.explore)
        finally:
            self._keep(lane, episode)
            lane.episode = None
        self._watcher.ended(episode, lane.env, lane.index)

    def _keep(self, lane: Lane, chunk: MultiAgentEpisode) -> None:
        """Finalize a chunk, count it, and let it wait to be returned; a chunk that is rejected is dropped."""
        try:
            self._bounds.finalize(chunk)
            if self._finite.is_open:
                note_not_finite(self._finite, chunk, lane.index)
        except EpisodiaError:
            lane.episode = lane.following = None
            self._metrics.num_episodes_dropped += 1
            self._metrics.num_env_steps_dropped += len(chunk)
            raise
        self._harvest.add(lane.order, chunk, self._totals[lane.index])
        self._watcher.cut([chunk])

    def _cut_running(self) -> None:
        """Take what there is of running episodes."""
        for lane in self.lanes:
            lane.prepare_cut()
            self._finish_cut(lane)

    def _finish_cut(self, lane: Lane) -> None:
        """Take the chunk that a lane is about to cut, and give the lane the next one."""
        if lane.following is not None:
            if lane.following is not lane.episode:
                self._keep(lane, lane.running)
            lane.episode, lane.following = lane.following, None

    def abandon_episodes(self) -> None:
        """Leave running episodes; what was recorded of them waits to be returned."""
        self._cut_running()
        for lane in self.lanes:
            lane.leave()

    def _count_failures(self, lane: Lane) -> None:
        failures = lane.take_failures()
        if failures is None:
            return
        metrics = self._metrics
        metrics.num_env_restarts += failures.restarts
        metrics.num_episodes_dropped += failures.episodes
        metrics.num_env_steps_dropped += failures.env_steps
        if failures.restarts:
            self._watcher.created(lane.env, lane.index)
