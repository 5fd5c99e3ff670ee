"""What `learning.py` measures: an update of PPO as a case like any other, and how long it takes to solve CartPole."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from _case import Case
from _learning_settings import SETTINGS, UPDATE_ENVS, UPDATE_STEPS, solved

_SIDES = {"episodia": "_learning_ours", "rllib": "_learning_rllib", "sb3": "_learning_sb3"}


def cases(side: str) -> list[Case]:
    """Return the update; what sides learn from differs, as each has collected it."""
    made = import_module(_SIDES[side]).update()
    # RLlib's learner changes the episodes, so it comes with something that makes new ones.
    prepare, run = made if isinstance(made, tuple) else (None, made)
    name = f"ppo update {UPDATE_ENVS * UPDATE_STEPS} steps"
    return [
        Case(name, run, prepare=prepare, unit="ms", check=lambda: None, differs="each side learns from its own data")
    ]


def solve(side: str, setting: str, seed: int, limit_s: float) -> dict[str, Any]:
    """Train with one seed; see `_learning_settings.solved`."""
    training = import_module(_SIDES[side]).Training
    return solved(partial(training, SETTINGS[setting], seed), limit_s)
