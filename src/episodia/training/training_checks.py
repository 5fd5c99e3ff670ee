"""Checks of the arguments of a training, made before anything is built, played or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.arguments import checked_whole, is_number
from episodia.dataflow import Flow, LearnerGroup, RunnerGroup
from episodia.env_runners import EnvRunner
from episodia.errors import TrainingError
from episodia.learners import Learner
from episodia.training.recipes.recipe import BaseRecipe
from episodia.training.training_setup import Setup
from episodia.trees import shown


def check_limits(where: str, steps: object, target: object) -> None:
    """Check the limits of a training.

    Raises:
        TrainingError: If `steps` is not an integer, or if `target` is neither a number nor None.

    >>> check_limits("train", steps=100, target=None)
    """
    checked_whole(TrainingError, where, "steps", steps, 0)
    if target is not None and not is_number(target):
        raise TrainingError(
            f"{where}: found `target={shown(target)}`, expected a mean return to stop at, or None. Pass one of these."
        )


def check_threads(torch_threads: object) -> None:
    """Check the number of threads of torch.

    Raises:
        TrainingError: If it is neither a positive integer nor None.
    """
    if torch_threads is not None:
        checked_whole(TrainingError, "training", "torch_threads", torch_threads, 1, below=2**15)


def check_setup(setup: object) -> None:
    """Check that `setup` is a `Setup`.

    Raises:
        TrainingError: If it is not.
    """
    if not isinstance(setup, Setup):
        raise TrainingError(f"training: found `setup={shown(setup)}`, expected a `Setup`. Make one with `Setup.of`.")


def check_parts(runner: object, learner: object, recipe: object, setup: object, flow: object) -> None:
    """Check the types of the parts of a training.

    Raises:
        TrainingError: If a part has the wrong type.
    """
    if not isinstance(runner, EnvRunner | RunnerGroup):
        raise TrainingError(
            f"training: found {runner!r} as the runner, expected a `SingleAgentEnvRunner`, a `MultiAgentEnvRunner`, an "
            "object of another subclass of `EnvRunner`, or a `RunnerGroup`. Pass one."
        )
    if not isinstance(learner, Learner | LearnerGroup) or not isinstance(recipe, BaseRecipe):
        raise TrainingError(
            f"training: found {learner!r} as the learner and {recipe!r} as the recipe, expected a `Learner` and a `Recipe` or "
            "`ReplayRecipe`. Pass these."
        )
    if setup is not None:
        check_setup(setup)
    if flow is not None and not isinstance(flow, Flow):
        raise TrainingError(
            f"training: found `flow={shown(flow)}`, expected a `Flow` of metrics, or None for the loop. Pass one of these."
        )


COUNTERS = ("iteration", "steps", "episodes")

_PARTS = ("runner", "learner", "progress")


def check_state(state: Mapping[str, Any]) -> None:
    """Check that `state` has all parts of the state of a training, and a valid `progress`.

    Raises:
        TrainingError: If it does not.
    """
    parts: object = state
    missing = [part for part in _PARTS if not (isinstance(parts, Mapping) and isinstance(parts.get(part), Mapping))]
    if missing:
        raise TrainingError(
            f"state of a training: found no dict for {missing}, expected the result of `get_state`. Pass that."
        )
    progress = state["progress"]
    counts, time_s, returns = (
        [progress.get(name) for name in COUNTERS],
        progress.get("time_s"),
        progress.get("recent_returns"),
    )
    if (
        not all(type(count) is int and count >= 0 for count in counts)
        or not isinstance(time_s, (int, float))
        or not isinstance(returns, (list, tuple))
        or not all(isinstance(each, (int, float)) for each in returns)
    ):
        raise TrainingError(
            f"state of a training: found {dict(progress)} as `progress`, expected the counts {list(COUNTERS)}, `time_s` and a "
            "list of `recent_returns`. Pass the result of `get_state`."
        )
