"""The draw of sequences of steps, with steps in front that warm up a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from episodia.arguments import checked_choice, checked_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.episodes.lists.ragged import rows_of_ranges
from episodia.errors import ReplayError
from episodia.replay.draws.draw import DrawByModule
from episodia.replay.draws.drawn import Drawn
from episodia.replay.draws.stretches import Allowed, stretches
from episodia.replay.rows.keys import MOST_ROWS
from episodia.replay.table import Table


@names_nearest_argument
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
        checked_whole(ReplayError, "Sequences", "length", self.length, 1, below=MOST_ROWS)
        checked_whole(ReplayError, "Sequences", "burn_in", self.burn_in, 0, below=MOST_ROWS)
        checked_whole(ReplayError, "Sequences", "every", self.every, 1, below=MOST_ROWS)
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
        last_steps = (lookbacks + counts + 1).cumsum() - 2
        ends = index.kind.take(flat.take(last_steps))
        drawn = Drawn(flat, rows, ends, counts, places.times - warmups, lookbacks if lookback else None)
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
            answer = np.ones(len(rows), np.bool_)
            if lookback:
                kept = index.episodes.t_kept.take(episodes)
                answer &= (kept == 0) | (times - kept >= lookback)
            if self.every > 1:
                answer &= times % self.every == 0
            if self.start == "episode":
                answer &= times == 0
            if self.end == "full":
                answer &= times + self.length <= index.episodes.t_stop.take(episodes)
            return answer

        return allowed
