"""Draws: what a sample is made of. All of them take steps that the selector of the buffer chooses.

Pictures of one episode in the buffer, with `x` for the chosen step, brackets around the steps that are in the sample, and
`o` for the observation after them:

    Transitions()                          . . . [x] o . . .
    Transitions(n_step=3)                  . . . [x  .  .] o .      one row: rewards summed, `discounts` is gamma ** 3
    Sequences(length=3)                    . . . [x  .  .] o .      three rows
    Sequences(length=3, burn_in=2)         . [.  .  x  .  .] o .    five rows; `loss_mask` is false for the first two
    WholeEpisodes()                        [.  .  .  x  .  .  .] o

`JointSteps()` draws the steps of all agents at an environment step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from episodia.arguments import checked_choice, checked_number, checked_whole
from episodia.columns import Columns
from episodia.episodes.lists.ragged import offsets_of, rows_of_ranges
from episodia.errors import ReplayError
from episodia.replay.drawn import Drawn, single_lengths
from episodia.replay.n_steps import n_step_sums
from episodia.replay.rows.row_index import STEP, TERMINATED, RowPlaces
from episodia.replay.table import Picked, Table
from episodia.types import ModuleID

Allowed = Callable[[np.ndarray], np.ndarray]


class Draw(ABC):
    """Decides what a sample is made of."""

    @abstractmethod
    def draw(
        self, tables: Mapping[ModuleID, Table], num: int, lookback: int, rng: np.random.Generator
    ) -> dict[ModuleID, Drawn]:
        """Return by module the rows of `num` stretches, each with up to `lookback` rows of the past.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """


class DrawByModule(Draw):
    """Draws for each module apart."""

    def draw(
        self, tables: Mapping[ModuleID, Table], num: int, lookback: int, rng: np.random.Generator
    ) -> dict[ModuleID, Drawn]:
        """Return by module the rows of `num` stretches, each with up to `lookback` rows of the past."""
        return {module_id: self.draw_from(table, num, lookback, rng) for module_id, table in tables.items()}

    @abstractmethod
    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` stretches of one module.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """


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

    >>> Transitions(n_step=3)
    Transitions(n_step=3, gamma=0.99)
    """

    n_step: int = 1
    gamma: float = 0.99

    def __post_init__(self) -> None:
        checked_whole(ReplayError, "Transitions", "n_step", self.n_step, 1)
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
        drawn = Drawn(both.reshape(-1), table.keys(rows), ends, single_lengths(num), is_macro=True, is_single=True)
        drawn.added = {Columns.REWARDS: sums.returns, Columns.DISCOUNTS: sums.discounts, **_weights(picked)}
        if lookback:
            drawn.times = index.places(rows).times
            drawn.rows, drawn.lookbacks = with_past(table, drawn.rows, lookback, np.zeros(2 * num, np.int64))
        return drawn


@final
@dataclass(frozen=True)
class Sequences(DrawByModule):
    """Sequences of `length` steps that begin with the chosen ones, each with up to `burn_in` earlier steps in front.

    Steps that only warm up the state of a recurrent module are false in the column `loss_mask`. The state before a sequence is
    the stored `state_out` of the step before: sample with a lookback of at least 1.

    Args:
        length: The number of steps; a sequence is shorter where the episode ends, or does not go on yet.
        burn_in: The number of steps before them; fewer at the beginning of an episode.
        every: Sequences begin at the time steps 0, `every`, 2 * `every`, and so on.
        start: `"anywhere"`, or only with the first step of an `"episode"`.
        end: `"pad"` allows shorter sequences, which the learner pipeline pads; `"full"` does not draw them.

    Raises:
        ReplayError: If an argument is wrong.

    >>> Sequences(20, burn_in=5)
    Sequences(length=20, burn_in=5, every=1, start='anywhere', end='pad')
    """

    length: int
    burn_in: int = 0
    every: int = 1
    start: Literal["anywhere", "episode"] = "anywhere"
    end: Literal["pad", "full"] = "pad"

    def __post_init__(self) -> None:
        checked_whole(ReplayError, "Sequences", "length", self.length, 1)
        checked_whole(ReplayError, "Sequences", "burn_in", self.burn_in, 0)
        checked_whole(ReplayError, "Sequences", "every", self.every, 1)
        checked_choice(ReplayError, "Sequences", "start", self.start, ("anywhere", "episode"))
        checked_choice(ReplayError, "Sequences", "end", self.end, ("pad", "full"))

    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` sequences."""
        picked = table.pick(num, rng, self._allowed(table, lookback))
        index, rows = table.writer.index, picked.rows
        places = index.places(rows)
        kept = index.episodes.t_kept.take(places.episodes)
        lengths = np.minimum(self.length, index.episodes.t_stop.take(places.episodes) - places.times)
        past = places.times - kept
        # Where the beginning of the episode was evicted, the lookback comes first.
        warmups = np.minimum(self.burn_in, np.where(kept > 0, past - lookback, past))
        lookbacks = np.minimum(lookback, past - warmups)
        flat = stretches(table, rows, places, lookbacks + warmups, lengths)
        counts = warmups + lengths
        last_steps = offsets_of(lookbacks + counts + 1)[1:] - 2
        ends = index.kind.take(flat.take(last_steps))
        drawn = Drawn(flat, table.keys(rows), ends, counts, places.times - warmups)
        if lookback:
            drawn.lookbacks = lookbacks
        if self.burn_in:
            drawn.added[Columns.LOSS_MASK] = rows_of_ranges(-warmups, counts) >= 0
        if picked.weights is not None:
            drawn.added[Columns.WEIGHTS] = np.repeat(picked.weights.astype(np.float32), counts)
        return drawn

    def _allowed(self, table: Table, lookback: int) -> Allowed | None:
        if not lookback and self.every == 1 and self.start == "anywhere" and self.end == "pad":
            return None
        index = table.writer.index

        def allowed(rows: np.ndarray) -> np.ndarray:
            _, episodes, times = index.places(rows)
            kept = index.episodes.t_kept.take(episodes)
            answer: np.ndarray = (kept == 0) | (times - kept >= lookback)
            if self.every > 1:
                answer &= times % self.every == 0
            if self.start == "episode":
                answer &= times == 0
            if self.end == "full":
                answer &= times + self.length <= index.episodes.t_stop.take(episodes)
            return answer

        return allowed


