"""Multi-agent policies as plain data, and back: each module once, the mapping of agents, and both pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch

from episodia.connectors.common.agent_to_module_mapping import OnlyModule, own_module
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.plugins.piece_codec import encoded_pipeline
from episodia.errors import CheckpointError, ModuleError, PolicyError
from episodia.modules.module_registry import module_name
from episodia.policies.policy_snapshot import PolicyParts
from episodia.policies.saved_policy import (
    VERSION,
    cannot_be_made,
    checked_version,
    decoded_module,
    decoded_parts,
    encoded_module,
)
from episodia.types import State

AgentToModule: TypeAlias = Callable[[Any, Any], Any]

_OWN, _ONLY = "own", "only"


class SeveralParts(NamedTuple):
    """The parts of a multi-agent policy."""

    parts: PolicyParts
    agent_to_module: AgentToModule
    missing: dict[Any, str]  # why a module could not be saved, by its id


def encoded_policies(
    modules: Mapping[Any, Any],
    missing: Mapping[Any, str],
    agent_to_module: AgentToModule,
    env_to_module: EnvToModulePipeline,
    module_to_env: ModuleToEnvPipeline,
) -> dict[str, Any]:
    """Return plain data, tensors and arrays, and the reason why modules of unregistered classes are missing.

    Args:
        modules: The modules by their ids.
        missing: The reasons why modules were missing before.
        agent_to_module: The mapping of agents to modules; functions of users are not saved.
        env_to_module: The pipeline in front of them.
        module_to_env: The pipeline behind them.

    Raises:
        ModuleError: If no module can be saved, if a config or state is not a dict, or if an id is neither a string nor an
            integer.
        PipelineError: If the class of a piece is not registered.
    """
    encoded: list[dict[str, Any]] = []
    reasons, places, ids = dict(missing), {}, []
    for module_id, module in modules.items():
        _check_id(module_id)
        # Two ids of one module share it after loading as well.
        if id(module) not in places:
            try:
                module_name(module)
            except ModuleError as error:
                reasons[module_id] = str(error)
                continue
            encoded.append(encoded_module(module))
            places[id(module)] = len(encoded) - 1
        ids.append([module_id, places[id(module)]])
    if not ids:
        raise ModuleError(f"policy: found no module that can be saved, expected at least one. {reasons}")
    return {
        "version": VERSION,
        "modules": encoded,
        "ids": ids,
        "missing": [[module_id, reason] for module_id, reason in reasons.items()],
        "agent_to_module": _encoded_mapping(agent_to_module),
        "env_to_module": encoded_pipeline(env_to_module),
        "module_to_env": encoded_pipeline(module_to_env),
    }


def _check_id(module_id: Any) -> None:
    if type(module_id) not in (str, int):
        raise ModuleError(
            f"policy: found {module_id!r} as the id of a module, expected a string or an integer: other ids cannot "
            "be saved. Rename it."
        )


def _encoded_mapping(agent_to_module: AgentToModule) -> Any:
    if isinstance(agent_to_module, OnlyModule):
        return [_ONLY, agent_to_module.module_id]
    return [_OWN] if agent_to_module is own_module else None


def decoded_policies(
    state: State,
    device: torch.device,
    where: str,
    given: Mapping[Any, Any],
    agent_to_module: AgentToModule | None,
) -> SeveralParts:
    """Return the parts of the policy that `encoded_policies` encoded as `state`.

    Args:
        state: The plain data.
        device: The device of the modules in it.
        where: The source of the state, for messages.
        given: Modules that replace those in `state`, or that are missing there.
        agent_to_module: The mapping of agents to modules, in place of that in `state`.

    Raises:
        CheckpointError: If `state` is damaged, from a later version, or of unregistered classes, or if `agent_to_module` is
            needed and None.
        PolicyError: If a module of `given` has an id that `state` does not know.
    """
    checked_version(state, where)
    try:
        mapping = _decoded_mapping(state["agent_to_module"]) if agent_to_module is None else agent_to_module
        made = [decoded_module(data, device) for data in state["modules"]]
        saved = {module_id: made[place] for module_id, place in state["ids"]}
        left_out = {module_id: str(reason) for module_id, reason in state["missing"]}
        parts = decoded_parts(saved | dict(given), state, device)
    except Exception as error:  # a damaged state can fail anywhere
        raise cannot_be_made(where, error) from error
    unknown = [module_id for module_id in given if module_id not in saved and module_id not in left_out]
    if unknown:
        raise PolicyError(
            f"{where}: found `modules` with the ids {unknown}, expected some of {[*saved, *left_out]}, which the policy has. "
            "Correct the ids."
        )
    if mapping is None:
        raise CheckpointError(
            f"{where}: found a policy whose agents were mapped to modules by a function, expected that function, because "
            "code is not saved. Pass it as `agent_to_module_mapping_fn=`."
        )
    missing = {module_id: reason for module_id, reason in left_out.items() if module_id not in parts.module}
    return SeveralParts(parts, mapping, missing)


def _decoded_mapping(data: Any) -> AgentToModule | None:
    if data is None:
        return None
    return own_module if data == [_OWN] else OnlyModule(*_only(data))


def _only(data: Any) -> list[Any]:
    kind, module_id = data
    if kind != _ONLY:
        raise ValueError(f"found {data!r}, expected pairs of an agent and its module")
    return [module_id]
