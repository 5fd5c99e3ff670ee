"""The two pipelines of a runner, and the properties of pipelines and module that a runner needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

from episodia.connectors import (
    ActionDecoder,
    ConnectorV2,
    EnvToModulePipeline,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    RewardShaper,
    defaults,
)
from episodia.connectors.pipelines.piece_lookup import with_inner
from episodia.errors import EnvRunnerError
from episodia.modules.devices import device_of
from episodia.trees import shown

Pieces = Sequence[ConnectorV2]


def as_pieces(given: Any) -> list[ConnectorV2]:
    """Return the pieces to put into a default pipeline.

    Raises:
        EnvRunnerError: If `given` is not a list of pieces.
    """
    is_list = isinstance(given, Iterable | None) and not isinstance(given, ConnectorV2)
    pieces = list(given or ()) if is_list else []
    if not is_list or not all(isinstance(piece, ConnectorV2) for piece in pieces):
        raise EnvRunnerError(
            f"found {shown(given)} as a pipeline of the runner, expected a pipeline of that place, a list of pieces, or None. "
            "Put a single piece into a list."
        )
    return pieces


def check_runs_without_module(
    env_to_module: EnvToModulePipeline | Pieces | None, module_to_env: ModuleToEnvPipeline | Pieces | None
) -> None:
    """Check that no piece has an effect that would be missing, because no pipeline runs without a module.

    Raises:
        EnvRunnerError: If a piece in front of the module may write into episodes, or if there is one behind it.
    """
    in_front = [env_to_module] if isinstance(env_to_module, EnvToModulePipeline) else as_pieces(env_to_module)
    single = [piece for piece in with_inner(in_front) if piece.inner_pieces is None]
    idle = [piece for piece in single if piece.writes_to_episodes and not isinstance(piece, RewardShaper)]
    if not isinstance(module_to_env, ModuleToEnvPipeline):
        idle += as_pieces(module_to_env)
    if idle:
        raise EnvRunnerError(
            f"found the pieces {idle} and no module; expected a module, because pipelines do not run without one. Pass "
            "`episodia.modules.RandomModule(observation_space, action_space)` to act at random; if such a piece in front of "
            "the module only adds columns, declare `writes_to_episodes = False`, or leave it out."
        )


def env_to_module_for(
    env: VectorEnv[Any, Any, Any], module: Any, given: EnvToModulePipeline | Pieces | None
) -> EnvToModulePipeline:
    """Return the pipeline in front of `module`: the given one, or the default one with the given pieces."""
    if isinstance(given, EnvToModulePipeline):
        return given
    return defaults.env_to_module(
        env.single_observation_space,
        env.single_action_space,
        custom=as_pieces(given),
        stateful=is_stateful(module),
        device=device_of(module),
        module=module,
    )


def module_to_env_for(
    env: VectorEnv[Any, Any, Any], module: Any, given: ModuleToEnvPipeline | Pieces | None
) -> ModuleToEnvPipeline:
    """Return the pipeline behind `module`: the given one, or the default one with the given pieces."""
    if isinstance(given, ModuleToEnvPipeline):
        return given
    return defaults.module_to_env(
        env.single_observation_space, env.single_action_space, custom=as_pieces(given), stateful=is_stateful(module)
    )


def real_range_of(module: Any, module_to_env: ModuleToEnvPipeline) -> tuple[float, float] | None:
    """Return the range of a module's real-valued actions, if the pipeline spreads them over the bounds."""
    scalings = [piece for piece in with_inner([module_to_env]) if isinstance(piece, NormalizeAndClipActions)]
    spreads = any(piece.normalize_actions for piece in scalings)
    return (-1.0, 1.0) if module is not None and spreads else None


def is_stateful(module: Any) -> bool:
    """Return whether `module` is recurrent."""
    return module is not None and bool(module.is_stateful())


def shapers_of(env_to_module: ConnectorV2) -> list[RewardShaper]:
    """Return the pieces that set rewards."""
    return [piece for piece in with_inner([env_to_module]) if isinstance(piece, RewardShaper)]


def delay_of(env_to_module: ConnectorV2, at_least: int) -> int:
    """Return the number of ticks after which all rewards of a step are set."""
    return max([at_least, *(shaper.delay for shaper in shapers_of(env_to_module))])


def decoder_of(module_to_env: ConnectorV2) -> ActionDecoder | None:
    """Return the piece that translates a module's actions, if there is one."""
    return next((piece for piece in with_inner([module_to_env]) if isinstance(piece, ActionDecoder)), None)


def action_space_of(module: Any, module_to_env: ConnectorV2, space: Space[Any]) -> Space[Any]:
    """Return the space of the recorded actions: that of the decoder if a module has a decoder, else the environment's."""
    decoder = None if module is None else decoder_of(module_to_env)
    return space if decoder is None else decoder.module_action_space


def recorded_action_space(space: Space[Any]) -> Space[Any]:
    """Return the space of the recorded actions: actions of a module may exceed the bounds of a `Box`.

    >>> recorded_action_space(spaces.Box(0.0, 1.0, (2,)))
    Box(-inf, inf, (2,), float32)
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(key, recorded_action_space(child)) for key, child in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([recorded_action_space(child) for child in space.spaces])
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f":
        return spaces.Box(-np.inf, np.inf, space.shape, np.dtype(space.dtype).type)
    return space
