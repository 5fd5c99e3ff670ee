"""Pieces that clip rewards, take their signs or scale them in a learner's batch. Episodes keep the original rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space

from episodia.arguments import checked_number
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import change_in_run
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import PipelineError
from episodia.trees import shown


def _change_rewards(run: Run, change: Callable[[np.ndarray], np.ndarray]) -> None:
    change_in_run(run, Columns.REWARDS, lambda column, _: column.map(change))


class ClipRewards(ColumnPiece):
    """Moves rewards outside of `[low, high]` to the nearest bound.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of actions, which stays.
        low: The least reward.
        high: The greatest reward.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `low` is not below `high`.

    >>> ClipRewards(low=-1, high=1)(rl_module=None, batch={"rewards": np.array([])}, episodes=[])["rewards"]
    Ragged(0 stretches, 0 steps of float64[0])
    """

    reads = writes = frozenset({Columns.REWARDS})
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        low: float,
        high: float,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        if not checked_number(PipelineError, self.name, "low", low) < checked_number(
            PipelineError, self.name, "high", high
        ):
            raise PipelineError(
                f"{self.name}: found `low={shown(low)}` and `high={shown(high)}`, expected a lower and a higher bound. Swap "
                "or correct them."
            )
        self.low = low
        self.high = high

    def work(self, run: Run) -> None:
        """Clip the rewards in `batch`."""
        _change_rewards(run, lambda rewards: np.clip(rewards, self.low, self.high))


class SignRewards(ColumnPiece):
    """Keeps of each reward only its sign: -1, 0 or 1, as is usual for Atari games."""

    reads = writes = frozenset({Columns.REWARDS})
    lookback = 0

    def work(self, run: Run) -> None:
        """Replace the rewards in `batch` by their signs."""
        _change_rewards(run, np.sign)


class ScaleRewards(ColumnPiece):
    """Multiplies rewards by a factor.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of actions, which stays.
        factor: The factor.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `factor` is not finite.
    """

    reads = writes = frozenset({Columns.REWARDS})
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        factor: float,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        if not np.isfinite(checked_number(PipelineError, self.name, "factor", factor)):
            raise PipelineError(
                f"{self.name}: found `factor={shown(factor)}`, expected a finite number. Pass such a number."
            )
        self.factor = factor

    def work(self, run: Run) -> None:
        """Scale the rewards in `batch`."""
        _change_rewards(run, lambda rewards: rewards * self.factor)
