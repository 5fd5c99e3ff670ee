"""Detection of unused columns: runs a module and its loss, and reports which columns they read.

Detection changes nothing: the report says which columns could be left out, and why. The user decides.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import torch
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors import defaults
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.batches.tracked_batch import TrackedBatch
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, LearnerConnectorPipeline
from episodia.episodes import SingleAgentEpisode
from episodia.errors import BatchError, PipelineError
from episodia.modules.protocol import Module, has_values
from episodia.trees import map_batch

# Columns of a train batch that are never dropped: later code relies on them.
NEVER_DROPPED = {
    Columns.REWARDS: "rewards are never dropped",
    Columns.TERMINATEDS: "flags are never dropped",
    Columns.TRUNCATEDS: "flags are never dropped",
    Columns.STATE_IN: "recurrent modules need their states",
    Columns.SEQ_LENS: "tells steps from padding",
    Columns.LOSS_MASK: "tells which steps count",
}


@final
@dataclass(frozen=True)
class ColumnReport:
    """The readers of each column in the batches that a module acts on and learns from.

    Attributes:
        acting: The columns of the batch for acting, with the readers of each.
        training: The columns of the train batch, with the readers of each.
        dropped: The columns of the train batch that could be left out, with the reason.
        kept: The unread columns of the train batch that have to stay, with the reason.
        missed: The columns that were requested but are in no batch, with the readers that requested them.
    """

    acting: Mapping[str, tuple[str, ...]]
    training: Mapping[str, tuple[str, ...]]
    dropped: Mapping[str, str]
    kept: Mapping[str, str]
    missed: Mapping[str, tuple[str, ...]]

    @property
    def needed(self) -> frozenset[str]:
        """The columns of the train batch that were read."""
        return frozenset(column for column, readers in self.training.items() if readers)

    @property
    def unused_when_acting(self) -> frozenset[str]:
        """The unread columns of the batch for acting. Views among them can be declared with `infer=False`."""
        return frozenset(column for column, readers in self.acting.items() if not readers)

    def __str__(self) -> str:
        lines = ["when acting:"]
        lines += [f"  {name}: {_readers(readers, 'not read')}" for name, readers in self.acting.items()]
        lines.append("in training:")
        for name, readers in self.training.items():
            unread = f"DROP, {self.dropped[name]}" if name in self.dropped else f"keep, {self.kept.get(name, '')}"
            lines.append(f"  {name}: {_readers(readers, unread)}")
        lines += [f"missing: {name}, requested by {', '.join(readers)}" for name, readers in self.missed.items()]
        return "\n".join(lines)


def _readers(readers: tuple[str, ...], unread: str) -> str:
    return f"needed by {', '.join(readers)}" if readers else unread


def detect_columns(
    module: Module,
    loss: Callable[[Any, dict[str, Any]], Any] | None = None,
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
        module: One module.
        loss: A loss function, called with the module and its train batch. Without it, only the reads of the module are
            reported.
        observation_space: The observation space of the environment; the one of the module by default.
        action_space: The action space of the environment; the one of the module by default.
        env_to_module: The env-to-module pipeline; None for the default pipeline with the module's views.
        learner: The learner pipeline; None for the default pipeline with the module's views.
        num_steps: The length of the episode, at least 1.

    Raises:
        PipelineError: If a space is unknown, or the episode would have no steps.
        BatchError: If the module or the loss fails because a column is missing.

    >>> from gymnasium import spaces
    >>> from episodia.connectors.views.view import View
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2))
    >>> module.views = {"last_reward": View("rewards", shift=-1)}
    >>> report = detect_columns(module, lambda module, batch: batch["actions"].sum())
    >>> report.needed == {"obs", "actions"}, "last_reward" in report.dropped, "rewards" in report.kept
    (True, True, True)
    """
    spaces = _space("observation", observation_space, module), _space("action", action_space, module)
    if num_steps < 1:
        raise PipelineError(
            f"detect_columns: found `num_steps={num_steps!r}`, expected at least 1: without a step the module "
            "does not act, and all columns seem unused. Pass a larger number."
        )
    stateful = bool(module.is_stateful())
    run = _Detection(module)
    in_front = env_to_module or defaults.env_to_module(*spaces, stateful=stateful, module=module)
    episode = run.played(in_front, *spaces, num_steps)
    behind = learner or defaults.learner(*spaces, stateful=stateful, module=module)
    batch = next(iter(behind(rl_module=module, episodes=[episode]).values()))
    run.learn(batch, loss)
    return run.report(behind)


