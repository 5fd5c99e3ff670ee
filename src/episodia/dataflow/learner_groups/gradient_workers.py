"""`GradientWorkers`: workers without memory that compute gradients of parts of batches, shared among modules by their loads."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, final

from episodia.arguments import checked_choice, checked_whole, names_nearest_argument
from episodia.dataflow.deliveries import Statistics
from episodia.dataflow.engines.engine import Call, Engine, Handle
from episodia.dataflow.learner_groups.allocation import allocate
from episodia.dataflow.learner_groups.policy_hosts import checked_learners
from episodia.dataflow.statistics import set_statistics
from episodia.dataflow.updates.reporting import merged_metrics
from episodia.episodes import EpisodeList
from episodia.errors import EngineError, WorkerDiedError
from episodia.learners import GradientFunction, Learner, MeasuredGradients, Metrics, minibatches
from episodia.types import Batch

# What a module's load is.
_LOADS = ("steps", "agents", "modules")


class _Task(NamedTuple):
    module_id: str
    state: Handle
    columns: Batch
    num_steps: int


@names_nearest_argument
@final
class GradientWorkers:
    """Takes a gradient step with each of several learners; workers compute the gradients.

    A worker gets the state of a learner and a part of its batch, and returns gradients; it remembers nothing. So if it dies or
    hangs, another one computes the same. The step is that of one learner with the whole batch, apart from rounding.

    Args:
        learners: The learner of each module, made with that module alone, as `{module_id: module}`. They live here.
        num_workers: The number of workers.
        engine: Where they live.
        by: What each module's number of workers is in proportion to, see `allocate`: the `"steps"` or the `"agents"` that it
            has in the episodes; or `"modules"`: the same number for each.
        call_timeout_s: A worker that takes longer is replaced. None waits for ever.
        max_restarts: The number of workers in a row that may die without an answer.

    Attributes:
        shares: The number of workers that each module had in the last update.
        num_replaced: The number of workers that were replaced.

    Raises:
        EngineError: If an argument is invalid.
    """

    def __init__(
        self,
        learners: Mapping[str, Learner],
        num_workers: int,
        engine: Engine,
        *,
        by: str = "steps",
        call_timeout_s: float | None = None,
        max_restarts: int = 100,
    ) -> None:
        checked_whole(EngineError, "GradientWorkers", "num_workers", num_workers, 1)
        self._by = checked_choice(EngineError, "GradientWorkers", "by", by, _LOADS)
        self._learners = checked_learners("GradientWorkers", learners)
        self._engine = engine
        self._timeout_s = None if engine.is_serial else call_timeout_s
        self._max_restarts = max_restarts
        functions = {name: learner.gradient_function() for name, learner in learners.items()}
        self._make = partial(_Host, functions)
        self._workers = [engine.start(self._make) for _ in range(num_workers)]
        self.shares: dict[str, int] = {}
        self.num_replaced = self._deaths = 0

    def update(self, episodes: EpisodeList[Any], statistics: Statistics | None = None) -> Metrics:
        """Take one gradient step with each learner, and return their metrics.

        Args:
            episodes: The episodes.
            statistics: The statistics of filters that they were played with, see `RunnerGroup.acted_with`.
        """
        groups = {name: group for name, group in episodes.groups().items() if name in self._learners}
        batches = {}
        for name, group in groups.items():
            set_statistics(self._learners[name].pipeline, statistics or {})
            batches[name] = self._learners[name].batch_of(group)
        loads = {name: self._load(name, groups[name], batch) for name, batch in batches.items()}
        self.shares = allocate(len(self._workers), loads)
        tasks = [task for name, batch in batches.items() for task in self._tasks(name, batch)]
        gradients = self._computed(tasks)
        found: dict[str, Metrics] = {}
        for name in batches:
            learner, own = self._learners[name], [number for number, task in enumerate(tasks) if task.module_id == name]
            weights = [{name: tasks[number].num_steps} for number in own]
            found[name] = learner.apply_gradients([gradients[number] for number in own], weights=weights)
            learner.adapt(found[name])
        return merged_metrics(found)

    def _load(self, name: str, group: EpisodeList[Any], batch: Mapping[str, Batch]) -> int:
        if self._by == "modules":
            return 1
        return len(group) if self._by == "agents" else self._learners[name].num_steps_of(batch)[name]

    def _tasks(self, name: str, batch: Mapping[str, Batch]) -> list[_Task]:
        """Return the parts of a batch, one for each of the module's workers, and one if it has none."""
        learner = self._learners[name]
        state = self._engine.share(learner.get_state(GradientFunction.components))
        num_steps = learner.num_steps_of(batch)[name]
        size = max(1, round(num_steps / max(1, self.shares[name])))
        parts = minibatches({name: batch[name]}, minibatch_size=size)
        return [_Task(name, state, part[name].columns, part[name].num_steps) for part in parts]

    # --- Workers ----------------------------------------------------------------------------------------------------

    def _computed(self, tasks: Sequence[_Task]) -> list[MeasuredGradients]:
        """Return the gradients of each task; what a worker that dies had to compute, its successor computes."""
        asked = [number % len(self._workers) for number in range(len(tasks))]
        calls = {number: self._ask(asked[number], task) for number, task in enumerate(tasks)}
        found: dict[int, MeasuredGradients] = {}
        while calls:
            over = self._engine.wait(list(calls.values()), self._timeout_s)
            waited = set() if over else {asked[number] for number in calls}
            dead = {worker for worker in waited if not self._workers[worker].may_take_longer()}
            cause: Exception | None = None
            for number in [number for number, call in calls.items() if call in over]:
                try:
                    found[number] = calls[number].result()
                except WorkerDiedError as error:
                    dead.add(asked[number])
                    cause = error
                else:
                    del calls[number]
                    self._deaths = 0
            for worker in dead:
                self._replace(worker, cause)
                calls |= {number: self._ask(worker, tasks[number]) for number in calls if asked[number] == worker}
        return [found[number] for number in range(len(tasks))]

    def _ask(self, worker: int, task: _Task) -> Call:
        return self._workers[worker].call("gradients", task)

    def _replace(self, worker: int, cause: Exception | None) -> None:
        self._deaths += 1
        if self._deaths > self._max_restarts:
            raise EngineError(
                f"GradientWorkers: found that {self._deaths} workers in a row have died or hung, expected gradients. Look for "
                "the reason where they live, or raise `max_restarts=`."
            ) from cause
        self.num_replaced += 1
        self._workers[worker].kill()
        self._workers[worker] = self._engine.start(self._make)

    def get_weights(self) -> dict[str, Any]:
        """Return the weights of all modules."""
        return {name: weights for learner in self._learners.values() for name, weights in learner.get_weights().items()}

    def close(self) -> None:
        """Close all workers; the learners stay."""
        for worker in self._workers:
            worker.kill()


@final
class _Host:
    def __init__(self, functions: Mapping[str, GradientFunction]) -> None:
        self._functions = copy.deepcopy(functions)  # workers in one process share nothing

    def gradients(self, task: _Task) -> MeasuredGradients:
        return self._functions[task.module_id](task.state.fetch(), {task.module_id: task.columns})
