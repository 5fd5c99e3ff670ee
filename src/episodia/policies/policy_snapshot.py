"""The common part of all policies: copied pipelines around a module, and a random generator."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
import torch

from episodia.arguments import checked_flag, checked_seed, is_number
from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.pipelines.piece_lookup import walk
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.episodes.lists.episode_list import Episode
from episodia.errors import EpisodiaError, PolicyError
from episodia.modules import Module, MultiModule
from episodia.trees import leaves, map_batch, shown
from episodia.types import AnyBatch, Batch, Item

# Called with a batch and the data that both pipelines share, returns the outputs of the module.
Forward = Callable[[AnyBatch, dict[Any, Any]], AnyBatch]


class PolicyParts(NamedTuple):
    """The parts of a policy; `module` is a dict of modules for a multi-agent policy."""

    module: Any
    env_to_module: EnvToModulePipeline
    module_to_env: ModuleToEnvPipeline
    explore: bool
    generator: torch.Generator | None  # None for another one than that of the policy


@final
class Snapshot:
    """Two pipelines around one module or several; nothing in it learns.

    Args:
        rl_module: The module argument of the pipelines; it is not copied.
        env_to_module: The pipeline in front of it; it is copied.
        module_to_env: The pipeline behind it; it is copied.
        explore: Whether actions are drawn; otherwise the most probable one is taken.
        device: The device of the random generator.
        seed: The seed of the draws.

    Attributes:
        lookback: The number of steps by which the pipelines look back.
        needs_rewards: Whether one of their pieces reads rewards.

    Raises:
        PolicyError: If an argument has the wrong type.
    """

    def __init__(
        self,
        rl_module: Module | MultiModule,
        env_to_module: EnvToModulePipeline,
        module_to_env: ModuleToEnvPipeline,
        *,
        explore: bool,
        device: torch.device,
        seed: int | None,
    ) -> None:
        self.rl_module = rl_module
        self.explore = checked_flag(PolicyError, "policy", "explore", explore)
        self.env_to_module = _copied("env_to_module", env_to_module, EnvToModulePipeline)
        self.module_to_env = _copied("module_to_env", module_to_env, ModuleToEnvPipeline)
        pipelines = self.env_to_module, self.module_to_env
        pieces = [place.piece for pipeline in pipelines for place in walk(pipeline)]
        for pipeline in pipelines:
            pipeline.freeze()
        self.lookback = max(pipeline.lookback for pipeline in pipelines)
        self.needs_rewards = any(piece.reads_rewards for piece in pieces)
        self.generator = torch.Generator(device)
        found = checked_seed(PolicyError, "policy", seed)
        _ = self.generator.seed() if found is None else self.generator.manual_seed(found)

    def act(self, episode: Episode, forward: Forward) -> AnyBatch:
        """Return the batch of the module-to-env pipeline for the last observations of `episode`.

        Raises:
            PolicyError: If it has no actions.
        """
        shared: dict[Any, Any] = {}
        arguments = {
            "rl_module": self.rl_module,
            "episodes": [episode],
            "explore": self.explore,
            "shared_data": shared,
        }
        with torch.no_grad():
            outputs = forward(self.env_to_module(**arguments), shared)
            made: AnyBatch = self.module_to_env(**arguments, batch=outputs, generator=self.generator)
        if Columns.ACTIONS not in made:
            raise PolicyError(
                f"policy: found the columns {list(made)} at the end of the module-to-env pipeline, expected "
                f"{Columns.ACTIONS!r} among them. Let the module return it, or put `GetActions` into the pipeline."
            )
        return made

    def passed(self, module: Module, batch: Batch, mask: Item) -> Batch:
        """Return the outputs of `module`, with the `mask` of allowed actions `[B, ...]`, unless that is None.

        Raises:
            PolicyError: If the module fails, or if the mask is not made of numbers.
        """
        try:
            outputs = module.forward_exploration(batch) if self.explore else module.forward_inference(batch)
        except EpisodiaError:
            raise
        except Exception as error:
            shapes = {name: describe_column(column) for name, column in batch.items()}
            raise PolicyError(
                f"policy: found a failure of {type(module).__name__} ({type(error).__name__}: {error}) with the columns "
                f"{shapes}, expected outputs. Pass observations of the module's observation space."
            ) from error
        if mask is None:
            return dict(outputs)
        if any(leaf.dtype.kind not in "biuf" for _, leaf in leaves(mask)):
            raise _no_mask(mask)
        # All columns of recurrent modules have a time axis.
        spread = map_batch(lambda leaf: leaf[:, None], mask) if module.is_stateful() else mask
        return {**outputs, Columns.ACTION_MASK: spread}

    def copied(self) -> PolicyParts:
        """Return copies of the module and the pipelines, for a runner, which has a generator of its own."""
        return PolicyParts(*copy.deepcopy((self.rl_module, self.env_to_module, self.module_to_env)), self.explore, None)

    def get_state(self) -> dict[str, Any]:
        """Return the state that is neither in the module nor in the pipelines."""
        drawing = {"device": self.generator.device.type, "state": self.generator.get_state()}
        return {"explore": self.explore, "generator": drawing}


def check_one_module(module: object) -> None:
    """Check that `module` is one module.

    Raises:
        PolicyError: If it is not a module, or if there are several.
    """
    if isinstance(module, (Mapping, torch.nn.ModuleDict)):
        raise PolicyError(
            f"policy: found the modules {list(module)}, expected one. Make a `MultiAgentPolicy` of all of them, or a policy of "
            "one, `Policy(modules[module_id])`."
        )
    if isinstance(module, type) or not isinstance(module, Module):
        raise PolicyError(
            f"policy: found {module!r} as the module, expected the methods of `episodia.modules.Module`. Pass such a module."
        )


def acting_copy(modules: dict[Any, Any]) -> dict[Any, Any]:
    """Return copies of `modules` that act and do not learn."""
    copied = copy.deepcopy(modules)
    for module in copied.values():
        if isinstance(module, torch.nn.Module):
            module.eval()
    return copied


def checked_reward(value: Item) -> float:
    """Return the reward `value` as a float.

    Raises:
        PolicyError: If it is not a finite number.
    """
    # Some environments return rewards as arrays without axes.
    number = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if not is_number(number) or math.isinf(number):
        raise PolicyError(f"observe: found {value!r}, expected a finite number. Pass the reward of one step.")
    return float(number)


def mask_row(mask: Item) -> Item:
    """Return the mask of one agent as the mask of a batch with one row.

    Raises:
        PolicyError: If it is not a mask.
    """
    try:
        return map_batch(lambda leaf: np.asarray(leaf)[None], mask)
    except ValueError as error:  # a list of lists of different lengths
        raise _no_mask(mask) from error


def _no_mask(mask: Any) -> PolicyError:
    return PolicyError(
        f"policy: found {describe_column(mask)} as the mask of allowed actions, expected numbers, nonzero for allowed "
        "actions. Pass such an array."
    )


def as_scalars(action: Item) -> Item:
    """Return leaves without axes as scalars, which environments expect."""
    return map_batch(lambda leaf: leaf[()] if isinstance(leaf, np.ndarray) and not leaf.ndim else leaf, action)


def _copied(name: str, pipeline: Any, kind: type) -> Any:
    if not isinstance(pipeline, kind):
        raise PolicyError(
            f"policy: found `{name}={shown(pipeline)}`, expected an `{kind.__name__}`, or None for the default one. Pass "
            "one of these."
        )
    return copy.deepcopy(pipeline)
