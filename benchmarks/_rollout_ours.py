"""Our side of the rollout rows: the runners with the default pipelines, and the loops by hand beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import torch
from _rollout_bare import BareList, BareLSTM, BareVector, sync_envs, vectorised_env
from _rollout_pieces import CALLBACK, PIECES, counting_callback
from _rollout_settings import CELL_SIZE, ENV, FRAGMENTS, HIDDEN, SEED, Team
from torch import nn

from episodia import connectors
from episodia.env_runners import Callbacks, MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.modules import LSTMActorCritic, MLPActorCritic

Play = Callable[[], int]
_VECTORIZATIONS = {"sync": "sync", "vectorised": "vector_entry_point"}


def _spaces() -> tuple[Any, Any]:
    env = gym.make(ENV)
    return env.observation_space, env.action_space


def _mlp(observation_space: Any = None) -> MLPActorCritic:
    shown, action_space = _spaces()
    generator = torch.Generator().manual_seed(SEED)
    return MLPActorCritic(observation_space or shown, action_space, HIDDEN, generator=generator)


def _lstm() -> LSTMActorCritic:
    return LSTMActorCritic(*_spaces(), HIDDEN, CELL_SIZE, generator=torch.Generator().manual_seed(SEED))


def _sampling(module: Any, kind: str, num_envs: int, pieces: Sequence[Any] = ()) -> Play:
    runner = SingleAgentEnvRunner(
        ENV,
        module,
        num_envs=num_envs,
        vectorization=_VECTORIZATIONS[kind],
        env_to_module=pieces or None,
        seed=SEED,
        lookback=1,
    )
    steps = num_envs * FRAGMENTS[num_envs]
    return lambda: int(runner.sample(num_timesteps=steps).lengths.sum())


def single(kind: str, num_envs: int) -> Play:
    """Return what samples with a runner, and returns the number of steps."""
    return _sampling(_mlp(), kind, num_envs)


def with_piece(added: str, num_envs: int) -> Play:
    """Return the same with a piece in front of the module."""
    pieces = PIECES[added](connectors)
    # The network is for what the last piece shows it.
    shown = connectors.EnvToModulePipeline(*_spaces(), connectors=PIECES[added](connectors)).observation_space
    return _sampling(_mlp(shown), "sync", num_envs, pieces)


def with_piece_by_hand(_added: str, num_envs: int) -> Play:
    """Return the loop by hand of the row without a piece."""
    return single_by_hand("sync", num_envs)


def with_piece_by_default(_added: str, num_envs: int) -> Play:
    """Return what samples with the default pipeline."""
    return single("sync", num_envs)


def recurrent(num_envs: int) -> Play:
    """Return the same with an LSTM."""
    return _sampling(_lstm(), "sync", num_envs)


def single_by_hand(kind: str, num_envs: int) -> Play:
    """Return the same by hand: of both ways to step environments one by one, the one that is faster with so many."""
    module, steps = _mlp(), FRAGMENTS[num_envs]
    network = nn.Sequential(*module.actor.tower, module.actor_head)
    if kind == "sync":
        return BareList(sync_envs(num_envs), network, steps)
    return BareVector(vectorised_env(num_envs), network, steps)


def recurrent_by_hand(num_envs: int) -> Play:
    """Return the same with an LSTM by hand."""
    return BareLSTM(sync_envs(num_envs), _lstm(), FRAGMENTS[num_envs])


def team(env: type[Team], num_agents: int, num_envs: int, steps: int, **added: Any) -> Play:
    """Return what samples with a multi-agent runner, and returns the number of steps of agents."""
    made = type(env.__name__, (env, MultiAgentEnv), {})
    runner = MultiAgentEnvRunner(lambda: made(num_agents), _mlp(), num_envs=num_envs, seed=SEED, lookback=1, **added)
    return lambda: sum(episode.agent_steps() for episode in runner.sample(num_timesteps=num_envs * steps))


def watched_team(added: str, *setting: Any) -> Play:
    """Return the same with a piece in front of the module, or with a callback."""
    if added == CALLBACK:
        return team(*setting, callbacks=[counting_callback(Callbacks)()])
    return team(*setting, env_to_module=PIECES[added](connectors))


def watched_team_by_default(_added: str, *setting: Any) -> Play:
    """Return what samples with the default pipeline, and without a callback."""
    return team(*setting)
