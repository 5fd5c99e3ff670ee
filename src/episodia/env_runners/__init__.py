"""Env runners: from environments to episodes."""

from episodia.env_runners.callbacks import Callbacks
from episodia.env_runners.env_runner import EnvRunner
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.single_agent_env_runner import SingleAgentEnvRunner

__all__ = [
    "Callbacks",
    "EnvRunner",
    "MultiAgentEnv",
    "MultiAgentEnvRunner",
    "RunnerMetrics",
    "SingleAgentEnvRunner",
]


def __dir__() -> list[str]:
    return sorted(__all__)
