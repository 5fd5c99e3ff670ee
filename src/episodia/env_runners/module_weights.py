"""The weights of a runner's modules, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from episodia.errors import EnvRunnerError
from episodia.modules import Module


def weights_of(modules: Mapping[Any, Module]) -> dict[Any, dict[str, np.ndarray]]:
    """Return copies of the weights of all modules that have some: `{module_id: {name: array}}`."""
    return {
        module_id: {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}
        for module_id, module in modules.items()
        if isinstance(module, torch.nn.Module)
    }


def load_weights(modules: Mapping[Any, Module], weights: Mapping[Any, Mapping[str, Any]]) -> None:
    """Give modules other weights, tensors or arrays; modules that are not named keep theirs.

    Raises:
        EnvRunnerError: If there is no such module, or if weights do not fit; all modules keep their weights then.
    """
    networks = {id_: module for id_, module in modules.items() if isinstance(module, torch.nn.Module)}
    unknown = [module_id for module_id in weights if module_id not in networks]
    if unknown:
        raise EnvRunnerError(
            f"found weights of the modules {unknown}, expected some of {list(networks)}, which have weights. Leave them out, "
            "or make the runner with these modules."
        )
    for module_id, given in weights.items():
        _check_fits(module_id, networks[module_id], given)
    for module_id, given in weights.items():
        networks[module_id].load_state_dict({name: torch.as_tensor(value) for name, value in given.items()})


def _check_fits(module_id: Any, module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    own = module.state_dict()
    names = sorted(set(own).symmetric_difference(weights))
    shapes = [name for name in own if name not in names and tuple(np.shape(weights[name])) != own[name].shape]
    if names or shapes:
        raise EnvRunnerError(
            f"found weights that do not fit to {type(module).__name__} ({module_id!r}): missing or unknown {names}, of another "
            f"shape {shapes}. Pass the state of an equal module."
        )
