"""The state of a runner: what has to be saved so that it can go on elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from episodia.env_runners.runner_settings import check_keys
from episodia.errors import EnvRunnerError, EpisodiaError

if TYPE_CHECKING:
    from episodia.env_runners.rollout.single_agent_loop import Rollout

_KEYS = (
    "weights",
    "weights_version",
    "env_to_module",
    "module_to_env",
    "seed",
    "num_resets",
    "num_evaluations",
    "episode_numbers",
    "generator",
    "rng",
)


def weights_of(module: Any) -> dict[str, Any]:
    """Return copies of the weights of `module` as arrays, by name; empty if it has none."""
    if not isinstance(module, torch.nn.Module):
        return {}
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def set_weights(module: Any, weights: Mapping[str, Any]) -> None:
    """Give `module` other weights.

    Raises:
        EnvRunnerError: If they are not those of such a module; it keeps its own then.
    """
    if not isinstance(module, torch.nn.Module):
        if weights:
            raise EnvRunnerError(f"found weights for {type(module).__name__}, expected none: it has no weights.")
        return
    before = module.state_dict()
    names = sorted(set(before).symmetric_difference(weights))
    shapes = [name for name in before if name not in names and tuple(np.shape(weights[name])) != before[name].shape]
    if names or shapes:
        raise EnvRunnerError(
            f"found weights that do not fit to {type(module).__name__}: missing or unknown {names}, of another shape {shapes}. "
            "Pass the state of an equal module."
        )
    module.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})


def state_of(rollout: Rollout) -> dict[str, Any]:
    """Return the state of `rollout`: JSON values and NumPy arrays."""
    actor, seeds = rollout.actor, rollout.seeds
    return {
        "weights": weights_of(actor.module),
        "weights_version": rollout.recorder.weights_version,
        "env_to_module": actor.env_to_module.get_state(),
        "module_to_env": actor.module_to_env.get_state(),
        "seed": seeds.seed,
        "num_resets": seeds.num_resets,
        "num_evaluations": seeds.num_evaluations,
        "episode_numbers": rollout.recorder.episode_numbers(),
        "generator": actor.generator.get_state().numpy().copy(),
        "rng": actor.random.rng.bit_generator.state,
    }


def set_state(rollout: Rollout, state: Mapping[str, Any]) -> None:
    """Let `rollout` go on from `state`; its environments are reset before the next step.

    Raises:
        EnvRunnerError: If it does not fit; nothing is changed then.
    """
    check_keys(state, _KEYS)
    before = state_of(rollout)
    try:
        _set_state(rollout, state)
    except (EpisodiaError, TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
        _set_state(rollout, before)
        raise EnvRunnerError(
            f"found a state that does not fit to this runner ({error}), expected that of one with the same settings."
        ) from error
    rollout.needs_reset = True
    rollout.actor.forget()


def _set_state(rollout: Rollout, state: Mapping[str, Any]) -> None:
    actor, seeds = rollout.actor, rollout.seeds
    set_weights(actor.module, state["weights"])
    actor.env_to_module.set_state(state["env_to_module"])
    actor.module_to_env.set_state(state["module_to_env"])
    actor.generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
    actor.random.rng.bit_generator.state = state["rng"]
    rollout.recorder.set_episode_numbers(int(state["seed"]), state["episode_numbers"])
    seeds.seed, seeds.num_resets = int(state["seed"]), int(state["num_resets"])
    seeds.num_evaluations = int(state["num_evaluations"])
    rollout.recorder.weights_version = state["weights_version"]
