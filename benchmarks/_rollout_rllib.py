"""RLlib's side of the rollout rows: its runners with PPO's default module, as its configuration puts them together."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
from _rollout_pieces import CALLBACK, PIECES, STACKED, counting_callback
from _rollout_settings import CELL_SIZE, ENV, FRAGMENTS, HIDDEN, SEED, Team
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors import env_to_module
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import register_env

Play = Callable[[], int]
_MODES = {"sync": "sync", "vectorised": "vector_entry_point"}


class _Flat(ConnectorV2):
    """Makes vectors of stacked frames, which the default module would take for images."""

    def recompute_output_observation_space(self, input_observation_space: Any, input_action_space: Any) -> Any:
        return spaces.flatten_space(input_observation_space)

    def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        for items in batch["obs"].values():
            items[:] = [item.reshape(-1) for item in items]
        return batch


_LIBRARY = SimpleNamespace(
    ConnectorV2=ConnectorV2,
    SingleAgentObservationPreprocessor=SingleAgentObservationPreprocessor,
    MeanStdFilter=env_to_module.MeanStdFilter,
    FrameStacking=FrameStackingEnvToModule,
    PrevActionsPrevRewards=env_to_module.PrevActionsPrevRewards,
    FlattenObservations=env_to_module.FlattenObservations,
)


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


def with_piece(added: str, num_envs: int) -> Play:
    """Return the same with a piece in front of the module."""
    if added != STACKED:
        return _sampling(_behind(PIECES[added](_LIBRARY), _config(ENV, num_envs)), num_envs)
    # It stacks images only, so that is what it gets.
    name = f"{ENV} as an image"
    register_env(name, lambda _: gym.wrappers.ReshapeObservation(gym.make(ENV), (4, 1, 1)))
    return _sampling(_behind([*PIECES[added](_LIBRARY), _Flat()], _config(name, num_envs)), num_envs)


def _behind(pieces: list[Any], config: PPOConfig) -> PPOConfig:
    return config.env_runners(env_to_module_connector=lambda *_, **__: pieces)


def recurrent(num_envs: int) -> Play:
    """Return the same with an LSTM."""
    return _sampling(_config(ENV, num_envs, use_lstm=True, lstm_cell_size=CELL_SIZE, max_seq_len=20), num_envs)


def team(
    env: type[Team],
    num_agents: int,
    num_envs: int,
    steps: int,
    added: Callable[[PPOConfig], PPOConfig] = lambda config: config,
) -> Play:
    """Return what samples with a multi-agent runner, and returns the number of steps of agents."""
    made = type(env.__name__, (env, MultiAgentEnv), {})
    name = f"{env.__name__} of {num_agents}"
    register_env(name, lambda _: made(num_agents))
    config = _config(name, num_envs).multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    runner = MultiAgentEnvRunner(config=added(config))
    return lambda: sum(episode.agent_steps() for episode in runner.sample(num_timesteps=num_envs * steps))


def watched_team(added: str, *setting: Any) -> Play:
    """Return the same with a piece in front of the module, or with a callback."""
    if added == CALLBACK:
        return team(*setting, added=lambda config: config.callbacks(counting_callback(RLlibCallback)))
    return team(*setting, added=lambda config: _behind(PIECES[added](_LIBRARY), config))
