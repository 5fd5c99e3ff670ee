"""Training from Python: `train`, `resume`, and the `Training` that both return."""

from episodia.training.recipes import ALGORITHMS, Recipe
from episodia.training.train_and_resume import resume, train
from episodia.training.training import Record, StoppedBy, Training
from episodia.training.training_checkpoints import load_training, save_training
from episodia.training.training_setup import Setup

__all__ = [
    "ALGORITHMS",
    "Recipe",
    "Record",
    "Setup",
    "StoppedBy",
    "Training",
    "load_training",
    "resume",
    "save_training",
    "train",
]


def __dir__() -> list[str]:
    return sorted(__all__)
