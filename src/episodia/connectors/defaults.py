"""The three default pipelines: env-to-module, module-to-env and learner.

Each is a list of pieces. Change it with the editing methods of the pipeline, or build a pipeline from your own list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from gymnasium import Space

from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import AddTimeDimToBatchAndZeroPad
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.common.numpy_to_tensor import NumpyToTensor
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.module_to_env.action_decoder import ActionDecoder
from episodia.connectors.module_to_env.get_actions import GetActions
from episodia.connectors.module_to_env.module_to_agent_unmapping import ModuleToAgentUnmapping
from episodia.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from episodia.connectors.module_to_env.remove_single_ts_time_rank_from_batch import RemoveSingleTsTimeRankFromBatch
from episodia.connectors.module_to_env.tensor_to_numpy import TensorToNumpy
from episodia.connectors.pipelines.pipeline_kinds import (
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
)
from episodia.connectors.views.module_views import follow_views, views_of
from episodia.errors import PipelineError
from episodia.modules.protocol import Modules
from episodia.trees import shown
from episodia.types import Item


def env_to_module(
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    *,
    custom: Sequence[ConnectorV2] = (),
    multi_agent: bool = False,
    stateful: bool = False,
    device: str | torch.device | None = None,
    module: Modules = None,
) -> EnvToModulePipeline:
    """Return the pipeline from the running episodes to the batch that a module acts on.

    Args:
        observation_space: The observation space of the environment; with several agents a Dict of their spaces.
        action_space: The action space of the environment.
        custom: Pieces to put at the front.
        multi_agent: Whether to group rows by module.
        stateful: Whether a module is recurrent.
        device: The device of the tensors.
        module: The module, or modules by their ids, whose `views` are added and with which all pieces must work.

    Raises:
        PipelineError: If pieces, spaces and module do not fit together.
    """
    pipeline = EnvToModulePipeline(
        observation_space,
        action_space,
        connectors=[
            *_pieces("defaults.env_to_module", "custom", custom),
            *views_of(module, multi_agent=multi_agent),
            AddObservationsFromEpisodesToBatch(),
            *([AddStatesFromEpisodesToBatch()] if stateful else []),
            *([AgentToModuleMapping()] if multi_agent else []),
            *([AddTimeDimToBatchAndZeroPad()] if stateful else []),
            BatchIndividualItems(),
            NumpyToTensor(device=device),
        ],
    )
    if module is not None:
        pipeline.check_module(module)
        follow_views(pipeline, module, multi_agent=multi_agent)
    return pipeline


def module_to_env(
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    *,
    custom: Sequence[ConnectorV2] = (),
    multi_agent: bool = False,
    stateful: bool = False,
    normalize_actions: bool = True,
    clip_actions: bool = False,
) -> ModuleToEnvPipeline:
    """Return the pipeline from the outputs of a module to the actions that the environment receives.

    Args:
        observation_space: The observation space of the environment.
        action_space: The action space of the environment.
        custom: Pieces that see actions as NumPy arrays, before scaling and clipping. An `ActionDecoder` among them replaces
            scaling and clipping.
        multi_agent: Whether rows are grouped by module and have to be mapped back to agents.
        stateful: Whether a module is recurrent.
        normalize_actions: Whether to scale actions from [-1, 1] to the bounds of their space.
        clip_actions: Whether to clip actions to the bounds of their space.

    Raises:
        PipelineError: If pieces and spaces do not fit together.
    """
    pieces = _pieces("defaults.module_to_env", "custom", custom)
    decoder = next((piece for piece in pieces if isinstance(piece, ActionDecoder)), None)
    return ModuleToEnvPipeline(
        observation_space,
        action_space if decoder is None else decoder.module_action_space,
        connectors=[
            GetActions(),
            TensorToNumpy(),
            *([RemoveSingleTsTimeRankFromBatch()] if stateful else []),
            *pieces,
            *(
                [NormalizeAndClipActions(normalize_actions=normalize_actions, clip_actions=clip_actions)]
                if decoder is None
                else []
            ),
            *([ModuleToAgentUnmapping()] if multi_agent else []),
        ],
    )


def learner(  # noqa: PLR0913  # each is an independent choice
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    *,
    custom: Sequence[ConnectorV2] = (),
    targets: Sequence[ConnectorV2] = (),
    stateful: bool = False,
    max_seq_len: int | None = None,
    burn_in: int = 0,
    device: str | torch.device | None = None,
    module: Modules = None,
) -> LearnerConnectorPipeline:
    """Return the pipeline from episodes to the batch that a loss is computed on.

    Args:
        observation_space: The observation space of the environment.
        action_space: The action space of the environment.
        custom: Pieces to put at the front. Only later pieces of the pipeline see their changes to episodes.
        targets: Pieces that compute the targets of the loss, such as `GeneralAdvantageEstimation`.
        stateful: Whether a module is recurrent.
        max_seq_len: The length of the sequences that recurrent modules learn from.
        burn_in: The number of steps before each sequence that warm up the state.
        device: The device of the tensors.
        module: The module, or modules by their ids, whose `views` are added and with which all pieces must work.

    Raises:
        PipelineError: If pieces, spaces and module do not fit together.
    """
    padding = AddTimeDimToBatchAndZeroPad(max_seq_len=max_seq_len, burn_in=burn_in)
    pipeline = LearnerConnectorPipeline(
        observation_space,
        action_space,
        connectors=[
            *_pieces("defaults.learner", "custom", custom),
            *views_of(module, multi_agent=isinstance(module, Mapping)),
            AddObservationsFromEpisodesToBatch(),
            AddColumnsFromEpisodesToTrainBatch(),
            *([AddStatesFromEpisodesToBatch()] if stateful else []),
            AgentToModuleMapping(),
            *_pieces("defaults.learner", "targets", targets),
            *([padding] if stateful else []),
            BatchIndividualItems(),
            NumpyToTensor(device=device),
        ],
    )
    if module is not None:
        pipeline.check_module(module)
        follow_views(pipeline, module, multi_agent=isinstance(module, Mapping))
    return pipeline


def _pieces(where: str, name: str, value: Item) -> list[Any]:
    """Return the items of `value` as a list; the pipeline checks that they are pieces.

    Raises:
        PipelineError: If `value` is a single piece (a pipeline is a piece, too) or not a collection.
    """
    if isinstance(value, (str, bytes, ConnectorV2)) or not isinstance(value, Iterable):
        raise PipelineError(
            f"{where}: found `{name}={shown(value)}`, expected a list of pieces. Pass `{name}=[...]`, also for a single piece."
        )
    return list(value)
