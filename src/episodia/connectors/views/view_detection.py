"""Detection of unused columns: runs modules and their loss, and reports which columns they read and write.

Detection changes nothing: the report says which columns could be left out, and why. The user decides, and can apply it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, final

import torch
from gymnasium import Space

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors import defaults
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.module_outputs import NOT_RECORDED, is_container, members
from episodia.connectors.batches.tracked_batch import TrackedBatch, fingerprint
from episodia.connectors.pipelines.explaining import Explanation
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, LearnerConnectorPipeline
from episodia.connectors.views.column_report import ColumnReport
from episodia.episodes import SingleAgentEpisode
from episodia.errors import BatchError, EpisodiaError, PipelineError
from episodia.modules.protocol import Module, has_values
from episodia.trees import map_batch, shown

# Columns of a train batch that are never dropped: later code relies on them.
_NEVER_DROPPED = {
    Columns.REWARDS: "rewards are never dropped",
    Columns.TERMINATEDS: "flags are never dropped",
    Columns.TRUNCATEDS: "flags are never dropped",
    Columns.STATE_IN: "recurrent modules need their states",
    Columns.SEQ_LENS: "tells steps from padding",
    Columns.LOSS_MASK: "tells which steps count",
}


# A loss function, called with a module and its train batch.
LossFunction = Callable[[Any, dict[str, Any]], Any]


def detect_columns(
    module: Module | Mapping[str, Module],
    loss: LossFunction | None = None,
    *,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    env_to_module: EnvToModulePipeline | None = None,
    learner: LearnerConnectorPipeline | None = None,
    num_steps: int = 3,
) -> ColumnReport:
    """Let `module` act in a made-up episode and learn from it, and report which columns were read.

    Observations are sampled from their space with a fixed seed, and rewards are 0. A column that is read only under certain
    conditions (after a number of updates, for one kind of episode) may not be read here: check the report before you drop
    columns.

    Args:
        module: One module, or modules by their ids: each acts in an episode of its own. A column is dropped if none of them
            needs it.
        loss: A loss function, called with each module and its train batch. Without it, only the reads of the modules are
            reported.
        observation_space: The observation space of the environment; the one of the module by default.
        action_space: The action space of the environment; the one of the module by default.
        env_to_module: The env-to-module pipeline of single-agent episodes; None for the default pipeline with the module's
            views.
        learner: The learner pipeline; None for the default pipeline with the modules' views.
        num_steps: The length of the episode, at least 1.

    Raises:
        PipelineError: If a space is unknown, or the episode would have no steps.
        BatchError: If a module or the loss fails because a column is missing.

    >>> from gymnasium import spaces
    >>> from episodia.connectors.views.view import View
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2))
    >>> module.views = {"last_reward": View("rewards", shift=-1)}
    >>> report = detect_columns(module, lambda module, batch: batch["actions"].sum())
    >>> report.needed == {"obs", "actions"}, "last_reward" in report.dropped, "rewards" in report.kept
    (True, True, True)
    """
    if num_steps < 1:
        raise PipelineError(
            f"detect_columns: found `num_steps={shown(num_steps)}`, expected at least 1: without a step the module "
            "does not act, and all columns seem unused. Pass a larger number."
        )
    spaces = observation_space, action_space
    run = _Detection(module, [_Player(*named, spaces, env_to_module) for named in _named(module).items()])
    behind = learner or run.default_learner()
    episodes = [player.played(num_steps) for player in run.players]
    explained = behind.explain(episodes, rl_module=module)
    for player in run.players:
        player.learn(explained.batch[player.module_id], loss)
    report = run.report(behind, explained)
    return replace(report, unrecorded=run.unrecorded(_pruned(behind, report), episodes, report.dropped))


def _pruned(learner: LearnerConnectorPipeline, report: ColumnReport) -> LearnerConnectorPipeline:
    """Return a copy of `learner` without the columns that are dropped; `learner` itself if it cannot be copied."""
    try:
        pruned = copy.deepcopy(learner)
    except Exception:  # noqa: BLE001  # plugins may hold anything that cannot be copied
        return learner
    report.prune(learner=pruned)
    return pruned


def _named(module: Any) -> dict[Any, Module]:
    return members(module) if is_container(module) else {DEFAULT_MODULE_ID: module}


def _space(kind: str, given: Space[Any] | None, module: Module) -> Space[Any]:
    space: Space[Any] | None = getattr(module, f"{kind}_space", None) if given is None else given
    if space is None:
        raise PipelineError(
            f"detect_columns: found no {kind} space, expected one to sample an episode from. Pass `{kind}_space`."
        )
    return space


@final
class _Player:
    """Runs a module and a loss on batches, and notes which of them does what with which column."""

    def __init__(
        self,
        module_id: Any,
        module: Module,
        spaces: tuple[Space[Any] | None, Space[Any] | None],
        env_to_module: EnvToModulePipeline | None,
    ) -> None:
        self.module_id = module_id
        self.module = module
        self.spaces = _space("observation", spaces[0], module), _space("action", spaces[1], module)
        self.is_stateful = bool(module.is_stateful())
        self.env_to_module = env_to_module or defaults.env_to_module(
            *self.spaces, stateful=self.is_stateful, module=module
        )
        self.acting: dict[str, list[str]] = {}
        self.training: dict[str, list[str]] = {}
        self.missed: dict[str, list[str]] = {}
        self.changes = _Changes()

    def played(self, num_steps: int) -> SingleAgentEpisode:
        """Return an episode in which the module has acted."""
        module, (observation_space, action_space) = self.module, self.spaces
        behind = defaults.module_to_env(*self.spaces, stateful=self.is_stateful, normalize_actions=False)
        observations = _drawn(observation_space, num_steps + 1)
        episode = SingleAgentEpisode(
            f"made-up {self.module_id}",
            observation_space=observation_space,
            action_space=action_space,
            module_id=self.module_id,
        )
        episode.add_env_reset(observations[0])
        generator = torch.Generator().manual_seed(0)
        for t in range(num_steps):
            arguments: dict[str, Any] = {"rl_module": module, "episodes": [episode], "explore": True, "shared_data": {}}
            batch = self.env_to_module(**arguments)
            self._watched("forward_inference", module.forward_inference, batch, self.acting)
            outputs = self._watched("forward_exploration", module.forward_exploration, batch, self.acting)
            made = behind(batch=outputs, generator=generator, **arguments)
            rows = {name: _first_row(column) for name, column in made.items()}
            extras = {name: row for name, row in rows.items() if name not in NOT_RECORDED}
            is_last = t == num_steps - 1
            action = rows[Columns.ACTIONS]
            episode.add_env_step(observations[t + 1], action, 0.0, truncated=is_last, extra_model_outputs=extras)
        return episode.finalize()

    def learn(self, batch: Batch, loss: LossFunction | None) -> None:
        """Let the module and the loss read a train batch."""
        module = self.module
        self._watched("forward_train", module.forward_train, batch, self.training)
        if has_values(module):
            self._watched("compute_values", module.compute_values, batch, self.training)
        if loss is not None:
            self._watched("loss", lambda tracked: loss(module, tracked), batch, self.training, gradients=True)

    def _watched(
        self, who: str, function: Any, batch: Batch, notes: dict[str, list[str]], *, gradients: bool = False
    ) -> Any:
        tracked = TrackedBatch(batch)
        before = {name: fingerprint(column) for name, column in batch.items()}
        try:
            with nullcontext() if gradients else torch.no_grad():
                made = function(tracked)
        except LookupError as error:
            absent = sorted(tracked.missed - batch.keys())
            if not absent:
                raise
            raise BatchError(
                f"detect_columns: {who} requested {absent}, expected columns that are in the batch: {list(batch)}. Declare a "
                "view of that name, or pass the pipeline that adds it."
            ) from error
        for name in batch:
            _note(notes.setdefault(name, []), who, name in tracked.read)
        for name in tracked.missed:
            _note(self.missed.setdefault(name, []), who, True)
        self.changes.note_call(who, before, dict(dict.items(tracked)))
        return made


@final
class _Changes:
    """Notes on the pieces that added, overwrote or deleted columns of a batch."""

    def __init__(self) -> None:
        self.added: dict[str, list[str]] = {}
        self.overwritten: dict[str, list[str]] = {}
        self.deleted: dict[str, list[str]] = {}

    def note_call(self, who: str, before: Mapping[str, Any], after: Batch) -> None:
        """Note what `who` has changed; `before` has the fingerprints of all columns."""
        for name in after.keys() - before.keys():
            _note(self.added.setdefault(name, []), who, True)
        for name, old in before.items():
            if name not in after:
                _note(self.deleted.setdefault(name, []), who, True)
            elif fingerprint(after[name]) != old:
                _note(self.overwritten.setdefault(name, []), who, True)

    def note_pieces(self, pipeline: LearnerConnectorPipeline, explained: Explanation) -> None:
        """Note what the pieces of a pipeline have changed."""
        notes = {"new": self.added, "changed": self.overwritten, "gone": self.deleted}
        pieces = {place.path: place.piece for place in leaves(pipeline)}
        for report in explained.pieces:
            writes = pieces[report.piece].writes
            found = {
                change: {_base(column.name) for column in report.columns if column.change == change} for change in notes
            }
            regrouped = found["new"] & found["gone"]
            for column in report.columns:
                name = _base(column.name)
                # Pieces that declare no writing may change the form: turn a column into a tensor, group columns by module.
                is_form = writes is not None and name not in writes and column.change == "changed"
                if column.change != "same" and not is_form and name not in regrouped:
                    _note(notes[column.change].setdefault(name, []), report.piece, True)


@final
class _Detection:
    """The notes on all modules together."""

    def __init__(self, module: Any, players: Sequence[_Player]) -> None:
        self._module = module
        self.players = players

    def default_learner(self) -> LearnerConnectorPipeline:
        """Return the default pipeline for the modules, with their views."""
        is_stateful = any(player.is_stateful for player in self.players)
        spaces = self.players[0].spaces if len(self.players) == 1 else (None, None)
        return defaults.learner(*spaces, stateful=is_stateful, module=self._module)

    def _merged(self, notes_of: Callable[[_Player], dict[str, list[str]]]) -> dict[str, list[str]]:
        """Return the notes on all modules; names begin with the module id if there are several."""
        merged: dict[str, list[str]] = {}
        for player in self.players:
            prefix = f"{player.module_id}: " if is_container(self._module) else ""
            for name, whose in notes_of(player).items():
                merged.setdefault(name, []).extend(f"{prefix}{who}" for who in whose)
        return merged

    def report(self, learner: LearnerConnectorPipeline, explained: Explanation) -> ColumnReport:
        """Return the report of all reads and changes so far."""
        training, changes = self._merged(lambda player: player.training), _Changes()
        silent = next((place.path for place in leaves(learner) if place.piece.reads is None), None)
        for place in leaves(learner):
            for name in place.piece.reads or ():
                if name in training:
                    _note(training[name], place.path, name not in (place.piece.writes or ()))
        dropped, kept = {}, {}
        for name in (name for name, readers in training.items() if not readers):
            if name in _NEVER_DROPPED:
                kept[name] = _NEVER_DROPPED[name]
            elif silent is not None:
                kept[name] = f"{silent} does not declare what it reads"
            else:
                dropped[name] = "no forward pass, no loss and no piece of the pipeline has read it"
        changes.note_pieces(learner, explained)
        return ColumnReport(
            acting=_frozen(self._merged(lambda player: player.acting)),
            training=_frozen(training),
            dropped=dropped,
            kept=kept,
            missed=_frozen(self._merged(lambda player: player.missed)),
            added=_frozen(_both(changes.added, self._merged(lambda player: player.changes.added))),
            overwritten=_frozen(_both(changes.overwritten, self._merged(lambda player: player.changes.overwritten))),
            deleted=_frozen(_both(changes.deleted, self._merged(lambda player: player.changes.deleted))),
        )

    # --- Outputs that need not be recorded --------------------------------------------------------------------------

    def unrecorded(
        self, learner: LearnerConnectorPipeline, episodes: Sequence[SingleAgentEpisode], dropped: Collection[str]
    ) -> frozenset[str]:
        """Return the outputs of modules among `dropped` without which all batches are the same in their other columns."""
        candidates = frozenset(name for own in episodes for name in own.extra_model_outputs).intersection(dropped)
        expected = self._batches(learner, episodes, dropped)

        def is_unused(names: frozenset[str]) -> bool:
            try:
                found = self._batches(learner, [_without(own, names) for own in episodes], dropped)
            except EpisodiaError:  # a view or a piece needs them
                return False
            return found == expected

        if is_unused(candidates):
            return candidates
        return frozenset(name for name in candidates if is_unused(frozenset({name})))

    def _batches(
        self, learner: LearnerConnectorPipeline, episodes: Sequence[SingleAgentEpisode], dropped: Collection[str]
    ) -> list[dict[tuple[Any, str], Any]]:
        """Return fingerprints of the batches for acting and for learning, without `dropped` columns."""
        acting = [
            {player.module_id: player.env_to_module.explain([own], rl_module=player.module, shared_data={}).batch}
            for player, own in zip(self.players, episodes, strict=True)
        ]
        learned = learner.explain(episodes, rl_module=self._module).batch
        used = {id_: {name: columns[name] for name in columns.keys() - dropped} for id_, columns in learned.items()}
        return [
            {(id_, name): fingerprint(column) for id_, columns in batch.items() for name, column in columns.items()}
            for batch in (*acting, used)
        ]


def _without(episode: SingleAgentEpisode, names: Collection[str]) -> SingleAgentEpisode:
    fork = copy.copy(episode)
    fork.extra_model_outputs = {name: column for name, column in fork.extra_model_outputs.items() if name not in names}
    return fork


def _base(name: str) -> str:
    """Return the name of a column without its module."""
    return name.rpartition("/")[2]


def _both(first: dict[str, list[str]], second: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: first.get(name, []) + second.get(name, []) for name in {**first, **second}}


def _note(readers: list[str], who: str, has_read: bool) -> None:
    if has_read and who not in readers:
        readers.append(who)


def _frozen(notes: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(readers) for name, readers in notes.items()}


def _first_row(column: Any) -> Any:
    return map_batch(lambda leaf: leaf[0], column)


def _drawn(space: Space[Any], count: int) -> list[Any]:
    """Return sampled items of `space`, always the same ones. The caller's space keeps its random state."""
    own = copy.deepcopy(space)
    own.seed(0)
    return [own.sample() for _ in range(count)]
