"""One call of `sample` after another: playing what is wanted, and handing it out when no reward in it is open."""

from __future__ import annotations

from typing import final

from episodia.env_runners.acting.runner_pipelines import delay_of, shapers_of
from episodia.env_runners.rollout.episode_totals import EpisodeTotals
from episodia.env_runners.rollout.sample_goals import Goal, SampleMode
from episodia.env_runners.rollout.single_agent_loop import SingleAgentLoop
from episodia.env_runners.rollout.waiting_chunks import WaitingChunks
from episodia.episodes import EpisodeList


@final
class Sampler:
    """Lets a loop play, and returns what it has recorded. What a call leaves behind belongs to the next one.

    Args:
        loop: What plays.
        waiting: Where recorded episodes wait.
        totals: Which episodes go on, for the metrics.
        reward_delay: For how many steps after its own a reward may be set, at least.
    """

    def __init__(self, loop: SingleAgentLoop, waiting: WaitingChunks, totals: EpisodeTotals, reward_delay: int) -> None:
        self._loop = loop
        self._waiting = waiting
        self._totals = totals
        self._reward_delay = reward_delay
        self._last_mode: SampleMode | None = None
        self._is_settled = True  # whether the last call has come to its end

    def sample(self, goal: Goal, mode: SampleMode, *, lookback: int, force_reset: bool) -> EpisodeList:
        """Play until `goal` is reached, and return what was wanted.

        Args:
            goal: The number of steps or episodes.
            mode: How to act.
            lookback: The number of earlier steps that a chunk carries at least.
            force_reset: Whether to begin new episodes everywhere.
        """
        if not self._is_settled:
            self._recover()
        self._is_settled = False
        self._prepare(goal, mode, lookback, force_reset)
        self._loop.play(goal, mode, self._waiting.steps_waiting, self._commit)
        self._wait_for_rewards(goal, mode)
        return self._handed_out(goal)

    def release(self) -> None:
        """Forget what `sample` has returned last; before that, an interrupt lets the next call return it again."""
        self._is_settled = True
        self._waiting.release()

    def _recover(self) -> None:
        """Settle what an exception or an interrupt has left: chunks wait once, and episodes are known to have ended."""
        loop, waiting = self._loop, self._waiting
        loop.recover()
        waiting.recover(loop.recorder)
        for id_ in waiting.whole_episodes():
            loop.order.begin_with([id_])
            loop.order.end(id_)

    def _prepare(self, goal: Goal, mode: SampleMode, lookback: int, force_reset: bool) -> None:
        """Reset lanes if the pipelines or the sampling mode changed."""
        loop, actor = self._loop, self._loop.actor
        if goal.episodes is not None or len(loop.order):
            loop.order.keep_only([*self._waiting.whole_episodes(), *loop.whole_episodes()])
        if len(self._totals) > 2 * loop.recorder.num_lanes:
            # Episodes that were left and never end.
            self._totals.keep_only([*self._waiting.ids(), *loop.running_episodes()])
        actor.shapers = shapers_of(actor.env_to_module)
        if lookback > loop.recorder.lookback:
            # Running episodes have dropped the steps that a changed pipeline, or a learner, looks back to.
            loop.recorder.lookback = lookback
            force_reset = True
        if force_reset:
            loop.needs_reset = True
        if force_reset or self._last_mode not in (None, mode):
            # Other columns may be recorded from now on, which only new chunks can have.
            self._waiting.collect(loop.recorder)
            loop.order.keep_only(())
            if goal.episodes is not None:
                # The caller asks for episodes that are played in the new mode.
                self._waiting.drop()
        self._last_mode = mode
        if goal.episodes is not None and not loop.has_whole_episodes_only():
            loop.needs_reset = True

    @property
    def _has_delayed_rewards(self) -> bool:
        """Whether rewards may be others than those that the environments have returned."""
        return bool(self._reward_delay or self._loop.actor.shapers)

    def _wait_for_rewards(self, goal: Goal, mode: SampleMode) -> None:
        """Play on until no reward is open in what is returned."""
        loop, waiting = self._loop, self._waiting
        if not self._has_delayed_rewards:
            return
        delay = delay_of(loop.actor.env_to_module, self._reward_delay)
        if goal.episodes is None:
            # What is returned ends here. What is played on is the beginning of the next sample.
            waiting.collect(loop.recorder)
            if delay and waiting.has_running:
                loop.play_on(mode, delay)
        else:
            waiting.collect_finished(loop.recorder)
        waiting.settle(loop.recorder, loop.actor.shapers)

    def _commit(self) -> None:
        self._loop.actor.env_to_module.commit()
        self._loop.actor.module_to_env.commit()

    def _handed_out(self, goal: Goal) -> EpisodeList:
        loop, waiting = self._loop, self._waiting
        if goal.episodes is None:
            if not self._has_delayed_rewards:
                waiting.collect(loop.recorder)
            return waiting.everything()
        waiting.collect_finished(loop.recorder)
        return waiting.these(loop.order.first(goal.episodes))
