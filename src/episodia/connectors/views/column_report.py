"""The report of `detect_columns`, and how it is followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import final

from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.module_to_env.drop_module_outputs import DropModuleOutputs
from episodia.connectors.module_to_env.module_to_agent_unmapping import ModuleToAgentUnmapping
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.connectors.pipelines.pipeline_kinds import LearnerConnectorPipeline, ModuleToEnvPipeline
from episodia.connectors.views.add_views import AddViews

# By column: the pieces, forward passes and losses that did something with it.
_ByColumn = Mapping[str, tuple[str, ...]]


@final
@dataclass(frozen=True)
class ColumnReport:
    """The readers and writers of each column in the batches that modules act on and learn from.

    For several modules, the names of their forward passes and losses begin with the module id.

    Attributes:
        acting: The columns of the batch for acting, with the readers of each.
        training: The columns of the train batch, with the readers of each.
        dropped: The columns of the train batch that could be left out, with the reason.
        kept: The unread columns of the train batch that have to stay, with the reason.
        missed: The columns that were requested but are in no batch, with the readers that requested them.
        added: The columns that a piece of the learner pipeline, a forward pass or a loss has added to the batch.
        overwritten: The columns that one of these has overwritten with other values.
        deleted: The columns that one of these has deleted.
        unrecorded: The outputs of modules among `dropped` that episodes need not have: without them, all other columns stay
            the same.
    """

    acting: _ByColumn
    training: _ByColumn
    dropped: Mapping[str, str]
    kept: Mapping[str, str]
    missed: _ByColumn
    added: _ByColumn = field(default_factory=dict)
    overwritten: _ByColumn = field(default_factory=dict)
    deleted: _ByColumn = field(default_factory=dict)
    unrecorded: frozenset[str] = frozenset()

    @property
    def needed(self) -> frozenset[str]:
        """The columns of the train batch that were read."""
        return frozenset(column for column, readers in self.training.items() if readers)

    @property
    def unused_when_acting(self) -> frozenset[str]:
        """The unread columns of the batch for acting. Views among them can be declared with `infer=False`."""
        return frozenset(column for column, readers in self.acting.items() if not readers)

    def prune(
        self, *, learner: LearnerConnectorPipeline | None = None, module_to_env: ModuleToEnvPipeline | None = None
    ) -> None:
        """Follow the report: unused columns are neither gathered for the batch nor recorded. Rewards and flags stay.

        Args:
            learner: The pipeline of a learner. Actions, outputs of modules and views that are `dropped` are left out.
            module_to_env: The pipeline of a runner, before its first sample. Outputs that are `unrecorded` are left out.
        """
        if learner is not None:
            self._prune_learner(learner)
        if module_to_env is not None and self.unrecorded:
            piece = DropModuleOutputs(columns=self.unrecorded)
            unmapping = [
                place.path for place in leaves(module_to_env) if isinstance(place.piece, ModuleToAgentUnmapping)
            ]
            if unmapping:
                module_to_env.insert_before(unmapping[0], piece)
            else:
                module_to_env.append(piece)

    def _prune_learner(self, learner: LearnerConnectorPipeline) -> None:
        for place in list(leaves(learner)):
            piece = place.piece
            if type(piece) is AddColumnsFromEpisodesToTrainBatch:
                skipped = piece.skip_columns | self.dropped.keys()
                learner.replace(piece.name, AddColumnsFromEpisodesToTrainBatch(skip_columns=skipped, name=piece.name))
            elif isinstance(piece, AddViews):
                for name in self.dropped.keys() & piece.views.keys():
                    view = piece.views[name]
                    if view.infer:
                        piece.add(name, replace(view, train=False))
                    else:
                        piece.remove(name)

    def __str__(self) -> str:
        lines = ["when acting:"]
        lines += [f"  {name}: {_readers(readers, 'not read')}" for name, readers in self.acting.items()]
        lines.append("in training:")
        for name, readers in self.training.items():
            unread = f"DROP, {self.dropped[name]}" if name in self.dropped else f"keep, {self.kept.get(name, '')}"
            lines.append(f"  {name}: {_readers(readers, unread)}")
        lines += [f"missing: {name}, requested by {', '.join(readers)}" for name, readers in self.missed.items()]
        for what, columns in (("added", self.added), ("overwritten", self.overwritten), ("deleted", self.deleted)):
            lines += [f"{what}: {name}, by {', '.join(writers)}" for name, writers in columns.items()]
        if self.unrecorded:
            lines.append(f"not recorded: {', '.join(sorted(self.unrecorded))}")
        return "\n".join(lines)


def _readers(readers: tuple[str, ...], unread: str) -> str:
    return f"needed by {', '.join(readers)}" if readers else unread
