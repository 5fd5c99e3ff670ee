"""Distributions of actions: drawn fast, with log-probability, entropy and divergence, for every usual action space."""

from episodia.modules.distributions.action_distribution import ActionDistribution, Deterministic, DistributionSpec
from episodia.modules.distributions.bernoulli import Bernoulli, BernoulliSpec
from episodia.modules.distributions.categorical import Categorical, CategoricalSpec
from episodia.modules.distributions.for_space import dist_for
from episodia.modules.distributions.gaussian import Gaussian, GaussianSpec
from episodia.modules.distributions.multi_categorical import MultiCategorical, MultiCategoricalSpec
from episodia.modules.distributions.nested import Nested, NestedSpec
from episodia.modules.distributions.squashed_gaussian import SquashedGaussian, SquashedGaussianSpec

__all__ = [
    "ActionDistribution",
    "Bernoulli",
    "BernoulliSpec",
    "Categorical",
    "CategoricalSpec",
    "Deterministic",
    "DistributionSpec",
    "Gaussian",
    "GaussianSpec",
    "MultiCategorical",
    "MultiCategoricalSpec",
    "Nested",
    "NestedSpec",
    "SquashedGaussian",
    "SquashedGaussianSpec",
    "dist_for",
]


def __dir__() -> list[str]:
    return sorted(__all__)
