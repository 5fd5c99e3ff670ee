"""Composing runners and learners: training, as a user meets it."""

from episodia.dataflow.checkpoints import load_training, save_training
from episodia.dataflow.recipes import ALGORITHMS, Recipe
from episodia.dataflow.setup import Setup
from episodia.dataflow.training import Record, StoppedBy, Training
from episodia.dataflow.training_runs import resume, train

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
