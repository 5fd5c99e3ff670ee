"""Playing: the loop from actions to steps and back, over all lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, final

from gymnasium.vector import VectorEnv

from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.env_runners.acting.acting import Actor
from episodia.env_runners.callbacks import Watcher
from episodia.env_runners.envs.async_lanes import close, is_lost_worker, pass_over_ends
from episodia.env_runners.envs.env_crashes import check_actions, env_error
from episodia.env_runners.envs.env_sources import VectorEnvSource
from episodia.env_runners.envs.sync_lanes import SyncLanes
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.horizons import Horizons, check_own_limit, check_resets_lanes
from episodia.env_runners.rollout.mask_reader import MaskReader, lanes_without_action
from episodia.env_runners.rollout.nan_and_bounds_checks import cannot_act_on, lanes_not_finite, no_action_allowed
from episodia.env_runners.rollout.sample_goals import EpisodeOrder, Goal, SampleMode
from episodia.env_runners.rollout.vector_step import Chosen, Stepper, stepper_for
from episodia.env_runners.seeding import Seeds, seed_for
from episodia.episodes import EpisodeList
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import EnvError


@final
class SingleAgentLoop:
    """Environments, the recorder of their steps, and what acts in them.

    Args:
        source: How the environments are made.
        env: Those that were made first.
        actor: What acts.
        recorder: Where steps go.
        seeds: Where seeds come from.
        faults: What becomes of episodes whose environment fails.
        watcher: Whom to tell what happens.
    """

    def __init__(
        self,
        source: VectorEnvSource,
        env: VectorEnv[Any, Any, Any],
        actor: Actor,
        recorder: EpisodeRecorder,
        *,
        seeds: Seeds,
        faults: Faults,
        watcher: Watcher,
    ) -> None:
        self.env = env
        self.actor = actor
        self.recorder = recorder
        self.seeds = seeds
        self.faults = faults
        self.order = EpisodeOrder()
        self._source = source
        self._watcher = watcher
        self._live = LiveEpisodes(recorder)
        self._masks = MaskReader(actor.mask_key, env.single_action_space, recorder.num_lanes)
        self._stepper = self._new_stepper()
        self._horizons = self._new_horizons()
        self.needs_reset = True
        self._needs_new_env = False
        self._is_mid_step = False  # between two calls: the last one was interrupted after its environments had stepped
        self._losses_in_a_row = 0
        self._last_chosen: Chosen  # and in which way: in what mode, through which pieces
        self._last_way: tuple[SampleMode, tuple[ConnectorV2, ...]] | None = None
        self._counts_episodes = False  # only then the order in which they began is needed

    def _new_stepper(self) -> Stepper:
        return stepper_for(
            self.env,
            self.recorder,
            self.faults,
            masks=self._masks,
            ignores_terminations=self._source.settings.ignore_terminations,
        )

    def _new_horizons(self) -> Horizons | None:
        """Return the limits of episodes that the environments do not set themselves."""
        settings = self._source.settings
        hard = None if self._source.limits_itself(self.env) else settings.horizon
        if hard is not None:
            check_resets_lanes(self.env, self._stepper)
            check_own_limit(self.env, hard)
        if hard is None and settings.soft_horizon is None:
            return None
        return Horizons(self.recorder.num_lanes, soft=settings.soft_horizon, hard=hard)

    # --- The loop ---------------------------------------------------------------------------------------------------

    def play(self, goal: Goal, mode: SampleMode, steps: int, on_complete: Callable[[], None]) -> None:
        """Play until `goal` is reached.

        Args:
            goal: The required number of steps or episodes.
            mode: How to act.
            steps: How many there are already, beside those in the recorder.
            on_complete: Called after the last step, before its observations go through the pipeline.
        """
        if goal.steps is not None:
            self._play_steps(goal.steps, mode, steps, on_complete)
        else:
            self._play_episodes(goal.episodes or 0, mode, on_complete)

    def _drop_bad_observations(self, error: Exception) -> None:
        """Drop running episodes whose last observation is NaN or infinite: the next call would fail at it again.

        Raises:
            EnvError: If there are any, instead of `error`.
        """
        if self.needs_reset:
            return
        bad = set(lanes_not_finite(self._live.latest(Columns.OBS), self.recorder.num_lanes)).intersection(
            self._running()
        )
        if bad:
            self.order.forget([self.recorder.episode_id(lane) for lane in bad])
            self.faults.drop(self.recorder, sorted(bad))
            self.needs_reset = True
            raise cannot_act_on(sorted(bad), error) from error

    def _drop_without_action(self, error: Exception) -> None:
        """Drop running episodes whose action mask allows nothing: the next call would fail at it again.

        Raises:
            EnvError: If there are any, instead of `error`.
        """
        masks = self._stepper.action_masks
        if masks is None and self.actor.mask_key in self._live.observation_keys:
            masks = self._live.latest(Columns.OBS)[self.actor.mask_key]
        found = lanes_without_action(self.env.single_action_space, masks, self.recorder.num_lanes)
        bad = [lane for lane in found if lane in self._running()]
        if bad:
            self._drop(bad)
            raise no_action_allowed(bad) from error

    def _drop(self, lanes: Sequence[int]) -> None:
        """Forget the running episodes of `lanes`; they begin again with the next step, alone if possible."""
        self.order.forget([self.recorder.episode_id(lane) for lane in lanes])
        self.faults.drop(self.recorder, lanes)
        if not self._stepper.restart(lanes):
            self.needs_reset = True

    def _reject_masks(self) -> None:
        """Drop the episodes of lanes whose mask cannot be read; the errors are raised with others of this step."""
        rejected, self._masks.rejected = self._masks.rejected, {}
        self.faults.rejections += rejected.values()
        self._drop([lane for lane in rejected if lane in self._running()])

    def _forget_steps_without_masks(self) -> None:
        """Drop what was recorded before the first mask, which all steps have from now on; happens once, usually at step 1."""
        dropped = {chunk.id_: len(chunk) for chunk in self.recorder.take()}
        self.order.forget(dropped)
        self.order.forget(self.running_episodes())
        self.faults.count_dropped(dropped)
        self.needs_reset = True

    def _play_steps(self, wanted: int, mode: SampleMode, waiting: int, on_complete: Callable[[], None]) -> None:
        steps = waiting + self.recorder.steps_waiting()
        if self.needs_reset and steps >= wanted:
            return  # for what is there already, environments need not work
        self._get_ready(mode)
        self._counts_episodes = False
        lost = self.faults.num_steps_lost
        while steps < wanted:
            count = self._step(mode)
            if count is None or self.faults.num_steps_lost != lost:
                lost, steps = self.faults.num_steps_lost, waiting + self.recorder.steps_waiting()
            else:
                steps += count
            if steps >= wanted:
                on_complete()
            if count is not None:
                self._observe(mode)

    def _play_episodes(self, wanted: int, mode: SampleMode, on_complete: Callable[[], None]) -> None:
        self._get_ready(mode)
        self._counts_episodes = True
        self.order.begin_with(self.whole_episodes())
        is_reached = self.order.is_ready(wanted)
        while not is_reached:
            if self._step(mode) is None:
                continue
            is_reached = bool(self._stepper.ended) and self.order.is_ready(wanted)
            if is_reached:
                on_complete()
            self._observe(mode)

    def _get_ready(self, mode: SampleMode) -> None:
        if self.needs_reset:
            self.reset(mode)
        elif not self.actor.has_observed:
            self._observe(mode)

    def play_on(self, mode: SampleMode, ticks: int) -> None:
        """Play some ticks more while the episodes that run now go on, unless all lanes have to be reset."""
        if self.needs_reset:
            return
        open_ = set(self.running_episodes())
        for _ in range(ticks):
            if open_.isdisjoint(self.running_episodes()) or self._step(mode) is None:
                return
            self._observe(mode)

    def _step(self, mode: SampleMode) -> int | None:
        """Take a step, and return how many lanes have really stepped; None if all lanes had to be reset instead."""
        stepper = self._stepper
        chosen = self._choose(mode)
        self._is_mid_step = True
        started = perf_counter()
        try:
            count = stepper.step(chosen)
        except BaseException as error:
            if is_lost_worker(error):
                self._lose_workers(error)
                self.reset(mode)
                return None
            self._distrust()
            if isinstance(error, Exception):
                self.faults.metrics.num_env_steps_dropped += self.recorder.num_lanes - len(stepper.ignored)
                check_actions(self.env, chosen.for_env, stepper.ignored, error)
                raise env_error(self.env, error) from error
            raise
        self._live.refresh()
        self.faults.metrics.env_step_time_s += perf_counter() - started
        if stepper.ended:
            self._losses_in_a_row = 0
        if self._counts_episodes or self._horizons or self._watcher.is_listening or not stepper.begins_by_itself:
            self._turn_over(mode)
        self._is_mid_step = False
        if self._masks.rejected:
            self._reject_masks()
        if self.faults.rejections:
            self._raise_rejections()
        if self._masks.are_new:
            self._forget_steps_without_masks()
            self.reset(mode)
            return None
        return count

    def _choose(self, mode: SampleMode) -> Chosen:
        """Return what to do in all lanes."""
        actor, stepper = self.actor, self._stepper
        way = mode, actor.module_to_env.inner_pieces
        ignored = stepper.ignored
        if ignored and len(ignored) == self.recorder.num_lanes and way == self._last_way:
            # All lanes are reset with the next step, which ignores the actions.
            return self._last_chosen
        is_random, explore = mode
        try:
            chosen = actor.act_randomly(self._live, stepper) if is_random else actor.act(self._live, stepper, explore)
        except Exception as error:
            self._drop_bad_observations(error)
            self._drop_without_action(error)
            raise
        self._last_way, self._last_chosen = way, chosen
        return chosen

    def _observe(self, mode: SampleMode) -> None:
        """Let the pipeline in front of the module see what was recorded last."""
        try:
            self.actor.observe(self._live, self._stepper.began, mode.explore)
        except Exception as error:
            self._drop_bad_observations(error)
            raise

    def _raise_rejections(self) -> None:
        """Raise the errors about environments that returned something else than a step; all lanes can continue."""
        rejections, self.faults.rejections = self.faults.rejections, []
        self.actor.forget()
        raise EnvError("\n".join(rejections))

    def _turn_over(self, mode: SampleMode) -> None:
        try:
            self._end_and_begin(mode)
        except Exception:
            # What a callback raises does not keep lanes from going on, if all that have ended begin with the next step.
            self._is_mid_step = self._horizons is not None or not self._stepper.begins_by_itself
            raise

    def _end_and_begin(self, mode: SampleMode) -> None:
        """Let episodes end and begin, and tell everybody."""
        stepper, recorder = self._stepper, self.recorder
        if self._counts_episodes:
            self._note_faults()
        if stepper.began:
            self._note_began(stepper.began)
        began = stepper.began
        cut = [] if self._horizons is None else self._horizons.cut(stepper)
        leaving = cut if stepper.begins_by_itself else stepper.ended
        if self._counts_episodes:
            for lane in stepper.ended:
                self.order.end(recorder.episode_id(lane))
        if leaving:
            # Their last observation goes through the pipeline now, or never.
            self.actor.observe_ends(EpisodeList(recorder.episode(lane) for lane in leaving), mode.explore)
        if self._watcher.is_listening:
            actor = self.actor
            if actor.shapers and stepper.begins_by_itself:
                actor.settle_ends([recorder.episode(lane) for lane in stepper.ended if lane not in leaving])
            stepped = [lane for lane in range(recorder.num_lanes) if lane not in began]
            self._tell_steps(stepped, stepper.ended)
        if leaving:
            stepper.begin_next()
            if self._horizons is not None:
                self._horizons.begin_next(stepper)
            self._live.refresh()
            self._note_began(leaving)

    def _note_faults(self) -> None:
        """Do not wait for episodes that a fault has ended."""
        self.order.forget(self.faults.dropped)
        for id_ in self.faults.truncated:
            self.order.end(id_)
        self.faults.dropped = self.faults.truncated = ()

    def _note_began(self, lanes: Sequence[int]) -> None:
        if self._counts_episodes:
            for lane in lanes:
                self.order.begin(self.recorder.episode_id(lane))
        if self._watcher.is_listening:
            for lane in lanes:
                self._watcher.started(self.recorder.episode(lane), self.env, lane)

    def _tell_steps(self, stepped: Sequence[int], ended: Sequence[int]) -> None:
        watcher = self._watcher
        if watcher.sees_steps:
            for lane in stepped:
                watcher.stepped(self.recorder.episode(lane), self.env, lane)
        if watcher.sees_ends:
            for lane in ended:
                watcher.ended(self.recorder.episode(lane), self.env, lane)

    # --- Resets -----------------------------------------------------------------------------------------------------

    def reset(self, mode: SampleMode) -> None:
        """Begin an episode in each lane. What running ones have is kept, as of an episode that was left; they never end."""
        left = [self.recorder.episode_id(lane) for lane in self._running()]
        self.needs_reset = True
        while not self._is_reset():
            pass
        self.order.forget(left)
        if self._masks.are_new and self.recorder.steps_waiting():
            self._forget_steps_without_masks()
        if self._horizons is not None:
            self._horizons.start()
        self._live.refresh()
        self.needs_reset = self._is_mid_step = False
        self._note_began(self._stepper.began)
        self.actor.forget()
        self._observe(mode)

    def _is_reset(self) -> bool:
        """Try to reset all lanes, in new environments if need be, and return whether it worked."""
        try:
            if self._needs_new_env:
                self._renew()
            pass_over_ends(self.env, self._stepper.ignored)
            self._stepper.reset(seed_for(self.env, self.seeds.next_lanes(self.recorder.num_lanes)))
        except BaseException as error:
            if is_lost_worker(error):
                self._lose_workers(error)
                return False
            self._distrust()
            if isinstance(error, Exception):
                raise env_error(self.env, error) from error
            raise
        return True

    def recover(self) -> None:
        """Reset before the next step if the last call was interrupted in the middle of one, or of writing it down."""
        if self._is_mid_step:
            self._distrust()
        if self.recorder.is_broken:
            self.needs_reset = True
            self.faults.count_dropped(self.recorder.repair())

    def _distrust(self) -> None:
        """Reset before the next step: some lanes may have stepped, it is unknown which, and answers may still be under way."""
        self.needs_reset = True
        self._needs_new_env = not isinstance(self.env, SyncLanes)

    def _renew(self) -> None:
        if self._source.can_remake:
            self.close(by_force=True)
            self.env = self._source.build()
            self._stepper = self._new_stepper()
            self._watcher.created(self.env)
        self._needs_new_env = False

    def _lose_workers(self, error: BaseException) -> None:
        """Take note that a worker does not answer; all running episodes are dropped with it."""
        self.needs_reset = self._needs_new_env = True
        running = self._running()
        self.order.forget([self.recorder.episode_id(lane) for lane in running])
        self.faults.drop(self.recorder, running)
        self._losses_in_a_row += 1
        if not self._source.can_remake or self._source.settings.gives_up(self._losses_in_a_row):
            raise EnvError(
                f"environments: found that a worker is silent or gone ({type(error).__name__}: {error}), for the "
                f"{self._losses_in_a_row}. time without an episode that ended; expected answers. Look for what blocks or kills "
                "it, or allow more time with `step_timeout_s=`."
            ) from error
        self.faults.metrics.num_env_restarts += self.recorder.num_lanes

    def close(self, *, by_force: bool = False) -> None:
        """Close the environments; a second time nothing happens."""
        close(self.env, by_force=by_force)

    # --- What is running --------------------------------------------------------------------------------------------

    def _running(self) -> list[int]:
        idle = self.recorder.idle_lanes
        return [lane for lane in range(self.recorder.num_lanes) if lane not in idle]

    def whole_episodes(self) -> list[str]:
        """Return the ids of the running episodes of which nothing was returned yet."""
        return [self.recorder.episode_id(lane) for lane in self._running() if self.recorder.is_whole(lane)]

    def running_episodes(self) -> list[str]:
        """Return the ids of all running episodes."""
        return [self.recorder.episode_id(lane) for lane in self._running()]

    def has_whole_episodes_only(self) -> bool:
        """Tell whether nothing was returned yet of all running episodes."""
        return len(self.whole_episodes()) == len(self._running())
