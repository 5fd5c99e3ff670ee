"""The buffer: episodes at rest, and every way of sampling from them."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import Any, Literal, final

import numpy as np

from episodia.arguments import checked_choice, checked_flag, checked_seed, checked_whole
from episodia.episodes.lists.episode_list import Episode, EpisodeList
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay.draws import Draw, Transitions, whole_episodes
from episodia.replay.incoming import incoming
from episodia.replay.keys import MOST_ROWS, as_keys, as_priorities
from episodia.replay.sampled import Sampled, Source
from episodia.replay.selectors.selector import Selector, Uniform
from episodia.replay.storage import InMemory, Storage
from episodia.replay.table import Added, Table
from episodia.trees import describe
from episodia.types import Item, ModuleID

# Two extents and a chunk of one step fit.
_FEWEST_ROWS = 8


@final
class ReplayBuffer:
    """Keeps the steps of many episodes, each observation once, and samples from them.

    A row has an observation and the step taken at it, so an episode of T steps has T + 1 rows. Chunks of episodes that go on
    are added as they come, in any interleaving; they continue what is stored. The oldest rows are overwritten.

    With several modules, each module has rows of its own, `capacity` of them.

    Args:
        capacity: The number of rows.
        evict: What is evicted with the oldest row: only its own step, or the whole episode, so that only whole episodes, and
            ends of those that grow, are stored.
        selector: Which steps a draw takes.
        storage: Where the rows live: `InMemory()` or `MemoryMapped(path)`.
        infos: Whether infos are stored, too.
        seed: The seed of all draws.

    Raises:
        ReplayError: If an argument is wrong.

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], terminated=True,
    ...                           len_lookback_buffer=0)
    >>> buffer = ReplayBuffer(1000, seed=0)
    >>> buffer.add([walk])
    Added(num_steps=2, num_evicted_steps=0, num_evicted_episodes=0)
    >>> sampled = buffer.sample(4)
    >>> sampled.flat("actions").values.tolist()
    [6, 6, 5, 5]
    >>> sampled.flat("obs", tail=True).values.tolist()
    [1, 2, 1, 2, 0, 1, 0, 1]
    """

    def __init__(
        self,
        capacity: int,
        *,
        evict: Literal["steps", "episodes"] = "steps",
        selector: Selector | None = None,
        storage: Storage | None = None,
        infos: bool = False,
        seed: int | None = None,
    ) -> None:
        where = "ReplayBuffer"
        self.capacity = checked_whole(ReplayError, where, "capacity", capacity, _FEWEST_ROWS, below=MOST_ROWS)
        self.evict = checked_choice(ReplayError, where, "evict", evict, ("steps", "episodes"))
        self._selector = _checked_selector(selector)
        self._storage = InMemory() if storage is None else storage
        self._infos = checked_flag(ReplayError, where, "infos", infos)
        self._rng = np.random.default_rng(checked_seed(ReplayError, where, seed))
        self._lock = RLock()
        self._tables: dict[Any, Table] = {}

    # --- Adding -----------------------------------------------------------------------------------------------------

    def add(self, episodes: Iterable[Episode]) -> Added:
        """Store episodes, or chunks of them; a chunk continues what is stored of its episode.

        What comes after a gap is stored as a part of its own. Lookbacks are not stored again. The columns `keys` and `weights`
        of a sample are left out.

        Returns:
            How many steps came, and how many steps and episodes were evicted.

        Raises:
            ReplayError: If a chunk comes too early or is too long, or if its columns do not fit; nothing is stored then.
        """
        listed = EpisodeList.of(episodes)
        with self._lock:
            groups = listed.groups() if len(listed) else {}
            if len({*groups, *self._tables}) > 1:
                modules = [*{**self._tables, **groups}]
                raise ReplayError(
                    f"ReplayBuffer.add: found the modules {modules}, expected one. Keep the episodes of each in its own buffer."
                )
            found = [
                (self._table(module_id), part)
                for module_id, group in groups.items()
                for part in incoming(group, infos=self._infos)
            ]
            for table, part in found:
                table.check(part)
            added = Added()
            for table, part in found:
                self._tables[table.module_id] = table
                added += table.add(part)
        return added

    def _table(self, module_id: ModuleID) -> Table:
        """Return the table of a module, a new one if it has no table yet."""
        if module_id in self._tables:
            return self._tables[module_id]
        return Table(
            module_id,
            self.capacity,
            by_episode=self.evict == "episodes",
            selector=self._selector,
            storage=self._storage,
            lock=self._lock,
        )

    # --- Sampling ---------------------------------------------------------------------------------------------------

    def sample(self, num: int, draw: Draw = Transitions(), *, lookback: int = 0) -> Sampled:  # noqa: B008  # frozen
        """Return `num` stretches of stored episodes, drawn with replacement.

        Args:
            num: How many.
            draw: What each of them is: a transition, a sequence, an episode.
            lookback: How many steps before each stretch can be looked back to, for frame stacks, previous actions, and states
                of recurrent modules: the lookback of the learner pipeline. Steps whose lookback was evicted are not drawn.

        Raises:
            ReplayError: If there is no step that can be drawn.
        """
        num = checked_whole(ReplayError, "ReplayBuffer.sample", "num", num, 1)
        lookback = checked_whole(ReplayError, "ReplayBuffer.sample", "lookback", lookback, 0)
        with self._lock:
            tables = list(self._tables.values())
            if not tables:
                raise ReplayError("found an empty buffer, expected steps to sample from. Call `add` first.")
            parts = [Sampled(Source(table), draw.draw(table, num, lookback, self._rng)) for table in tables]
        return parts[0]

    def update_priorities(self, keys: Item, values: Item) -> int:
        """Tell the selector new values, such as absolute TD errors, of sampled steps.

        Args:
            keys: The keys of a sample: `sampled.keys`, or the column `keys` of a batch.
            values: A number for each key. Of equal keys, the last one counts.

        Returns:
            How many keys were stale: their steps are not stored any more, and they were ignored.

        Raises:
            ReplayError: If a value is not finite, or there are more or fewer values than keys; nothing is changed then.
        """
        found = as_keys(keys)
        numbers = as_priorities(values, len(found))
        (table,) = self._tables.values()
        return table.update(found, numbers)

    # --- What is stored ---------------------------------------------------------------------------------------------

    @property
    def num_steps(self) -> int:
        """How many steps are stored, those of all modules together."""
        return sum(table.writer.index.num_steps for table in self._tables.values())

    def __len__(self) -> int:
        return self.num_steps

    def episodes(self) -> EpisodeList[SingleAgentEpisode]:
        """Return all that is stored, one episode after another, in the order in which they came.

        Columns are gathered when they are read, as those of a sample.
        """
        with self._lock:
            tables = [table for table in self._tables.values() if table.writer.index.num_steps]
            parts = [Sampled(Source(table), whole_episodes(table, _with_steps(table))) for table in tables]
        return parts[0] if parts else EpisodeList()

    def clear(self) -> None:
        """Forget all episodes; samples that are not loaded cannot be read any more."""
        with self._lock:
            for table in self._tables.values():
                table.clear()


def _with_steps(table: Table) -> np.ndarray:
    """Return the stored episodes that have steps, in the order in which they came."""
    stored = table.writer.index.episodes
    episodes = stored.in_use()
    episodes = episodes[stored.t_stop[episodes] > stored.t_kept[episodes]]
    in_order: np.ndarray = episodes[np.argsort(stored.number[episodes])]
    return in_order


def _checked_selector(selector: Selector | None) -> Selector:
    if selector is None:
        return Uniform()
    given: object = selector
    if isinstance(given, type) or not isinstance(given, Selector):
        raise ReplayError(
            f"ReplayBuffer: found `selector={describe(selector)}`, expected an object with `on_add`, `on_evict`, `select` and "
            "`update`. Pass `Uniform()`, for example."
        )
    return selector
