"""The two pipelines of a runner, and what they have in common with its module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from episodia.connectors import (
    ConnectorV2,
    EnvToModulePipeline,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    defaults,
)

Pieces = Sequence[ConnectorV2]


def env_to_module_for(
    env: VectorEnv[Any, Any, Any], module: Any, given: EnvToModulePipeline | Pieces | None
) -> EnvToModulePipeline:
    """Return the pipeline in front of `module`: the given one, or the default one with the given pieces."""
    if isinstance(given, EnvToModulePipeline):
        return given
    return defaults.env_to_module(
        env.single_observation_space,
        env.single_action_space,
        custom=list(given or ()),
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
        env.single_observation_space, env.single_action_space, custom=list(given or ()), stateful=is_stateful(module)
    )


def real_range_of(module: Any, module_to_env: ModuleToEnvPipeline) -> tuple[float, float] | None:
    """Return of what size a module's real-valued actions are, if their pipeline spreads them over the bounds."""
    spreads = any(isinstance(piece, NormalizeAndClipActions) and piece.normalize_actions for piece in module_to_env)
    return (-1.0, 1.0) if module is not None and spreads else None


def is_stateful(module: Any) -> bool:
    """Tell whether `module` is recurrent."""
    return module is not None and bool(module.is_stateful())


def device_of(module: Any) -> torch.device:
    """Return where the weights of `module` are; the CPU if it has none."""
    weights: Iterable[torch.Tensor] = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return next((weight.device for weight in weights), torch.device("cpu"))


def commit(pipelines: Iterable[ConnectorV2]) -> None:
    """Let the pieces that collect statistics use from now on what they have collected."""
    for piece in _pieces(pipelines):
        change = getattr(piece, "commit", None)
        if change is not None:
            change()


def _pieces(connectors: Iterable[ConnectorV2]) -> Iterator[ConnectorV2]:
    for connector in connectors:
        inner = connector._pieces
        if inner is None:
            yield connector
        else:
            yield from _pieces(inner)
