"""Training from Python: `train`, `resume`, and the `Training` that both return."""

from episodia.training.events.eval_every import EarlyStopping, EvalEvery
from episodia.training.events.training_callback import TrainingCallback
from episodia.training.recipes.named_algorithms import ALGORITHMS
from episodia.training.recipes.recipe import Recipe
from episodia.training.recipes.replay_recipe import ReplayRecipe
from episodia.training.train_and_resume import resume, train
from episodia.training.training import Record, StoppedBy, Training
from episodia.training.training_checkpoints import load_training, save_training
from episodia.training.training_setup import Setup

__all__ = [
    "ALGORITHMS",
    "EarlyStopping",
    "EvalEvery",
    "Recipe",
    "Record",
    "ReplayRecipe",
    "Setup",
    "StoppedBy",
    "Training",
    "TrainingCallback",
    "load_training",
    "resume",
    "save_training",
    "train",
]


def __dir__() -> list[str]:
    return sorted(__all__)
