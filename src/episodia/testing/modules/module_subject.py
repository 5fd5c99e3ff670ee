"""`ModuleSubject`, a module with all that its checks need: copies, episodes, and batches of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors import EnvToModulePipeline, LearnerConnectorPipeline, defaults
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.modules import Module
from episodia.testing.connectors.connector_subject import sample_episodes
from episodia.testing.law_checking import NotApplicableError
from episodia.trees import leaves, map_batch

ACTING = ("forward_inference", "forward_exploration")
LEARNING = "forward_train"
PASSES = (*ACTING, LEARNING)

Rows = dict[str, Any]

# The number of rows of a batch may change the last bits of the outputs of a network.
LAST_BITS = 1e-4


@dataclass(frozen=True, eq=False)
class ModuleSubject:
    """A module with all that its checks need.

    Attributes:
        make: Returns a copy of the module, always in the same state.
        observation_space: The space of observations in a batch.
        action_space: The space of actions.
        episodes: Whole single-agent episodes, from their first step on, from which batches are made.
        remake: Returns a module of the same kind with other weights; None if there is no such function.
        label: The name of the subject in its checks; the name of its class by default.
        expected_failures: The reasons why checks are expected to fail, by the names of the checks.
    """

    make: Callable[[], Any]
    _: KW_ONLY
    observation_space: Space[Any]
    action_space: Space[Any]
    episodes: Sequence[SingleAgentEpisode]
    remake: Callable[[], Any] | None = None
    label: str = ""
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        module: Module,
        *,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        episodes: Sequence[SingleAgentEpisode] | None = None,
        **options: Any,
    ) -> ModuleSubject:
        """Return `module` as the subject of checks, on sample episodes unless others are given.

        Args:
            module: What to check. Each run uses a copy.
            observation_space: The space of sample episodes; that of the module by default.
            action_space: The action space of sample episodes; that of the module by default.
            episodes: See the attributes.
            **options: `remake`, `label` and `expected_failures`.

        Raises:
            SubjectError: If a space is missing.

        >>> from gymnasium import spaces
        >>> from episodia.modules import RandomModule
        >>> ModuleSubject.of(RandomModule(spaces.Discrete(5), spaces.Discrete(3))).name
        'RandomModule'
        """
        observation_space = _known("observation_space", module, observation_space)
        action_space = _known("action_space", module, action_space)
        if episodes is None:
            state = module.get_initial_state() if hasattr(module, "get_initial_state") else None
            episodes = sample_episodes(observation_space, action_space, state=state)
        return cls(
            lambda: copy.deepcopy(module),
            observation_space=observation_space,
            action_space=action_space,
            episodes=episodes,
            **options,
        )

    @cached_property
    def name(self) -> str:
        """The name of the subject in its checks."""
        return self.label or type(self.make()).__name__

    def fresh_episodes(self) -> list[SingleAgentEpisode]:
        """Return forks of the episodes."""
        return [copy.copy(episode) for episode in self.episodes]


def _known(name: str, module: Any, given: Space[Any] | None) -> Space[Any]:
    found: Space[Any] | None = getattr(module, name, None) if given is None else given
    if found is None:
        raise SubjectError(
            f"check of {type(module).__name__}: found no {name}, expected one, to make episodes. Pass `{name}=`."
        )
    return found


# --- Batches ----------------------------------------------------------------------------------------------------------


def batch_for(subject: ModuleSubject, which: str, episodes: Sequence[SingleAgentEpisode]) -> Rows:
    """Return the batch of the default pipelines for `episodes` and the forward pass `which`, as tensors.

    For acting, each moment of each episode is a row; for learning, each step, or each sequence of steps.
    """
    module = subject.make()
    spaces = subject.observation_space, subject.action_space
    options: dict[str, Any] = {"stateful": bool(module.is_stateful()), "module": module}
    pipeline: EnvToModulePipeline | LearnerConnectorPipeline
    if which != LEARNING:
        pipeline = defaults.env_to_module(*spaces, **options)
        return dict(pipeline(rl_module=module, episodes=EpisodeList(moments(episodes)), explore=True, shared_data={}))
    pipeline = defaults.learner(*spaces, **options)
    with torch.no_grad():
        made = pipeline(rl_module=module, episodes=EpisodeList([copy.copy(episode) for episode in episodes]))
    return dict(next(iter(made.values())))


def moments(episodes: Sequence[SingleAgentEpisode]) -> list[SingleAgentEpisode]:
    """Return each episode at each of its steps, from the reset on."""
    return [episode[:t] for episode in episodes for t in range(len(episode) + 1)]


def rows_in(batch: Rows) -> int:
    """Return the number of rows of a batch: moments, steps, or sequences."""
    return len(next(iter(leaves(batch[Columns.OBS])))[1])


def some_rows(batch: Rows, rows: slice) -> Rows:
    """Return some rows of a batch."""
    return {name: map_batch(lambda leaf: leaf[rows], column) for name, column in batch.items()}


def own_copy(batch: Rows) -> Rows:
    """Return a copy of a batch that shares no memory."""
    return {name: map_batch(_cloned, column) for name, column in batch.items()}


def _cloned(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else copy.copy(leaf)


# --- Running ----------------------------------------------------------------------------------------------------------


def outputs_of(module: Module, which: str, batch: Rows) -> Rows:
    """Return the outputs of a forward pass as arrays; the module gets a copy of the batch."""
    with torch.no_grad():
        made = getattr(module, which)(own_copy(batch))
    if not isinstance(made, dict):
        raise AssertionError(f"`{which}`: found {type(made).__name__}, expected a dict of columns.")
    return as_arrays(made)


def as_arrays(columns: Mapping[str, Any]) -> Rows:
    """Return columns of tensors, lists or arrays as arrays."""
    return {name: map_batch(lambda leaf: np.asarray(as_array(leaf)), column) for name, column in columns.items()}


def without_padding(outputs: Rows, batch: Rows) -> Rows:
    """Return outputs with 0 at padded steps, where outputs have no meaning."""
    if Columns.SEQ_LENS not in batch:
        return outputs
    lengths = np.asarray(as_array(batch[Columns.SEQ_LENS]))
    steps = next(iter(leaves(batch[Columns.OBS])))[1].shape[1]
    valid = np.arange(steps) < lengths[:, None]

    def kept(leaf: np.ndarray) -> np.ndarray:
        return np.where(valid.reshape(*valid.shape, *[1] * (leaf.ndim - 2)), leaf, np.zeros((), leaf.dtype))

    return {name: column if name == Columns.STATE_OUT else map_batch(kept, column) for name, column in outputs.items()}


def needs_a_state(subject: ModuleSubject) -> None:
    """Raise a NotApplicableError if the module has no state."""
    if not subject.make().is_stateful():
        raise NotApplicableError("it has no state")


def is_random(module: Module, which: str, batch: Rows) -> bool:
    """Tell whether two calls of the module with the same batch have different outputs."""
    first, second = (outputs_of(module, which, batch) for _ in range(2))
    pairs = zip(leaves(first), leaves(second), strict=True)
    return any(not np.array_equal(one, other, equal_nan=one.dtype.kind == "f") for (_, one), (_, other) in pairs)


def needs_to_be_repeatable(subject: ModuleSubject, which: str, batch: Rows) -> None:
    """Raise a NotApplicableError if outputs are random, because different batches cannot be compared then."""
    if is_random(subject.make(), which, batch):
        raise NotApplicableError(f"`{which}` has random outputs")
