"""`EvalEvery`: evaluates beside training, and keeps the best checkpoint."""

from __future__ import annotations

import math
import warnings
from typing import final

from episodia.arguments import checked_flag, checked_number, checked_whole, names_nearest_argument, proposal
from episodia.errors import TrainingError
from episodia.training.events.training_callback import TrainingCallback
from episodia.training.training import Record, Training
from episodia.training.training_checkpoints import save_training

# The metric that records of updates with an evaluation have.
EVALUATED = "evaluation_return_mean"
_BEST_NAME = "best"
# A metric that so many records lack does not come.
_MANY = 100


@names_nearest_argument
@final
class EvalEvery(TrainingCallback):
    """Evaluates after every so many steps, and writes `evaluation_return_mean` into the record of that update.

    Args:
        steps: The number of steps between two evaluations.
        episodes: The number of episodes of an evaluation.
        keep_best: Whether to keep the checkpoint with the highest mean return in `best` in the directory of the run, if it has
            one. New episodes begin after each, as after each checkpoint.

    Attributes:
        best_return: The highest mean return so far; −∞ before the first evaluation. A run that is resumed goes on from that of
            its metrics.

    Raises:
        TrainingError: If an argument is invalid.
    """

    def __init__(self, steps: int, episodes: int = 20, *, keep_best: bool = True) -> None:
        self._every = checked_whole(TrainingError, "EvalEvery", "steps", steps, 1)
        self._episodes = checked_whole(TrainingError, "EvalEvery", "episodes", episodes, 1)
        self._keeps_best = checked_flag(TrainingError, "EvalEvery", "keep_best", keep_best)
        self.best_return = -math.inf
        self._next = self._every

    def __repr__(self) -> str:
        return f"EvalEvery({self._every}, episodes={self._episodes}, keep_best={self._keeps_best})"

    def on_begin(self, training: Training) -> None:
        """Go on from the evaluations in the history."""
        found = [record[EVALUATED] for record in training.history if EVALUATED in record]
        self.best_return = max((mean for mean in found if not math.isnan(mean)), default=-math.inf)
        self._next = (training.steps // self._every + 1) * self._every

    def on_record(self, training: Training, record: Record) -> None:
        """Evaluate if it is time."""
        if training.steps < self._next:
            return
        self._next = (training.steps // self._every + 1) * self._every
        returns = training.evaluate(self._episodes)
        record[EVALUATED] = math.fsum(returns) / len(returns)
        if record[EVALUATED] > self.best_return:
            self.best_return = record[EVALUATED]
            if self._keeps_best and training.directory is not None:
                save_training(training.directory / _BEST_NAME, training)


@names_nearest_argument
@final
class EarlyStopping(TrainingCallback):
    """Stops a run in which a metric has not risen for a while.

    Args:
        metric: The metric; records without it are not counted. If no record has it, a warning names the metrics that are most
            like it: after 100 records, or at the end of the run.
        patience: The number of records that may come without a new highest value.
        least: How much higher a value has to be.

    Raises:
        TrainingError: If `patience` or `least` is invalid.
    """

    def __init__(self, metric: str = "return_mean", *, patience: int, least: float = 0.0) -> None:
        self._metric = metric
        self._least = checked_number(TrainingError, "EarlyStopping", "least", least, 0.0)
        self._patience = checked_whole(TrainingError, "EarlyStopping", "patience", patience, 1)

    def __repr__(self) -> str:
        return f"EarlyStopping({self._metric!r}, patience={self._patience}, least={self._least})"

    def on_begin(self, training: Training) -> None:
        """Count the records in the history."""
        self._best, self._num_without, self._num_missing = -math.inf, 0, 0
        self._is_known = False
        for record in training.history:
            self._count(record)

    def on_record(self, training: Training, record: Record) -> bool:
        """Count the record."""
        self._count(record)
        # Evaluations may be rare.
        if self._num_missing >= _MANY and self._metric != EVALUATED:
            self._warn(record)
        return self._num_without >= self._patience

    def on_end(self, training: Training) -> None:
        """Warn if the metric never came."""
        if training.history:
            self._warn(training.history[-1])

    def _warn(self, record: Record) -> None:
        if self._is_known:
            return
        self._is_known = True  # one warning is enough
        remedy = "Pass `EvalEvery` before it." if self._metric == EVALUATED else proposal([self._metric], record)
        warnings.warn(
            f"EarlyStopping: found no record with the metric {self._metric!r}, expected one of {sorted(record)}: it does not "
            f"stop the run. {remedy or 'Choose one of these.'}",
            stacklevel=2,
        )

    def _count(self, record: Record) -> None:
        self._is_known |= self._metric in record
        self._num_missing += not self._is_known
        found = record.get(self._metric, math.nan)
        if found > self._best + self._least:
            self._best, self._num_without = found, 0
        elif not math.isnan(found):
            self._num_without += 1
