"""The draw of all that is stored of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from episodia.columns import Columns
from episodia.episodes.lists.ragged import offsets_of
from episodia.replay.draws.draw import DrawByModule
from episodia.replay.draws.drawn import Drawn
from episodia.replay.draws.stretches import keeps_lookback
from episodia.replay.table import Picked, Table


@final
@dataclass(frozen=True)
class WholeEpisodes(DrawByModule):
    """All that is stored of the episodes of the chosen steps: long episodes are more probable than short ones.

    With a lookback, the first stored steps of an episode whose beginning was evicted are the past of the others.

    >>> WholeEpisodes()
    WholeEpisodes()
    """

    def draw_from(self, table: Table, num: int, lookback: int, rng: np.random.Generator) -> Drawn:
        """Return the rows of `num` episodes."""
        picked = table.pick(num, rng, keeps_lookback(table, lookback))
        return whole_episodes(table, table.writer.index.places(picked.rows).episodes, picked, lookback)


def whole_episodes(table: Table, episodes: np.ndarray, picked: Picked | None = None, lookback: int = 0) -> Drawn:
    """Return all rows of stored episodes that have steps; their keys are those of `picked` steps, or of their first steps."""
    index = table.writer.index
    rows, counts = index.rows_of_episodes(episodes)
    offsets, kept = offsets_of(counts), index.episodes.t_kept.take(episodes)
    lookbacks = np.where(kept == 0, 0, lookback) if lookback else None
    lengths, times = (counts - 1, kept) if lookbacks is None else (counts - 1 - lookbacks, kept + lookbacks)
    ends = index.kind.take(rows.take(offsets[1:] - 2)) if len(rows) else np.empty(0, np.uint8)
    anchors = rows.take(offsets[:-1]) if picked is None else picked.rows
    drawn = Drawn(rows, anchors, ends, lengths, times, lookbacks)
    if picked is not None and picked.weights is not None:
        drawn.added[Columns.WEIGHTS] = np.repeat(picked.weights.astype(np.float32), lengths)
    return drawn
