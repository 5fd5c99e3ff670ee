"""A whole training run: files, progress, checkpoints, and going on after a stop."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from episodia.arguments import checked_flag, checked_path, checked_whole
from episodia.dataflow.checkpoints import load_training, save_training
from episodia.dataflow.checks import check_limits
from episodia.dataflow.learning_curve import save_learning_curve
from episodia.dataflow.metrics_file import MetricsFile
from episodia.dataflow.progress import Progress
from episodia.dataflow.setup import MakeEnv, Setup
from episodia.dataflow.tensorboard_log import TensorBoardLog
from episodia.dataflow.training import Record, Training
from episodia.errors import MissingExtraError, TrainingError
from episodia.learners import AlgorithmConfig
from episodia.state import CHECKPOINT_NAME, checkpoint_directory

METRICS_NAME = "metrics.jsonl"
CURVE_NAME = "learning_curve.png"
TENSORBOARD_NAME = "tensorboard"


def train(  # noqa: PLR0913  # each is an independent choice
    algorithm: str | AlgorithmConfig,
    env: str | MakeEnv,
    *,
    steps: int = 100_000,
    target: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    checkpoint_every: int | None = None,
    tensorboard: bool = False,
    progress: bool = True,
    torch_threads: int | None = 1,
    **options: Any,
) -> Training:
    """Train, and return the training, which can be evaluated, plotted, saved, and run further.

    Args:
        algorithm: `"ppo"`, `"a2c"`, `"reinforce"`, or the config of an algorithm.
        env: A gymnasium id, or a function that makes an environment.
        steps: Of the environment, at most, to within one batch.
        target: Stop earlier if the mean return of the last 20 finished episodes has reached this.
        seed: The same seed gives the same training.
        out: A directory for metrics as JSON lines, a picture of the learning curve, and the checkpoint, which is written at the
            end, and at the first Ctrl-C. None writes nothing.
        checkpoint_every: Write the checkpoint also after so many steps each.
        tensorboard: Write metrics for TensorBoard too, into `tensorboard` in `out`.
        progress: Whether to show how it goes, on stderr.
        torch_threads: See `Training`.
        **options: See `Setup.of`.

    Raises:
        TrainingError: If something does not fit together, or if `out` holds a run already.
        MissingExtraError: If TensorBoard is wanted, and not installed.

    >>> training = train("ppo", "CartPole-v1", steps=256, progress=False, num_timesteps=128)
    >>> training.steps >= 256, training.stopped_by
    (True, <StoppedBy.STEPS: 'steps'>)
    >>> training.close()
    """
    _check("train", steps, target, checkpoint_every, tensorboard=tensorboard, progress=progress)
    if tensorboard and out is None:
        raise TrainingError(
            "train: found `tensorboard=True` and no `out`, expected a directory for its files. Pass `out=`."
        )
    directory = None if out is None else checked_path(TrainingError, "train", "out", out)
    setup = Setup.of(algorithm, env, seed=seed, **options)
    training = Training.of(setup, torch_threads=torch_threads)
    try:
        if directory is not None:
            _make(directory)
        _run(training, directory, steps, target, checkpoint_every, tensorboard, progress)
    except BaseException:
        training.close()
        raise
    return training


def resume(  # noqa: PLR0913  # each is an independent choice
    out: str | Path,
    *,
    steps: int = 100_000,
    target: float | None = None,
    checkpoint_every: int | None = None,
    tensorboard: bool = False,
    progress: bool = True,
    setup: Setup | None = None,
    torch_threads: int | None = 1,
) -> Training:
    """Go on with the training whose run is in the directory `out`, from its last checkpoint, as if it had never stopped.

    That is exact, except that the environments begin new episodes: their inner state cannot be saved. The training that was
    saved did the same if it went on.

    Args:
        out: The directory of the run.
        steps: Of the environment, at most, with those before.
        target: See `train`.
        checkpoint_every: See `train`.
        tensorboard: See `train`.
        progress: See `train`.
        setup: Needed if the run was not made of plain values, see `load_training`.
        torch_threads: See `Training`.

    Raises:
        CheckpointError: If there is no checkpoint, or if it is damaged.
        TrainingError: If it is that of something else, if `out` is only a checkpoint, or if a number is none.
    """
    _check("resume", steps, target, checkpoint_every, tensorboard=tensorboard, progress=progress)
    directory = checked_path(TrainingError, "resume", "out", out)
    training = load_training(directory, setup=setup, torch_threads=torch_threads)
    try:
        if checkpoint_directory(directory) == directory:
            raise TrainingError(
                f"{directory}: found a checkpoint, expected the directory of a run, which has the metrics too. Pass the one "
                "that it is in, or go on without files: `load_training(...).run(...)`."
            )
        training.history = MetricsFile(directory / METRICS_NAME).keep_until(training.iteration)
        _run(training, directory, steps, target, checkpoint_every, tensorboard, progress)
    except BaseException:
        training.close()
        raise
    return training


def _check(where: str, steps: int, target: float | None, checkpoint_every: int | None, **flags: bool) -> None:
    check_limits(where, steps, target)
    for name, value in flags.items():
        checked_flag(TrainingError, where, name, value)
    if checkpoint_every is not None:
        checked_whole(TrainingError, where, "checkpoint_every", checkpoint_every, 1)


def _make(directory: Path) -> None:
    if directory.is_dir() and any((directory / name).exists() for name in (CHECKPOINT_NAME, METRICS_NAME)):
        raise TrainingError(
            f"{directory}: found a run, expected a place for a new one. Go on with it by `resume` (`--resume {directory}`), or "
            "choose another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(
            f"{directory}: found that it cannot be made ({error}), expected a place with permission. Choose another directory."
        ) from error


def _run(
    training: Training,
    directory: Path | None,
    steps: int,
    target: float | None,
    checkpoint_every: int | None,
    tensorboard: bool,
    shows_progress: bool,
) -> None:
    """Train with all that belongs to a run, and save what was reached; an error leaves the last checkpoint as it is."""
    with ExitStack() as stack:
        watchers: list[Any] = []
        if shows_progress:
            watchers.append(stack.enter_context(Progress(steps=steps, done=training.steps)))
        if directory is not None:
            watchers.append(MetricsFile(directory / METRICS_NAME))
            if tensorboard:
                log = TensorBoardLog(directory / TENSORBOARD_NAME, steps=training.steps)
                watchers.append(stack.enter_context(log))
            if checkpoint_every is not None:
                watchers.append(_Saving(training, directory, checkpoint_every))
        training.run(steps=steps, target=target, watchers=watchers)
    if directory is not None:
        _save(training, directory)
        _draw(training, directory, target)


class _Saving:
    """Writes a checkpoint each time that so many more steps were taken."""

    def __init__(self, training: Training, directory: Path, every: int) -> None:
        self._training = training
        self._directory = directory
        self._every = every
        self._next = (training.steps // every + 1) * every

    def __call__(self, record: Record) -> None:
        if record["steps"] >= self._next:
            _save(self._training, self._directory)
            self._next = (int(record["steps"]) // self._every + 1) * self._every


def _save(training: Training, directory: Path, stream: TextIO | None = None) -> None:
    try:
        save_training(directory / CHECKPOINT_NAME, training)
    except MissingExtraError as error:
        # Who trains without the extra wants the result more than an error at the very end.
        (stream or sys.stderr).write(f"No checkpoint was written. {error}\n")


def _draw(training: Training, directory: Path, target: float | None) -> None:
    title = "" if training.setup is None else f"{type(training.learner.config).__name__}, seed {training.setup.seed}"
    try:
        save_learning_curve(directory / CURVE_NAME, training.history, title=title, target=target)
    except MissingExtraError as error:
        sys.stderr.write(f"No picture was drawn. {error}\n")
