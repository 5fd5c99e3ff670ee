"""Losses and learners that are wrong on purpose, each in one way, and with the law that finds it out."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from gymnasium import spaces

from episodia.connectors import GeneralAdvantageEstimation
from episodia.learners import LOSS, AlgorithmConfig, EvaluatedSteps, Learner, LossOutputs
from episodia.modules import MLPActorCritic
from episodia.testing import LearnerSubject

FAULTY = {}
BOX, CHOICES = spaces.Box(-2.0, 2.0, (3,)), spaces.Discrete(3)


def breaks(law, message="", **options):
    """Register an algorithm under the law that finds it out; the message says what differed."""

    def register(kind):
        FAULTY[kind.__name__] = (lambda: LearnerSubject.of(kind(), **options), law, message)
        return kind

    return register


def learner_breaks(law, message="", **options):
    """Register a kind of learners under the law that finds it out."""

    def register(kind):
        def make(modules, *, seed):
            return kind(modules, Right(), seed)

        FAULTY[kind.__name__] = (
            lambda: LearnerSubject.of(Right(), make=make, label=kind.__name__, **options),
            law,
            message,
        )
        return kind

    return register


@dataclass(frozen=True, kw_only=True)
class Right(AlgorithmConfig):
    """A right one, which the faulty ones are made of: an actor and a critic."""

    def targets(self, device):
        return [GeneralAdvantageEstimation(gamma=self.gamma, lambda_=0.9, device=device)]

    def coefficients(self):
        return {"value_coefficient": 0.5}

    def loss(self, inputs):
        steps = EvaluatedSteps(inputs.module, inputs.batch)
        advantages = steps.column("advantages")
        errors = (steps.values - steps.column("value_targets")) ** 2
        each = self.of_each_step(steps.logp(), advantages) + inputs.coefficients["value_coefficient"] * errors
        return LossOutputs({LOSS: self.of_all(each)}, {"value_loss": errors.mean()})

    def of_each_step(self, logp, advantages):
        return -logp * advantages

    def of_all(self, each):
        return each.mean()


# --- Losses -----------------------------------------------------------------------------------------------------------


@breaks("it_runs", "found no column 'luck'")
class NeedsWhatNobodyWrites(Right):
    def loss(self, inputs):
        EvaluatedSteps(inputs.module, inputs.batch).column("luck")


@breaks("parts_average_to_the_whole", "is the loss a mean over steps")
class SumsOverSteps(Right):
    def of_all(self, each):
        return each.sum()


@breaks("parts_average_to_the_whole", "gradient of")
class StandardisesEachMinibatch(Right):
    def of_each_step(self, logp, advantages):
        return -logp * (advantages - advantages.mean())


@breaks("order_of_steps_does_not_matter", "the other way round")
class CaresForTheOrder(Right):
    def of_all(self, each):
        return (each * torch.linspace(0.0, 1.0, len(each))).mean()


@breaks("masked_steps_do_not_count", "other numbers in masked steps")
class ForgetsTheMask(Right):
    def loss(self, inputs):
        values = inputs.module.compute_values(inputs.batch)
        return LossOutputs({LOSS: ((values - inputs.batch["value_targets"]) ** 2).mean()})


@breaks("callers_data_stay_as_they_are", r"default_policy\.advantages")
class CentersInPlace(Right):
    def loss(self, inputs):
        inputs.batch["advantages"] -= inputs.batch["advantages"].mean()
        return super().loss(inputs)


@breaks("metrics_are_finite_numbers", "found nan as 'spread'|found inf as 'spread'")
class MeasuresNothing(Right):
    def loss(self, inputs):
        found = super().loss(inputs)
        return replace(found, metrics={**found.metrics, "spread": found.losses[LOSS].detach() / 0.0})


@breaks("it_learns_from_single_steps", "IndexError")
class NeedsTwoSteps(Right):
    def of_all(self, each):
        return each.mean() + 0.0 * each[1]


@breaks("same_seed_gives_same_weights", "other global seeds")
class ThrowsGlobalDice(Right):
    def of_all(self, each):
        return (each * torch.from_numpy(np.random.rand(len(each)))).mean()  # noqa: NPY002  # the fault


@breaks("it_runs", "do not depend on any trained weight")
class DetachesTheLoss(Right):
    def of_all(self, each):
        return each.mean().detach()


@breaks("learning_changes_the_weights", "found that all weights stayed the same")
class CountsForNothing(Right):
    def of_all(self, each):
        return each.mean() * 0.0


@breaks("coefficients_are_those_declared", r"asks for \['temperature'\]")
class HopesForACoefficient(Right):
    def loss(self, inputs):
        found = super().loss(inputs)
        return replace(found, losses={LOSS: found.losses[LOSS] * inputs.coefficients.get("temperature", 1.0)})


@breaks("it_pickles", "lambda")
@dataclass(frozen=True, kw_only=True)
class HoldsALambda(Right):
    shape: Callable[..., object] = lambda advantages: advantages  # that is what is wrong with it


# --- Learners ---------------------------------------------------------------------------------------------------------


class Wrapped:
    """A right learner, whose calls go through the faulty ones."""

    def __init__(self, modules, config, seed):
        self.inner = Learner(modules, config, seed=seed)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def all_weights(self):
        return [weight for module in self.inner.modules.values() for weight in module.parameters()]


@learner_breaks("it_runs", "found None from `update`")
class ReturnsNothing(Wrapped):
    def update(self, episodes, **options):
        self.inner.update(episodes, **options)


@learner_breaks("frozen_weights_stay", "changed, expected them to stay")
class DecaysAllWeights(Wrapped):
    def update(self, episodes, **options):
        with torch.no_grad():
            for weight in self.all_weights():
                weight.mul_(0.9)
        return self.inner.update(episodes, **options)


@learner_breaks("frozen_weights_stay", "did not change either")
class GivesUpIfSomethingIsFrozen(Wrapped):
    def update(self, episodes, **options):
        if all(weight.requires_grad for weight in self.all_weights()):
            return self.inner.update(episodes, **options)
        return {}


@learner_breaks("nothing_comes_of_nothing", "no episodes.*found a difference")
class LearnsFromNothing(Wrapped):
    def update(self, episodes, **options):
        if not episodes:
            with torch.no_grad():
                self.all_weights()[0].add_(0.1)
        return self.inner.update(episodes, **options)


@learner_breaks("nothing_comes_of_nothing", "ZeroDivisionError")
class DividesByTheNumberOfEpisodes(Wrapped):
    def update(self, episodes, **options):
        return {**self.inner.update(episodes, **options), "share": {"of each": 1 / len(episodes)}}


@learner_breaks("non_finite_values_never_reach_the_weights", "found NaN in")
class LetsNaNThrough(Wrapped):
    def update_batch(self, batch, **options):
        with torch.no_grad():
            for columns in batch.values():
                self.all_weights()[0].add_(1e-3 * columns["advantages"].mean())
        return self.inner.update_batch(batch, **options)


@learner_breaks("restored_learners_go_on_alike", "one update later")
class ForgetsTheOptimizer(Wrapped):
    def get_state(self):
        return {name: part for name, part in self.inner.get_state().items() if name != "optimizers"}


@learner_breaks("restored_learners_go_on_alike", "after `set_state`")
class ForgetsTheWeights(Wrapped):
    def set_state(self, state):
        self.inner.set_state({name: part for name, part in state.items() if name != "weights"})


@learner_breaks("callers_data_stay_as_they_are", "rewards")
class ScalesRewardsOfTheCaller(Wrapped):
    def update(self, episodes, **options):
        for episode in episodes:
            episode.set_rewards(new_data=[2.0 * reward for reward in episode.get_rewards()])
        return self.inner.update(episodes, **options)


def two():
    return {name: MLPActorCritic(BOX, CHOICES, hidden=(4,)) for name in ("left", "right")}


@learner_breaks("modules_learn_apart", "all modules together", modules=two)
class SharesGradients(Wrapped):
    def compute_gradients(self, batch):
        return {name: gradient / len(batch) for name, gradient in self.inner.compute_gradients(batch).items()}
