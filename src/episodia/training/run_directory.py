"""The directory of a run: metrics, learning curve, checkpoint and limits."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, final

from episodia.checkpoints.manifest import MANIFEST_NAME
from episodia.checkpoints.save_and_load import CHECKPOINT_NAME, checkpoint_directory
from episodia.errors import MissingExtraError, TrainingError
from episodia.training.learning_curve import save_learning_curve
from episodia.training.metrics_file import MetricsFile
from episodia.training.progress import say
from episodia.training.run_limits import Limits
from episodia.training.run_lock import RunLock
from episodia.training.training import Training
from episodia.training.training_checkpoints import save_training

METRICS_NAME = "metrics.jsonl"
CURVE_NAME = "learning_curve.png"
LIMITS_NAME = "run.json"
TENSORBOARD_NAME = "tensorboard"


@final
class RunDirectory:
    """A directory with the metrics, the learning curve, the checkpoint and the limits of one run.

    Args:
        path: The directory; see `new` and `existing`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = MetricsFile(path / METRICS_NAME)
        self.tensorboard = path / TENSORBOARD_NAME
        self._lock = RunLock(path)
        self._can_save = True
        self._saved_at: int | None = None  # the iteration

    @classmethod
    def new(cls, path: Path) -> RunDirectory:
        """Return the directory `path` for a new run, locked; it is created if it does not exist.

        Raises:
            TrainingError: If it already holds a run, or if it cannot be created.
        """
        run = cls(path)
        run._check_unused()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(
                f"{path}: found that it cannot be created ({error}), expected a directory with write permission. Choose "
                "another one."
            ) from error
        run._lock.take()
        try:
            # Another process may have been faster.
            run._check_unused()
        except BaseException:
            run.release()
            raise
        return run

    def _check_unused(self) -> None:
        path = self.path
        if self.has_checkpoint:
            raise TrainingError(
                f"{path}: found a run, expected a directory for a new one. Continue it with `resume` (`--resume {path}`), or "
                "choose another directory."
            )
        if self.metrics.path.exists():
            raise TrainingError(
                f"{path}: found the metrics of a run without a checkpoint, which cannot be resumed; expected a directory for a "
                "new run. Remove it, or choose another directory."
            )

    @classmethod
    def existing(cls, path: Path) -> RunDirectory:
        """Return the directory `path` of a run, locked.

        Raises:
            CheckpointError: If `path` is not a path.
            TrainingError: If there is no run in it, or another process is writing it.
        """
        run = cls(path)
        if checkpoint_directory(path) == path and (path / MANIFEST_NAME).exists():
            raise TrainingError(
                f"{path}: found a checkpoint, expected the directory of a run, which also has the metrics. Pass the parent "
                "directory, or continue without files: `load_training(...).run(...)`."
            )
        if not run.has_checkpoint:
            raise TrainingError(
                f"{path}: found no checkpoint, expected the directory of a run, which has one. Pass the `out` that `train` was "
                "given."
            )
        run._lock.take()
        return run

    def release(self) -> None:
        """Let other processes write this run; a second call does nothing."""
        self._lock.release()

    @property
    def has_checkpoint(self) -> bool:
        """Whether a run can be resumed from here."""
        return (self.path / CHECKPOINT_NAME).is_dir()

    @property
    def limits_path(self) -> Path:
        """The file with the limits."""
        return self.path / LIMITS_NAME

    def begin(self, training: Training, limits: Limits) -> None:
        """Write what `resume` needs, before the first step, so that a training that cannot be saved fails now."""
        limits.save(self.limits_path)
        try:
            self.save(training)
        except BaseException:
            if not self.has_checkpoint:
                self.limits_path.unlink()
                self.release()
                with suppress(OSError):  # There may be other files in it.
                    self.path.rmdir()
            raise

    def save(self, training: Training) -> None:
        """Write the checkpoint, unless this iteration is saved already or safetensors is missing.

        Raises:
            CheckpointError: If it cannot be written.
            TrainingError: If the directory was removed or replaced meanwhile.
        """
        if self._lock.is_lost:
            self._saved_at = None
            raise TrainingError(
                f"{self.path}: found that the directory was removed or replaced while the run was going on, expected it to "
                "stay. The run is not saved."
            )
        if not self._can_save or self._saved_at == training.iteration:
            return
        try:
            save_training(self.path / CHECKPOINT_NAME, training)
            self._saved_at = training.iteration
        except MissingExtraError as error:
            # A training without checkpoints is better than an error.
            self._can_save = False
            say(f"No checkpoint is written. {error}")

    def rescue(self, training: Training, error: BaseException) -> None:
        """Save the training after an error, unless an update is half done, and say how to resume the run."""
        try:
            if training.is_whole:
                self.save(training)
        except Exception as other:  # noqa: BLE001  # the first error is reported
            error.add_note(f"The training could not be saved either: {other}")
        self.say_saved(type(error).__name__)

    def say_saved(self, stopped_by: str) -> None:
        """Say how to resume the run, if it is saved."""
        if self._saved_at is not None and not self._lock.is_lost and self.has_checkpoint:
            say(
                f"Stopped by {stopped_by}. The run is saved as it was after {self._saved_at} updates. Continue it "
                f"with `resume` (`--resume {self.path}`)."
            )

    def draw(self, training: Training, target: float | None) -> None:
        """Write the figure of the learning curve, or say why that is impossible."""
        try:
            save_learning_curve(self.path / CURVE_NAME, training.history, title=_title(training), target=target)
        except (MissingExtraError, OSError) as error:
            say(f"No learning curve is drawn. {error}")


def _title(training: Training) -> str:
    setup: Any = training.setup
    if setup is None:
        return ""
    name = type(setup.algorithm).__name__.removesuffix("Config")
    return f"{name}, {setup.env}, seed {setup.seed}" if isinstance(setup.env, str) else f"{name}, seed {setup.seed}"
