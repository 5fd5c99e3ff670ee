"""A buffer as text, and as HTML in notebooks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from episodia.columns import Columns
from episodia.display import notebook_html as html
from episodia.episodes.lists.ragged import offsets_of
from episodia.replay.table import Table
from episodia.types import ModuleID


class Contents(NamedTuple):
    """The content of a table.

    Attributes:
        module_id: The module.
        num_steps: The stored steps.
        num_rows: The rows in use.
        num_episodes: The stored episodes, parts of episodes included.
        num_growing: How many of them may go on.
        oldest: The oldest episode; None if nothing is stored.
        newest: The newest one.
        num_bytes: The size of all columns when all rows are in use.
        mean_return: The mean of the sums of rewards of all episodes that are stored from their beginning to their end; None if
            there is no such episode.
    """

    module_id: ModuleID
    num_steps: int
    num_rows: int
    num_episodes: int
    num_growing: int
    oldest: object
    newest: object
    num_bytes: int
    mean_return: float | None


def contents_of(table: Table) -> Contents:
    """Return what a table holds."""
    index = table.writer.index
    episodes = index.episodes_with_steps()
    ids = [index.episodes.ids[episode] for episode in episodes[[0, -1]].tolist()] if len(episodes) else [None, None]
    return Contents(
        table.module_id,
        index.num_steps,
        int(np.count_nonzero(index.run_of >= 0)),
        len(episodes),
        len(table.writer.growing),
        ids[0],
        ids[1],
        table.columns.num_bytes,
        _mean_return(table, episodes),
    )


def _mean_return(table: Table, episodes: np.ndarray) -> float | None:
    index = table.writer.index
    whole = episodes[(index.episodes.t_kept[episodes] == 0) & (index.episodes.extent[episodes] < 0)]
    if not len(whole):
        return None
    rows, counts = index.rows_of_episodes(whole)
    rewards = table.columns.take(Columns.REWARDS, rows)
    rewards[offsets_of(counts)[1:] - 1] = 0.0  # no step was taken at the last observation
    return float(rewards.sum() / len(whole))


def buffer_text(capacity: int, parts: list[Contents]) -> str:
    """Return one line for a buffer."""
    if not parts:
        return f"ReplayBuffer(empty, capacity={capacity})"
    steps, episodes = sum(part.num_steps for part in parts), sum(part.num_episodes for part in parts)
    modules = f", {len(parts)} modules" if len(parts) > 1 else ""
    fill = 100 * sum(part.num_rows for part in parts) / (capacity * len(parts))
    size = html.bytes_text(sum(part.num_bytes for part in parts))
    return f"ReplayBuffer({steps} steps of {episodes} episodes{modules}, {fill:.0f} % of {capacity} rows, {size})"


def buffer_html(capacity: int, parts: list[Contents]) -> str:
    """Return a table with a row for each module."""
    titles = ["module", "steps", "rows", "episodes", "growing", "oldest", "newest", "mean return", "size"]
    rows = [
        html.row(
            [
                str(part.module_id),
                str(part.num_steps),
                f"{part.num_rows} of {capacity}",
                str(part.num_episodes),
                str(part.num_growing),
                str(part.oldest),
                str(part.newest),
                "-" if part.mean_return is None else f"{part.mean_return:.4g}",
                html.bytes_text(part.num_bytes),
            ]
        )
        for part in parts
    ]
    return html.block(buffer_text(capacity, parts), html.table(titles, rows))
