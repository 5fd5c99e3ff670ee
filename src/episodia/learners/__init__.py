"""Learners: from episodes to better weights; and algorithms, each a frozen config with a loss."""

from episodia.learners.a2c import A2CConfig
from episodia.learners.action_masks import AddActionMasksFromEpisodes
from episodia.learners.adaptive_kl import AdaptiveKL
from episodia.learners.algorithm import AlgorithmConfig, LossAndMetrics
from episodia.learners.coefficients import Adaptive
from episodia.learners.evaluation import Evaluation
from episodia.learners.gradient_averages import MeasuredGradients
from episodia.learners.gradient_function import GradientFunction
from episodia.learners.gradient_processing import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientProcessor
from episodia.learners.learner import Learner
from episodia.learners.metrics import ALL_MODULES, Metrics
from episodia.learners.minibatches import Minibatch, minibatches
from episodia.learners.optimizers import OptimizerConfig
from episodia.learners.pipelines import default_pipeline
from episodia.learners.ppo import PPOConfig
from episodia.learners.reinforce import ReinforceConfig

__all__ = [
    "ALL_MODULES",
    "A2CConfig",
    "Adaptive",
    "AdaptiveKL",
    "AddActionMasksFromEpisodes",
    "AlgorithmConfig",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "Evaluation",
    "GradientFunction",
    "GradientProcessor",
    "Learner",
    "LossAndMetrics",
    "MeasuredGradients",
    "Metrics",
    "Minibatch",
    "OptimizerConfig",
    "PPOConfig",
    "ReinforceConfig",
    "default_pipeline",
    "minibatches",
]
