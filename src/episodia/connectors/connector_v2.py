"""Base class of connector pieces: their call, their declarations and their state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar
from weakref import ref

from gymnasium import Space

from episodia.connectors.batches import batch_items, episode_iteration, item_changes
from episodia.connectors.kinds import Kind
from episodia.connectors.piece_arguments import check_left_over, settings_of
from episodia.connectors.pipelines.checks.space_flow import SpaceFlow, checked_space
from episodia.connectors.pipelines.piece_lookup import checked_name
from episodia.episodes.lists.episode_list import Episodes
from episodia.errors import ConnectorStateError
from episodia.modules.protocol import Modules
from episodia.types import AnyBatch

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
    from episodia.connectors.pipelines.plan import Layout, Step


MYPY = False  # mypy treats it as True, other type checkers do not
Value_co = TypeVar("Value_co", covariant=True)


class Getter(Protocol[Value_co]):
    """A descriptor that returns a value, such as a property."""

    def __get__(self, instance: Any, owner: Any = None, /) -> Value_co: ...


# A declaration of a class: a value, or a property that returns the value.
_Declared: TypeAlias = Value_co | Getter[Value_co]


class ConnectorV2(SpaceFlow, ABC):
    """A piece of a pipeline: it takes a batch and the episodes that it comes from, and returns the changed batch.

    Subclasses implement `__call__`, and declare what they do. A piece without declarations works too; pipelines check less.

    Attributes:
        reads: The batch columns that the piece needs; None if not declared.
        writes: The batch columns that the piece creates or changes; None if not declared. A piece that only converts
            columns (lists to arrays, arrays to tensors) writes nothing.
        fills: The columns among `writes` that the piece creates only if they are missing. The piece may stand before or
            after another writer of these columns, since it keeps or changes existing columns.
        alters: The columns among `writes` whose existing values the piece changes; None for all columns that it does not
            fill. The piece must not stand after a forward-looking piece that reads these columns.
        lookback: The number of steps before the first row of a chunk that the piece reads; 1 if not declared.
        kind: The rows that a row depends on, which decides the laws that the piece has to obey.
        is_stateful: Whether the piece keeps data between calls.
        writes_to_episodes: Whether the piece may write into the episodes. Runners also call such pieces for the last
            observation of an episode, on which no module acts. True if not declared.
        reads_rewards: Whether the piece reads rewards of the episodes to choose actions. A policy with such a piece needs each
            reward (`Policy.observe`); it takes 0 for unknown rewards otherwise. False if not declared.
        takes_items: Whether the piece gets columns item by item, `{column: {(episode id,): [items]}}`, as RLlib's pieces do.
            Others get arrays and whole stretches, whose rows are also found by such a key: `column[(episode id,)]`.
        changes_episodes: Whether the piece adds, drops or replaces episodes of the list, in a learner pipeline; None if not
            declared. Rows follow the list, so the piece must stand before the pieces that write columns.

    Each declaration is an attribute of the class or of the piece, or a property.

    >>> from episodia import SingleAgentEpisode
    >>> class AddSpeed(ConnectorV2):
    ...     reads, writes, lookback = frozenset(), frozenset({"speed"}), 0
    ...     def __call__(self, *, rl_module, batch, episodes, **kwargs):
    ...         for episode in self.single_agent_episode_iterator(episodes):
    ...             self.add_batch_item(batch, "speed", 0.5, episode)
    ...         return batch
    >>> AddSpeed()(rl_module=None, batch={}, episodes=[SingleAgentEpisode("walk")])
    {'speed': {('walk',): [0.5]}}
    """

    # Subclasses declare with attributes or with properties. For mypy both may override a property; for pyright both may
    # override a variable whose type includes descriptors.
    if MYPY:

        @property
        def reads(self) -> Collection[str] | None: ...
        @property
        def writes(self) -> Collection[str] | None: ...
        @property
        def fills(self) -> Collection[str]: ...
        @property
        def alters(self) -> Collection[str] | None: ...
        @property
        def lookback(self) -> int: ...
        @property
        def kind(self) -> Kind: ...
        @property
        def is_stateful(self) -> bool: ...
        @property
        def writes_to_episodes(self) -> bool: ...
        @property
        def reads_rewards(self) -> bool: ...
        @property
        def changes_episodes(self) -> bool | None: ...
    else:
        reads: _Declared[Collection[str] | None] = None
        writes: _Declared[Collection[str] | None] = None
        fills: _Declared[Collection[str]] = frozenset()
        alters: _Declared[Collection[str] | None] = None
        lookback: _Declared[int] = 1
        kind: _Declared[Kind] = Kind.CAUSAL
        is_stateful: _Declared[bool] = False
        writes_to_episodes: _Declared[bool] = True
        reads_rewards: _Declared[bool] = False
        changes_episodes: _Declared[bool | None] = None

    takes_items: ClassVar[bool] = False

    # Defaults for plugins that do not call `super().__init__`.
    _given_name: str | None = None
    _pipeline_name: str | None = None
    _owners: tuple[ref[ConnectorPipelineV2], ...] = ()
    # Whether a plain list of episodes stands for the present moment; a pipeline knows that of its own lists.
    _acts_on_lists: bool = False
    # The pieces of a pipeline; None for a piece that is not a pipeline.
    inner_pieces: tuple[ConnectorV2, ...] | None = None

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a piece.

        Args:
            input_observation_space: The space of the observations that reach the piece. A pipeline that knows its spaces
                replaces it with the output space of the previous piece.
            input_action_space: The space of the actions that reach the piece.
            name: The name of the piece in its pipeline; the name of its class by default.
            **kwargs: Arguments that a subclass names in its own constructor and passes on, as plugins for RLlib do; and
                `as_learner_connector`, `multi_agent` and `rl_module_specs`, which RLlib passes. They are ignored here, except
                that a shipped piece with `as_learner_connector=False` takes a plain list of episodes for the present moment.

        Raises:
            PipelineError: If a space is not a gymnasium space, or the name is invalid.
            UnknownArgumentError: If `kwargs` has an unknown argument, such as a misspelt one.
        """
        check_left_over(type(self), kwargs)
        self._given_name = None if name is None else checked_name(name)
        self._own_spaces = (
            checked_space(self.name, "observation space", input_observation_space),
            checked_space(self.name, "action space", input_action_space),
        )
        self._input_observation_space, self._input_action_space = self._own_spaces

    @abstractmethod
    def __call__(
        self,
        *,
        rl_module: Modules,
        batch: AnyBatch,
        episodes: Episodes,
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        metrics: object = None,
        **kwargs: Any,
    ) -> AnyBatch:
        """Return the changed batch; `batch` may be changed in place.

        Args:
            rl_module: The module that the pipeline serves.
            batch: The columns so far.
            episodes: The episodes that the batch is made of: a sequence, and in pipelines an `EpisodeList`. Changes by
                env-to-module pieces persist; only later pieces of the pipeline see the changes by learner pieces. In a
                learner pipeline the list itself may be changed too (`episodes.append(...)`), see `changes_episodes`.
            explore: Whether the actions explore.
            shared_data: A dict that the pieces of a runner's pipelines share.
            metrics: An optional logger of metrics.
            **kwargs: Further arguments of the pipeline call.
        """

    def compile(self, layout: Layout) -> Step | None:
        """Return a function that does the work of the piece on whole columns, or None: pipelines then call the piece.

        Pipelines compile once for each module and layout, before the first run. A subclass that overrides `__call__` is
        always called. For examples, see `episodia.connectors.pipelines.column_piece`.
        """
        return None

    def commit(self) -> None:
        """Apply the data that the piece has collected since the last commit; runners call it at the end of a sample."""
        # A piece that collects nothing has nothing to commit.
        return

    def freeze(self) -> None:
        """Stop collecting data; policies call it on their copies of the pieces."""
        # A piece that collects nothing has nothing to stop.
        return

    # --- Name -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the piece in its pipeline and in states; the name of its class by default.

        Setting it raises a `PipelineError` if the name is invalid, or if another piece of the pipeline has it.
        """
        return self._given_name or self._pipeline_name or type(self).__name__

    @name.setter
    def name(self, name: str) -> None:
        name = checked_name(name)
        for pipeline in self._pipelines():
            pipeline._check_new_name(self, name)
        self._given_name = name

    def _pipelines(self) -> list[ConnectorPipelineV2]:
        """Return the existing pipelines that contain the piece."""
        return [pipeline for owner in self._owners if (pipeline := owner()) is not None]

    def __repr__(self) -> str:
        settings = [f"{name}={text}" for name, text in settings_of(self).items()]
        if self._given_name is not None:
            settings.append(f"name={self._given_name!r}")
        return f"{type(self).__name__}({', '.join(settings)})"

    def __getstate__(self) -> dict[str, Any]:
        # A copy belongs to no pipeline; a copied pipeline becomes the owner of its pieces.
        return {key: value for key, value in vars(self).items() if key != "_owners"}

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Raise a `PipelineError` if the piece cannot work in `pipeline`, the outermost one around it.

        Called whenever that pipeline is built or changed. By default a piece works everywhere.
        """
        return

    def check_module(self, rl_module: Modules) -> None:
        """Raise a `PipelineError` if the piece cannot work with `rl_module`: a module, several by their ids, or None.

        Called when the pipeline gets its module, at the latest in its first run. By default a piece works with every module.
        """
        return

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the state of the piece, as JSON values and NumPy arrays; empty if it has no state.

        Args:
            components: For pipelines: the names of the pieces to include.
            not_components: For pipelines: the names of the pieces to exclude.
            **kwargs: Ignored here.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` returned."""
        # A piece without state has nothing to restore.
        return

    def reset_state(self) -> None:
        """Reset the state of the piece."""
        # A piece without state has nothing to reset.
        return

    def merge_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one state that combines the states of several copies of the piece.

        Raises:
            ConnectorStateError: If there are states, and the piece does not implement merging.
        """
        if any(states):
            raise ConnectorStateError(
                f"piece {self.name!r}: found {len(states)} states to merge, but {type(self).__name__} does not implement "
                "merging. Expected a method `merge_states(states)`. Implement it; if all states are equal, return the first."
            )
        return {}

    def add_collected(self, state: dict[str, Any]) -> None:
        """Add what a copy of the piece, whose state is `state`, has committed since it last took over a common state.

        In a group of runners, ours may have moved on since then. By default, the states are merged.

        Raises:
            ConnectorStateError: If there is a state, and the piece does not implement merging.
        """
        self.set_state(self.merge_states([self.get_state(), state]))

    def take_common(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which all runners of a group have in common, and keep what waits for the next commit.

        By default, this is `set_state`.
        """
        self.set_state(state)

    # --- RLlib's helpers --------------------------------------------------------------------------------------------

    # The functions themselves, because plugins call them for each episode at each step.
    single_agent_episode_iterator = staticmethod(episode_iteration.single_agent_episode_iterator)
    add_batch_item = staticmethod(batch_items.add_batch_item)
    add_n_batch_items = staticmethod(batch_items.add_n_batch_items)

    @staticmethod
    def foreach_batch_item_change_in_place(
        batch: AnyBatch, column: str | Sequence[str], func: Callable[..., Any]
    ) -> None:
        """See `item_changes.foreach_batch_item_change_in_place`."""
        item_changes.foreach_batch_item_change_in_place(batch, column, func)

    @staticmethod
    def switch_batch_from_column_to_module_ids(batch: dict[str, dict[Any, Any]]) -> dict[Any, dict[str, Any]]:
        """See `batch_items.switch_batch_from_column_to_module_ids`."""
        return batch_items.switch_batch_from_column_to_module_ids(batch)
