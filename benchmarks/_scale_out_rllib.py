"""RLlib's side of `scale_out.py`: its own group of runners on Ray, with PPO's default module of the same size."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.env_runner_group import EnvRunnerGroup

_GROUPS: list[EnvRunnerGroup] = []


def cases(_: str) -> list[Any]:
    """Return no cases: the script calls `begin` and `play`."""
    return []


def begin(_: str, *, num_runners: int, num_envs: int) -> dict[str, Any]:
    """Start a group."""
    model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=num_runners, num_envs_per_env_runner=num_envs)
        .rl_module(rl_module_spec=RLModuleSpec(model_config=model))
        .debugging(seed=0)
    )
    _GROUPS.append(EnvRunnerGroup(config=config, local_env_runner=False))
    return {}


def play(_: str, *, steps: int, rounds: int) -> dict[str, Any]:
    """Let each runner play so many steps, several times, and return how many all have played."""
    played = 0
    for _number in range(rounds):
        found = _GROUPS[0].foreach_env_runner(lambda runner: runner.sample(num_timesteps=steps), local_env_runner=False)
        played += sum(len(episode) for episodes in found for episode in episodes)
    return {"played": played}


def end(_: str) -> dict[str, Any]:
    """Stop the group."""
    _GROUPS.pop().stop()
    return {}
