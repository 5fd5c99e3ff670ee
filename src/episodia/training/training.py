"""The loop: collect, update, hand over the weights."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from threading import Event
from time import perf_counter
from typing import Any, Self, TypeAlias, final

import torch

from episodia.arguments import checked_each
from episodia.connectors import ConnectorPipelineV2, ConnectorV2
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.env_runners import RunnerMetrics
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import TrainingError
from episodia.learners import ALL_MODULES, Learner, Metrics
from episodia.policies import MultiAgentPolicy, Policy
from episodia.training.interrupts import deferred_interrupts
from episodia.training.recipes import Recipe
from episodia.training.training_checks import (
    COUNTERS,
    check_limits,
    check_parts,
    check_setup,
    check_state,
    check_threads,
)
from episodia.training.training_setup import Setup

# What is known after an update, by name. Losses are there once there was something to learn from.
Record: TypeAlias = dict[str, float]

# How many finished episodes the mean return is of.
WINDOW = 20


class StoppedBy(Enum):
    """Why a training stopped."""

    STEPS = "steps"
    TARGET = "target"
    INTERRUPT = "interrupt"


@final
class Training:
    """A runner and a learner in a loop, with a memory of how well it goes.

    Args:
        runner: Collects: a `SingleAgentEnvRunner`, or a `MultiAgentEnvRunner`.
        learner: Learns from what was collected.
        recipe: How much is collected at a time, and how it is learned from.
        setup: What runner and learner were built from, if it is known.
        torch_threads: With how many threads torch computes in `run` and `evaluate`. One is the fastest for small networks, by
            far where other programs want the cores too. None leaves it as it is.

    Raises:
        TrainingError: If one of them is something else.

    >>> with Training.of(Setup.of("ppo", "CartPole-v1", num_envs=2, num_timesteps=64)) as training:
    ...     training.run(steps=128)
    ...     training.iteration, list(training.history[-1])[:3]
    <StoppedBy.STEPS: 'steps'>
    (2, ['iteration', 'steps', 'episodes'])
    """

    def __init__(
        self,
        runner: Any,
        learner: Learner,
        recipe: Recipe,
        *,
        setup: Setup | None = None,
        torch_threads: int | None = 1,
    ) -> None:
        check_parts(runner, learner, recipe, setup)
        check_threads(torch_threads)
        self.runner = runner
        self.learner = learner
        self.recipe = recipe
        self.setup = setup
        self.torch_threads = torch_threads
        self.history: list[Record] = []
        self.iteration = self.steps = self.episodes = 0
        self.time_s = 0.0
        self.stopped_by: StoppedBy | None = None
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._begin_anew = False
        self._is_whole = True
        self._is_counting = False  # whether the runner has played steps that are not noted: an error came in between

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
        """The mean return of the latest finished episodes, at most `WINDOW`; NaN as long as there is none."""
        return math.fsum(self._recent) / len(self._recent) if self._recent else math.nan

    # --- The loop ---------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        steps: int,
        target: float | None = None,
        watchers: Sequence[Callable[[Record], object]] = (),
    ) -> StoppedBy:
        """Train until there is a reason to stop, and return it.

        A first Ctrl-C stops after the update that is going on; a second one is a KeyboardInterrupt at once.

        Args:
            steps: Of environments, at least so many in all, those of earlier calls included.
            target: Stop earlier if the mean return of the last `WINDOW` finished episodes has reached this.
            watchers: Are called after each update with what is known then.

        Raises:
            TrainingError: If `steps` or `target` is no such number, or if a watcher is no function.
        """
        check_limits("run", steps, target)
        checked_each(TrainingError, "run", "watchers", watchers, callable, "functions")
        with deferred_interrupts() as interrupted, _torch_threads(self.torch_threads):
            while (reason := self._reason_to_stop(steps, target, interrupted)) is None:
                record = self.step()
                for watcher in watchers:
                    watcher(record)
        self.stopped_by = reason
        return reason

    def _reason_to_stop(self, steps: int, target: float | None, interrupted: Event) -> StoppedBy | None:
        if target is not None and len(self._recent) == WINDOW and self.return_mean >= target:
            return StoppedBy.TARGET
        if interrupted.is_set():
            return StoppedBy.INTERRUPT
        return StoppedBy.STEPS if self.steps >= steps else None

    def step(self) -> Record:
        """Collect, update, hand over the weights; return what is known then."""
        started = perf_counter()
        if not self._is_counting:
            # What somebody has played with the runner on the side is not part of the training.
            self.runner.get_metrics()
        self._is_counting = True
        # Now, not after the sample, which is made with what was known before it.
        share_statistics(self.runner.env_to_module, self.learner.pipeline)
        episodes = self.runner.sample(**self.recipe.wanted, force_reset=self._begin_anew)
        self._is_whole = False
        metrics = self.learner.update(
            episodes, num_epochs=self.recipe.num_epochs, minibatch_size=self.recipe.minibatch_size
        )
        self.iteration += 1
        self._hand_over_weights()
        self._begin_anew = False
        record = self._noted(metrics, perf_counter() - started)
        self._is_whole, self._is_counting = True, False
        return record

    @property
    def is_whole(self) -> bool:
        """Whether the last update came to its end: if not, an error has left half of one."""
        return self._is_whole

    def _hand_over_weights(self) -> None:
        weights: Any = self.learner.get_weights()
        if not self.runner.is_multi_agent:
            weights = next(iter(weights.values()))
        self.runner.set_weights(weights, version=self.iteration)

    def _noted(self, metrics: Metrics, took_s: float) -> Record:
        played: RunnerMetrics = self.runner.get_metrics()
        self.steps += played.num_env_steps
        self.episodes += played.num_episodes
        self.time_s += took_s
        self._recent.extend(played.episode_returns)
        record: Record = {
            "iteration": self.iteration,
            "steps": self.steps,
            "episodes": self.episodes,
            "return_mean": self.return_mean,
            "steps_per_s": played.num_env_steps / took_s,
            "time_s": self.time_s,
            "num_env_restarts": played.num_env_restarts,
            **_flat(metrics, many=len(self.learner.trained_modules) > 1),
        }
        self.history.append(record)
        return record

    def evaluate(self, num_episodes: int = 100) -> list[float]:
        """Return the returns of whole episodes that are played beside the training, without exploring."""
        with _torch_threads(self.torch_threads):
            episodes = self.runner.evaluate(num_episodes)
        return [_total_return(episode) for episode in episodes]

    def policy(self, *, explore: bool = False) -> Policy | MultiAgentPolicy:
        """Return what was learned so far as something that acts alone: what the runner acts with, and its pipelines.

        Args:
            explore: Whether actions are drawn; otherwise the most probable one is taken.

        Returns:
            A `Policy`, or a `MultiAgentPolicy` if the runner is one for several agents.
        """
        runner = self.runner
        # Of all that a checkpoint holds, nothing is left to chance.
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
        """Return all that a training of the same setup needs to go on as this one will: arrays, tensors, JSON values.

        Environments are not part of it. To go on alike, both begin new episodes with the next `step`.
        """
        self._begin_anew = True
        progress = {name: getattr(self, name) for name in (*COUNTERS, "time_s")}
        return {
            "runner": self.runner.get_state(),
            "learner": self.learner.get_state(),
            "progress": {**progress, "recent_returns": list(self._recent)},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the training with this state would.

        Raises:
            TrainingError: If it is no such state; nothing is changed then, as with the others.
            LearnerError: If it is that of a training with another learner.
            EnvRunnerError: If it is that of a training with another runner.
        """
        check_state(state)
        before = self.learner.get_state()
        self.learner.set_state(state["learner"])
        try:
            self.runner.set_state(state["runner"])
        except BaseException:
            self.learner.set_state(before)
            raise
        progress = state["progress"]
        for name in (*COUNTERS, "time_s"):
            setattr(self, name, progress[name])
        self._recent = deque(progress["recent_returns"], maxlen=WINDOW)
        self._begin_anew = True

    # --- The end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the environments; a second time nothing happens."""
        self.runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _total_return(episode: SingleAgentEpisode | MultiAgentEpisode) -> float:
    """Return what all agents have earned."""
    if isinstance(episode, SingleAgentEpisode):
        return float(episode.get_return())
    return math.fsum(float(single.get_return()) for single in episode.agent_episodes.values() if len(single))


