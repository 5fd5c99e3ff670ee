"""Connectors: pieces and pipelines that turn episodes into batches right before a module needs them."""

from episodia.connectors import defaults
from episodia.connectors.batches.batch_columns import add_column, change_column, change_observations
from episodia.connectors.batches.batch_items import BatchedNdArray, as_ragged
from episodia.connectors.batches.batch_view import BatchView
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import AddTimeDimToBatchAndZeroPad
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.common.numpy_to_tensor import NumpyToTensor
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.env_to_module.flatten_observations import FlattenObservations
from episodia.connectors.env_to_module.frame_stacking import FrameStacking
from episodia.connectors.env_to_module.mean_std_filter import MeanStdFilter
from episodia.connectors.env_to_module.observation_preprocessors import (
    MultiAgentObservationPreprocessor,
    ObservationPreprocessor,
    SingleAgentObservationPreprocessor,
)
from episodia.connectors.env_to_module.one_hot_observations import OneHotObservations
from episodia.connectors.env_to_module.prev_actions_prev_rewards import PrevActionsPrevRewards
from episodia.connectors.env_to_module.write_observations_to_episodes import WriteObservationsToEpisodes
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
)
from episodia.connectors.learner.add_loss_mask import AddLossMask
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from episodia.connectors.learner.compute_returns_to_go import ComputeReturnsToGo
from episodia.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
from episodia.connectors.learner.hindsight import HindsightGoals
from episodia.connectors.learner.ignore_terminations import IgnoreTerminations
from episodia.connectors.learner.n_step_returns import NStepReturns
from episodia.connectors.learner.reward_transforms import ClipRewards, ScaleRewards, SignRewards
from episodia.connectors.learner.standardize import Standardize
from episodia.connectors.learner.v_trace import VTrace
from episodia.connectors.module_to_env.action_decoder import ActionDecoder
from episodia.connectors.module_to_env.action_noise import GaussianNoise, UniformNoise
from episodia.connectors.module_to_env.drop_module_outputs import DropModuleOutputs
from episodia.connectors.module_to_env.epsilon_greedy import EpsilonGreedy
from episodia.connectors.module_to_env.get_actions import GetActions
from episodia.connectors.module_to_env.module_to_agent_unmapping import ModuleToAgentUnmapping
from episodia.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from episodia.connectors.module_to_env.remove_single_ts_time_rank_from_batch import RemoveSingleTsTimeRankFromBatch
from episodia.connectors.module_to_env.reward_shaper import RewardShaper
from episodia.connectors.module_to_env.tensor_to_numpy import TensorToNumpy
from episodia.connectors.module_to_env.un_batch_to_individual_items import UnBatchToIndividualItems
from episodia.connectors.pipelines.explaining import Explanation
from episodia.connectors.pipelines.pipeline_kinds import (
    ConnectorPipelineV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
)
from episodia.connectors.pipelines.pipeline_state import check_state
from episodia.connectors.plugins.connector_registry import load_connector
from episodia.connectors.plugins.piece_codec import register_connector
from episodia.connectors.views.add_views import AddViews
from episodia.connectors.views.column_report import ColumnReport
from episodia.connectors.views.view import View, ViewRequirement
from episodia.connectors.views.view_detection import detect_columns
from episodia.schedules import ConstantSchedule, ExponentialSchedule, PiecewiseLinearSchedule, Schedule

__all__ = [
    "ActionDecoder",
    "AddColumnsFromEpisodesToTrainBatch",
    "AddInfosFromEpisodesToTrainBatch",
    "AddLossMask",
    "AddNextObservationsFromEpisodesToTrainBatch",
    "AddObservationsFromEpisodesToBatch",
    "AddStatesFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AddViews",
    "AgentToModuleMapping",
    "BatchIndividualItems",
    "BatchView",
    "BatchedNdArray",
    "ClipRewards",
    "ColumnReport",
    "ComputeReturnsToGo",
    "ConnectorPipelineV2",
    "ConnectorV2",
    "ConstantSchedule",
    "DropModuleOutputs",
    "EnvToModulePipeline",
    "EpsilonGreedy",
    "Explanation",
    "ExponentialSchedule",
    "FlattenObservations",
    "FrameStacking",
    "GaussianNoise",
    "GeneralAdvantageEstimation",
    "GetActions",
    "HindsightGoals",
    "IgnoreTerminations",
    "Kind",
    "LearnerConnectorPipeline",
    "MeanStdFilter",
    "ModuleToAgentUnmapping",
    "ModuleToEnvPipeline",
    "MultiAgentObservationPreprocessor",
    "NStepReturns",
    "NormalizeAndClipActions",
    "NumpyToTensor",
    "ObservationPreprocessor",
    "OneHotObservations",
    "PiecewiseLinearSchedule",
    "PrevActionsPrevRewards",
    "RemoveSingleTsTimeRankFromBatch",
    "RewardShaper",
    "ScaleRewards",
    "Schedule",
    "SignRewards",
    "SingleAgentObservationPreprocessor",
    "Standardize",
    "TensorToNumpy",
    "UnBatchToIndividualItems",
    "UniformNoise",
    "VTrace",
    "View",
    "ViewRequirement",
    "WriteObservationsToEpisodes",
    "add_column",
    "as_ragged",
    "change_column",
    "change_observations",
    "check_state",
    "defaults",
    "detect_columns",
    "load_connector",
    "register_connector",
]


def __dir__() -> list[str]:
    return sorted(__all__)
