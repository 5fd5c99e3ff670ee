"""The host of one runner of a group: it lives where the engine has put it, and answers requests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from episodia.connectors import ConnectorPipelineV2, EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.module_to_env.exploration import Exploration
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.dataflow.deliveries import Delivery, Request, Statistics, WithEpisodes
from episodia.dataflow.engines.engine import Handle
from episodia.dataflow.statistics import statistics_of, take_common
from episodia.env_runners import EnvRunner
from episodia.env_runners.rollout.sample_goals import CountStepsBy
from episodia.modules import Module

# Makes a runner of a seed.
MakeRunner: TypeAlias = Callable[[int], EnvRunner[Any]]
# Makes, of a runner, a function that is applied where the runner lives: to each list of episodes, and the statistics of filters
# that it was played with.
Then: TypeAlias = Callable[[EnvRunner[Any]], Callable[[Any, Statistics], Any]]


@final
@dataclass
class RunnerFacts:
    """The facts that a group needs of its runners, copied from one of them.

    Attributes:
        is_multi_agent: Whether they return multi-agent episodes.
        count_steps_by: Which steps they count.
        env_to_module: The pipeline in front of the modules, with the statistics of all runners.
        module_to_env: The pipeline behind the modules.
        modules: What acts, by module id.
        agent_to_module_mapping_fn: The function from an agent to its module; None for single-agent runners.
    """

    is_multi_agent: bool
    count_steps_by: CountStepsBy
    env_to_module: EnvToModulePipeline
    module_to_env: ModuleToEnvPipeline
    modules: Mapping[Any, Module]
    agent_to_module_mapping_fn: Any = None


@final
class RunnerHost:
    """Answers the requests of a group with one runner.

    Args:
        make_runner: Makes the runner of a seed.
        seed: The seed, which follows from the run, the place in the group and the incarnation.
        place: The place in the group, and the incarnation.
        lookback: The number of earlier steps that chunks have to carry.
        then: See `RunnerGroup`.
    """

    def __init__(
        self, make_runner: MakeRunner, seed: int, place: tuple[int, int], lookback: int, then: Then | None
    ) -> None:
        self._runner = make_runner(seed)
        self._runner.require_lookback(lookback)
        self._place = place
        self._then = None if then is None else then(self._runner)
        self._version: int | None = None

    def facts(self) -> RunnerFacts:
        """Return copies of what the runner has."""
        runner = self._runner
        copies = copy.deepcopy((runner.env_to_module, runner.module_to_env, dict(runner.modules)))
        return RunnerFacts(runner.is_multi_agent, runner.count_steps_by, *copies, runner.agent_to_module_mapping_fn)

    def sample(self, request: Request) -> Delivery:
        """Play what `request` wants, with its weights and statistics."""
        acted_with = self._take_over(request)
        runner = self._runner
        if request.clock is not None:
            continue_schedules(runner.module_to_env, request.clock)
        episodes = runner.sample(**request.wanted)
        statistics = {} if request.statistics is None else statistics_of(runner.env_to_module)
        made = episodes if self._then is None else self._then(episodes, acted_with)
        given, beside = made if isinstance(made, WithEpisodes) else (made, None)
        metrics = runner.get_metrics()
        return Delivery(*self._place, request.number, request.version, given, metrics, statistics, acted_with, beside)

    def evaluate(self, request: Request) -> Any:
        """Play whole episodes beside all sampling, with the weights and statistics of `request`."""
        self._take_over(request)
        return self._runner.evaluate(**request.wanted)

    def _take_over(self, request: Request) -> Statistics:
        weights: Handle | None = request.weights
        statistics: Handle | None = request.statistics
        if weights is not None and request.version != self._version:
            self._runner.set_weights(weights.fetch(), version=request.version)
        self._version = request.version
        if statistics is None:
            return {}
        common: Statistics = statistics.fetch()
        take_common(self._runner.env_to_module, common)
        return common

    def get_state(self) -> dict[str, Any]:
        """Return the state of the runner."""
        return self._runner.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Let the runner go on from `state`."""
        self._runner.set_state(state)
        self._version = int(state["weights_version"])

    def set_then(self, then: Then) -> None:
        """Apply `then` to each list of episodes from now on."""
        self._then = then(self._runner)

    def apply(self, function: Callable[[EnvRunner[Any]], Any]) -> Any:
        """Return what `function` returns of the runner."""
        return function(self._runner)

    def close(self) -> None:
        """Close the runner."""
        self._runner.close()


def continue_schedules(pipeline: ConnectorPipelineV2, steps: int) -> None:
    """Let the pieces of `pipeline` that explore go on at a number of steps, which their schedules follow.

    >>> from episodia.connectors import EpsilonGreedy, defaults
    >>> pipeline = defaults.module_to_env(custom=[EpsilonGreedy(epsilon=0.1)])
    >>> continue_schedules(pipeline, 500)
    >>> pipeline["EpsilonGreedy"].steps
    500
    """
    for place in leaves(pipeline):
        if isinstance(place.piece, Exploration):
            place.piece.continue_at(steps)
