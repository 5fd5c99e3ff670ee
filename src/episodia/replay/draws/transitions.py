"""The draw of single steps, or of n steps as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from episodia.arguments import checked_number, checked_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.episodes.lists.ragged import even_lengths
from episodia.errors import ReplayError
from episodia.replay.draws.draw import DrawByModule
from episodia.replay.draws.drawn import Drawn
from episodia.replay.draws.n_steps import n_step_sums
from episodia.replay.draws.stretches import keeps_lookback, single_steps, weights_of, with_past
from episodia.replay.rows.row_index import STEP, TERMINATED
from episodia.replay.table import Picked, Table

# The rows of all steps are looked at together, so there are 8 bytes for each of them.
_MOST_STEPS = 2**16


@names_nearest_argument
@final
@dataclass(frozen=True)
class Transitions(DrawByModule):
    """Single steps; or `n_step` steps together, as one.

    Of several steps, the rewards are summed, the observation after the last one follows, and `discounts` is the factor of its
    value: gamma to the power of their number, or 0 where they end in a terminal state. So `rewards + discounts * V(new_obs)` is
    the target. There are fewer than `n_step` where an episode ends, or does not go on yet.

    Args:
        n_step: The number of steps.
        gamma: The discount of one step.

    Raises:
        ReplayError: If an argument is out of range; `WholeEpisodes()` draws very long stretches.

    >>> Transitions(n_step=3)
    Transitions(n_step=3, gamma=0.99)
    """

    n_step: int = 1
    gamma: float = 0.99

    def __post_init__(self) -> None:
        checked_whole(ReplayError, "Transitions", "n_step", self.n_step, 1, below=_MOST_STEPS)
        checked_number(ReplayError, "Transitions", "gamma", self.gamma, 0.0, 1.0)

    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` steps."""
        picked = table.pick(num, rng, keeps_lookback(table, lookback))
        if self.n_step == 1:
            return single_steps(table, picked, lookback)
        return self._several(table, picked, lookback)

    def _several(self, table: Table, picked: Picked, lookback: int) -> Drawn:
        """Return steps that stand for the next `n_step` steps."""
        index, rows, num = table.writer.index, picked.rows, len(picked.rows)
        window = rows[:, None] + np.arange(self.n_step)
        kinds = index.kind.take(window, mode="clip")
        # Most windows are neighbouring rows of one episode that goes on.
        plain = (kinds == STEP).all(axis=1)
        following, ends, counts = rows + self.n_step, kinds[:, -1].copy(), None
        if not plain.all():
            at = np.flatnonzero(~plain)
            places = index.places(rows.take(at))
            left = index.episodes.t_stop.take(places.episodes) - places.times
            counts = np.full(num, self.n_step)
            counts[at] = np.minimum(self.n_step, left)
            shifts = np.minimum(np.arange(self.n_step + 1), counts[at][:, None])
            walked = index.walk(rows.take(at), places.runs, shifts)
            window[at], following[at] = walked[:, :-1], walked[:, -1]
            ends[at] = index.kind.take(walked[np.arange(len(at)), counts[at] - 1])
        rewards = table.columns.take(Columns.REWARDS, window)
        sums = n_step_sums(rewards, counts, (ends & TERMINATED) != 0, self.gamma)
        both = np.empty((num, 2), np.int64)
        both[:, 0], both[:, 1] = rows, following
        drawn = Drawn(both.reshape(-1), rows, ends, even_lengths(num, 1), is_macro=True, is_single=True)
        drawn.added = {Columns.REWARDS: sums.returns, Columns.DISCOUNTS: sums.discounts, **weights_of(picked)}
        if lookback:
            drawn.times = index.places(rows).times
            drawn.rows, drawn.lookbacks = with_past(table, drawn.rows, lookback, np.zeros(2 * num, np.int64))
        return drawn
