"""Modules that parts of a batch belong to, their outputs, and the episodes that the rows of outputs belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from torch import nn

from episodia.columns import COLUMN_NAMES, Columns
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import (
    describe_batch,
    describe_column,
    is_collected,
    is_made_of_tensors,
)
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.other_episodes import of_acting_agents, of_module
from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import BatchError, PipelineError
from episodia.modules.protocol import Module, Modules
from episodia.trees import leaves
from episodia.types import AgentID, Item, ModuleID


def is_container(rl_module: Modules) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether `rl_module` is a container of modules by id: a mapping, or an object like it, such as `nn.ModuleDict`."""
    return hasattr(type(rl_module), "__getitem__") and callable(getattr(rl_module, "keys", None))


def members(rl_module: Modules) -> dict[Any, Any]:
    """Return the modules of a container by their ids; a single module under the name of its class.

    >>> members({"left": 1, "right": 2}), members(3)
    ({'left': 1, 'right': 2}, {'int': 3})
    """
    if is_container(rl_module):
        return {module_id: rl_module[module_id] for module_id in rl_module.keys()}  # noqa: SIM118  # a protocol, not a dict
    return {type(rl_module).__name__: rl_module}


def module_of(rl_module: Modules, module_id: ModuleID) -> Any:
    """Return the module that `module_id` names in a container, or None; a single module serves all ids."""
    if not is_container(rl_module):
        return rl_module
    return rl_module[module_id] if module_id in rl_module else None  # noqa: SIM401  # `nn.ModuleDict` has no `get`


def is_stateful(module: Module | None) -> bool:
    """Return whether a module is recurrent; False if the module does not declare it."""
    stateful = getattr(module, "is_stateful", False)
    return bool(stateful() if callable(stateful) else stateful)


def needed_module(piece: str, rl_module: Modules) -> Any:
    """Return the module or container that a piece needs.

    Raises:
        PipelineError: If it is None.
    """
    if rl_module is None:
        raise PipelineError(
            f"{piece}: found `rl_module=None`, expected the module that the batch is for. Call the pipeline, or `explain`, "
            "with `rl_module=`."
        )
    return rl_module


