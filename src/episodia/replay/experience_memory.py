"""`ExperienceMemory`: a buffer under MARO's name, sampled by a sampler that the user registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, Protocol, final

import numpy as np

from episodia.arguments import checked_choice
from episodia.episodes.lists.episode_list import Episode, EpisodeList
from episodia.errors import ReplayError
from episodia.replay.buffer import ReplayBuffer
from episodia.replay.selectors.selector import AddedSteps, Selection, StoredSteps
from episodia.trees import describe


class ExperienceSampler(Protocol):
    """Decides which steps `ExperienceMemory.get` returns. A position is used again when its step leaves."""

    def get(self) -> Any:
        """Return the positions of the next sample: whole numbers."""

    def on_put(self, experiences: EpisodeList, positions: np.ndarray) -> None:
        """Take notice of steps that were put and are stored: one item and one position for each of them, in the same order."""


@final
class ExperienceMemory:
    """Keeps steps, and returns those that a registered sampler asks for; without one, all of them.

    Differences from MARO: what is put and returned are episodes, `overwrite_type="random"` keeps a random part of all episodes
    that ever came, and a sample has to be read before more is put, or loaded with `load()`. A `Selector` has more to say, and
    serves buffers of several modules.

    Args:
        capacity: The number of rows: one for each step, and one for each episode.
        overwrite_type: What goes when the memory is full: the oldest steps (`"rolling"`), or random episodes.
        seed: The seed of what is random.

    >>> from episodia import SingleAgentEpisode
    >>> class Best:
    ...     def __init__(self, memory, num):
    ...         self.num, self.rewards = num, {}
    ...     def on_put(self, experiences, positions):
    ...         self.rewards |= dict(zip(positions, experiences.flat("rewards").values))
    ...     def get(self):
    ...         return sorted(self.rewards, key=self.rewards.get)[-self.num :]
    >>> memory = ExperienceMemory(100)
    >>> memory.register_sampler(Best, num=2)
    >>> memory.put([SingleAgentEpisode(observations=[0, 1, 2, 3], actions=[5, 6, 7], rewards=[2.0, 0.0, 1.0],
    ...                                len_lookback_buffer=0)])
    >>> memory.get().flat("actions").values.tolist()
    [7, 5]
    """

    def __init__(
        self, capacity: int, overwrite_type: Literal["rolling", "random"] = "rolling", *, seed: int | None = None
    ) -> None:
        where = "ExperienceMemory"
        checked_choice(ReplayError, where, "overwrite_type", overwrite_type, ("rolling", "random"))
        self.overwrite_type = overwrite_type
        self._positions = _AskedPositions()
        self._buffer = ReplayBuffer(
            capacity,
            evict="steps" if overwrite_type == "rolling" else "reservoir",
            selector=self._positions,
            seed=seed,
        )
        self._sampler: ExperienceSampler | None = None

    def register_sampler(self, sampler_class: Callable[..., ExperienceSampler], **settings: Any) -> None:
        """Let `sampler_class(memory, **settings)` decide from now on; it gets what is put from now on.

        Raises:
            ReplayError: If it has no `get` and `on_put`.
        """
        given: object = sampler_class
        made: object = sampler_class(self, **settings) if callable(given) else given
        if not callable(getattr(made, "get", None)) or not callable(getattr(made, "on_put", None)):
            raise ReplayError(
                f"ExperienceMemory.register_sampler: found {describe(made)}, expected an object with `get()` and "
                "`on_put(experiences, positions)`. Pass the class of a sampler."
            )
        self._sampler = made  # type: ignore[assignment]  # just checked

    @property
    def capacity(self) -> int:
        """The number of rows."""
        return self._buffer.capacity

    @property
    def size(self) -> int:
        """The number of stored steps."""
        return len(self._buffer)

    def __len__(self) -> int:
        return self.size

    @property
    def positions(self) -> np.ndarray:
        """The positions of all stored steps: int64, ascending."""
        return np.flatnonzero(self._positions.stored)

    def put(self, experiences: Iterable[Episode]) -> None:
        """Store episodes, or chunks of them, of one module; see `ReplayBuffer.add`."""
        self._positions.added = []
        self._buffer.add(experiences)
        positions = self._positions.newest()
        if self._sampler is not None and len(positions):
            self._sampler.on_put(self._at(positions), positions)

    def _at(self, positions: np.ndarray) -> EpisodeList:
        self._positions.asked = positions
        return self._buffer.sample(len(positions))

    def get(self) -> EpisodeList:
        """Return the steps that the sampler asks for; without a sampler, all that is stored.

        Raises:
            ReplayError: If the sampler asks for positions that hold no step.
        """
        if self._sampler is None:
            return self._buffer.episodes()
        asked = np.asarray(self._sampler.get())
        if asked.ndim != 1 or not len(asked) or asked.dtype.kind not in "iu":
            raise ReplayError(
                f"ExperienceMemory.get: found {describe(asked)} from `{type(self._sampler).__name__}.get`, expected at least "
                "one position. Let it return positions that `on_put` passed to it."
            )
        return self._at(asked.astype(np.int64))

    def clear(self) -> None:
        """Forget all steps; the sampler stays."""
        self._buffer.clear()

    def __reduce__(self) -> NoReturn:
        raise ReplayError(
            "ExperienceMemory: found a memory to copy or pickle, expected none: its sampler knows positions of this memory "
            "alone. Make another one, and `put` the episodes into it."
        )

    def __repr__(self) -> str:
        return f"ExperienceMemory({self.size} steps, capacity={self.capacity}, overwrite_type={self.overwrite_type!r})"


@final
class _AskedPositions:
    """Selects the positions that a sampler asked for."""

    def __init__(self) -> None:
        self.added: list[np.ndarray] = []
        self.stored: np.ndarray = np.empty(0, np.bool_)
        self.asked = np.empty(0, np.int64)

    def __deepcopy__(self, _: Any) -> _AskedPositions:
        return self

    def newest(self) -> np.ndarray:
        """Return the positions that were added since `added` was emptied, each once, without those that have left again."""
        added = np.concatenate([np.empty(0, np.int64), *self.added])[::-1]
        _, last = np.unique(added, return_index=True)
        positions = added[np.sort(last)][::-1]
        found: np.ndarray = positions[self.stored[positions]]
        return found

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        self.added.append(rows)
        if len(self.stored) != added.capacity:
            self.stored = np.zeros(added.capacity, np.bool_)
        self.stored[rows] = True

    def on_evict(self, rows: np.ndarray) -> None:
        self.stored[rows] = False

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        rows = self.asked
        known = (rows >= 0) & (rows < steps.capacity)
        known[known] = self.stored[rows[known]]
        if not known.all():
            raise ReplayError(
                f"ExperienceMemory.get: found position {rows[~known][0]}, where no step is stored (any more), expected one "
                "with a step. Ask for some of `memory.positions`."
            )
        return Selection(rows)

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Do nothing: samplers have no priorities."""
