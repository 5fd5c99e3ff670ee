"""Policies as plain data, and back: registered classes with their arguments, weights and states."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch

from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.plugins.piece_codec import decoded_pipeline, encoded_pipeline
from episodia.connectors.plugins.size_limits import decoded_spaces, encoded_spaces
from episodia.errors import CheckpointError
from episodia.modules import Module
from episodia.modules.module_registry import make_module, module_config, module_name, module_state
from episodia.policies.policy_snapshot import PolicyParts
from episodia.types import State

#: The key of a policy in a checkpoint.
KEY: Final = "policy"
#: The key of a multi-agent policy in a checkpoint.
MULTI_AGENT_KEY: Final = "multi_agent_policy"
#: The key of the reason why a checkpoint has no policy.
REASON_KEY: Final = "no_policy"
VERSION: Final = 1

_LOADERS = {KEY: "Policy.load", MULTI_AGENT_KEY: "MultiAgentPolicy.load"}


def encoded_policy(
    module: Module, env_to_module: EnvToModulePipeline, module_to_env: ModuleToEnvPipeline
) -> dict[str, Any]:
    """Return plain data, tensors and arrays.

    Raises:
        ModuleError: If the class of the module is not registered, or if its config or state is not a dict.
        PipelineError: If the class of a piece is not registered.
    """
    return {
        "version": VERSION,
        "module": encoded_module(module),
        "env_to_module": encoded_pipeline(env_to_module),
        "module_to_env": encoded_pipeline(module_to_env),
    }


def encoded_module(module: Module) -> dict[str, Any]:
    """Return the class, the arguments and the state of a module.

    Raises:
        ModuleError: If its class is not registered, or if its config or state is not a dict.
    """
    return {
        "class": module_name(module),
        "spaces": encoded_spaces(module.observation_space, module.action_space),
        "config": module_config(module),
        "state": module_state(module),
    }


def policy_in(state: dict[str, Any], path: str | Path, key: str) -> State:
    """Return the policy under `key` in the state of a checkpoint.

    Raises:
        CheckpointError: If it is missing.
    """
    if key in state:
        found: State = state[key]
        return found
    reason = f" It could not be saved: {state[REASON_KEY]}" if REASON_KEY in state else ""
    others = [f"`{loader}`" for other, loader in _LOADERS.items() if other in state]
    remedy = (
        f"Load it with {others[0]}."
        if others
        else f"Load a checkpoint that `save` of a policy or a training has written.{reason}"
    )
    raise CheckpointError(
        f"{path}: found a checkpoint of {sorted(state)}, expected one with {key!r} in it, for `{_LOADERS[key]}`. {remedy}"
    )


def checked_version(state: object, where: str) -> None:
    """Check that `state` is the state of a policy of this version.

    Raises:
        CheckpointError: If it is not.
    """
    version = state.get("version") if isinstance(state, dict) else None
    if type(version) is not int or version != VERSION:
        raise CheckpointError(
            f"{where}: found a policy of version {repr(version)[:40]}, expected {VERSION}. Load it with the version of "
            "episodia that wrote it, or a later one."
        )


def cannot_be_made(where: str, error: Exception) -> CheckpointError:
    """Return the error for a saved policy that a constructor of a registered class rejects."""
    return CheckpointError(
        f"{where}: found a policy that cannot be loaded ({type(error).__name__}: {error}), expected registered classes "
        "with arguments that fit. Import what registers them first, or use another checkpoint."
    )


def decoded_policy(state: State, device: torch.device, where: str) -> PolicyParts:
    """Return the parts of the policy that `encoded_policy` encoded as `state`.

    Raises:
        CheckpointError: If `state` is damaged, from a later version, or of unregistered classes.
    """
    checked_version(state, where)
    try:
        return decoded_parts(decoded_module(state["module"], device), state, device)
    except Exception as error:  # a damaged state can fail anywhere
        raise cannot_be_made(where, error) from error


def decoded_module(data: dict[str, Any], device: torch.device) -> Module:
    """Return the module that `encoded_module` encoded as `data`."""
    module = make_module(data["class"], *decoded_spaces(data["spaces"]), data["config"], data["state"])
    if isinstance(module, torch.nn.Module):
        module.to(device)
    return module


def decoded_parts(module: Module | dict[Any, Module], state: dict[str, Any], device: torch.device) -> PolicyParts:
    """Return `module`, one or several, with the other parts of a policy."""
    return PolicyParts(
        module=module,
        env_to_module=decoded_pipeline(EnvToModulePipeline, state["env_to_module"], device),
        module_to_env=decoded_pipeline(ModuleToEnvPipeline, state["module_to_env"], device),
        explore=bool(state["explore"]),
        generator=_decoded_generator(state["generator"], device),
    )


def _decoded_generator(data: dict[str, Any], device: torch.device) -> torch.Generator | None:
    # The generator of one type of device does not fit another type.
    if data["device"] != device.type:
        return None
    generator = torch.Generator(device)
    generator.set_state(data["state"])
    return generator
