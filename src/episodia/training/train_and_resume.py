"""`train` and `resume`: training runs with files, progress and checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from episodia.arguments import checked_flag, checked_path, proposal
from episodia.errors import TrainingError
from episodia.interrupts import deferred_interrupts
from episodia.learners import AlgorithmConfig
from episodia.training.events.training_callback import Callback, checked_callbacks
from episodia.training.progress import Progress, say
from episodia.training.run_directory import RunDirectory
from episodia.training.run_limits import CHECKPOINT_EVERY, Limits
from episodia.training.tensorboard_log import TensorBoardLog, check_installed
from episodia.training.training import Record, StoppedBy, Training
from episodia.training.training_checkpoints import load_training, unsaved_policy
from episodia.training.training_setup import WORKER_OPTIONS, MakeEnv, Setup


def train(  # noqa: PLR0913  # each is an independent choice
    algorithm: str | AlgorithmConfig,
    env: str | MakeEnv,
    *,
    steps: int = 100_000,
    target: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    checkpoint_every: int | None = CHECKPOINT_EVERY,
    tensorboard: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    torch_threads: int | None = 1,
    **options: Any,
) -> Training:
    """Train, and return the training, which can be evaluated, plotted, saved and continued.

    Args:
        algorithm: One of the names in `ALGORITHMS`, such as `"ppo"`, or the config of an algorithm.
        env: A gymnasium id, or a function that makes an environment.
        steps: Stop after this many environment steps; the last batch may go beyond.
        target: Stop earlier if the mean return of the last 20 finished episodes reaches this value.
        seed: The same seed gives the same training.
        out: A directory for metrics as JSON lines, a figure of the learning curve, and the checkpoint, which is written at the
            beginning, at the end, after the first Ctrl-C, and after an error. None writes no files.
        checkpoint_every: The number of steps between two further checkpoints in `out`, which a kill leaves to `resume`; None
            writes none. New episodes begin after each.
        tensorboard: Whether to write metrics for TensorBoard, to `tensorboard` in `out`.
        progress: Whether to show progress on stderr.
        callbacks: See `Training.run`; they are called before the record is written, and may add to it.
        torch_threads: See `Training`.
        **options: See `Setup.of`; `plan=`, `num_runners=` and `engine=` are among them.

    Raises:
        TrainingError: If an argument is invalid, if `out` already holds a run, or if it was removed meanwhile.
        MissingExtraError: If `tensorboard` is True and TensorBoard is not installed.

    >>> training = train("ppo", "CartPole-v1", steps=256, progress=False, num_timesteps=128)
    >>> training.steps >= 256, training.stopped_by
    (True, <StoppedBy.STEPS: 'steps'>)
    >>> training.close()
    """
    limits = Limits(steps=steps, target=target, checkpoint_every=checkpoint_every, tensorboard=tensorboard)
    checked_flag(TrainingError, "train", "progress", progress)
    callbacks = checked_callbacks("train", callbacks)
    if tensorboard and out is None:
        raise TrainingError(
            "train: found `tensorboard=True` and no `out`, expected a directory for its files. Pass `out=`."
        )
    directory = None if out is None else checked_path(TrainingError, "train", "out", out)
    if tensorboard:
        check_installed()
    setup = Setup.of(algorithm, env, seed=seed, **options)
    training = Training.of(setup, torch_threads=torch_threads)
    try:
        with ExitStack() as stack:
            run = None if directory is None else RunDirectory.new(directory)
            if run is not None:
                stack.callback(run.release)
            _run(training, run, limits, progress, callbacks)
    except BaseException:
        training.close()
        raise
    return training


def resume(  # noqa: PLR0913  # each is an independent choice
    out: str | Path,
    *,
    steps: int | None = None,
    target: float | None = None,
    checkpoint_every: int | None = None,
    tensorboard: bool | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    setup: Setup | None = None,
    device: str | None = None,
    torch_threads: int | None = 1,
    **workers: Any,
) -> Training:
    """Continue the run in the directory `out` from its last checkpoint, as if it had never stopped.

    Environments begin new episodes, because their inner state cannot be saved. A run that is not interrupted does the same
    after each checkpoint, so both give the same result.

    Args:
        out: The directory of the run.
        steps: Stop after this many environment steps, earlier ones included. None, here and below, keeps the value of the run.
        target: See `train`; infinity removes the target.
        checkpoint_every: See `train`.
        tensorboard: See `train`.
        progress: See `train`.
        callbacks: See `train`.
        setup: The setup of the run, if the checkpoint cannot hold it; see `load_training`.
        device: The device of the learner.
        torch_threads: See `Training`.
        **workers: Fields of `Workers` that change, such as `num_runners=4` or `engine="local"`.

    Raises:
        CheckpointError: If the checkpoint is damaged.
        TrainingError: If `out` holds no run, if another process is writing it, if `setup` differs from that of the run, or if
            an argument is invalid.
    """
    checked_flag(TrainingError, "resume", "progress", progress)
    callbacks = checked_callbacks("resume", callbacks)
    run = RunDirectory.existing(checked_path(TrainingError, "resume", "out", out))
    with ExitStack() as stack:
        stack.callback(run.release)
        limits = Limits.load(run.limits_path).changed(
            steps=steps, target=target, checkpoint_every=checkpoint_every, tensorboard=tensorboard
        )
        if limits.tensorboard:
            check_installed()
        training = load_training(
            run.path, setup=setup, device=device, torch_threads=torch_threads, workers=_checked_workers(workers)
        )
        try:
            _continue(training, run, limits, progress, callbacks)
        except BaseException:
            training.close()
            raise
    return training


def _checked_workers(workers: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(workers) - set(WORKER_OPTIONS))
    if unknown:
        known = {*inspect.signature(resume).parameters, *WORKER_OPTIONS} - {"workers"}
        raise TrainingError(
            f"resume: found the options {unknown}, expected limits, or some of {list(WORKER_OPTIONS)}. "
            f"{proposal(unknown, known) or 'Leave them out.'} A resumed run keeps its other settings."
        )
    return workers


def _continue(
    training: Training, run: RunDirectory, limits: Limits, shows_progress: bool, callbacks: Sequence[Callback]
) -> None:
    training.history = run.metrics.keep_until(training.iteration)
    if training.updating.note:
        say(f"{run.path}: {training.updating.note}")
    before = training.iteration
    if len(training.history) < before:
        say(f"{run.metrics.path}: {before - len(training.history)} of {before} updates are missing.")
    _run(training, run, limits, shows_progress, callbacks)
    if training.iteration == before and training.stopped_by is not StoppedBy.INTERRUPT:
        say(
            f"{run.path}: the run is finished after {training.steps:,} steps, with a limit of {limits.steps:,} and a "
            f"target of {limits.target}. To continue it, pass a larger `steps=` (`--steps N`)."
        )


def _run(
    training: Training, run: RunDirectory | None, limits: Limits, shows_progress: bool, callbacks: Sequence[Callback]
) -> None:
    """Train with progress, metrics and checkpoints, and save the result."""
    reason = unsaved_policy(training)
    if reason:
        say(f"The policy of this training cannot be saved: {reason}")
    # Interrupts also wait while files are written.
    with deferred_interrupts() as interrupted, ExitStack() as stack:
        if run is not None:
            training.directory = run.path
            run.begin(training, limits)
        try:
            written = _written(training, run, limits, shows_progress, stack)
            training.run(steps=limits.steps, target=limits.target, callbacks=[*callbacks, *written])
        except BaseException as error:
            if run is not None:
                run.rescue(training, error)
            raise
        stack.close()
        if run is not None:
            run.save(training)
            run.draw(training, limits.target)
            if interrupted.is_terminated:
                run.say_saved("SIGTERM")
        if interrupted.is_set():
            training.stopped_by = StoppedBy.INTERRUPT


def _written(
    training: Training, run: RunDirectory | None, limits: Limits, shows_progress: bool, stack: ExitStack
) -> list[Any]:
    written: list[Any] = []
    if shows_progress:
        written.append(stack.enter_context(Progress(steps=limits.steps, done=training.steps)))
    if run is None:
        return written
    written.append(run.metrics)
    if limits.tensorboard:
        written.append(stack.enter_context(TensorBoardLog(run.tensorboard, steps=training.steps)))
    if limits.checkpoint_every is not None:
        written.append(_Saving(training, run, limits.checkpoint_every))
    return written


class _Saving:
    """Writes a checkpoint every `every` steps."""

    def __init__(self, training: Training, run: RunDirectory, every: int) -> None:
        self._training = training
        self._run = run
        self._every = every
        self._next = (training.steps // every + 1) * every

    def __call__(self, record: Record) -> None:
        if record["steps"] >= self._next:
            self._run.save(self._training)
            self._next = (int(record["steps"]) // self._every + 1) * self._every
