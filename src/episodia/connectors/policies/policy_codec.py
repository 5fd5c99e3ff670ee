"""Policies as plain data: which classes, with which arguments, weights and states; and back, with registered classes only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import torch

from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.policies.limited_spaces import decoded_spaces
from episodia.connectors.policies.piece_codec import decoded_pieces, encoded_piece
from episodia.errors import CheckpointError
from episodia.modules.registry import make_module, module_name, module_state
from episodia.space_codec import encode_space

#: Under which a checkpoint holds a policy, whatever else it holds.
KEY: Final = "policy"
#: Under which a checkpoint says why it holds none.
REASON_KEY: Final = "no_policy"
_VERSION = 1


class PolicyParts(NamedTuple):
    """What a policy is made of."""

    module: Any
    env_to_module: EnvToModulePipeline
    module_to_env: ModuleToEnvPipeline
    explore: bool
    generator: torch.Generator | None  # None if it was one of another kind of device


def encoded_policy(
    module: Any, env_to_module: EnvToModulePipeline, module_to_env: ModuleToEnvPipeline
) -> dict[str, Any]:
    """Return plain data, tensors and arrays.

    Raises:
        ModuleError: If the class of the module is not registered.
        PipelineError: If the class of a piece is not registered.
    """
    return {
        "version": _VERSION,
        "module": {
            "class": module_name(module),
            "spaces": [encode_space(module.observation_space), encode_space(module.action_space)],
            "config": module.get_config(),
            "state": module_state(module),
        },
        "env_to_module": _encoded_pipeline(env_to_module),
        "module_to_env": _encoded_pipeline(module_to_env),
    }


def _encoded_pipeline(pipeline: EnvToModulePipeline | ModuleToEnvPipeline) -> dict[str, Any]:
    return {
        "spaces": [encode_space(pipeline.input_observation_space), encode_space(pipeline.input_action_space)],
        "pieces": [encoded_piece(piece) for piece in pipeline],
        "state": pipeline.get_state(),
    }


def policy_in(state: dict[str, Any], path: str | Path) -> Any:
    """Return the policy that is in the state of a checkpoint.

    Raises:
        CheckpointError: If there is none.
    """
    if KEY not in state:
        reason = f" It could not be saved: {state[REASON_KEY]}" if REASON_KEY in state else ""
        raise CheckpointError(
            f"{path}: found a checkpoint of {sorted(state)}, expected one with {KEY!r} in it. Load one that `Policy.save` or a "
            f"training has written.{reason}"
        )
    return state[KEY]


def decoded_policy(state: Any, device: torch.device, where: str) -> PolicyParts:
    """Return the parts of the policy that `encoded_policy` turned into `state`.

    Raises:
        CheckpointError: If it is something else, from a later version, or of classes that are not registered.
    """
    version = state.get("version") if isinstance(state, dict) else None
    if version != _VERSION:
        raise CheckpointError(
            f"{where}: found a policy of version {repr(version)[:40]}, expected {_VERSION}. Load it with the version of "
            "episodia that has written it, or a later one."
        )
    try:
        return _parts(state, device)
    except Exception as error:
        # An untrue state can fail anywhere on the way through the constructors; they are all registered ones.
        raise CheckpointError(
            f"{where}: found a policy that cannot be made here ({type(error).__name__}: {error}), expected registered classes "
            "with arguments that fit. Import what registers them first, or use another checkpoint."
        ) from error


def _parts(state: dict[str, Any], device: torch.device) -> PolicyParts:
    saved = state["module"]
    module = make_module(saved["class"], *decoded_spaces(saved["spaces"]), saved["config"], saved["state"])
    if isinstance(module, torch.nn.Module):
        module.to(device)
    return PolicyParts(
        module=module,
        env_to_module=_decoded_pipeline(EnvToModulePipeline, state["env_to_module"], device),
        module_to_env=_decoded_pipeline(ModuleToEnvPipeline, state["module_to_env"], device),
        explore=bool(state["explore"]),
        generator=_decoded_generator(state["generator"], device),
    )


Pipeline = TypeVar("Pipeline", EnvToModulePipeline, ModuleToEnvPipeline)


def _decoded_pipeline(kind: type[Pipeline], data: dict[str, Any], device: torch.device) -> Pipeline:
    pipeline = kind(*decoded_spaces(data["spaces"]), connectors=decoded_pieces(data["pieces"], device))
    pipeline.set_state(data["state"])
    return pipeline


def _decoded_generator(data: dict[str, Any], device: torch.device) -> torch.Generator | None:
    # What one kind of device has drawn, another one cannot go on with.
    if data["device"] != device.type:
        return None
    generator = torch.Generator(device)
    generator.set_state(data["state"])
    return generator
