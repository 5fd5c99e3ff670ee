"""Trainings on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from episodia.checkpoints import checkpoint_directory, load_state, save_state
from episodia.errors import EpisodiaError, TrainingError
from episodia.policies import Policy, policy_codec
from episodia.training.training import Training
from episodia.training.training_checks import check_setup
from episodia.training.training_setup import Setup, check_same_setup

_FORMAT = "episodia training 1"


def save_training(path: str | Path, training: Training) -> None:
    """Write all of `training` but its history into the directory `path`, whole or not at all.

    The policy can be loaded from there, by `Policy.load`, or `MultiAgentPolicy.load` if the runner is one for several agents.
    From then on this training and one that is loaded do the same: both begin new episodes next.

    Raises:
        CheckpointError: If it cannot be written.
        TrainingError: If `training` is none.
        MissingExtraError: If safetensors is not installed.
    """
    if not isinstance(training, Training):
        raise TrainingError(f"save_training: found {training!r}, expected a `Training`. Pass one.")
    setup = None if training.setup is None else training.setup.to_dict()
    save_state(path, {"format": _FORMAT, "setup": setup, **training.get_state(), **_policy_in(training)})


def _policy_in(training: Training) -> dict[str, Any]:
    try:
        policy = training.policy()
        key = policy_codec.KEY if isinstance(policy, Policy) else policy_codec.MULTI_AGENT_KEY
        return {key: policy.get_state()}
    except EpisodiaError as error:
        # Modules and pieces of one's own need not be registered to go on with a training.
        return {policy_codec.REASON_KEY: str(error)}


def load_training(
    path: str | Path, *, setup: Setup | None = None, device: str | None = None, torch_threads: int | None = 1
) -> Training:
    """Return the training that was saved into the directory `path`, or into `checkpoint` in it.

    Args:
        path: The directory of a checkpoint, or that of a run.
        setup: What it was built from; needed only if the checkpoint cannot know, as with environments that a function makes.
        device: Where the learner computes; by default where it did.
        torch_threads: See `Training`.

    Raises:
        CheckpointError: If there is no checkpoint, or if it is damaged.
        TrainingError: If it holds something else, if `setup` is needed, or is another one.
        MissingExtraError: If safetensors is not installed.
    """
    directory = checkpoint_directory(path)
    state = load_state(directory)
    if state.get("format") != _FORMAT:
        raise TrainingError(
            f"{directory}: found the format {state.get('format')!r}, expected {_FORMAT!r}. Pass what a training has saved."
        )
    found = _setup_of(directory, state["setup"], setup)
    training = Training.of(found if device is None else replace(found, device=device), torch_threads=torch_threads)
    try:
        training.set_state(state)
    except BaseException:
        training.close()
        raise
    return training


def _setup_of(directory: Path, data: Any, given: Setup | None) -> Setup:
    if given is not None:
        check_setup(given)
        # A training that was put together by hand has none.
        if data is not None:
            check_same_setup(str(directory), data, given.to_dict())
        return given
    if data is None:
        raise TrainingError(
            f"{directory}: found no setup, as the training was put together by hand; expected one. Pass `setup=`; or make a "
            "`Training` with such a runner and such a learner, and `training.set_state(load_state(path))`."
        )
    try:
        return Setup.from_dict(data)
    except TrainingError as error:
        raise TrainingError(f"{directory}: {error}") from error
