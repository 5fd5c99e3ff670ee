"""`Training`, the loop of a runner and a learner: collect episodes, update, copy the weights to the runner."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any, Self, TypeAlias, cast, final

import torch

from episodia.connectors import ConnectorPipelineV2
from episodia.dataflow import Delivery, Flow, LearnerGroup, RunnerGroup, counters_of, send_weights
from episodia.dataflow.runner_host import continue_schedules
from episodia.dataflow.statistics import collecting
from episodia.dataflow.updates.reporting import flat_metrics
from episodia.env_runners import EnvRunner, RunnerMetrics
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import TrainingError
from episodia.interrupts import deferred_interrupts, uninterrupted
from episodia.learners import ALL_MODULES, Learner, Metrics
from episodia.policies import MultiAgentPolicy, Policy
from episodia.training.events.training_callback import Callback, RunCallbacks
from episodia.training.recipes.recipe import BaseRecipe
from episodia.training.recipes.training_plans import flow_of
from episodia.training.recipes.updating import Updating
from episodia.training.training_checks import (
    COUNTERS,
    check_limits,
    check_parts,
    check_setup,
    check_state,
    check_threads,
)
from episodia.training.training_setup import Setup
from episodia.trees import describe

# The metrics of one update, by name. Losses and their coefficients are missing until there is data to learn from.
Record: TypeAlias = dict[str, float]

# The mean return is that of this many finished episodes.
WINDOW = 20

# The metrics of all modules together that records have; the other ones count what records count.
_OF_ALL_MODULES = ("learning_rate", "num_stored_steps", "num_gradient_updates")


class StoppedBy(Enum):
    """The reason why a training stopped."""

    STEPS = "steps"
    TARGET = "target"
    INTERRUPT = "interrupt"
    CALLBACK = "callback"


@final
class Training:
    """A runner and a learner in a loop, and the history of their metrics: an iterator of records, one for each update.

    Args:
        runner: Collects episodes: a `SingleAgentEnvRunner`, a `MultiAgentEnvRunner` or a `RunnerGroup`.
        learner: Learns from the collected episodes: a `Learner` or a `LearnerGroup`.
        recipe: How much to collect per update, and how to learn from it: a `Recipe`, or a `ReplayRecipe`.
        setup: The setup that runner and learner were built from, if there is one.
        torch_threads: The number of threads that torch uses in `run` and `evaluate`. One is the fastest for small networks,
            above all if other programs use the cores too. None changes nothing.
        flow: A flow of metrics over runner and learner, which takes the place of the loop, such as those of
            `episodia.dataflow.plans`. By default, it is the plan of the recipe.
        others: What the flow changes beside runner and learner, by name: objects with `get_state` and `set_state`, such as a
            second learner or a buffer, which are then saved and resumed with the training.

    Attributes:
        directory: The directory of the run; None without files.
        flow: The flow of metrics; printed, it shows its stages with counts and times.

    Raises:
        TrainingError: If an argument has the wrong type.

    >>> with Training.of(Setup.of("ppo", "CartPole-v1", num_envs=2, num_timesteps=64)) as training:
    ...     training.run(steps=128)
    ...     training.iteration, list(training.history[-1])[:3]
    <StoppedBy.STEPS: 'steps'>
    (2, ['iteration', 'steps', 'episodes'])
    """

    def __init__(
        self,
        runner: EnvRunner[Any] | RunnerGroup,
        learner: Learner | LearnerGroup,
        recipe: BaseRecipe,
        *,
        setup: Setup | None = None,
        torch_threads: int | None = 1,
        flow: Flow | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        check_parts(runner, learner, recipe, setup, flow)
        check_threads(torch_threads)
        self.runner: Any = runner  # which has one module, or several
        self.learner: Any = learner  # or a group, which has the same methods
        self.recipe = recipe
        self.setup = setup
        self.updating: Updating = recipe.updating(cast("Any", learner), self.runner.seed)
        self.torch_threads = torch_threads
        self.history: list[Record] = []
        self.iteration = self.steps = self.episodes = 0
        self.time_s = 0.0
        self.stopped_by: StoppedBy | None = None
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self.directory: Path | None = None
        self._told = RunCallbacks(self)
        self._others = dict(others or {})
        self._reset_next = False
        self._is_whole = True
        self._has_ended = False  # whether the flow has no more updates
        self._is_counting = False  # whether an error left steps of the runner uncounted
        self._played: list[RunnerMetrics] = []  # what was counted since the last record
        if isinstance(runner, RunnerGroup):
            runner.on_delivery = self._note_delivery
        self.flow = flow_of(recipe.plan, self) if flow is None else flow

    @classmethod
    def of(cls, setup: Setup, *, torch_threads: int | None = 1) -> Self:
        """Return a training with the runner and the learner of `setup`."""
        check_setup(setup)
        check_threads(torch_threads)
        runner, learner = setup.build()
        return cls(runner, learner, setup.recipe, setup=setup, torch_threads=torch_threads)

    def __repr__(self) -> str:
        return f"Training({self.runner!r}, steps={self.steps}, return_mean={self.return_mean:.5g})"

    @property
    def return_mean(self) -> float:
        """The mean return of the last finished episodes, at most `WINDOW`; NaN before the first one."""
        return math.fsum(self._recent) / len(self._recent) if self._recent else math.nan

    # --- The loop ---------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        steps: int,
        target: float | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> StoppedBy:
        """Train until there is a reason to stop, and return that reason.

        The first Ctrl-C stops after the current update; the second one raises a KeyboardInterrupt at once.

        Args:
            steps: Stop after this many steps, those of earlier calls included: of environments, or of agents if the runner was
                made with `count_steps_by="agent_steps"`.
            target: Stop earlier if the mean return of the last `WINDOW` finished episodes reaches this value.
            callbacks: Functions that are called with the record of each update, and stop the run by returning True; or
                `TrainingCallback`s.

        Raises:
            TrainingError: If `steps` or `target` is not a number, or if a callback is not callable.
            Exception: What a callback has raised, when the update is complete and all other callbacks were called.
        """
        check_limits("run", steps, target)
        with deferred_interrupts() as interrupted, _torch_threads(self.torch_threads), self._telling(callbacks) as told:
            told.tell("on_begin")
            told.raise_errors()
            while (reason := self._reason_to_stop(steps, target, interrupted)) is None:
                wants_stop = told.tell("on_record", self.step())
                told.raise_errors()
                if wants_stop:
                    reason = self._reason_to_stop(steps, target, interrupted) or StoppedBy.CALLBACK
                    break
            self.stopped_by = reason
            told.tell("on_end")
            told.raise_errors()
        return reason

    @contextmanager
    def _telling(self, callbacks: Sequence[Callback]) -> Iterator[RunCallbacks]:
        before, self._told = self._told, RunCallbacks(self, callbacks)
        try:
            yield self._told
        finally:
            self._told = before

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        with _torch_threads(self.torch_threads):
            try:
                return self.step()
            except TrainingError:
                if self._has_ended:
                    raise StopIteration from None
                raise

    def _reason_to_stop(self, steps: int, target: float | None, interrupted: Event) -> StoppedBy | None:
        if target is not None and len(self._recent) == WINDOW and self.return_mean >= target:
            return StoppedBy.TARGET
        if interrupted.is_set():
            return StoppedBy.INTERRUPT
        return StoppedBy.STEPS if self.steps >= steps else None

    def step(self) -> Record:
        """Go on until the next update is complete, with the weights at the runner, and return the record of this.

        Ctrl-C raises its KeyboardInterrupt when the update is complete.
        """
        with uninterrupted():
            return self._step()

    def _step(self) -> Record:
        started = perf_counter()
        if not self._is_counting:
            # Steps that other code took with the runner are not part of the training.
            self.runner.get_metrics()
        self._is_counting = True
        # Views may have been added since the last sample.
        self.runner.require_lookback(self.learner.pipeline.lookback)
        self._is_whole = False
        self._continue_schedules()
        metrics: Metrics | None = next(self.flow, None)
        if metrics is None:
            self._is_whole = self._has_ended = True
            raise TrainingError(
                f"training: found that the flow {self.flow.name!r} has ended after {self.iteration} updates, expected one that "
                "goes on. Stop the training before, or make a flow without an end."
            )
        if not isinstance(cast("object", metrics), Mapping) or ALL_MODULES not in metrics:
            raise TrainingError(
                f"training: found {describe(metrics)} as an item of the flow {self.flow.name!r}, expected the metrics of an "
                "update, such as those of `train_one_step`. Correct the flow."
            )
        self._count(self.runner.get_metrics())
        self.iteration += 1
        self._is_counting = self._reset_next = False
        record = self._noted(metrics, perf_counter() - started)
        self._is_whole = True
        return record

    def _continue_schedules(self) -> None:
        if isinstance(self.runner, RunnerGroup):
            self.runner.continue_at(self.steps)
        else:
            continue_schedules(self.runner.module_to_env, self.steps)

    def _note_delivery(self, delivery: Delivery) -> None:
        """Count what a runner of the group has delivered, unless other code has asked for it."""
        if self._is_counting:
            self._count(self.runner.get_metrics())
            self._continue_schedules()
            self._told.tell("on_collected", delivery.episodes)

    def collect(self) -> tuple[EpisodeList[Any], int]:
        """Collect what the recipe wants, and return the episodes and the number of their steps: the first stage of the loop."""
        self._is_whole = True  # until there is something to learn from
        # Before the sample, which uses the statistics as they are now.
        share_statistics(self.runner.env_to_module, self.learner.pipeline)
        before = self.steps
        episodes = self.runner.sample(
            **self.recipe.wanted, random_actions=self.updating.acts_at_random, force_reset=self._reset_next
        )
        self._is_whole = False
        self._count(self.runner.get_metrics())
        self._is_counting = False
        if not isinstance(self.runner, RunnerGroup):
            self._told.tell("on_collected", episodes)
        return episodes, self.steps - before

    def learn(self, collected: tuple[EpisodeList[Any], int]) -> Metrics:
        """Learn from what was collected, as the recipe says: the second stage of the loop."""
        episodes, num_new = collected
        return self.updating.learn(episodes, steps=self.steps, num_new=num_new)

    def send_weights(self, _: Metrics) -> None:
        """Copy the weights to the runner: the third stage of the loop."""
        send_weights(self.learner, self.runner, self.iteration + 1)

    @property
    def is_whole(self) -> bool:
        """Whether the last update is complete; False after an error in an update."""
        return self._is_whole

    def _count(self, played: RunnerMetrics) -> None:
        """Count what was played."""
        self.steps += self._steps_of(played)
        self.episodes += played.num_episodes
        self._recent.extend(played.episode_returns)
        self._played.append(played)

    def _steps_of(self, played: RunnerMetrics) -> int:
        return played.num_agent_steps if self.runner.count_steps_by == "agent_steps" else played.num_env_steps

    def _noted(self, metrics: Metrics, took_s: float) -> Record:
        self.time_s += took_s
        played, self._played = RunnerMetrics.merged(self._played), []
        lengths = played.episode_lengths
        record: Record = {
            "iteration": self.iteration,
            "steps": self.steps,
            "episodes": self.episodes,
            "return_mean": self.return_mean,
            **({"episode_length_mean": sum(lengths) / len(lengths)} if lengths else {}),
            "steps_per_s": self._steps_of(played) / took_s,
            "time_s": self.time_s,
            "num_env_restarts": played.num_env_restarts,
            **_flat(metrics, many=len(self.learner.trained_modules) > 1),
            **(counters_of(self.runner) if isinstance(self.runner, RunnerGroup) else {}),
        }
        self.history.append(record)
        return record

    def evaluate(self, num_episodes: int = 100) -> list[float]:
        """Return the returns of `num_episodes` whole episodes, played without exploration; training is not affected."""
        with _torch_threads(self.torch_threads):
            episodes = self.runner.evaluate(num_episodes)
        returns = [_total_return(episode) for episode in episodes]
        self._told.tell("on_evaluated", returns)
        return returns

    def policy(self, *, explore: bool = False) -> Policy | MultiAgentPolicy:
        """Return the current policy: the module of the runner with its pipelines.

        Args:
            explore: Whether to draw actions; otherwise the most probable action is taken.

        Returns:
            A `Policy`, or a `MultiAgentPolicy` for a `MultiAgentEnvRunner`.
        """
        runner = self.runner
        # A checkpoint holds the policy, and must be reproducible.
        seed = None if self.setup is None else self.setup.seed
        if not runner.is_multi_agent:
            return Policy(runner.module, runner.env_to_module, runner.module_to_env, explore=explore, seed=seed)
        return MultiAgentPolicy(
            runner.modules,
            runner.env_to_module,
            runner.module_to_env,
            agent_to_module_mapping_fn=runner.agent_to_module_mapping_fn,
            explore=explore,
        )

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state from which a training of the same setup continues exactly: arrays, tensors, JSON values.

        The state has no environments. Therefore this training and the restored one begin new episodes in the next `step`.
        """
        self._reset_next = True
        progress = {name: getattr(self, name) for name in (*COUNTERS, "time_s")}
        flow = self.flow.get_state()  # first: a learner in a worker may have to come back
        return {
            "flow": flow,
            "others": {name: other.get_state() for name, other in self._others.items()},
            "runner": self.runner.get_state(),
            "learner": self.learner.get_state(),
            "updating": self.updating.get_state(),
            "progress": {**progress, "recent_returns": list(self._recent)},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`; after an error, nothing is changed.

        Raises:
            TrainingError: If it is not the state of a training.
            LearnerError: If it is the state of another learner.
            EnvRunnerError: If it is the state of another runner.
            ReplayError: If it is the state of another buffer.
        """
        check_state(state)
        # Files of the first version have no `updating`.
        parts = [
            (self.learner, state["learner"]),
            (self.updating, state.get("updating", {})),
            (self.runner, state["runner"]),
            *((other, state.get("others", {})[name]) for name, other in self._others.items()),
            *([(self.flow, state["flow"])] if "flow" in state else []),
        ]
        # The flow first: a learner in a worker may have to come back.
        before = [(part, part.get_state()) for part, _ in reversed(parts)]
        try:
            for part, own in parts:
                part.set_state(own)
        except BaseException:
            for part, own in reversed(before):
                part.set_state(own)
            raise
        progress = state["progress"]
        for name in (*COUNTERS, "time_s"):
            setattr(self, name, progress[name])
        self._recent = deque(progress["recent_returns"], maxlen=WINDOW)
        self._reset_next = True

    # --- Closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the environments; a second call does nothing."""
        self.runner.close()
        if isinstance(self.learner, LearnerGroup):
            self.learner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _total_return(episode: SingleAgentEpisode | MultiAgentEpisode) -> float:
    """Return the sum of the returns of all agents."""
    if isinstance(episode, SingleAgentEpisode):
        return float(episode.get_return())
    return math.fsum(float(single.get_return()) for single in episode.agent_episodes.values() if len(single))


def _flat(metrics: Metrics, *, many: bool) -> Record:
    """Return rates, counts, and the metrics of all modules; names begin with the module id if `many` modules learn."""
    rates = {name: value for name, value in metrics[ALL_MODULES].items() if name.startswith(_OF_ALL_MODULES)}
    return rates | flat_metrics(metrics, many=many)


def share_statistics(source: ConnectorPipelineV2, target: ConnectorPipelineV2) -> None:
    """Copy the statistics of pieces such as `MeanStdFilter` from `source` to the pieces of the same name in `target`.

    The learner then normalises observations as the acting module did.

    Args:
        source: The env-to-module pipeline of the runner, which collects statistics.
        target: The pipeline of the learner, which collects no statistics.

    >>> from episodia.connectors import MeanStdFilter, defaults
    >>> acting, learning = defaults.env_to_module(custom=[MeanStdFilter()]), defaults.learner(custom=[MeanStdFilter()])
    >>> acting["MeanStdFilter"].commit()
    >>> share_statistics(acting, learning)
    >>> learning["MeanStdFilter"].version
    1
    """
    sources = collecting(source)
    for name, piece in collecting(target).items():
        if name in sources and type(sources[name]) is type(piece):
            piece.set_state(sources[name].get_state())


@contextmanager
def _torch_threads(num_threads: int | None) -> Iterator[None]:
    """Let torch compute with `num_threads` threads inside of the `with` block; None changes nothing."""
    before = torch.get_num_threads()
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
