"""A whole training run: files, progress, checkpoints, and going on after a stop."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from episodia.arguments import checked_flag, checked_path
from episodia.errors import TrainingError
from episodia.learners import AlgorithmConfig
from episodia.training.interrupts import deferred_interrupts
from episodia.training.progress import Progress, say
from episodia.training.run_directory import RunDirectory
from episodia.training.run_limits import Limits
from episodia.training.tensorboard_log import TensorBoardLog, check_installed
from episodia.training.training import Record, StoppedBy, Training
from episodia.training.training_checkpoints import load_training
from episodia.training.training_setup import MakeEnv, Setup


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
            beginning, at the end, at the first Ctrl-C, and where an error ends it. None writes nothing.
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
    limits = Limits(steps=steps, target=target, checkpoint_every=checkpoint_every, tensorboard=tensorboard)
    checked_flag(TrainingError, "train", "progress", progress)
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
        run = None if directory is None else RunDirectory.new(directory)
        _run(training, run, limits, progress)
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
    setup: Setup | None = None,
    device: str | None = None,
    torch_threads: int | None = 1,
) -> Training:
    """Go on with the training whose run is in the directory `out`, from its last checkpoint, as if it had never stopped.

    That is exact, except that the environments begin new episodes: their inner state cannot be saved. The training that was
    saved did the same if it went on.

    Args:
        out: The directory of the run.
        steps: Of the environment, at most, with those before. None, here and in what follows, is what the run has had so far.
        target: See `train`; infinity is no target any more.
        checkpoint_every: See `train`.
        tensorboard: See `train`.
        progress: See `train`.
        setup: Needed if the run was not made of plain values, see `load_training`.
        device: Where the learner computes.
        torch_threads: See `Training`.

    Raises:
        CheckpointError: If the checkpoint is damaged.
        TrainingError: If `out` is something else, if `setup` is that of another training, or if a number is none.
    """
    checked_flag(TrainingError, "resume", "progress", progress)
    run = RunDirectory.existing(checked_path(TrainingError, "resume", "out", out))
    limits = Limits.load(run.limits_path).changed(
        steps=steps, target=target, checkpoint_every=checkpoint_every, tensorboard=tensorboard
    )
    if limits.tensorboard:
        check_installed()
    training = load_training(run.path, setup=setup, device=device, torch_threads=torch_threads)
    try:
        training.history = run.metrics.keep_until(training.iteration)
        before = training.iteration
        if len(training.history) < before:
            say(f"{run.metrics.path}: {before - len(training.history)} of {before} updates are missing in it.")
        _run(training, run, limits, progress)
        if training.iteration == before and training.stopped_by is not StoppedBy.INTERRUPT:
            say(
                f"{run.path}: nothing was left to do after {training.steps:,} steps, with a limit of {limits.steps:,} and a "
                f"target of {limits.target}. Ask for more: `steps=` (`--steps N`)."
            )
    except BaseException:
        training.close()
        raise
    return training


def _run(training: Training, run: RunDirectory | None, limits: Limits, shows_progress: bool) -> None:
    """Train with all that belongs to a run, and save what was reached."""
    # Interrupts wait while files are written, too.
    with deferred_interrupts() as interrupted, ExitStack() as stack:
        if run is not None:
            run.begin(training, limits)
        try:
            watchers = _watchers(training, run, limits, shows_progress, stack)
            training.run(steps=limits.steps, target=limits.target, watchers=watchers)
        except BaseException as error:
            if run is not None:
                run.rescue(training, error)
            raise
        stack.close()
        if run is not None:
            run.save(training)
            run.draw(training, limits.target)
        if interrupted.is_set():
            training.stopped_by = StoppedBy.INTERRUPT


def _watchers(
    training: Training, run: RunDirectory | None, limits: Limits, shows_progress: bool, stack: ExitStack
) -> list[Any]:
    watchers: list[Any] = []
    if shows_progress:
        watchers.append(stack.enter_context(Progress(steps=limits.steps, done=training.steps)))
    if run is None:
        return watchers
    watchers.append(run.metrics)
    if limits.tensorboard:
        watchers.append(stack.enter_context(TensorBoardLog(run.tensorboard, steps=training.steps)))
    if limits.checkpoint_every is not None:
        watchers.append(_Saving(training, run, limits.checkpoint_every))
    return watchers


class _Saving:
    """Writes a checkpoint each time that so many more steps were taken."""

    def __init__(self, training: Training, run: RunDirectory, every: int) -> None:
        self._training = training
        self._run = run
        self._every = every
        self._next = (training.steps // every + 1) * every

    def __call__(self, record: Record) -> None:
        if record["steps"] >= self._next:
            self._run.save(self._training)
            self._next = (int(record["steps"]) // self._every + 1) * self._every
