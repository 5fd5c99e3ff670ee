"""The contract of a connector piece: how it is called, what it declares, and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload
from weakref import ref

from gymnasium import Space

from episodia.connectors.batches import batch_items, episode_iteration, item_changes
from episodia.connectors.kinds import Kind
from episodia.connectors.piece_arguments import check_left_over, settings_of
from episodia.connectors.pipelines.piece_lookup import checked_name
from episodia.connectors.pipelines.space_flow import SpaceFlow, checked_space
from episodia.episodes.lists.episode_list import Episodes
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ConnectorStateError
from episodia.modules.protocol import Modules
from episodia.types import AnyBatch, Item

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
    from episodia.connectors.pipelines.plan import Layout, Step


MYPY = False  # mypy takes it for true, other type checkers do not
Value_co = TypeVar("Value_co", covariant=True)


class Getter(Protocol[Value_co]):
    """A descriptor that gives a value: a property, for example."""

    def __get__(self, instance: Any, owner: Any = None, /) -> Value_co: ...


# What a class declares: a value, or a property that gives one.
Declared: TypeAlias = Value_co | Getter[Value_co]


class ConnectorV2(SpaceFlow, ABC):
    """A piece of a pipeline: it takes a batch and the episodes that it comes from, and returns the changed batch.

    Subclasses implement `__call__`, and declare what they do. A piece that declares nothing works too; pipelines check less.

    Attributes:
        reads: The batch columns that the piece needs; None if that is not declared.
        writes: The batch columns that the piece creates or changes; None if that is not declared. A piece that only gives
            columns another form (lists to arrays, arrays to tensors) writes nothing.
        fills: The columns among `writes` that the piece makes itself where no earlier piece has; it may stand at either side
            of another writer of these, since it leaves, or changes, what it finds.
        alters: The columns among `writes` to which the piece gives other values where it finds them; None for those that it
            does not fill. They may not come after a forward-looking piece that has read them.
        lookback: How many steps before the first row of a chunk the piece reads from the episode; 1 if not declared.
        kind: On which other rows a row depends, for the laws that the piece has to obey.
        is_stateful: Whether the piece keeps something from one call to the next.
        writes_to_episodes: Whether the piece may write into the episodes. Runners let such pieces see the last observation of
            an episode, too, on which no module acts. True if not declared.

    Each of them is an attribute of the class or of the piece, or a property.

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
    else:
        reads: Declared[Collection[str] | None] = None
        writes: Declared[Collection[str] | None] = None
        fills: Declared[Collection[str]] = frozenset()
        alters: Declared[Collection[str] | None] = None
        lookback: Declared[int] = 1
        kind: Declared[Kind] = Kind.CAUSAL
        is_stateful: Declared[bool] = False
        writes_to_episodes: Declared[bool] = True

    # Defaults for plugins that do not call `super().__init__`.
    _given_name: str | None = None
    _pipeline_name: str | None = None
    _owners: tuple[ref[ConnectorPipelineV2], ...] = ()
    # What a pipeline consists of; None for everything that is no pipeline.
    _pieces: tuple[ConnectorV2, ...] | None = None

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
                replaces it by what leaves the piece before.
            input_action_space: The same for actions.
            name: The name by which the piece is found in its pipeline; by default that of its class.
            **kwargs: Arguments that a subclass names in its own constructor and passes on, as plugins for RLlib do; and
                `as_learner_connector`, `multi_agent` and `rl_module_specs`, which RLlib passes. They are ignored here.

        Raises:
            PipelineError: If a space is not a space of gymnasium, or the name is not a name.
            UnknownArgumentError: If `kwargs` has another argument: most often a misspelt one.
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
        """Return what the piece makes of `batch`, which it may change in place.

        Args:
            rl_module: The module that the pipeline serves.
            batch: The columns so far.
            episodes: The episodes that the batch is made of: a sequence, and in pipelines an `EpisodeList`. What an
                env-to-module piece writes into them stays there; what a learner piece writes, only later pieces see.
            explore: Whether the actions explore.
            shared_data: A dict that the pieces of a runner's pipelines share.
            metrics: Where to log to, if there is such a thing.
            **kwargs: Whatever else the caller of the pipeline passes on.
        """

    def compile(self, layout: Layout) -> Step | None:
        """Return a function that does the work of the piece on whole columns; None lets pipelines call the piece.

        Pipelines ask once, before their first run for a module and a layout. A subclass that overrides `__call__` is called
        in any case. See `episodia.connectors.pipelines.column_piece` for the way in which shipped pieces do it.
        """
        return None

    def commit(self) -> None:
        """Let what the piece has collected since the last commit take effect; runners call it at the end of a sample."""
        # A piece that collects nothing has nothing to commit.
        return

    # --- Name -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """By which the piece is found and its state is kept; the name of its class if none was given.

        Setting it raises a `PipelineError` if it is no name, or if a neighbour in a pipeline has it.
        """
        return self._given_name or self._pipeline_name or type(self).__name__

    @name.setter
    def name(self, name: str) -> None:
        name = checked_name(name)
        for pipeline in self._pipelines():
            pipeline._check_new_name(self, name)
        self._given_name = name

    def _pipelines(self) -> list[ConnectorPipelineV2]:
        """Return the pipelines that the piece is in and that still exist."""
        return [pipeline for owner in self._owners if (pipeline := owner()) is not None]

    def __repr__(self) -> str:
        settings = [f"{name}={text}" for name, text in settings_of(self).items()]
        if self._given_name is not None:
            settings.append(f"name={self._given_name!r}")
        return f"{type(self).__name__}({', '.join(settings)})"

    def __getstate__(self) -> dict[str, Any]:
        # A copy belongs to no pipeline; a copied pipeline takes its pieces in again.
        return {key: value for key, value in vars(self).items() if key != "_owners"}

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Raise a `PipelineError` if the piece cannot work in `pipeline`, the outermost one around it.

        Called whenever that pipeline is built or changed. By default a piece works everywhere.
        """
        return

    def check_module(self, rl_module: Modules) -> None:
        """Raise a `PipelineError` if the piece cannot work with `rl_module`: a module, several by their ids, or None.

        Called when the pipeline around it is told its module, at the latest in its first run. By default every module is good.
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
        """Return what the piece remembers, as JSON values and NumPy arrays; empty if it remembers nothing.

        Args:
            components: Of a pipeline: only the pieces of these names.
            not_components: Of a pipeline: not the pieces of these names.
            **kwargs: Ignored here.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Let the piece remember what `state`, made by `get_state`, says."""
        # A piece without memory has nothing to restore.
        return

    def reset_state(self) -> None:
        """Let the piece forget everything."""
        # A piece without memory has nothing to forget.
        return

    def merge_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one state that stands for what several copies of the piece have seen.

        Raises:
            ConnectorStateError: If there is something to merge and the piece does not say how.
        """
        if any(states):
            raise ConnectorStateError(
                f"piece {self.name!r}: found {len(states)} states to merge, but {type(self).__name__} does not say how. "
                "Expected a method `merge_states(states)`. Implement it; if one state is as good as another, return the first."
            )
        return {}

    # --- RLlib's helpers --------------------------------------------------------------------------------------------

    @overload
    @staticmethod
    def single_agent_episode_iterator(
        episodes: Episodes, agents_that_stepped_only: bool = True, zip_with_batch_column: None = None
    ) -> Iterator[SingleAgentEpisode]: ...
    @overload
    @staticmethod
    def single_agent_episode_iterator(
        episodes: Episodes, agents_that_stepped_only: bool = True, *, zip_with_batch_column: Item
    ) -> Iterator[tuple[SingleAgentEpisode, Item]]: ...
    @staticmethod
    def single_agent_episode_iterator(
        episodes: Episodes, agents_that_stepped_only: bool = True, zip_with_batch_column: Item = None
    ) -> Iterator[Any]:
        """See `episode_iteration.single_agent_episode_iterator`."""
        return episode_iteration.single_agent_episode_iterator(
            episodes, agents_that_stepped_only, zip_with_batch_column
        )

    @staticmethod
    def add_batch_item(
        batch: AnyBatch, column: str, item_to_add: Item, single_agent_episode: SingleAgentEpisode | None = None
    ) -> None:
        """See `batch_items.add_batch_item`."""
        batch_items.add_batch_item(batch, column, item_to_add, single_agent_episode)

    @staticmethod
    def add_n_batch_items(
        batch: AnyBatch,
        column: str,
        items_to_add: Item,
        num_items: int,
        single_agent_episode: SingleAgentEpisode | None = None,
    ) -> None:
        """See `batch_items.add_n_batch_items`."""
        batch_items.add_n_batch_items(batch, column, items_to_add, num_items, single_agent_episode)

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
