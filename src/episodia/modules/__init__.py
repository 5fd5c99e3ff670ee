"""Modules: protocols of networks and rules, distributions of actions, and networks for all usual spaces."""

from episodia.modules.distributions import ActionDistribution, Deterministic, DistributionSpec, dist_for
from episodia.modules.module_registry import register_module
from episodia.modules.multi_module import MultiModule
from episodia.modules.networks.actor_critic import ActorCritic
from episodia.modules.networks.actor_with_critics import ActorWithCritics
from episodia.modules.networks.default_actor_critic import DefaultActorCritic, LSTMActorCritic, MLPActorCritic
from episodia.modules.networks.default_module import default_module
from episodia.modules.networks.q_network import QNetwork
from episodia.modules.protocol import Distribution, DistributionClass, DistributionModule, Module, Modules, ValueModule
from episodia.modules.rules import RandomModule, Rule, RuleModule, each_row

__all__ = [
    "ActionDistribution",
    "ActorCritic",
    "ActorWithCritics",
    "DefaultActorCritic",
    "Deterministic",
    "Distribution",
    "DistributionClass",
    "DistributionModule",
    "DistributionSpec",
    "LSTMActorCritic",
    "MLPActorCritic",
    "Module",
    "Modules",
    "MultiModule",
    "QNetwork",
    "RandomModule",
    "Rule",
    "RuleModule",
    "ValueModule",
    "default_module",
    "dist_for",
    "each_row",
    "register_module",
]


def __dir__() -> list[str]:
    return sorted(__all__)