def _space(kind: str, given: Space[Any] | None, module: Module) -> Space[Any]:
    space: Space[Any] | None = getattr(module, f"{kind}_space", None) if given is None else given
    if space is None:
        raise PipelineError(
            f"detect_columns: found no {kind} space, expected one to sample an episode from. Pass `{kind}_space`."
        )
    return space


@final
class _Detection:
    """Runs a module and a loss on batches, and records which of them reads which column."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._acting: dict[str, list[str]] = {}
        self._training: dict[str, list[str]] = {}
        self._missed: dict[str, list[str]] = {}

    def played(
        self, env_to_module: EnvToModulePipeline, observation_space: Any, action_space: Any, num_steps: int
    ) -> SingleAgentEpisode:
        """Return an episode in which the module has acted."""
        module = self._module
        module_to_env = defaults.module_to_env(
            observation_space, action_space, stateful=bool(module.is_stateful()), normalize_actions=False
        )
        observations = _drawn(observation_space, num_steps + 1)
        episode = SingleAgentEpisode("made-up", observation_space=observation_space, action_space=action_space)
        episode.add_env_reset(observations[0])
        generator = torch.Generator().manual_seed(0)
        for t in range(num_steps):
            shared: dict[Any, Any] = {}
            arguments: dict[str, Any] = {
                "rl_module": module,
                "episodes": [episode],
                "explore": True,
                "shared_data": shared,
            }
            batch = env_to_module(**arguments)
            self._watched("forward_inference", module.forward_inference, batch, self._acting)
            outputs = self._watched("forward_exploration", module.forward_exploration, batch, self._acting)
            made = module_to_env(batch=outputs, generator=generator, **arguments)
            rows = {name: _first_row(column) for name, column in made.items()}
            extras = {name: row for name, row in rows.items() if name not in NOT_RECORDED}
            episode.add_env_step(
                observations[t + 1],
                rows[Columns.ACTIONS],
                0.0,
                truncated=t == num_steps - 1,
                extra_model_outputs=extras,
            )
        return episode.finalize()

    def learn(self, batch: Batch, loss: Callable[[Any, dict[str, Any]], Any] | None) -> None:
        """Let the module and the loss read a train batch."""
        module = self._module
        self._watched("forward_train", module.forward_train, batch, self._training)
        if has_values(module):
            self._watched("compute_values", module.compute_values, batch, self._training)
        if loss is not None:
            self._watched("loss", lambda tracked: loss(module, tracked), batch, self._training, gradients=True)

    def _watched(
        self, who: str, function: Any, batch: Batch, notes: dict[str, list[str]], *, gradients: bool = False
    ) -> Any:
        tracked = TrackedBatch(batch)
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
            _note(self._missed.setdefault(name, []), who, True)
        return made

    def report(self, learner: LearnerConnectorPipeline) -> ColumnReport:
        """Return the report of all reads so far."""
        silent = next((place.path for place in leaves(learner) if place.piece.reads is None), None)
        for place in leaves(learner):
            for name in place.piece.reads or ():
                if name in self._training:
                    _note(self._training[name], place.path, name not in (place.piece.writes or ()))
        dropped, kept = {}, {}
        for name, readers in self._training.items():
            if readers:
                continue
            if name in NEVER_DROPPED:
                kept[name] = NEVER_DROPPED[name]
            elif silent is not None:
                kept[name] = f"{silent} does not declare what it reads"
            else:
                dropped[name] = "no forward pass, no loss and no piece of the pipeline has read it"
        return ColumnReport(_frozen(self._acting), _frozen(self._training), dropped, kept, _frozen(self._missed))


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
