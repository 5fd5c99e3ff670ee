"""Names that code written for RLlib imports, so that porting it is a change of imports.

All names are in this one package: `from episodia.rllib import ConnectorV2, TorchRLModule`. Most are classes of episodia
under the name that they have in RLlib. A name of RLlib that has no counterpart raises, and says what to use instead.
"""

from typing import NoReturn

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    BatchedNdArray,
    BatchIndividualItems,
    ComputeReturnsToGo,
    ConnectorPipelineV2,
    EnvToModulePipeline,
    FlattenObservations,
    FrameStacking,
    GeneralAdvantageEstimation,
    GetActions,
    LearnerConnectorPipeline,
    MeanStdFilter,
    ModuleToAgentUnmapping,
    ModuleToEnvPipeline,
    MultiAgentObservationPreprocessor,
    NormalizeAndClipActions,
    NumpyToTensor,
    PrevActionsPrevRewards,
    RemoveSingleTsTimeRankFromBatch,
    SingleAgentObservationPreprocessor,
    TensorToNumpy,
    UnBatchToIndividualItems,
    ViewRequirement,
    WriteObservationsToEpisodes,
)
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.env_runners.callbacks import Callbacks as RLlibCallback
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.env_runners.metrics_logger import MetricsLogger
from episodia.episodes import InfiniteLookbackBuffer, MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.lists.episode_list import Episode as EpisodeType
from episodia.rllib.array_helpers import (
    batch,
    convert_to_numpy,
    convert_to_torch_tensor,
    flatten_space,
    flatten_to_single_ndarray,
    get_base_struct_from_space,
    get_dummy_batch_for_space,
    huber_loss,
    l2_loss,
    one_hot,
    override,
    relu,
    sigmoid,
    softmax,
    try_import_torch,
    unbatch,
)
from episodia.rllib.column_names import Postprocessing, SampleBatch
from episodia.rllib.item_connector import ItemConnector as ConnectorV2
from episodia.rllib.module_apis import (
    FLOAT_MAX,
    FLOAT_MIN,
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
    NetworkType,
    TargetNetworkAPI,
    make_target_network,
    normc_initializer,
    same_padding,
    valid_padding,
)
from episodia.rllib.replay_buffers import (
    EpisodeReplayBuffer,
    MultiAgentEpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)
from episodia.rllib.rl_module import RLModule, TorchRLModule, ValueFunctionAPI
from episodia.types import AgentID, ModuleID
from episodia.types import Item as TensorType
from episodia.types import State as StateDict

# RLlib has one name for runners and one for learners; here one piece serves both.
FrameStackingEnvToModule = FrameStackingLearner = FrameStacking
DEFAULT_POLICY_ID = DEFAULT_MODULE_ID

__all__ = [
    "DEFAULT_MODULE_ID",
    "DEFAULT_POLICY_ID",
    "FLOAT_MAX",
    "FLOAT_MIN",
    "TARGET_NETWORK_ACTION_DIST_INPUTS",
    "AddColumnsFromEpisodesToTrainBatch",
    "AddInfosFromEpisodesToTrainBatch",
    "AddNextObservationsFromEpisodesToTrainBatch",
    "AddObservationsFromEpisodesToBatch",
    "AddStatesFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AgentID",
    "AgentToModuleMapping",
    "BatchIndividualItems",
    "BatchedNdArray",
    "Columns",
    "ComputeReturnsToGo",
    "ConnectorPipelineV2",
    "ConnectorV2",
    "EnvToModulePipeline",
    "EpisodeReplayBuffer",
    "EpisodeType",
    "FlattenObservations",
    "FrameStacking",
    "FrameStackingEnvToModule",
    "FrameStackingLearner",
    "GeneralAdvantageEstimation",
    "GetActions",
    "InferenceOnlyAPI",
    "InfiniteLookbackBuffer",
    "LearnerConnectorPipeline",
    "MeanStdFilter",
    "MetricsLogger",
    "ModuleID",
    "ModuleToAgentUnmapping",
    "ModuleToEnvPipeline",
    "MultiAgentEnv",
    "MultiAgentEnvRunner",
    "MultiAgentEpisode",
    "MultiAgentEpisodeReplayBuffer",
    "MultiAgentObservationPreprocessor",
    "NetworkType",
    "NormalizeAndClipActions",
    "NumpyToTensor",
    "Postprocessing",
    "PrevActionsPrevRewards",
    "PrioritizedEpisodeReplayBuffer",
    "RLModule",
    "RLlibCallback",
    "RemoveSingleTsTimeRankFromBatch",
    "SampleBatch",
    "SingleAgentEnvRunner",
    "SingleAgentEpisode",
    "SingleAgentObservationPreprocessor",
    "StateDict",
    "TargetNetworkAPI",
    "TensorToNumpy",
    "TensorType",
    "TorchRLModule",
    "UnBatchToIndividualItems",
    "ValueFunctionAPI",
    "ViewRequirement",
    "WriteObservationsToEpisodes",
    "batch",
    "convert_to_numpy",
    "convert_to_torch_tensor",
    "flatten_space",
    "flatten_to_single_ndarray",
    "get_base_struct_from_space",
    "get_dummy_batch_for_space",
    "huber_loss",
    "l2_loss",
    "make_target_network",
    "normc_initializer",
    "one_hot",
    "override",
    "relu",
    "same_padding",
    "sigmoid",
    "softmax",
    "try_import_torch",
    "unbatch",
    "valid_padding",
]