def learns(rl_module: Modules, module_id: ModuleID) -> bool:
    """Return whether a loss may be computed for `module_id`.

    In a container, False for modules that are frozen, have no weights that require gradients, or are missing, such as rules and
    opponents. A single module always learns.

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
    """Reject a container without any of the modules that acted in `episodes`.

    Some of them suffice: rules and frozen opponents need not be in the container of the learning modules.

    Raises:
        BatchError: If it has none of them; the message names the modules, their agents and the remedy.
    """
    if not is_container(rl_module):
        return
    groups = {module_id: rows for module_id, rows in episodes.groups().items() if len(rows)}
    if not groups or any(module_id in rl_module for module_id in groups):
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


# Columns for the module or the environment; all others are results that episodes keep.
NOT_RECORDED = frozenset({Columns.OBS, Columns.STATE_IN, Columns.ACTIONS, Columns.ACTIONS_FOR_ENV})


class ModuleOutputs(NamedTuple):
    """The columns of one module. Writing into them changes the batch."""

    module_id: ModuleID  # None in a batch of one module
    columns: Batch
    module: Any


def module_outputs(batch: Batch, rl_module: Modules) -> Iterator[ModuleOutputs]:
    """Yield the columns of each module.

    A batch with a column of `Columns` belongs to one module; every other batch is grouped by module.

    Raises:
        BatchError: If the batch is neither.

    >>> [outputs.module_id for outputs in module_outputs({"actions": [1]}, None)]
    [None]
    >>> [outputs.module_id for outputs in module_outputs({"left": {"actions": [1]}, "right": {"actions": [2]}}, None)]
    ['left', 'right']
    """
    if not COLUMN_NAMES.isdisjoint(batch):
        yield ModuleOutputs(None, batch, rl_module)
        return
    for module_id, columns in batch.items():
        if not isinstance(columns, dict):
            raise BatchError(
                f"found a batch of {describe_batch(batch)}, expected outputs of a module, such as {Columns.ACTIONS!r}, or "
                "`{module: {column: data}}` for several. Place this piece into a module-to-env pipeline."
            )
        yield ModuleOutputs(module_id, columns, module_of(rl_module, module_id))


def outputs_of_modules(run: Run) -> list[ModuleOutputs]:
    """Return the columns of each module in the batch of `run`; the result is kept in `run` until the batch is replaced."""
    found: list[ModuleOutputs] | None = run.module_outputs
    if found is None:
        found = run.module_outputs = list(module_outputs(run.batch, run.rl_module))
    return found


def needed_column(outputs: ModuleOutputs, column: str, writer: str) -> Any:
    """Return a column that a piece needs; `writer` names the usual source of the column.

    Raises:
        BatchError: If it is missing.
    """
    try:
        return outputs.columns[column]
    except KeyError:
        raise BatchError(
            f"{place_of(outputs, column)}: found no such column, only {list(outputs.columns)}; expected it from {writer}. "
            "Place this piece after it."
        ) from None


def check_arrays(outputs: ModuleOutputs, column: str, actions: Item) -> None:
    """Check that a column consists of NumPy arrays.

    Raises:
        BatchError: If it consists of tensors or of single items.
    """
    if is_made_of_tensors(actions):
        remedy = "Place this piece after `TensorToNumpy`."
    elif all(isinstance(leaf, np.ndarray) and leaf.ndim for _, leaf in leaves(actions)):
        return
    else:
        remedy = "Gather items with `BatchIndividualItems` first, and place `ModuleToAgentUnmapping` last."
    raise BatchError(
        f"{place_of(outputs, column)}: found {describe_column(actions)}, expected NumPy arrays with one row for each agent "
        f"that acts. {remedy}"
    )


def gathered(outputs: ModuleOutputs, column: str, episodes: Any) -> Any:
    """Return a column as arrays, also if a plugin has added it item by item with `add_batch_item`.

    Raises:
        BatchError: If it consists of tensors, or if there is not one item for each agent that acts.
    """
    found = outputs.columns[column]
    if type(found) is np.ndarray and found.ndim:
        return found
    if is_collected(found) or (isinstance(found, list) and found):
        rows = EpisodeList.of(episodes)
        if outputs.module_id is not None:
            found = of_acting_agents(found, rows) if isinstance(found, dict) else found
            rows = rows.groups()[outputs.module_id]
            found = of_module(found, outputs.module_id, rows) if isinstance(found, dict) else found
        found = as_ragged(found, rows).body().values
    check_arrays(outputs, column, found)
    return found


def place_of(outputs: ModuleOutputs, column: str) -> str:
    """Return where a column is, for messages."""
    return f"column {column!r}" if outputs.module_id is None else f"module {outputs.module_id!r}, column {column!r}"


def memorized_rows(shared_data: dict[Any, Any] | None, module_id: ModuleID) -> list[tuple[int, Any]] | None:
    """Return `(position of the episode, agent id)` for each row of a module; None if `shared_data` does not have it.

    >>> memorized_rows({"memorized_map_structure": {"left": [(0, "a"), (1, "a")]}}, "left")
    [(0, 'a'), (1, 'a')]
    """
    noted = (shared_data or {}).get(ROW_OWNERS)
    return noted.get(module_id) if isinstance(noted, dict) else None


def needed_rows(shared_data: dict[Any, Any] | None, module_id: ModuleID) -> list[tuple[int, Any]]:
    """Return the result of `memorized_rows`.

    Raises:
        BatchError: If `shared_data` does not have it.
    """
    rows = memorized_rows(shared_data, module_id)
    if rows is None:
        noted = (shared_data or {}).get(ROW_OWNERS)
        found = f"rows of {list(noted)}" if isinstance(noted, dict) else "none"
        raise BatchError(
            f"module {module_id!r}: found no owners of its rows in `shared_data[{ROW_OWNERS!r}]` ({found}), "
            "expected one for each module. Put `AgentToModuleMapping` into the env-to-module pipeline, and pass the same "
            "`shared_data` to both pipelines."
        )
    return rows


def episodes_of_rows(
    module_id: ModuleID, episodes: Sequence[Any], shared_data: dict[Any, Any] | None
) -> list[SingleAgentEpisode]:
    """Return the single-agent episode, or the agent's episode, that each row of a module belongs to.

    Raises:
        BatchError: If the owners of a module's rows are not known.
    """
    if module_id is None:
        return list(episodes)
    return [agent_episode(episodes[position], agent) for position, agent in needed_rows(shared_data, module_id)]


def agent_episode(episode: SingleAgentEpisode | MultiAgentEpisode, agent: AgentID) -> SingleAgentEpisode:
    """Return the episode of an agent in a multi-agent episode; a single-agent episode is its own."""
    if not isinstance(episode, MultiAgentEpisode):
        return episode
    if agent not in episode.agent_episodes:
        raise BatchError(
            f"episode {episode.id_!r}: found a row of the agent {agent!r}, expected one of its agents, "
            f"{list(episode.agent_episodes)}. Pass the episodes that the env-to-module pipeline was given, in the same order."
        )
    return episode.agent_episodes[agent]
