"""Names that code written for RLlib imports, so that porting it is a change of imports.

All names are in this one package: `from episodia.rllib import ConnectorV2, TorchRLModule`. Most are classes of episodia
under the name that they have in RLlib. A name of RLlib that has no counterpart raises, and says what to use instead.
"""

from typing import NoReturn

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    BatchedNdArray,
    BatchIndividualItems,
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
    WriteObservationsToEpisodes,
)
from episodia.env_runners.callbacks import Callbacks as RLlibCallback
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.episodes import InfiniteLookbackBuffer, MultiAgentEpisode, SingleAgentEpisode
from episodia.rllib.array_helpers import (
    batch,
    convert_to_numpy,
    flatten_to_single_ndarray,
    get_base_struct_from_space,
    get_dummy_batch_for_space,
    one_hot,
    override,
    sigmoid,
    softmax,
    try_import_torch,
    unbatch,
)
from episodia.rllib.column_names import Postprocessing, SampleBatch
from episodia.rllib.item_connector import ItemConnector as ConnectorV2
from episodia.rllib.rl_module import RLModule, TorchRLModule, ValueFunctionAPI
from episodia.types import AgentID, ModuleID

# RLlib has one name for runners and one for learners; here one piece serves both.
FrameStackingEnvToModule = FrameStackingLearner = FrameStacking

__all__ = [
    "DEFAULT_MODULE_ID",
    "AddColumnsFromEpisodesToTrainBatch",
    "AddNextObservationsFromEpisodesToTrainBatch",
    "AddObservationsFromEpisodesToBatch",
    "AddStatesFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AgentID",
    "AgentToModuleMapping",
    "BatchIndividualItems",
    "BatchedNdArray",
    "Columns",
    "ConnectorPipelineV2",
    "ConnectorV2",
    "EnvToModulePipeline",
    "FlattenObservations",
    "FrameStacking",
    "FrameStackingEnvToModule",
    "FrameStackingLearner",
    "GeneralAdvantageEstimation",
    "GetActions",
    "InfiniteLookbackBuffer",
    "LearnerConnectorPipeline",
    "MeanStdFilter",
    "ModuleID",
    "ModuleToAgentUnmapping",
    "ModuleToEnvPipeline",
    "MultiAgentEnv",
    "MultiAgentEpisode",
    "MultiAgentObservationPreprocessor",
    "NormalizeAndClipActions",
    "NumpyToTensor",
    "Postprocessing",
    "PrevActionsPrevRewards",
    "RLModule",
    "RLlibCallback",
    "RemoveSingleTsTimeRankFromBatch",
    "SampleBatch",
    "SingleAgentEpisode",
    "SingleAgentObservationPreprocessor",
    "TensorToNumpy",
    "TorchRLModule",
    "UnBatchToIndividualItems",
    "ValueFunctionAPI",
    "WriteObservationsToEpisodes",
    "batch",
    "convert_to_numpy",
    "flatten_to_single_ndarray",
    "get_base_struct_from_space",
    "get_dummy_batch_for_space",
    "one_hot",
    "override",
    "sigmoid",
    "softmax",
    "try_import_torch",
    "unbatch",
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
