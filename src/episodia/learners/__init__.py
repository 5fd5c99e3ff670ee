"""Learners: from episodes to updated weights; and algorithms, each a frozen config with a loss."""

from episodia.connectors.learner.add_action_masks_from_episodes import AddActionMasksFromEpisodes
from episodia.learners.algorithms.a2c import A2CConfig
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.algorithms.ddpg import DDPGConfig
from episodia.learners.algorithms.discrete_sac import DiscreteSACConfig
from episodia.learners.algorithms.dqn import DQNConfig
from episodia.learners.algorithms.impala import IMPALAConfig
from episodia.learners.algorithms.off_policy import OffPolicyConfig, ReplayedSteps
from episodia.learners.algorithms.ppo import PPOConfig
from episodia.learners.algorithms.r2d2 import R2D2Config
from episodia.learners.algorithms.rainbow import RainbowConfig
from episodia.learners.algorithms.reinforce import ReinforceConfig
from episodia.learners.algorithms.sac import SACConfig
from episodia.learners.algorithms.target import Target
from episodia.learners.algorithms.td3 import TD3Config
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.learners.gradients.gradient_averages import MeasuredGradients
from episodia.learners.gradients.gradient_function import GradientFunction
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientProcessor
from episodia.learners.hooks import LearnerHook, WarnAboutBadRewardScales
from episodia.learners.learner import Learner
from episodia.learners.losses.coefficients import Adaptive, AdaptiveKL
from episodia.learners.losses.evaluated_steps import EvaluatedSteps
from episodia.learners.losses.loss import LOSS, LossInputs, LossOutputs
from episodia.learners.minibatches import Minibatch, minibatches
from episodia.learners.optimizers import OptimizerConfig
from episodia.learners.replay_updates import ReplayUpdates
from episodia.learners.update_metrics import ALL_MODULES, Metrics, UpdateMetrics

__all__ = [
    "ALL_MODULES",
    "LOSS",
    "A2CConfig",
    "Adaptive",
    "AdaptiveKL",
    "AddActionMasksFromEpisodes",
    "AlgorithmConfig",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "DDPGConfig",
    "DQNConfig",
    "DiscreteSACConfig",
    "EvaluatedSteps",
    "GradientFunction",
    "GradientProcessor",
    "IMPALAConfig",
    "Learner",
    "LearnerHook",
    "LossInputs",
    "LossOutputs",
    "MeasuredGradients",
    "Metrics",
    "Minibatch",
    "OffPolicyConfig",
    "OptimizerConfig",
    "PPOConfig",
    "R2D2Config",
    "RainbowConfig",
    "ReinforceConfig",
    "ReplayUpdates",
    "ReplayedSteps",
    "SACConfig",
    "TD3Config",
    "Target",
    "UpdateMetrics",
    "WarnAboutBadRewardScales",
    "default_pipeline",
    "minibatches",
]


def __dir__() -> list[str]:
    return sorted(__all__)
