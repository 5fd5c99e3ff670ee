"""Writes the observations of the batch into the running episodes, in the place of the newest ones there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, has_column, rows_of_modules
from episodia.connectors.batches.batch_descriptions import rows_of
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.episodes.lists.episode_list import Episodes
from episodia.errors import BatchError, EpisodiaError, PipelineError
from episodia.space_rules import rules_of
from episodia.stacking import joined_rows, stack
from episodia.types import Item


class WriteObservationsToEpisodes(ColumnPiece):
    """Writes the observations of the batch into the running episodes, in the place of the newest ones there.

    So what earlier pieces of an env-to-module pipeline made of them is what a learner reads. The batch stays as it is.

    >>> walk = SingleAgentEpisode(observations=[3])
    >>> _ = WriteObservationsToEpisodes()(rl_module=None, batch={"obs": [0.5]}, episodes=EpisodeList([walk]).current())
    >>> walk.get_observations(-1)
    np.float64(0.5)
    """

    reads = frozenset({Columns.OBS})
    writes_to_episodes = True
    writes = frozenset[str]()
    lookback = 0

    def work(self, run: Run) -> None:
        """Write the observations of the batch into the episodes.

        Raises:
            BatchError: If the batch has no observations.
            PipelineError: In a learner pipeline.
        """
        _check_is_runner(self, run.episodes)
        if not has_column(run.batch, Columns.OBS):
            raise BatchError(
                f"{self.name}: found no column {Columns.OBS!r} in the batch, expected one. Place this piece after the one that "
                "adds observations."
            )
        run.episodes = EpisodeList.now(run.episodes)
        for _, columns, rows in rows_of_modules(run):
            if Columns.OBS in columns:
                column = as_ragged(columns[Columns.OBS], rows)
                written = list(zip(rows.agent_episodes, rows_of(column.values), strict=True))
                for episode, observation in written:
                    episode.set_observations(new_data=observation, at_indices=-1)
                forget_other_spaces(written)


def forget_other_spaces(written: Sequence[tuple[SingleAgentEpisode, Item]]) -> None:
    """Let episodes forget their observation space, if the observation that was written into them does not belong to it.

    The environment continues with observations of that space, but those of another space are stored.
    """
    by_space: dict[int, tuple[Space[Any], list[SingleAgentEpisode], list[Item]]] = {}
    for episode, item in written:
        space = episode.observation_space
        if space is not None:
            _, episodes, items = by_space.setdefault(id(space), (space, [], []))
            episodes.append(episode)
            items.append(item)
    for space, episodes, items in by_space.values():
        for position in _positions_outside(space, items):
            episodes[position].observation_space = None


def _positions_outside(space: Space[Any], items: list[Item]) -> list[int]:
    """Return the positions of the items that do not belong to `space`."""
    # Without the message that an error has: there is a writer at each step, and it reads all of this.
    if isinstance(space, spaces.Box):
        rows = joined_rows(items)
        if rows is not None and rows.dtype == space.dtype and rows.shape[1:] == space.shape:
            outside = (rows < space.low) | (rows > space.high)
            if not outside.item(outside.argmax()):  # the first that is outside, if there is one
                return []
            return np.flatnonzero(outside.reshape(len(rows), -1).any(axis=1)).tolist()
    if _belong(space, items):
        return []
    return [position for position, item in enumerate(items) if not _belong(space, [item])]


def _belong(space: Space[Any], items: list[Item]) -> bool:
    rules = rules_of(space)
    try:
        rules.check_bounds(stack([rules.admit(item) for item in items], rules.objects))
    except EpisodiaError:
        return False
    return True


def check_place(piece: ConnectorV2, batch: Batch, episodes: Episodes) -> None:
    """Raise if `piece` runs in a learner pipeline or after observations were added to the batch."""
    _check_is_runner(piece, episodes)
    if batch and has_column(batch, Columns.OBS):
        raise BatchError(
            f"{piece.name}: found observations in the batch, expected none: what is written into the episodes would not reach "
            f"them. Place this piece before all that write {Columns.OBS!r}."
        )


def _check_is_runner(piece: ConnectorV2, episodes: Any) -> None:
    """Raise if `piece` runs in a learner pipeline."""
    # `isinstance` is slow with abstract classes.
    if EpisodeList in type(episodes).__mro__ and not episodes.is_current:
        raise PipelineError(
            f"{piece.name}: found all steps of the episodes, as in a learner pipeline, expected the present moment: only the "
            "newest observation is changed. Place this piece in the env-to-module pipeline; the learner reads what it wrote."
        )
