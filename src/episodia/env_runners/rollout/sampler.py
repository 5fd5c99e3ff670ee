"""One call of `sample` after another: playing what is wanted, and handing it out when no reward in it is open."""

from __future__ import annotations

from time import perf_counter
from typing import final

from episodia.env_runners.acting.runner_pipelines import delay_of, shapers_of
from episodia.env_runners.rollout.handing_out import HandOut
from episodia.env_runners.rollout.rollout import Manner, Rollout
from episodia.env_runners.rollout.sampling import Wanted
from episodia.env_runners.runner_metrics import EpisodeTotals
from episodia.episodes import EpisodeList


@final
class Sampler:
    """Lets a rollout play, and hands out what it has recorded. What a call leaves behind belongs to the next one.

    Args:
        rollout: What plays.
        hand_out: Where recorded episodes wait.
        totals: Which episodes go on, for the metrics.
        reward_delay: For how many steps after its own a reward may be set, at least.
    """

    def __init__(self, rollout: Rollout, hand_out: HandOut, totals: EpisodeTotals, reward_delay: int) -> None:
        self._rollout = rollout
        self._hand_out = hand_out
        self._totals = totals
        self._reward_delay = reward_delay
        self._last_manner: Manner | None = None

    def sample(self, goal: Wanted, manner: Manner, *, force_reset: bool) -> EpisodeList:
        """Play until `goal` is reached, and return what was wanted.

        Args:
            goal: How many steps or episodes.
            manner: How to act.
            force_reset: Whether to begin new episodes everywhere.
        """
        rollout, started = self._rollout, perf_counter()
        self._prepare(goal, manner, force_reset)
        try:
            rollout.play(goal, manner, self._hand_out.steps_waiting, self._commit)
            self._wait_for_rewards(goal, manner)
        finally:
            rollout.faults.metrics.sample_time_s += perf_counter() - started
        return self._handed_out(goal)

    def _prepare(self, goal: Wanted, manner: Manner, force_reset: bool) -> None:
        """See to it that what is played next fits to what is there."""
        rollout, actor = self._rollout, self._rollout.actor
        actor.shapers = shapers_of(actor.env_to_module)
        needed = max(actor.env_to_module.lookback, actor.module_to_env.lookback)
        if needed > rollout.recorder.lookback:
            # A pipeline was changed. Running episodes do not have the steps any more that it looks back to.
            rollout.recorder.lookback = needed
            force_reset = True
        if force_reset:
            rollout.needs_reset = True
        if force_reset or self._last_manner not in (None, manner):
            # Other columns may be recorded from now on, which only new chunks can have.
            self._hand_out.collect(rollout.recorder)
            rollout.order.keep_only(())
            if goal.episodes is not None:
                # Episodes that were played in another way are none of those that were asked for.
                self._hand_out.drop()
        self._last_manner = manner
        if goal.episodes is not None and not rollout.has_whole_episodes_only():
            rollout.needs_reset = True

    @property
    def _has_late_rewards(self) -> bool:
        """Whether rewards may be others than those that the environments have returned."""
        return bool(self._reward_delay or self._rollout.actor.shapers)

    def _wait_for_rewards(self, goal: Wanted, manner: Manner) -> None:
        """See to it that no reward is open in what is handed out."""
        rollout, waiting = self._rollout, self._hand_out
        if not self._has_late_rewards:
            return
        delay = delay_of(rollout.actor.env_to_module, self._reward_delay)
        if goal.episodes is None:
            # What is handed out ends here. What is played on is the beginning of the next sample.
            waiting.collect(rollout.recorder)
            if delay and waiting.has_running:
                rollout.play_on(manner, delay)
        else:
            waiting.collect_finished(rollout.recorder)
        waiting.settle(rollout.recorder, rollout.actor.shapers)

    def _commit(self) -> None:
        self._rollout.actor.env_to_module.commit()
        self._rollout.actor.module_to_env.commit()

    def _handed_out(self, goal: Wanted) -> EpisodeList:
        rollout, waiting = self._rollout, self._hand_out
        try:
            if goal.episodes is None:
                if not self._has_late_rewards:
                    waiting.collect(rollout.recorder)
                return waiting.everything()
            waiting.collect_finished(rollout.recorder)
            return waiting.these(rollout.order.first(goal.episodes))
        finally:
            if goal.episodes is not None or len(rollout.order):
                rollout.order.keep_only([*waiting.whole_episodes(), *rollout.whole_episodes()])
            if len(self._totals) > 2 * rollout.recorder.num_lanes:
                # Episodes that were left and never end.
                self._totals.keep_only([*waiting.ids(), *rollout.running_episodes()])
