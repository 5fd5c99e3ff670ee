"""RLlib's side of the rollout rows: its runners with PPO's default module, as its configuration puts them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _rollout_settings import CELL_SIZE, ENV, FRAGMENTS, HIDDEN, SEED, Team
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

Play = Callable[[], int]
_MODES = {"sync": "sync", "vectorised": "vector_entry_point"}


def _config(env: str, num_envs: int, *, mode: str = "sync", **model: Any) -> PPOConfig:
    network = DefaultModelConfig(
        fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=bool(model), **model
    )
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs, gym_env_vectorize_mode=mode)
        .rl_module(rl_module_spec=RLModuleSpec(model_config=network))
        .debugging(seed=SEED)
    )


def _sampling(config: PPOConfig, num_envs: int) -> Play:
    runner = SingleAgentEnvRunner(config=config)
    steps = num_envs * FRAGMENTS[num_envs]
    return lambda: sum(map(len, runner.sample(num_timesteps=steps)))


def single(kind: str, num_envs: int) -> Play:
    """Return what samples with a runner, and returns the number of steps."""
    return _sampling(_config(ENV, num_envs, mode=_MODES[kind]), num_envs)


def recurrent(num_envs: int) -> Play:
    """Return the same with an LSTM."""
    return _sampling(_config(ENV, num_envs, use_lstm=True, lstm_cell_size=CELL_SIZE, max_seq_len=20), num_envs)


def team(env: type[Team], num_agents: int, num_envs: int, steps: int) -> Play:
    """Return what samples with a multi-agent runner, and returns the number of steps of agents."""
    made = type(env.__name__, (env, MultiAgentEnv), {})
    name = f"{env.__name__} of {num_agents}"
    register_env(name, lambda _: made(num_agents))
    config = _config(name, num_envs).multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    runner = MultiAgentEnvRunner(config=config)
    return lambda: sum(episode.agent_steps() for episode in runner.sample(num_timesteps=num_envs * steps))
