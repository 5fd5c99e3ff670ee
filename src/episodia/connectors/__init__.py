"""Connectors: pieces and pipelines that make batches of episodes right before a module needs them."""

from episodia.connectors.action_decoding import ActionDecoder
from episodia.connectors.base import ConnectorV2
from episodia.connectors.batches.batch_columns import add_column, change_column, change_observations
from episodia.connectors.batches.batch_items import BatchedNdArray
from episodia.connectors.batches.collected import as_ragged
from episodia.connectors.batching import BatchIndividualItems
from episodia.connectors.episode_columns import AddColumnsFromEpisodesToTrainBatch, AddInfosFromEpisodesToTrainBatch
from episodia.connectors.epsilon_greedy import EpsilonGreedy
from episodia.connectors.flattening import FlattenObservations
from episodia.connectors.frame_stacking import FrameStacking
from episodia.connectors.get_actions import GetActions
from episodia.connectors.kinds import Kind
from episodia.connectors.mean_std_filter import MeanStdFilter
from episodia.connectors.noise import GaussianNoise, UniformNoise
from episodia.connectors.normalize_and_clip import NormalizeAndClipActions
from episodia.connectors.observations import (
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
)
from episodia.connectors.one_hot import OneHotObservations
from episodia.connectors.pipelines.explaining import Explanation
from episodia.connectors.pipelines.pipeline_kinds import (
    ConnectorPipelineV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
)
from episodia.connectors.pipelines.state_keeping import check_state
from episodia.connectors.plugins.entry_points import load_connector
from episodia.connectors.policies.multi_agent_policy import MultiAgentPolicy
from episodia.connectors.policies.piece_codec import register_connector
from episodia.connectors.policies.policy import Policy
from episodia.connectors.preprocessing import (
    MultiAgentObservationPreprocessor,
    ObservationPreprocessor,
    SingleAgentObservationPreprocessor,
    WriteObservationsToEpisodes,
)
from episodia.connectors.previous import PrevActionsPrevRewards
from episodia.connectors.recurrence import AddStatesFromEpisodesToBatch, AddTimeDimToBatchAndZeroPad
from episodia.connectors.reward_shaping import RewardShaper
from episodia.connectors.rewards import ClipRewards, ScaleRewards, SignRewards
from episodia.connectors.routing import AgentToModuleMapping
from episodia.connectors.schedules import ConstantSchedule, ExponentialSchedule, PiecewiseLinearSchedule, Schedule
from episodia.connectors.targets import (
    AddLossMask,
    ComputeReturnsToGo,
    GeneralAdvantageEstimation,
    IgnoreTerminations,
    NStepReturns,
    Standardize,
)
from episodia.connectors.tensors import NumpyToTensor, TensorToNumpy
from episodia.connectors.time_rank import RemoveSingleTsTimeRankFromBatch
from episodia.connectors.unbatching import UnBatchToIndividualItems
from episodia.connectors.unmapping import ModuleToAgentUnmapping
from episodia.connectors.views.add_views import AddViews
from episodia.connectors.views.view import View
from episodia.connectors.views.view_detection import ColumnReport, detect_columns
from episodia.connectors.views.view_requirement import ViewRequirement

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
    "BatchedNdArray",
    "ClipRewards",
    "ColumnReport",
    "ComputeReturnsToGo",
    "ConnectorPipelineV2",
    "ConnectorV2",
    "ConstantSchedule",
    "EnvToModulePipeline",
    "EpsilonGreedy",
    "Explanation",
    "ExponentialSchedule",
    "FlattenObservations",
    "FrameStacking",
    "GaussianNoise",
    "GeneralAdvantageEstimation",
    "GetActions",
    "IgnoreTerminations",
    "Kind",
    "LearnerConnectorPipeline",
    "MeanStdFilter",
    "ModuleToAgentUnmapping",
    "ModuleToEnvPipeline",
    "MultiAgentObservationPreprocessor",
    "MultiAgentPolicy",
    "NStepReturns",
    "NormalizeAndClipActions",
    "NumpyToTensor",
    "ObservationPreprocessor",
    "OneHotObservations",
    "PiecewiseLinearSchedule",
    "Policy",
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
    "View",
    "ViewRequirement",
    "WriteObservationsToEpisodes",
    "add_column",
    "as_ragged",
    "change_column",
    "change_observations",
    "check_state",
    "detect_columns",
    "load_connector",
    "register_connector",
]
