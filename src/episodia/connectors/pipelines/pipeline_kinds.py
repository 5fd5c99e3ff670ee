"""The three kinds of pipelines: before a module acts, after it acts, and before it learns."""

from __future__ import annotations

from typing import Any, ClassVar

from episodia.connectors.pipelines.checks.lost_writes import Writes
from episodia.connectors.pipelines.checks.row_counts import check_row_counts
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.plugins.saved_pipeline import SavedPipeline
from episodia.episodes.columns.watched_columns import noted_writes
from episodia.episodes.lists.episode_list import EpisodeList, Episodes

__all__ = ["ConnectorPipelineV2", "EnvToModulePipeline", "LearnerConnectorPipeline", "ModuleToEnvPipeline"]


class EnvToModulePipeline(SavedPipeline):
    """From episodes to the batch that a module acts on: one row for each agent, at its last observation.

    The batch is empty at first. Values that pieces write into the episodes stay there and reach the learner.
    """

    given_columns: ClassVar[frozenset[str] | None] = frozenset()
    has_fixed_episodes: ClassVar[bool] = True

    def prepared(self, episodes: Episodes | None) -> EpisodeList | None:
        """Return the episodes themselves, as a list at the present moment."""
        return None if episodes is None else EpisodeList.now(episodes)


class ModuleToEnvPipeline(SavedPipeline):
    """From the outputs of a module to actions for the environment.

    The batch holds the outputs of the module, which can be any columns.
    """

    has_fixed_episodes: ClassVar[bool] = True

    def prepared(self, episodes: Episodes | None) -> EpisodeList | None:
        """Return the episodes themselves, as a list at the present moment."""
        return None if episodes is None else EpisodeList.now(episodes)


class LearnerConnectorPipeline(SavedPipeline):
    """From episodes to the batch that a module learns from: a row for each step.

    The batch is empty at first. Pieces work on copy-on-write forks: later pieces see what a piece writes into the episodes,
    the caller does not. So running a pipeline twice does not add an intrinsic reward twice. The same holds for the list of
    episodes, to which pieces may add episodes, and from which they may drop some.
    """

    given_columns: ClassVar[frozenset[str] | None] = frozenset()

    def prepared(self, episodes: Episodes | None) -> EpisodeList | None:
        """Return forks of the episodes."""
        return None if episodes is None else EpisodeList.of(episodes).forked()

    def run(self, run: Run) -> dict[str, Any]:
        """Return what the pieces make of the batch of `run`, after checking that nothing of it was lost.

        Raises:
            BatchError: If columns of one module have different numbers of rows, or if a piece wrote something into the
                episodes that no later piece has read.
        """
        with noted_writes() as noted:
            run.writes = Writes(noted)
            batch = super().run(run)
        run.writes.check(self, run)
        check_row_counts(self, run)
        return batch
