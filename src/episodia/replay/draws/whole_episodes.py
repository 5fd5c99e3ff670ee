"""The draw of all that is stored of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from episodia.columns import Columns
from episodia.episodes.lists.ragged import offsets_of
from episodia.replay.draws.draw import DrawByModule
from episodia.replay.draws.drawn import Drawn
from episodia.replay.table import Picked, Table


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
    anchors = rows.take(offsets[:-1]) if picked is None else picked.rows
    drawn = Drawn(rows, anchors, ends, lengths, index.episodes.t_kept.take(episodes))
    if picked is not None and picked.weights is not None:
        drawn.added[Columns.WEIGHTS] = np.repeat(picked.weights.astype(np.float32), lengths)
    return drawn
