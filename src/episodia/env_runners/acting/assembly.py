"""Putting together what plays: environments, what acts in them, and the recorder of their steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from gymnasium.vector import VectorEnv

from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.env_runners.acting.acting import Actor
from episodia.env_runners.acting.random_batches import RandomActions
from episodia.env_runners.acting.runner_pipelines import (
    Pieces,
    action_space_of,
    env_to_module_for,
    module_to_env_for,
    real_range_of,
    recorded_action_space,
)
from episodia.env_runners.envs.async_lanes import close
from episodia.env_runners.envs.vector_envs import EnvSource
from episodia.env_runners.rollout.callback_watcher import Watcher
from episodia.env_runners.rollout.lane_faults import Faults
from episodia.env_runners.rollout.rollout import Rollout
from episodia.env_runners.seeding import Seeds
from episodia.episodes.recorder.recorder import Recorder
from episodia.modules.devices import device_of


class Acting(NamedTuple):
    """What a runner is given to act with: a module (or None), and the pipelines around it, or pieces of them."""

    module: Any
    env_to_module: EnvToModulePipeline | Pieces | None
    module_to_env: ModuleToEnvPipeline | Pieces | None
    mask_key: str | None


def new_rollout(source: EnvSource, acting: Acting, seeds: Seeds, faults: Faults, watcher: Watcher) -> Rollout:
    """Make environments, and all that plays in them. If that fails, no environment is left open that was made here."""
    env = source.build()
    try:
        actor = _new_actor(env, acting, seeds, faults)
        recorder = _new_recorder(source, env, actor, seeds.seed)
        return Rollout(source, env, actor, recorder, seeds=seeds, faults=faults, watcher=watcher)
    except BaseException:
        if source.is_renewable:
            close(env)
        raise


def _new_actor(env: VectorEnv[Any, Any, Any], acting: Acting, seeds: Seeds, faults: Faults) -> Actor:
    module = acting.module
    to_env = module_to_env_for(env, module, acting.module_to_env)
    return Actor(
        module,
        env_to_module_for(env, module, acting.env_to_module),
        to_env,
        random=RandomActions(
            action_space_of(module, to_env, env.single_action_space),
            env.num_envs,
            seeds.rng(),
            real_range_of(module, to_env),
        ),
        generator=seeds.generator(device_of(module)),
        metrics=faults.metrics,
        mask_key=acting.mask_key,
    )


def _new_recorder(source: EnvSource, env: VectorEnv[Any, Any, Any], actor: Actor, seed: int) -> Recorder:
    settings = source.settings
    action_space = action_space_of(actor.module, actor.module_to_env, env.single_action_space)
    recorder = Recorder(
        env.single_observation_space,
        action_space if actor.module is None else recorded_action_space(action_space),
        env.num_envs,
        lookback=max(
            settings.lookback, settings.reward_delay, actor.env_to_module.lookback, actor.module_to_env.lookback
        ),
        seed=seed,
    )
    recorder.weights_version = 0
    return recorder
