"""Adds the observations that a module acts on: one for each step, or the last one of each running episode."""

from __future__ import annotations

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors.batches.batch_columns import add_to_run, rows_of_modules
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.spaces import empty_batch


class AddObservationsFromEpisodesToBatch(ColumnPiece):
    """Adds the observations that a module acts on: one for each step, or the last one of each running episode.

    Observations that an earlier piece has added or changed are kept. In training, the observation after the last
    step is added as the tail of a track, so that values can be bootstrapped from it.
    """

    reads = frozenset[str]()
    writes = fills = frozenset({Columns.OBS})
    lookback = 0

    def compile(self, layout: Layout) -> Step:
        """Return `work`; for runners, add the array that `BatchIndividualItems` would make, if that comes next."""
        if layout.episodes is LiveAgents:
            return self._add_by_module
        is_followed = layout.episodes is LiveEpisodes and layout.is_followed_by(BatchIndividualItems)
        return self._add_array if is_followed else self.work

    def _add_array(self, run: Run) -> None:
        batch = run.batch
        if DEFAULT_MODULE_ID in batch:  # grouped by module
            self.work(run)
        elif Columns.OBS not in batch:
            batch[Columns.OBS] = run.episodes.latest(Columns.OBS)

    def _add_by_module(self, run: Run) -> None:
        if run.batch:
            self.work(run)
        else:
            groups = run.episodes.groups()
            run.batch[Columns.OBS] = {module_id: self._observations(rows) for module_id, rows in groups.items()}

    def work(self, run: Run) -> None:
        """Add observations, unless a module has them already."""
        for part in rows_of_modules(run):
            if Columns.OBS in part.columns:
                return
        add_to_run(run, Columns.OBS, self._observations)

    def _observations(self, rows: EpisodeList) -> Ragged:
        observations = rows.flat(Columns.OBS, tail=True)
        if not len(rows) and self.input_observation_space is not None:
            # No episode knows the shape of its observations.
            return observations.with_values(empty_batch(self.input_observation_space))
        return observations
