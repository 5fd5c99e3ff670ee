"""Policies: a module with its pipelines as one object that acts, is saved and is loaded."""

from episodia.policies.multi_agent_policy import MultiAgentPolicy
from episodia.policies.policy import Policy

__all__ = ["MultiAgentPolicy", "Policy"]


def __dir__() -> list[str]:
    return sorted(__all__)
