"""The modules of a multi-agent runner: which there are, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.episodes.multi_agent.multi_agent_episode import DEFAULT_MODULE_ID
from episodia.errors import EnvRunnerError
from episodia.modules import Module, MultiModule


def as_modules(modules: Any) -> MultiModule | None:
    """Return one module, a dict of modules, or a `MultiModule`, as a `MultiModule`; None stays None."""
    if modules is None or isinstance(modules, MultiModule):
        return modules
    if isinstance(modules, Mapping) and not isinstance(modules, Module):
        return MultiModule(modules)
    return MultiModule({DEFAULT_MODULE_ID: modules})


def weights_of(modules: MultiModule | None) -> dict[Any, dict[str, Any]]:
    """Return copies of the weights of all modules that have some."""
    return {
        module_id: {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        for module_id, module in (modules or {}).items()
        if hasattr(module, "state_dict")
    }


def load_weights(modules: MultiModule | None, weights: Mapping[Any, Mapping[str, Any]]) -> None:
    """Give modules the weights that `weights_of` returned; those that are not named keep theirs.

    Raises:
        EnvRunnerError: If there is no such module, or it has no weights; nothing is changed then.
    """
    known = {module_id: module for module_id, module in (modules or {}).items() if hasattr(module, "load_state_dict")}
    unknown = [module_id for module_id in weights if module_id not in known]
    if unknown:
        raise EnvRunnerError(
            f"found weights of the modules {unknown}, expected some of {list(known)}. Leave them out, or make the runner with "
            "these modules."
        )
    for module_id, state in weights.items():
        known[module_id].load_state_dict(dict(state))
