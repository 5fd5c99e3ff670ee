"""One call of a draw: from checked arguments to a sample."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.episodes import Ragged
from episodia.errors import ReplayError
from episodia.replay.draws.draw import Draw
from episodia.replay.draws.drawn import Drawn
from episodia.replay.rows.keys import MOST_ROWS
from episodia.replay.rows.row_index import STEP
from episodia.replay.samples.sample_source import SampleSource
from episodia.replay.samples.sampled import Sampled
from episodia.replay.samples.sampled_modules import SampledModules
from episodia.replay.table import Table
from episodia.trees import describe, map_batch
from episodia.types import Item, ModuleID


def draw_sample(  # those of `ReplayBuffer.sample`, and what they draw from
    where: str,
    tables: Mapping[Any, Table],
    num: int,
    draw: Draw,
    lookback: int,
    modules: Collection[ModuleID] | None,
    rng: np.random.Generator,
) -> Sampled | SampledModules:
    """Return `num` stretches of each of the asked `modules`; see `ReplayBuffer.sample`.

    Raises:
        ReplayError: If an argument is wrong, or there is no step that can be drawn.
    """
    num = checked_whole(ReplayError, where, "num", num, 1, below=MOST_ROWS)
    lookback = checked_whole(ReplayError, where, "lookback", lookback, 0, below=MOST_ROWS)
    if not isinstance(draw, Draw):
        raise ReplayError(
            f"{where}: found `draw={describe(draw)}`, expected a draw. Pass `Transitions()`, for example."
        )
    asked = _asked(where, tables, modules)
    parts = {}
    for module_id, drawn in draw.draw(asked, num, lookback, rng).items():
        table = asked[module_id]
        if Columns.ACTION_MASK in table.columns.arrays:
            drawn.added[Columns.NEXT_ACTION_MASK] = _next_masks(table, drawn)
        parts[module_id] = Sampled(SampleSource(table), drawn)
    # Modules without steps count, so that the kind of sample does not change with what is evicted.
    has_one = len(tables if modules is None else asked) == 1
    return next(iter(parts.values())) if has_one else SampledModules(parts)


def _next_masks(table: Table, drawn: Drawn) -> Item:
    """Return the mask of the actions that are allowed after each step; where no step follows, all are."""
    rows = Ragged.known(drawn.track_rows, drawn.track_offsets, 1, 1, drawn.track_width).following().values
    is_last = (table.writer.index.kind.take(rows) & STEP) == 0
    masks = table.columns.take(Columns.ACTION_MASK, rows)
    map_batch(lambda leaf: leaf.__setitem__(is_last, 1), masks)
    return masks


def _asked(where: str, tables: Mapping[Any, Table], modules: Collection[ModuleID] | None) -> Mapping[Any, Table]:
    if not tables:
        raise ReplayError(f"{where}: found an empty buffer, expected steps. Call `add` first.")
    if modules is None:
        if len(tables) == 1:
            return tables
        filled = {name: table for name, table in tables.items() if table.writer.index.num_steps or table.is_torn}
        return filled or tables  # where no module has steps, the draw says so
    given: object = modules
    asked = list(given) if isinstance(given, (Sequence, Set, Mapping)) and not isinstance(given, str) else []
    if not asked or not all(isinstance(module_id, Hashable) and module_id in tables for module_id in asked):
        raise ReplayError(
            f"{where}: found `modules={describe(modules)}`, expected some of {list(tables)}. Add episodes of the others "
            "first, or leave them out."
        )
    return {module_id: tables[module_id] for module_id in asked}