_PIECE_FOR_ACTIONS = "the piece `episodia.connectors.NormalizeAndClipActions`"
_OURS = {
    "AddOneTsToEpisodesAndTruncate": "nothing: `GeneralAdvantageEstimation` reads the observation after the last step",
    "Algorithm": "`episodia.train`",
    "AlgorithmConfig": "the keywords of `episodia.train`",
    "Catalog": "`episodia.modules.default_module`, or build networks in `setup`",
    "DefaultCallbacks": "`episodia.rllib.RLlibCallback`",
    "DefaultPPOTorchRLModule": "`episodia.modules.default_module`",
    "ListifyDataForVectorEnv": "nothing: runners take the arrays of a module-to-env pipeline",
    "MultiAgentBatch": "the dict of batches by module ids that `Learner.batch_of` returns",
    "MultiRLModule": "`episodia.modules.MultiModule`",
    "MultiRLModuleSpec": "`episodia.modules.MultiModule` with the modules themselves",
    "PPOConfig": '`episodia.train("ppo", ...)`',
    "PPOTorchRLModule": "`episodia.modules.default_module`",
    "RLModuleSpec": "the module itself",
    "TorchCategorical": "`episodia.modules.dist_for`",
    "TorchDiagGaussian": "`episodia.modules.dist_for`",
    "TorchMultiCategorical": "`episodia.modules.dist_for`",
    "clip_action": _PIECE_FOR_ACTIONS,
    "normalize_action": _PIECE_FOR_ACTIONS,
    "unsquash_action": _PIECE_FOR_ACTIONS,
    "EVALUATION_RESULTS": "the keys of `RunnerMetrics.as_dict()`",
    "ENV_RUNNER_RESULTS": "the keys of `RunnerMetrics.as_dict()`",
    "EPISODE_RETURN_MEAN": 'the key "episode_return_mean" of `RunnerMetrics.as_dict()`',
    "NUM_ENV_STEPS_SAMPLED_LIFETIME": "`Training.steps`",
    "DefaultModelConfig": "the keywords of `episodia.modules.default_module`",
    "Learner": "`episodia.Learner`, which takes the config of an algorithm",
    "TorchLearner": "`episodia.Learner`, which takes the config of an algorithm",
    "PPOTorchLearner": '`episodia.Learner`, or `episodia.train("ppo", ...)`',
    "RandomRLModule": "`episodia.modules.RandomModule`",
    "EnvContext": "nothing: give the environment its settings in the function that makes it",
    "Policy": "`episodia.Policy`",
    "PettingZooEnv": "nothing: `episodia.MultiAgentEnvRunner` takes environments of PettingZoo",
    "ParallelPettingZooEnv": "nothing: `episodia.MultiAgentEnvRunner` takes environments of PettingZoo",
    "try_import_tf": "torch, or a module without torch",
    "DQNConfig": '`episodia.train("dqn", ...)`',
    "SACConfig": '`episodia.train("sac", ...)`',
    "DeveloperAPI": "nothing: leave the decorator out",
    "PublicAPI": "nothing: leave the decorator out",
    "Deprecated": "nothing: leave the decorator out",
    "deprecation_warning": "`warnings.warn`",
    "Distribution": "`episodia.modules.dist_for`",
    "TorchDistribution": "`episodia.modules.dist_for`",
    "TorchDeterministic": "a module that returns the column `actions`",
    "EnvRunner": "`episodia.env_runners.EnvRunner`",
    "ObsPreprocessorEnvToModule": "`episodia.connectors.SingleAgentObservationPreprocessor`",
    "PPOCatalog": "`episodia.modules.default_module`, or build networks in `setup`",
    "PrioritizedReplayBuffer": "`episodia.replay.ReplayBuffer`",
    "ReplayBuffer": "`episodia.replay.ReplayBuffer`",
    "compute_value_targets": "the piece `episodia.connectors.GeneralAdvantageEstimation`",
    "discount_cumsum": "the piece `episodia.connectors.ComputeReturnsToGo`",
    "explained_variance": "the metric of the same name that `Learner.update` returns",
    "make_multi_agent": "`episodia.env_runners.MultiAgentEnv`",
    "sequence_mask": "the column `loss_mask`",
    "split_and_zero_pad": "the piece `episodia.connectors.AddTimeDimToBatchAndZeroPad`",
    "FullyConnectedNetwork": "`episodia.modules.default_module`",
    "TorchModelV2": "`episodia.rllib.TorchRLModule`",
    "ModelCatalog": "`episodia.modules.default_module`",
    "ConnectorContext": "nothing: pieces know their spaces",
    "AgentConnector": "`episodia.rllib.ConnectorV2`",
    "ActionConnector": "`episodia.rllib.ConnectorV2`",
    "Checkpointable": "`get_state` and `set_state` of your class",
    "ENCODER_OUT": "a key of your own",
    "OverrideToImplementCustomLogic": "nothing: `episodia.rllib.override` marks an override",
    "OverrideToImplementCustomLogic_CallToSuperRecommended": "nothing: `episodia.rllib.override` marks an override",
    "SelfSupervisedLossAPI": "`AlgorithmConfig.loss`, see `episodia.learners`",
}


def __getattr__(name: str) -> NoReturn:
    if name not in _OURS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Python hides the message of an AttributeError from `from episodia.rllib import ...`.
    raise ImportError(
        f"episodia.rllib: found the name {name!r} of RLlib, which episodia does not have; expected one of "
        f"`dir(episodia.rllib)`. Use {_OURS[name]}.",
        name=__name__,
    )


def __dir__() -> list[str]:
    return sorted(__all__)
