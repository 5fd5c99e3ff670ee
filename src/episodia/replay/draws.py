"""Draws: what a sample is made of. All of them take steps that the selector of the buffer chooses.

Pictures of one episode in the buffer, with `x` for the chosen step, brackets around the steps that are in the sample, and
`o` for the observation after them:

    Transitions()                          . . . [x] o . . .
    Transitions(n_step=3)                  . . . [x  .  .] o .      one row: rewards summed, `discounts` is gamma ** 3
    Sequences(length=3)                    . . . [x  .  .] o .      three rows
    Sequences(length=3, burn_in=2)         . [.  .  x  .  .] o .    five rows; `loss_mask` is false for the first two
    WholeEpisodes()                        [.  .  .  x  .  .  .] o
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np

from episodia.arguments import checked_number, checked_whole
from episodia.columns import Columns
from episodia.episodes.lists.ragged import offsets_of
from episodia.errors import ReplayError
from episodia.replay.drawn import Drawn, single_lengths
from episodia.replay.n_steps import n_step_sums
from episodia.replay.rows.row_index import STEP, TERMINATED, Places
from episodia.replay.table import Picked, Table

Allowed = Callable[[np.ndarray], np.ndarray]


@runtime_checkable
class Draw(Protocol):
    """Decides what a sample is made of."""

    def draw(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` stretches, each with up to `lookback` rows of the past.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """


@final
@dataclass(frozen=True)
class Transitions:
    """Single steps; or `n_step` steps together, as one.

    Of several steps, the rewards are summed, the observation after the last one follows, and `discounts` is the factor of its
    value: gamma to the power of their number, or 0 where they end in a terminal state. So `rewards + discounts * V(new_obs)` is
    the target. There are fewer than `n_step` where an episode ends, or does not go on yet.

    Args:
        n_step: The number of steps.
        gamma: The discount of one step.

    >>> Transitions(n_step=3)
    Transitions(n_step=3, gamma=0.99)
    """

    n_step: int = 1
    gamma: float = 0.99

    def __post_init__(self) -> None:
        checked_whole(ReplayError, "Transitions", "n_step", self.n_step, 1)
        checked_number(ReplayError, "Transitions", "gamma", self.gamma, 0.0, 1.0)

    def draw(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` steps."""
        picked = table.pick(num, rng, keeps_lookback(table, lookback))
        if self.n_step == 1:
            return _single_steps(table, picked, lookback)
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
        drawn = Drawn(both.reshape(-1), table.keys(rows), ends, single_lengths(num), is_macro=True)
        drawn.added = {Columns.REWARDS: sums.returns, Columns.DISCOUNTS: sums.discounts, **_weights(picked)}
        if lookback:
            drawn.times = index.places(rows).times
            drawn.rows, drawn.lookbacks = with_past(table, drawn.rows, lookback, np.zeros(2 * num, np.int64))
        return drawn


@final
@dataclass(frozen=True)
class WholeEpisodes:
    """All that is stored of the episodes of the chosen steps: long episodes are more probable than short ones.

    >>> WholeEpisodes()
    WholeEpisodes()
    """

    def draw(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` episodes. They have no lookback: they begin with the first row that is stored."""
        picked = table.pick(num, rng)
        return whole_episodes(table, table.writer.index.places(picked.rows).episodes, picked)


def whole_episodes(table: Table, episodes: np.ndarray, picked: Picked | None = None) -> Drawn:
    """Return all rows of stored episodes that have steps; their keys are those of `picked` steps, or of their first steps."""
    index = table.writer.index
    rows, counts = index.rows_of_episodes(episodes)
    lengths, offsets = counts - 1, offsets_of(counts)
    ends = index.kind.take(rows.take(offsets[1:] - 2)) if len(rows) else np.empty(0, np.uint8)
    keys = table.keys(rows.take(offsets[:-1]) if picked is None else picked.rows)
    drawn = Drawn(rows, keys, ends, lengths, index.episodes.t_kept.take(episodes))
    if picked is not None and picked.weights is not None:
        drawn.added[Columns.WEIGHTS] = np.repeat(picked.weights.astype(np.float32), lengths)
    return drawn


def _single_steps(table: Table, picked: Picked, lookback: int) -> Drawn:
    index, rows = table.writer.index, picked.rows
    lengths = single_lengths(len(rows))
    if lookback:
        times = index.places(rows).times
        flat, lookbacks = with_past(table, rows, lookback, lengths)
        return Drawn(flat, table.keys(rows), picked.kinds, lengths, times, lookbacks, _weights(picked))
    both = np.empty((len(rows), 2), np.int64)
    both[:, 0] = rows
    both[:, 1] = index.after(rows, picked.kinds)
    return Drawn(both.reshape(-1), table.keys(rows), picked.kinds, lengths, added=_weights(picked))


def _weights(picked: Picked) -> dict[str, np.ndarray]:
    return {} if picked.weights is None else {Columns.WEIGHTS: picked.weights.astype(np.float32)}


def keeps_lookback(table: Table, lookback: int) -> Allowed | None:
    """Return a function that tells which rows have `lookback` rows of their past, or their whole past; None if all have."""
    if not lookback:
        return None
    index = table.writer.index

    def allowed(rows: np.ndarray) -> np.ndarray:
        _, episodes, times = index.places(rows)
        kept = index.episodes.t_kept.take(episodes)
        answer: np.ndarray = (kept == 0) | (times - kept >= lookback)
        return answer

    return allowed


def with_past(table: Table, rows: np.ndarray, lookback: int, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row up to `lookback` rows before it, the row, and `after[i]` rows after it.

    Returns:
        The rows, flat; and how many of them are the past of each: int64 [B].
    """
    index = table.writer.index
    places = index.places(rows)
    before = np.minimum(lookback, places.times - index.episodes.t_kept.take(places.episodes))
    return stretches(table, rows, places, before, after), before


def stretches(table: Table, rows: np.ndarray, places: Places, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return for each row `before[i]` rows before it, the row, and `after[i]` rows after it, one after another: flat int64."""
    if not len(rows):
        return rows
    shifts = np.arange(-int(before.max()), int(after.max()) + 1)
    inside = (shifts >= -before[:, None]) & (shifts <= after[:, None])
    if inside.all():
        return table.writer.index.walk(rows, places.runs, shifts).reshape(-1)
    clipped = np.clip(shifts, -before[:, None], after[:, None])
    return table.writer.index.walk(rows, places.runs, clipped)[inside]