def _flat(metrics: Metrics, *, many: bool) -> Record:
    """Return what was measured of each module; under its name if there are `many` that learn."""
    return {
        f"{module_id}/{name}" if many else name: value
        for module_id, measured in metrics.items()
        if module_id != ALL_MODULES
        for name, value in measured.items()
        if name != "num_steps"
    }


def share_statistics(source: ConnectorPipelineV2, target: ConnectorPipelineV2) -> None:
    """Give the pieces of `target` that collect statistics those of the pieces of the same name in `source`.

    Args:
        source: The pipeline in front of a module that acts.
        target: The learner's pipeline. It collects nothing itself.

    >>> from episodia.connectors import MeanStdFilter, defaults
    >>> acting, learning = defaults.env_to_module(custom=[MeanStdFilter()]), defaults.learner(custom=[MeanStdFilter()])
    >>> acting["MeanStdFilter"].commit()
    >>> share_statistics(acting, learning)
    >>> learning["MeanStdFilter"].version
    1
    """
    sources = _collecting(source)
    for name, piece in _collecting(target).items():
        if name in sources and type(sources[name]) is type(piece):
            piece.set_state(sources[name].get_state())


def _collecting(pipeline: ConnectorPipelineV2) -> dict[str, ConnectorV2]:
    # What is collected counts from the `commit` on that runners call after a sample.
    return {place.path: place.piece for place in leaves(pipeline) if hasattr(place.piece, "commit")}


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
