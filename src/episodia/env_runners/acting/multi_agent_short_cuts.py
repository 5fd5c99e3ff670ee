"""The default pipelines of a multi-agent runner without the frame around their pieces; see `short_cuts.py`.

The results are the same, bit for bit; a pipeline that is edited later is run as a whole from then on.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AgentToModuleMapping,
    BatchIndividualItems,
    EnvToModulePipeline,
    GetActions,
    ModuleToAgentUnmapping,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    NumpyToTensor,
    TensorToNumpy,
)
from episodia.connectors.batches.module_outputs import NOT_RECORDED, ModuleOutputs
from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS
from episodia.connectors.common.numpy_to_tensor import as_tensor
from episodia.connectors.module_to_env.module_to_agent_unmapping import MAPPED_BATCH
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.connectors.spaces.action_spaces import PerSpace
from episodia.env_runners.rollout.multi_agent_lane import Choice
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.modules import MultiModule
from episodia.trees import map_batch

_TO_MODULE = (AddObservationsFromEpisodesToBatch, AgentToModuleMapping, BatchIndividualItems, NumpyToTensor)
_TO_ENV = (GetActions, TensorToNumpy, NormalizeAndClipActions, ModuleToAgentUnmapping)


@final
class MultiAgentToModule:
    """The default env-to-module pipeline of modules without state."""

    def __init__(self, pipeline: EnvToModulePipeline) -> None:
        self._pipeline = pipeline
        self._pieces: Any = None

    def batch(self, agents: LiveAgents, shared: dict[Any, Any]) -> dict[Any, Any] | None:
        """Return what the pipeline makes of the last observations; None if it has to be asked itself."""
        pieces: tuple[Any, ...] = self._pipeline.connectors
        if pieces is not self._pieces:
            self._pieces = pieces
            self._is_default = tuple(map(type, pieces)) == _TO_MODULE and type(self._pipeline) is EnvToModulePipeline
        if not self._is_default:
            return None
        batch, device = {}, pieces[-1].device
        for module_id, group in agents.groups().items():
            observations = group.flat(Columns.OBS).values
            # Nested observations may hold action masks.
            if type(observations) is not np.ndarray:
                return None
            batch[module_id] = {Columns.OBS: as_tensor(observations, device)}
        shared[ROW_OWNERS] = agents.owners_by_module()
        return batch


@final
class MultiAgentToEnv:
    """The default module-to-env pipeline of modules without state, where all actions are allowed."""

    def __init__(self, pipeline: ModuleToEnvPipeline, modules: MultiModule | None) -> None:
        self._pipeline = pipeline
        self._modules = modules
        self._pieces: Any = None
        self._scales = PerSpace(_has_box)

    def choices(
        self, outputs: dict[Any, Any], agents: LiveAgents, shared: dict[Any, Any], explore: bool, generator: Any
    ) -> list[Choice] | None:
        """Return what the agents of each episode do; None if the pipeline has to be asked itself.

        Observations must hold no masks, and no module a state.
        """
        pieces: tuple[Any, ...] = self._pipeline.connectors
        if pieces is not self._pieces:
            self._pieces = pieces
            self._is_default = tuple(map(type, pieces)) == _TO_ENV and type(self._pipeline) is ModuleToEnvPipeline
        if (
            not self._is_default
            or self._modules is None
            or any(Columns.ACTION_MASK in columns for columns in outputs.values())
        ):
            return None
        get_actions, _, scaling, _ = pieces
        mapped = {}
        for module_id, given in outputs.items():
            columns = dict(given)
            if Columns.ACTIONS not in columns:
                get_actions._act(ModuleOutputs(module_id, columns, self._modules[module_id]), None, explore, generator)
            mapped[module_id] = {name: map_batch(as_array, column) for name, column in columns.items()}
        space = scaling.input_action_space
        if (scaling.normalize_actions or scaling.clip_actions) and (space is None or self._scales(space)):
            mapped = scaling(rl_module=self._modules, batch=mapped, shared_data=shared)
        shared[MAPPED_BATCH] = mapped
        return _choices(mapped, agents)


def _choices(mapped: dict[Any, Any], agents: LiveAgents) -> list[Choice] | None:
    """Return what the agents of each episode do; None if actions are not plain."""
    choices = [Choice({}, {}, _Extras(mapped, agents, position)) for position in range(len(agents))]
    for module_id, owners in agents.owners_by_module().items():
        actions = mapped[module_id][Columns.ACTIONS]
        for_env = mapped[module_id].get(Columns.ACTIONS_FOR_ENV, actions)
        if not _are_rows(actions, len(owners)) or not _are_rows(for_env, len(owners)):
            return None
        # Scalars are handed to environments by value; arrays may be changed by them.
        received = for_env.copy() if for_env.ndim > 1 else for_env
        for (position, agent), action, sent in zip(owners, actions, received, strict=True):
            choice = choices[position]
            choice.actions[agent] = action
            choice.for_env[agent] = sent
    return choices


def _are_rows(column: Any, count: int) -> bool:
    return type(column) is np.ndarray and column.ndim > 0 and len(column) == count


@final
class _Extras:
    """The extra model outputs of one episode's agents, looked up when they are asked for: most steps are recorded without."""

    __slots__ = ("_agents", "_mapped", "_position")

    def __init__(self, mapped: dict[Any, Any], agents: LiveAgents, position: int) -> None:
        self._mapped = mapped
        self._agents = agents
        self._position = position

    def __call__(self) -> dict[Any, dict[str, Any]]:
        """Return `{agent: {name: output}}`."""
        extras = {}
        for module_id, owners in self._agents.owners_by_module().items():
            stored = {name: column for name, column in self._mapped[module_id].items() if name not in NOT_RECORDED}
            for row, (position, agent) in enumerate(owners):
                if position == self._position:
                    extras[agent] = {name: _row(column, row) for name, column in stored.items()}
        return extras


def _row(column: Any, row: int) -> Any:
    return map_batch(lambda leaf: leaf[row], column)


def _has_box(space: Space[Any]) -> bool:
    """Tell whether actions are scaled or clipped anywhere in `space`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        children = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return any(map(_has_box, children))
    return isinstance(space, spaces.Box)
