"""The default pipelines without the frame around their pieces.

At one environment, half of the time of a step would go into calling pieces that have next to nothing to do. Where a pipeline
consists of the default pieces and nothing else, what they do is done here, with the functions that they consist of. The
results are the same, bit for bit; a pipeline that is edited later is run as a whole from then on.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    ConnectorV2,
    EnvToModulePipeline,
    GetActions,
    ModuleToEnvPipeline,
    NormalizeAndClipActions,
    NumpyToTensor,
    RemoveSingleTsTimeRankFromBatch,
    TensorToNumpy,
)
from episodia.connectors.batches.module_outputs import ModuleOutputs
from episodia.connectors.common.add_states_from_episodes_to_batch import CARRIED_STATES
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.common.numpy_to_tensor import as_tensor
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.env_runners.rollout.vector_step import NOT_RECORDED, Chosen
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.modules import DistributionSpec
from episodia.trees import map_batch

_FLOAT32 = np.dtype(np.float32)
_TO_MODULE = (AddObservationsFromEpisodesToBatch, BatchIndividualItems, NumpyToTensor)
_TO_STATEFUL_MODULE = (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
)
_TO_ENV = (GetActions, TensorToNumpy, NormalizeAndClipActions)
_FROM_STATEFUL_MODULE = (GetActions, TensorToNumpy, RemoveSingleTsTimeRankFromBatch, NormalizeAndClipActions)


@final
class ToModule:
    """The default env-to-module pipeline."""

    def __init__(self, pipeline: EnvToModulePipeline, *, stateful: bool) -> None:
        self._pipeline = pipeline
        self._kinds = _TO_STATEFUL_MODULE if stateful else _TO_MODULE
        self._pieces: Any = None

    def batch(self, episodes: LiveEpisodes, shared_data: dict[Any, Any]) -> dict[str, Any] | None:
        """Return what the pipeline makes of `episodes`; None if it has to be asked itself."""
        pieces: tuple[Any, ...] = self._pipeline.connectors
        if pieces is not self._pieces:
            self._pieces = pieces
            self._is_default = _are(pieces, self._kinds) and type(self._pipeline) is EnvToModulePipeline
            self._device = pieces[-1].device if self._is_default else torch.device("cpu")
        if not self._is_default:
            return None
        device = self._device
        latest = episodes.latest(Columns.OBS)
        if type(latest) is np.ndarray and latest.dtype == _FLOAT32 and device.type == "cpu":
            observations = torch.from_numpy(latest.copy())
        else:
            observations = map_batch(lambda leaf: as_tensor(leaf, device), latest)
        if CARRIED_STATES not in shared_data:
            return {Columns.OBS: observations}
        shared_data[ADDED_TIME_AXIS] = True
        return {
            Columns.OBS: map_batch(lambda leaf: leaf[:, None], observations),
            Columns.STATE_IN: map_batch(lambda leaf: as_tensor(leaf, device), shared_data[CARRIED_STATES]),
        }


@final
class ToEnv:
    """The default module-to-env pipeline, where all actions are allowed."""

    def __init__(self, pipeline: ModuleToEnvPipeline, module: Any, *, stateful: bool) -> None:
        self._pipeline = pipeline
        self._module = module
        self._kinds = _FROM_STATEFUL_MODULE if stateful else _TO_ENV
        self._pieces: Any = None
        self._scaling: NormalizeAndClipActions | None = None

    def outputs(
        self, outputs: dict[str, Any], episodes: LiveEpisodes, explore: bool, generator: torch.Generator
    ) -> dict[str, Any] | None:
        """Return what the pipeline makes of `outputs`; None if it has to be asked itself."""
        if self._pipeline.connectors is not self._pieces:
            self._learn(episodes)
        if not self._is_default or Columns.ACTION_DIST_INPUTS not in outputs or Columns.ACTIONS in outputs:
            return None
        columns = dict(outputs)
        self._get_actions._act(ModuleOutputs(None, columns, self._module), None, explore, generator)
        arrays: dict[str, Any] = {name: _as_arrays(column) for name, column in columns.items()}
        if self._kinds is _FROM_STATEFUL_MODULE:
            arrays = self._pieces[2](rl_module=self._module, batch=arrays, shared_data={ADDED_TIME_AXIS: True})
        if self._scaling is not None:
            return self._scaling(rl_module=self._module, batch=arrays, episodes=episodes)
        arrays[Columns.ACTIONS_FOR_ENV] = arrays[Columns.ACTIONS]
        return arrays

    def chosen(
        self, outputs: dict[str, Any], episodes: LiveEpisodes, explore: bool, generator: torch.Generator
    ) -> Chosen | None:
        """Return what to do, where actions are drawn and sent as they are; None if that takes more than drawing."""
        if self._pipeline.connectors is not self._pieces:
            self._learn(episodes)
        if not (self._only_draws and explore) or Columns.ACTIONS in outputs:
            return None
        made_by = self._module.get_exploration_action_dist_cls()
        if not isinstance(made_by, DistributionSpec) or Columns.ACTION_DIST_INPUTS not in outputs:
            return None
        if self._kinds is _FROM_STATEFUL_MODULE:
            if not all(map(_is_single_step, outputs.items())):
                return None
            outputs = {name: column if name == Columns.STATE_OUT else column[:, 0] for name, column in outputs.items()}
        actions, logp = made_by.sampled_arrays(outputs[Columns.ACTION_DIST_INPUTS], generator)
        extras = {name: _as_arrays(column) for name, column in outputs.items() if name not in NOT_RECORDED}
        if Columns.ACTION_LOGP not in extras:
            extras[Columns.ACTION_LOGP] = logp
        return Chosen(actions, received(actions), extras)

    def _learn(self, episodes: LiveEpisodes) -> None:
        """Look at the pieces, once for each change of the pipeline."""
        self._pieces = self._pipeline.connectors
        pieces: tuple[Any, ...] = self._pieces
        self._is_default = _are(pieces, self._kinds) and type(self._pipeline) is ModuleToEnvPipeline
        if self._is_default:
            self._get_actions, scaling = pieces[0], pieces[-1]
            key = self._get_actions.action_mask_key
            self._is_default = key is None or not episodes.has_in_observations(key)
            changes = (scaling.normalize_actions or scaling.clip_actions) and _has_box(scaling.input_action_space)
            self._scaling = scaling if changes else None
        self._only_draws = self._is_default and self._scaling is None and not self._get_actions.is_stateful


def received(actions: Any) -> Any:
    """Return actions for the environment, which may change them: what is recorded must not change with them."""
    return _own(actions) if type(actions) is np.ndarray else map_batch(_own, actions)


def _own(leaf: Any) -> Any:
    # Scalars are handed to environments by value.
    return leaf.copy() if isinstance(leaf, np.ndarray) and leaf.ndim > 1 else leaf


def _is_single_step(item: tuple[str, Any]) -> bool:
    """Tell whether a column of a stateful module can lose its time axis; states have none."""
    name, column = item
    return name == Columns.STATE_OUT or (type(column) is torch.Tensor and column.dim() > 1 and column.shape[1] == 1)


def _as_arrays(column: Any) -> Any:
    return _as_array(column) if type(column) is torch.Tensor else map_batch(as_array, column)


def _as_array(tensor: torch.Tensor) -> Any:
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):  # with a gradient, or on another device; asking first takes longer than the rest
        return as_array(tensor)


def _are(pieces: tuple[ConnectorV2, ...], kinds: tuple[type[ConnectorV2], ...]) -> bool:
    return tuple(map(type, pieces)) == kinds


def _has_box(space: Space[Any] | None) -> bool:
    if isinstance(space, spaces.Dict):
        return any(map(_has_box, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(_has_box, space.spaces))
    # Where no space is known, the piece finds it in the module.
    return space is None or isinstance(space, spaces.Box)