@final
@dataclass(frozen=True)
class WholeEpisodes(DrawByModule):
    """All that is stored of the episodes of the chosen steps: long episodes are more probable than short ones.

    >>> WholeEpisodes()
    WholeEpisodes()
    """

    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
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


def single_steps(table: Table, picked: Picked, lookback: int) -> Drawn:
    """Return the picked steps, each with up to `lookback` rows of the past."""
    index, rows = table.writer.index, picked.rows
    lengths = single_lengths(len(rows))
    if lookback:
        times = index.places(rows).times
        flat, lookbacks = with_past(table, rows, lookback, lengths)
        return Drawn(flat, table.keys(rows), picked.kinds, lengths, times, lookbacks, _weights(picked), is_single=True)
    both = np.empty((len(rows), 2), np.int64)
    both[:, 0] = rows
    both[:, 1] = index.after(rows, picked.kinds, picked.any_kind)
    return Drawn(both.reshape(-1), table.keys(rows), picked.kinds, lengths, added=_weights(picked), is_single=True)


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


def stretches(table: Table, rows: np.ndarray, places: RowPlaces, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return for each row `before[i]` rows before it, the row, and `after[i]` rows after it, one after another: flat int64."""
    if not len(rows):
        return rows
    shifts = np.arange(-int(before.max()), int(after.max()) + 1)
    inside = (shifts >= -before[:, None]) & (shifts <= after[:, None])
    if inside.all():
        return table.writer.index.walk(rows, places.runs, shifts).reshape(-1)
    clipped = np.clip(shifts, -before[:, None], after[:, None])
    return table.writer.index.walk(rows, places.runs, clipped)[inside]
