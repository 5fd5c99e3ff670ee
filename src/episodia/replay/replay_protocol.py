"""The protocol of a replay buffer as updates and plans use it, here or in a worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from episodia.episodes import EpisodeList
from episodia.replay.draws.draw import Draw
from episodia.types import Item, State


class Replay(Protocol):
    """Stores and samples as a `ReplayBuffer` does; see its methods."""

    @property
    def has_priorities(self) -> bool:
        """Whether draws depend on priorities."""

    def __len__(self) -> int: ...

    def add(self, episodes: Iterable[Any]) -> object:
        """Store episodes."""

    def update_newest(self, values: Item) -> object:
        """Give the steps of the last `add` their priorities."""

    def sample(self, num: int, draw: Draw, *, lookback: int) -> EpisodeList[Any]:
        """Return a sample."""

    def update_priorities(self, keys: Item, values: Item) -> object:
        """Give sampled steps new priorities."""

    def clear(self) -> object:
        """Forget all."""

    def get_state(self) -> State:
        """Return all that is stored."""

    def set_state(self, state: State) -> object:
        """Go on from `state`."""
