"""Checkpoints of trainings: `save_training` and `load_training`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from episodia.checkpoints.save_and_load import checkpoint_directory, load_state, save_state
from episodia.errors import CheckpointError, EpisodiaError, ModuleError, TrainingError
from episodia.modules.network_sizes import check_network_fits
from episodia.policies import Policy
from episodia.policies import saved_policy as policy_codec
from episodia.training.training import Training
from episodia.training.training_checks import check_setup
from episodia.training.training_setup import WORKER_OPTIONS, Setup, check_same_setup
from episodia.trees import describe
from episodia.types import State

_FORMAT = "episodia training 1"


def save_training(path: str | Path, training: Training) -> None:
    """Write `training`, without its history, to the directory `path`; an interrupted save leaves the old content.

    `Policy.load`, or `MultiAgentPolicy.load` for several agents, reads the policy from the same directory. From then on this
    training and a loaded one continue alike: both begin new episodes.

    Raises:
        CheckpointError: If it cannot be written.
        TrainingError: If `training` is not a `Training`.
        MissingExtraError: If safetensors is not installed.
    """
    if not isinstance(training, Training):
        raise TrainingError(f"save_training: found {training!r}, expected a `Training`. Pass one.")
    setup = None if training.setup is None else training.setup.to_dict()
    save_state(path, {"format": _FORMAT, "setup": setup, **training.get_state(), **_policy_in(training)})


def unsaved_policy(training: Training) -> str:
    """Return the reason why the policy of `training` cannot be saved, or an empty string."""
    return str(_policy_in(training).get(policy_codec.REASON_KEY, ""))


def _policy_in(training: Training) -> dict[str, Any]:
    try:
        policy = training.policy()
        key = policy_codec.KEY if isinstance(policy, Policy) else policy_codec.MULTI_AGENT_KEY
        return {key: policy.get_state()}
    except EpisodiaError as error:
        # A training can be resumed without registering custom modules and pieces.
        return {policy_codec.REASON_KEY: str(error)}


def load_training(
    path: str | Path,
    *,
    setup: Setup | None = None,
    device: str | None = None,
    torch_threads: int | None = 1,
    workers: Mapping[str, Any] = MappingProxyType({}),
) -> Training:
    """Return the training that was saved in the directory `path`, or in `checkpoint` inside of it.

    Args:
        path: The directory of a checkpoint or of a run.
        setup: The setup of the training; needed only if a part of it has no name, such as a function that makes environments.
        device: The device of the learner; the saved one by default.
        torch_threads: See `Training`.
        workers: Fields of `Workers` that change, such as `{"num_runners": 4}`; a group does not become a single runner.

    Raises:
        CheckpointError: If there is no checkpoint, or if it is damaged.
        TrainingError: If it is not the checkpoint of a training, or if `setup` is missing or differs.
        MissingExtraError: If safetensors is not installed.
    """
    directory = checkpoint_directory(path)
    state = load_state(directory)
    if state.get("format") != _FORMAT:
        raise TrainingError(
            f"{directory}: found the format {state.get('format')!r}, expected {_FORMAT!r}. Pass the checkpoint of a training."
        )
    if "setup" not in state:
        raise TrainingError(
            f"{directory}: found no `setup`, expected one. Another program wrote it; use another checkpoint."
        )
    found = _setup_of(directory, state, setup, _checked_workers(workers))
    found = replace(found, device=found.device if device is None else device)
    try:
        training = Training.of(found, torch_threads=torch_threads)
        try:
            training.set_state(state)
        except BaseException:
            training.close()
            raise
    except EpisodiaError:
        raise
    except Exception as error:  # a damaged state can fail anywhere
        raise CheckpointError(
            f"{directory}: found a training that cannot be continued ({type(error).__name__}: {error}), expected what `save` "
            "of a training has written. Use another checkpoint."
        ) from error
    return training


def _checked_workers(workers: object) -> Mapping[str, Any]:
    if isinstance(workers, Mapping) and set(workers) <= set(WORKER_OPTIONS):
        return workers
    raise TrainingError(
        f"load_training: found `workers={describe(workers)}`, expected a dict with some of {list(WORKER_OPTIONS)}. Leave out "
        "what does not change."
    )


def _setup_of(directory: Path, state: State, given: Setup | None, workers: Mapping[str, Any]) -> Setup:
    data: Any = state["setup"]
    if given is not None:
        check_setup(given)
        # A training that was built by hand has no setup.
        if data is not None:
            check_same_setup(str(directory), data, given.to_dict())
        return replace(given, workers=replace(given.workers, **workers))
    if data is None:
        raise TrainingError(
            f"{directory}: found no setup, because the training was built by hand; expected one. Pass `setup=`; or make a "
            "`Training` with the same kind of runner and learner, and call `training.set_state(load_state(path))`."
        )
    try:
        found = Setup.from_dict(data, workers)
        check_network_fits(found.network, state.get("learner"))
    except (ModuleError, TrainingError) as error:
        raise type(error)(f"{directory}: {error}") from error
    return found
