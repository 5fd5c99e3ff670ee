"""Modules: distributions of actions."""

from episodia.modules.distributions import ActionDistribution, Deterministic, DistributionSpec, dist_for

__all__ = ["ActionDistribution", "Deterministic", "DistributionSpec", "dist_for"]
