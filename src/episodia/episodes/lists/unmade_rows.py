"""The rows of episodes that are not made: stored together, in the block of a recorder or in a table that has arrived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from episodia.episodes.single_agent.weights_versions import Versions
from episodia.types import State


class StoredColumn(NamedTuple):
    """The place of the rows of a column.

    Attributes:
        take: Returns the batch of some rows, in memory of its own.
        zeros: The row of the first step of each agent episode, or of the observation it was taken at: int64 [B].
        lookbacks: How many rows of the past there are before it: int64 [B].
        is_track: Whether there is a row after the last step.
    """

    take: Callable[[np.ndarray], Any]
    zeros: np.ndarray
    lookbacks: np.ndarray
    is_track: bool


class ChunkFacts(NamedTuple):
    """The facts of agent episodes beside their columns.

    Attributes:
        origins: The id of each, in a tuple with the agent if there is one.
        t_started: The time step of the first step of each: int64 [B].
        lengths: The number of steps of each: int64 [B].
        ends: 1 where an episode is terminated, 2 where it is truncated, 3 where it is both, else 0: uint8 [B].
        num_steps: How many steps all have together.
    """

    origins: list[Any]
    t_started: np.ndarray
    lengths: np.ndarray
    ends: np.ndarray
    num_steps: int

    def at(self, positions: np.ndarray) -> ChunkFacts:
        """Return the facts of the agent episodes at `positions` alone."""
        origins, lengths = [self.origins[position] for position in positions.tolist()], self.lengths[positions]
        return ChunkFacts(origins, self.t_started[positions], lengths, self.ends[positions], int(lengths.sum()))


class RowsInPlace(NamedTuple):
    """Agent episodes with at least one step each whose columns are not gathered: they are rows of larger arrays.

    Attributes:
        facts: What else is known of them.
        arrays: Nested arrays by column: observations, actions, rewards, and the extra model outputs.
        starts: The row of the first step of each agent episode; its other steps follow, and the observation after the last
            one: int64 [B].
    """

    facts: ChunkFacts
    arrays: dict[str, Any]
    starts: np.ndarray


class UnmadeRows(ABC):
    """The rows of agent episodes that are not made.

    Attributes:
        lengths: The number of steps of each: int64 [B].
        modules: The positions of those that each module acts for.
        extras: The names of the extra model outputs, those of all together.
        is_multi_agent: Whether they are agents of multi-agent episodes.
    """

    lengths: np.ndarray
    modules: dict[Any, np.ndarray]
    extras: Collection[str]
    is_multi_agent: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of episodes; of multi-agent episodes, each has the rows of several agents."""

    @property
    def is_untouched(self) -> bool:
        """Whether the rows are still those of the episodes; another list may have made these from parts of the rows."""
        return True

    @abstractmethod
    def make(self) -> list[Any]:
        """Make the episodes."""

    @abstractmethod
    def packed(self) -> State | None:
        """Return the rows as `list_state.pack` returns those of the episodes; None if only episodes can tell."""

    def selected(self, positions: np.ndarray) -> UnmadeRows:
        """Return the rows of some of the agent episodes; asked for only if there are several modules."""
        raise NotImplementedError

    @property
    @abstractmethod
    def t_started(self) -> np.ndarray:
        """The time step of the first step of each: int64 [B]."""

    @property
    @abstractmethod
    def is_terminated(self) -> np.ndarray:
        """True for each episode that is terminated: bool [B]."""

    @property
    @abstractmethod
    def is_truncated(self) -> np.ndarray:
        """True for each episode that is truncated: bool [B]."""

    @property
    @abstractmethod
    def lookbacks(self) -> np.ndarray:
        """The number of earlier steps that each episode keeps: int64 [B]."""

    @property
    @abstractmethod
    def origins(self) -> list[Any]:
        """The id of each episode, in a tuple with the agent if there is one."""

    def in_place(self) -> RowsInPlace | None:
        """Return where all columns but infos are stored together; None if they are not, or an episode has no steps."""
        return None

    @property
    @abstractmethod
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that acted in each."""

    @abstractmethod
    def has_extra(self, name: str) -> bool:
        """Tell whether each has the extra model output `name`."""

    @abstractmethod
    def has_in_observations(self, key: str) -> bool | None:
        """Tell whether observations are dicts with `key`; None if only episodes can tell."""

    @abstractmethod
    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the observations or the actions of the first one; None of other columns."""

    @abstractmethod
    def stored(self, column: str) -> StoredColumn | None:
        """Return where `column` is; None if only episodes can tell its rows."""

    @abstractmethod
    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the steps of each begin, with `extra` rows after the last one, and how many rows each has."""

    @abstractmethod
    def flat(self, column: str, extra: int) -> Any:
        """Return the steps of all, with `extra` rows after the last one of each; None if only episodes can tell."""
