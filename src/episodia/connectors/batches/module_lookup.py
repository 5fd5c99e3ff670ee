"""Which module a part of a batch is for: the one that there is, or a member of a container, which need not have all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from torch import nn

from episodia.episodes import EpisodeList
from episodia.errors import BatchError, PipelineError
from episodia.modules.protocol import Module, Modules
from episodia.types import ModuleID


def is_container(rl_module: Modules) -> TypeGuard[Mapping[Any, Any]]:
    """Tell whether `rl_module` is several modules by their ids: a mapping, or what has its methods, such as `nn.ModuleDict`."""
    return callable(getattr(rl_module, "keys", None)) and hasattr(rl_module, "__getitem__")


def members(rl_module: Modules) -> dict[Any, Any]:
    """Return the modules of a container by their ids; a single module under the name of its class.

    >>> members({"left": 1, "right": 2}), members(3)
    ({'left': 1, 'right': 2}, {'int': 3})
    """
    if is_container(rl_module):
        return {module_id: rl_module[module_id] for module_id in rl_module.keys()}  # noqa: SIM118  # a protocol, not a dict
    return {type(rl_module).__name__: rl_module}


def module_of(rl_module: Modules, module_id: ModuleID) -> Any:
    """Return the module that `module_id` names in a container, None if it has no such; a single module serves all ids."""
    if not is_container(rl_module):
        return rl_module
    return rl_module[module_id] if module_id in rl_module else None  # noqa: SIM401  # `nn.ModuleDict` has no `get`


def is_stateful(module: Module | None) -> bool:
    """Tell whether a module is recurrent; one that does not say so is not."""
    stateful = getattr(module, "is_stateful", False)
    return bool(stateful() if callable(stateful) else stateful)


def needed_module(piece: str, rl_module: Modules) -> Any:
    """Return the module or container that a piece was given, and cannot do without.

    Raises:
        PipelineError: If there is none.
    """
    if rl_module is None:
        raise PipelineError(
            f"{piece}: found `rl_module=None`, expected the module that the batch is for. Call the pipeline, or `explain`, "
            "with `rl_module=`."
        )
    return rl_module


def learns(rl_module: Modules, module_id: ModuleID) -> bool:
    """Tell whether a loss may be computed for `module_id`.

    Not for the members of a container that are frozen, have no weights that want gradients, or are not there at all: rules and
    opponents. A single module is there to learn.

    >>> learns(object(), "left"), learns({"right": object()}, "left"), learns({"left": nn.Linear(1, 1)}, "left")
    (True, False, True)
    """
    if not is_container(rl_module):
        return True
    module = module_of(rl_module, module_id)
    if module_id in getattr(rl_module, "frozen", ()) or not isinstance(module, nn.Module):
        return False
    return any(weight.requires_grad for weight in module.parameters())


def check_some_known(rl_module: Modules, episodes: EpisodeList) -> None:
    """Refuse a container that has none of the modules which acted in `episodes`.

    One that has some of them is all right: rules and frozen opponents need not be in the container of who learns.

    Raises:
        BatchError: If it has none; naming the modules, their agents and the remedy.
    """
    groups = {module_id: rows for module_id, rows in episodes.groups().items() if len(rows)}
    if not groups or not is_container(rl_module) or any(module_id in rl_module for module_id in groups):
        return
    agents = {
        module_id: sorted({str(agent) for _, agent in rows.row_owners() if agent is not None})
        for module_id, rows in groups.items()
    }
    found = ", ".join(f"{module_id!r} (agents: {', '.join(ids) or 'none named'})" for module_id, ids in agents.items())
    raise BatchError(
        f"found episodes of the modules {found}, and a container of the modules {list(rl_module.keys())}; expected one of the "
        "first among the second. Add it to the container, or correct the mapping from agents to modules."
    )
