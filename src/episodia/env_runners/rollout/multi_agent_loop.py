"""The loop: environments are reset and stepped until what was asked for is recorded."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeAlias, final

from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.callbacks import Listeners, notify
from episodia.env_runners.envs.multi_agent_env import StepResult
from episodia.env_runners.multi_agent_metrics import MultiAgentMetrics, MultiAgentTotals
from episodia.env_runners.rollout.delayed_reward_chunks import joined, settle
from episodia.env_runners.rollout.finite_numbers import cannot_act_on, check_finite, is_finite
from episodia.env_runners.rollout.multi_agent_bulk import BulkRecording
from episodia.env_runners.rollout.multi_agent_lane import Choice, Lane
from episodia.env_runners.rollout.returned_chunks import Harvest
from episodia.env_runners.rollout.sample_goals import Wanted
from episodia.episodes import MultiAgentEpisode
from episodia.errors import EpisodiaError

CountStepsBy: TypeAlias = Literal["env_steps", "agent_steps"]


class Manner(NamedTuple):
    """How a call of `sample` plays."""

    explore: bool
    at_random: bool
    count_steps_by: CountStepsBy = "env_steps"


@final
class Players:
    """Plays in all lanes at once, and collects what happened.

    Whatever is raised while it plays, what was recorded before stays, and the next call goes on from there.

    Args:
        runner: Who is named to listeners.
        lanes: The environments.
        actor: Who chooses actions.
        listeners: Who wants to be told.
        checks_finite: Whether to refuse NaN and infinite numbers.

    Attributes:
        lanes: The environments.
        actor: Who chooses actions.
        listeners: Who wants to be told.
        num_begun: How many episodes have begun.
        weights_version: The version of the weights.
    """

    def __init__(
        self,
        runner: Any,
        lanes: list[Lane],
        actor: MultiAgentActor,
        listeners: Listeners,
        *,
        checks_finite: bool,
    ) -> None:
        self._runner = runner
        self.lanes = lanes
        self.actor = actor
        self.listeners = listeners
        self.num_begun = 0
        self.weights_version = 0
        self._harvest = Harvest()
        self._bulk = BulkRecording(actor)
        self._checks_finite = checks_finite
        self._totals = [MultiAgentTotals() for _ in lanes]
        self._earlier: list[list[MultiAgentEpisode]] = [[] for _ in lanes]
        self._manner = Manner(explore=True, at_random=False)
        self._metrics = MultiAgentMetrics()
        actor.metrics = self._metrics.common

    def tell_created(self) -> None:
        """Tell listeners that environments were made."""
        for lane in self.lanes:
            self._notify("on_environment_created", lane)

    def take_metrics(self) -> MultiAgentMetrics:
        """Return the metrics, and begin new ones."""
        metrics, self._metrics = self._metrics, MultiAgentMetrics()
        self.actor.metrics = self._metrics.common
        return metrics

    def use_version(self, version: int) -> None:
        """Let `version` hold from the current step of all running episodes on."""
        self.weights_version = version
        for lane in self.lanes:
            if lane.is_running:
                lane.running.weights_version = version

    def play(
        self,
        wanted: Wanted,
        manner: Manner,
        lookback: int,
        *,
        reward_delay: int,
        force_reset: bool,
        on_complete: Callable[[], None],
    ) -> list[MultiAgentEpisode]:
        """Play until what is wanted is recorded, and return it.

        Args:
            wanted: How many steps or episodes.
            manner: Whether modules explore, whether actions are drawn at random, and which steps are counted.
            lookback: How many of its own steps each agent can look back to in a chunk that goes on.
            reward_delay: For how many ticks rewards may still be set; steps that are younger are not handed out.
            force_reset: Whether to begin new episodes everywhere.
            on_complete: Called after the last step, before the observations go through a pipeline that are acted on next.
        """
        started = perf_counter()
        try:
            self._prepare(manner, lookback)
            if force_reset or wanted.episodes is not None:
                self.abandon_episodes()
            if wanted.episodes is not None:
                self._play_episodes(wanted.episodes)
                on_complete()
                return self._harvest.take_whole(wanted.episodes, self._metrics)
            self._play_steps(wanted, on_complete)
            self._bulk.flush()
            self._cut_running()
            complete = len(self._harvest)
            self._settle_rewards(reward_delay)
            return self._harvest.take_first(complete, self._metrics)
        finally:
            self._bulk.flush()
            self._metrics.common.sample_time_s += perf_counter() - started

    def _drop_bad_observations(self, error: Exception) -> None:
        """Drop running episodes on whose last observations nobody can act: the next call would fail at them again.

        Raises:
            EnvError: If there are any, instead of `error`.
        """
        self._bulk.flush()
        running = [(lane, lane.running) for lane in self.lanes if lane.is_running]
        bad = [(lane, episode) for lane, episode in running if not is_finite(episode.get_observations(-1))]
        for lane, episode in bad:
            lane.leave()
            self._metrics.common.num_episodes_dropped += 1
            self._metrics.common.num_env_steps_dropped += len(episode)
        if bad:
            raise cannot_act_on([lane.index for lane, _ in bad], error) from error

    def _prepare(self, manner: Manner, lookback: int) -> None:
        """Settle what an earlier call has left behind."""
        for lane in self.lanes:
            lane.lookback = lookback
            if lane.is_mid_step:
                lane.give_up()
            self._collect(lane)
        self._manner = manner
        self._bulk.is_open = (
            not manner.at_random and not self.listeners.on_episode_step and self.actor.looks_at_last_observations_only
        )

    def _play_steps(self, wanted: Wanted, on_complete: Callable[[], None]) -> None:
        is_complete = self._recorded() >= (wanted.steps or 0)
        while not is_complete:
            self._tick()
            is_complete = self._recorded() >= (wanted.steps or 0)
            if is_complete:
                on_complete()
            self._observe()

    def _tick(self) -> None:
        self._begin_all()
        self._step(self.lanes)
        self._begin_all()

    def _observe(self) -> None:
        episodes = [lane.running for lane in self.lanes]
        try:
            self.actor.observe(episodes, explore=self._manner.explore, ahead=len(self._bulk))
        except Exception as error:
            self._drop_bad_observations(error)
            raise

    def _settle_rewards(self, delay: int) -> None:
        """Play on until no reward is open in what waits; what is played is the beginning of the next sample."""
        shapers = self.actor.shapers
        if not (delay or shapers):
            return
        if not all(chunk.is_done for chunk in self._harvest.chunks):
            for _ in range(delay):
                self._tick()
                self._observe()
            self._bulk.flush()
        running = {lane.running.id_: lane.running for lane in self.lanes if lane.episode is not None}
        settle(self._harvest.chunks, running, shapers, set())

    def _recorded(self) -> int:
        """Return how many steps could be handed out."""
        episodes = [lane.episode for lane in self.lanes if lane.episode is not None]
        if self._manner.count_steps_by == "env_steps":
            return self._harvest.env_steps + sum(map(len, episodes)) + len(self._bulk) * len(episodes)
        running = sum(episode.agent_steps() for episode in episodes)
        return self._harvest.agent_steps + running + self._bulk.num_agent_steps

    def _begin_all(self) -> None:
        self._begin([lane for lane in self.lanes if lane.episode is None])

    def _play_episodes(self, count: int) -> None:
        while self._harvest.num_whole < count:
            running = [lane for lane in self.lanes if lane.episode is not None]
            idle = [lane for lane in self.lanes if lane.episode is None]
            # No more begin than are wanted: choosing among more by their ends would favour short ones.
            self._begin(idle[: count - self._harvest.num_whole - len(running)])
            self._step([lane for lane in self.lanes if lane.episode is not None])

    def _begin(self, lanes: list[Lane]) -> None:
        """Begin an episode in each of `lanes`; those in processes of their own do so at the same time."""
        for lane in lanes:
            lane.start_reset()
        for lane in lanes:
            self._begin_one(lane)

    def _begin_one(self, lane: Lane) -> None:
        self._earlier[lane.index] = []
        self._totals[lane.index] = MultiAgentTotals()
        try:
            lane.begin()
        finally:
            self._count_failures(lane)
        lane.order = self.num_begun
        self.num_begun += 1
        lane.running.weights_version = self.weights_version
        self._notify("on_episode_start", lane, episode=lane.running)

    def _step(self, lanes: list[Lane]) -> None:
        """Step all of `lanes` once; all of them have a running episode."""
        episodes = [lane.running for lane in lanes]
        try:
            choices = self.actor.act(
                episodes,
                lambda position, agent: lanes[position].env.get_action_space(agent),
                explore=self._manner.explore,
                at_random=self._manner.at_random,
                ahead=len(self._bulk),
            )
        except Exception as error:
            self._drop_bad_observations(error)
            raise
        common, started = self._metrics.common, perf_counter()
        outcomes: list[StepResult | Exception] = []
        try:
            for lane, choice in zip(lanes, choices, strict=True):
                lane.start(choice)
            outcomes.extend(lane.advance(choice) for lane, choice in zip(lanes, choices, strict=True))
        finally:
            stepped = perf_counter()
            common.env_step_time_s += stepped - started
            # After an interrupt, what other environments have returned is recorded all the same.
            if len(outcomes) < len(lanes) or not self._bulk.record(lanes, episodes, choices, outcomes):
                self._bulk.flush()
                self._settle(list(zip(lanes, episodes, choices, outcomes, strict=False)))
            common.record_time_s += perf_counter() - stepped

    def _settle(self, stepped: list[tuple[Lane, MultiAgentEpisode, Choice, StepResult | Exception]]) -> None:
        """Record a step of each lane; what one of them raises does not keep the others from it."""
        first: Exception | None = None
        for lane, episode, choice, outcome in stepped:
            try:
                lane.settle(episode, choice, outcome)
                if self.listeners.on_episode_step and lane.episode is not None:
                    self._notify("on_episode_step", lane, episode=lane.episode)
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
        lane.episode = None
        self.actor.observe_end(episode, explore=self._manner.explore)
        self._keep(lane, episode)
        if self.listeners.on_episode_end:
            self._notify("on_episode_end", lane, episode=joined(self._earlier[lane.index]))
            self._earlier[lane.index] = []

    def _keep(self, lane: Lane, chunk: MultiAgentEpisode) -> None:
        """Finalize a chunk, count it, and let it wait to be handed out; one that cannot be handed out is dropped."""
        try:
            chunk.finalize()
            if self._checks_finite:
                check_finite(chunk, lane.index)
        except EpisodiaError:
            lane.episode = None
            self._metrics.common.num_episodes_dropped += 1
            self._metrics.common.num_env_steps_dropped += len(chunk)
            raise
        self._harvest.add(lane.order, chunk, self._totals[lane.index])
        if self.listeners.on_episode_end:
            self._earlier[lane.index].append(chunk)

    def _cut_running(self) -> None:
        """Take what there is of running episodes."""
        for lane in self.lanes:
            chunk = lane.take_chunk()
            if chunk is not None:
                self._keep(lane, chunk)

    def abandon_episodes(self) -> None:
        """Let running episodes go; what was recorded of them waits to be handed out."""
        self._cut_running()
        for lane in self.lanes:
            lane.leave()

    def _count_failures(self, lane: Lane) -> None:
        failures = lane.take_failures()
        if failures is None:
            return
        common = self._metrics.common
        common.num_env_restarts += failures.restarts
        common.num_episodes_dropped += failures.episodes
        common.num_env_steps_dropped += failures.env_steps
        if failures.restarts:
            self._notify("on_environment_created", lane)

    def _notify(self, event: str, lane: Lane, **arguments: Any) -> None:
        functions = getattr(self.listeners, event)
        if functions:
            notify(functions, env_runner=self._runner, env=lane.env, env_index=lane.index, **arguments)
