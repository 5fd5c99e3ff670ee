"""Stages of a learner: whole updates, or gradients that are computed in one place and applied in another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from episodia.arguments import check_known
from episodia.dataflow.deliveries import Statistics, WithEpisodes
from episodia.dataflow.runner_group import RunnerGroup
from episodia.dataflow.statistics import set_statistics
from episodia.env_runners import EnvRunner
from episodia.episodes import EpisodeList
from episodia.learners import Learner, MeasuredGradients, Metrics
from episodia.learners.replay_updates import PRIORITY

# Gradients, and how many steps of each module are behind them.
_Weighted: TypeAlias = "tuple[MeasuredGradients, Mapping[str, int]]"


class HasWeights(Protocol):
    """A learner, or several of them."""

    def get_weights(self) -> dict[str, Any]:
        """Return weights by module."""


class LearnsModules(HasWeights, Protocol):
    """Learners of several modules."""

    def update(self, episodes: EpisodeList[Any], statistics: Statistics | None = None) -> Metrics:
        """Update each module with what its agents have done."""


def send_weights(learner: HasWeights, runner: EnvRunner[Any] | RunnerGroup, version: int | None = None) -> None:
    """Give a runner, or all runners of a group, the weights of a learner; modules of other learners keep theirs."""
    to: Any = runner  # which has one module, or several
    weights = learner.get_weights()
    given = {**to.get_weights(), **weights} if to.is_multi_agent else next(iter(weights.values()))
    to.set_weights(given, version=version)


def check_how(where: str, how: Collection[str], others: Collection[str] = ()) -> None:
    """Check the names of arguments of `Learner.update`.

    Raises:
        UnknownArgumentError: If one is neither an argument of `Learner.update` nor one of `others`.

    >>> check_how("train_one_step", ["num_epochs"])
    """
    known = inspect.signature(Learner.update).parameters
    check_known(where, how, [*others, *(name for name in known if name not in ("self", "episodes"))])


def train_one_step(
    learner: Learner, group: RunnerGroup | None = None, **how: Any
) -> Callable[[EpisodeList[Any]], Metrics]:
    """Return a function that updates with a list of episodes, and returns metrics.

    Args:
        learner: The learner.
        group: The runners that get the new weights.
        **how: Arguments of `Learner.update`, such as `num_epochs=4, minibatch_size=64`.

    Raises:
        UnknownArgumentError: If `Learner.update` has no such argument.
    """
    check_how("train_one_step", how)

    def train(episodes: EpisodeList[Any]) -> Metrics:
        if group is not None:
            set_statistics(learner.pipeline, group.acted_with)
        metrics = learner.update(episodes, **how)
        if group is not None:
            send_weights(learner, group)
        return metrics

    return train


def train_modules(learners: LearnsModules, group: RunnerGroup) -> Callable[[EpisodeList[Any]], Metrics]:
    """Return a function that updates each module where its learner is, sends the new weights to a group, and returns metrics.

    Args:
        learners: `PolicyHosts` or `GradientWorkers`.
        group: The runners that get the new weights.
    """

    def train(episodes: EpisodeList[Any]) -> Metrics:
        metrics = learners.update(episodes, group.acted_with)
        send_weights(learners, group)
        return metrics

    return train


def compute_gradients(learner: Learner) -> Callable[[EpisodeList[Any]], _Weighted]:
    """Return a function that computes gradients of a list of episodes, and counts the steps behind them."""

    def compute(episodes: EpisodeList[Any]) -> _Weighted:
        batch = learner.batch_of(episodes)
        return learner.compute_gradients(batch), learner.num_steps_of(batch)

    return compute


def apply_gradients(learner: Learner, group: RunnerGroup | None = None) -> Callable[[Sequence[_Weighted]], Metrics]:
    """Return a function that takes one gradient step with the average of several gradients, weighted by their steps.

    Args:
        learner: The learner.
        group: The runners that get the new weights.
    """

    def apply(gradients: Sequence[_Weighted]) -> Metrics:
        found, steps = zip(*gradients, strict=True)
        metrics = learner.apply_gradients(found, weights=steps)
        learner.adapt(metrics)
        if group is not None:
            send_weights(learner, group)
        return metrics

    return apply


@final
class GradientsThere:
    """The `then` of a `RunnerGroup` whose runners compute gradients where they are, so that only gradients travel.

    Args:
        make_learner: Makes a learner beside each runner, with the algorithm of the learner that applies the gradients.
    """

    def __init__(self, make_learner: Callable[[], Learner]) -> None:
        self._make_learner = make_learner

    def __call__(self, runner: EnvRunner[Any]) -> Callable[[EpisodeList[Any], Statistics], _Weighted]:
        """Return what is made of the samples of `runner`: gradients for the weights that it has played with."""
        learner = self._make_learner()
        compute = compute_gradients(learner)
        runner.require_lookback(learner.pipeline.lookback)

        def gradients(episodes: EpisodeList[Any], acted_with: Statistics) -> _Weighted:
            _follow(learner, runner, acted_with)
            return compute(episodes)

        return gradients


@final
class PrioritiesThere:
    """The `then` of a `RunnerGroup` whose runners compute priorities where they are; the episodes travel too.

    The priority of a step is its error by the loss, with target networks that have the weights that the runner has played with.

    Args:
        make_learner: Makes a learner beside each runner, with the algorithm of the learner that learns from replay. Its loss
            has an error for each step.
        name: The name of the errors among the results of the loss.
    """

    def __init__(self, make_learner: Callable[[], Learner], name: str = PRIORITY) -> None:
        self._make_learner, self._name = make_learner, name

    def __call__(self, runner: EnvRunner[Any]) -> Callable[[EpisodeList[Any], Statistics], WithEpisodes]:
        """Return what is made of the samples of `runner`: the episodes, and the priorities of their steps by module."""
        learner = self._make_learner()
        runner.require_lookback(learner.pipeline.lookback)

        def priorities(episodes: EpisodeList[Any], acted_with: Statistics) -> WithEpisodes:
            _follow(learner, runner, acted_with)
            for module_id, targets in learner.target_networks.items():
                for network in targets.values():
                    follower: Any = network
                    follower.load_state_dict(learner.get_weights()[module_id])
            found = learner.row_results(learner.batch_of(episodes))
            return WithEpisodes(episodes, {module_id: np.abs(rows[self._name]) for module_id, rows in found.items()})

        return priorities


def _follow(learner: Learner, runner: EnvRunner[Any], acted_with: Statistics) -> None:
    """Give a learner the weights and the statistics that a runner has played with."""
    networks: Mapping[str, Any] = runner.modules
    learner.set_weights({id_: networks[id_].state_dict() for id_ in learner.modules})
    set_statistics(learner.pipeline, acted_with)
