"""The buffer: episodes at rest, and every way of sampling from them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, final

import numpy as np

from episodia.arguments import (
    checked_choice,
    checked_flag,
    checked_path,
    checked_seed,
    checked_whole,
    names_nearest_argument,
)
from episodia.display.notebook_html import block
from episodia.episodes.lists.episode_list import Episode, EpisodeList
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay.adding.env_times import env_times_of, with_env_times
from episodia.replay.adding.incoming import Incoming, incoming
from episodia.replay.buffer_display import buffer_html, buffer_text, contents_of
from episodia.replay.draws.draw import Draw
from episodia.replay.draws.transitions import Transitions
from episodia.replay.draws.whole_episodes import whole_episodes
from episodia.replay.rows.keys import MOST_ROWS, as_keys, as_priorities
from episodia.replay.rows.row_storage import InMemory, MemoryMapped, RowStorage
from episodia.replay.rows.row_writer import Eviction
from episodia.replay.samples.drawing import draw_sample
from episodia.replay.samples.sample_source import SampleSource
from episodia.replay.samples.sampled import Sampled
from episodia.replay.samples.sampled_modules import SampledModules
from episodia.replay.selectors.selector import Selector, Uniform
from episodia.replay.sharing.publisher import changes_for
from episodia.replay.table import Added, Table
from episodia.store import load_snapshot, save_snapshot
from episodia.trees import describe
from episodia.types import Item, ModuleID, State

# Two extents and a chunk of one step fit.
_FEWEST_ROWS = 8


@names_nearest_argument
@final
class ReplayBuffer:
    """Keeps the steps of many episodes, each observation once, and samples from them.

    A row has an observation and the step taken at it, so an episode of T steps has T + 1 rows. Chunks of episodes that go on
    are added as they come, in any interleaving; they continue what is stored. The oldest rows are overwritten.

    With several modules, each module has rows of its own, `capacity` of them.

    Args:
        capacity: The number of rows.
        evict: What is evicted with the oldest row: only its own step, or the whole episode, so that only whole episodes, and
            ends of those that grow, are stored. With `"reservoir"`, no row is the oldest: a random part of all episodes that
            ever came is stored, from their first steps on, whether they came early or late.
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
    [6, 5, 5, 5]
    >>> sampled.flat("obs", tail=True).values.tolist()
    [1, 2, 0, 1, 0, 1, 0, 1]
    """

    def __init__(
        self,
        capacity: int,
        *,
        evict: Eviction = "steps",
        selector: Selector | None = None,
        storage: RowStorage | None = None,
        infos: bool = False,
        seed: int | None = None,
    ) -> None:
        where = "ReplayBuffer"
        self.capacity = checked_whole(ReplayError, where, "capacity", capacity, _FEWEST_ROWS, below=MOST_ROWS)
        checked_choice(ReplayError, where, "evict", evict, ("steps", "episodes", "reservoir"))
        self.evict: Eviction = evict
        self._selector = _checked_selector(selector)
        self._storage = _checked_storage(storage)
        self._infos = checked_flag(ReplayError, where, "infos", infos)
        self._rng = np.random.default_rng(checked_seed(ReplayError, where, seed))
        # Decides which episodes a reservoir keeps, without a draw of the generator that samples.
        self._salt = int(copy.deepcopy(self._rng).integers(2**63))
        self._lock = RLock()
        self._changes = changes_for(self._storage)
        self._tables: dict[Any, Table] = {}
        self._newest: Collection[ModuleID] = ()  # the modules of the last call of `add`

    # --- Adding -----------------------------------------------------------------------------------------------------

    def add(self, episodes: Iterable[Episode]) -> Added:
        """Store episodes, or chunks of them; a chunk continues what is stored of its episode.

        What comes after a gap is stored as a part of its own. Lookbacks are not stored again. The columns `keys` and `weights`
        of a sample are left out.

        Returns:
            How many steps came, and how many steps and episodes were evicted.

        Raises:
            ReplayError: If a chunk comes too early or is too long, or if its columns do not fit; nothing is stored then. Also
                if an exception, such as Ctrl-C, came during an earlier call: call `clear` or `load` then.
        """
        listed = EpisodeList.of(episodes)
        with self._lock:
            groups = listed.groups() if len(listed) else {}
            self._newest = tuple(groups)  # not `keys()`, which would keep the lists in memory
            env_times = env_times_of(listed)
            tables = self._tables
            found = [
                (tables.get(module_id) or self._new_table(module_id), incoming(group, infos=self._infos))
                for module_id, group in groups.items()
            ]
            for table, parts in found:
                if env_times:
                    parts[:] = [with_env_times(part, env_times) for part in parts]
                table.check(parts)
            with self._changes.changing(lambda: self._tables):
                return Added.of([self._added(table, parts) for table, parts in found])

    def _added(self, table: Table, parts: list[Incoming]) -> Added:
        self._tables[table.module_id] = table
        return table.add(parts)

    def _new_table(self, module_id: ModuleID) -> Table:
        return Table(
            module_id,
            self.capacity,
            evict=self.evict,
            salt=self._salt,
            selector=self._selector,
            storage=self._storage,
            lock=self._lock,
        )

    # --- Sampling ---------------------------------------------------------------------------------------------------

    def sample(
        self,
        num: int,
        draw: Draw = Transitions(),  # noqa: B008  # frozen
        *,
        lookback: int = 0,
        modules: Collection[ModuleID] | None = None,
    ) -> Sampled | SampledModules:
        """Return `num` stretches of stored episodes for each module, drawn with replacement.

        Args:
            num: How many.
            draw: What each of them is: a transition, a sequence, an episode.
            lookback: How many steps before each stretch can be looked back to, for frame stacks, previous actions, and states
                of recurrent modules: the lookback of the learner pipeline. Steps whose lookback was evicted are not drawn.
            modules: The modules to sample for; None for all that have steps.

        Returns:
            A list of episodes; with several modules, `groups()` of it has that of each module.

        Raises:
            ReplayError: If there is no step that can be drawn, or a module is unknown.
        """
        with self._lock:
            return draw_sample("ReplayBuffer.sample", self._tables, num, draw, lookback, modules, self._rng)

    @property
    def has_priorities(self) -> bool:
        """Whether draws depend on the values that `update_priorities` writes: uniform selection does not."""
        return type(self._selector) is not Uniform

    def update_priorities(self, keys: Item, values: Item) -> int:
        """Tell the selector new values, such as absolute TD errors, of sampled steps.

        Args:
            keys: The keys of a sample: `sampled.keys`, or the column `keys` of a batch. With several modules, a dict by module.
            values: A number for each key. Of equal keys, the last one counts.

        Returns:
            How many keys were stale: their steps are not stored any more, and they were ignored.

        Raises:
            ReplayError: If a value is not finite, or there are more or fewer values than keys; nothing is changed then.
        """
        by_module = self._by_module(keys, values)
        with self._lock:
            return sum(table.update(found, numbers) for table, found, numbers in by_module)

    def update_newest(self, values: Item) -> None:
        """Tell the selector values of the steps that the last `add` has stored, such as errors that were computed elsewhere.

        Args:
            values: A number for each step, in the order of the list, or one for all. With several modules, a dict by module.

        Raises:
            ReplayError: If a value is not finite, or there are more or fewer values than steps.
        """
        by_module = values if isinstance(values, Mapping) else dict.fromkeys(self._newest, values)
        numbers = {module_id: np.asarray(given, np.float64) for module_id, given in by_module.items()}
        odd = [id_ for id_, found in numbers.items() if id_ not in self._tables or not np.isfinite(found).all()]
        if odd:
            raise ReplayError(
                f"update_newest: found values of {odd} that are not finite, or of modules without steps; expected finite "
                f"numbers for some of {list(self._tables)}. Correct them."
            )
        with self._lock:
            for module_id, found in numbers.items():
                self._tables[module_id].update_newest(found)

    def _by_module(self, keys: Item, values: Item) -> list[tuple[Table, np.ndarray, np.ndarray]]:
        if len(self._tables) == 1 and not isinstance(keys, Mapping) and not isinstance(values, Mapping):
            own = as_keys(keys)
            return [(next(iter(self._tables.values())), own, as_priorities(values, len(own)))]
        if (
            not isinstance(keys, Mapping)
            or not isinstance(values, Mapping)
            or keys.keys() != values.keys()
            or not keys.keys() <= self._tables.keys()
        ):
            raise ReplayError(
                f"ReplayBuffer.update_priorities: found keys of {_modules_text(keys)} and values of {_modules_text(values)}, "
                f"expected dicts by module, with modules from {list(self._tables)}. Pass `sampled.keys`, and values for it; "
                "of a sample of one of several modules `{sampled.module_id: sampled.keys}`, and a dict of values."
            )
        found = []
        for module_id, part in keys.items():
            own = as_keys(part)
            found.append((self._tables[module_id], own, as_priorities(values[module_id], len(own))))
        return found

    # --- What is stored ---------------------------------------------------------------------------------------------

    @property
    def num_steps(self) -> int:
        """The number of stored steps of all modules together."""
        with self._lock:
            return sum(table.writer.index.num_steps for table in self._tables.values())

    def __len__(self) -> int:
        return self.num_steps

    def episodes(self) -> EpisodeList[SingleAgentEpisode]:
        """Return all that is stored, one episode after another, in the order in which they came.

        Columns are gathered when they are read, as those of a sample.
        """
        with self._lock:
            self._check_whole()
            parts = [
                Sampled(SampleSource(table), whole_episodes(table, table.writer.index.episodes_with_steps()))
                for table in self._tables.values()
                if table.writer.index.num_steps
            ]
        if len(parts) > 1:
            return SampledModules({part.module_id: part for part in parts})
        return parts[0] if parts else EpisodeList()

    def _check_whole(self) -> None:
        for table in self._tables.values():
            table.check_whole()

    def clear(self) -> None:
        """Forget all episodes; samples that are not loaded cannot be read any more."""
        with self._lock, self._changes.changing(lambda: self._tables):
            for table in self._tables.values():
                table.clear()

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return all that is stored, priorities and the random generator included: JSON values and arrays."""
        with self._lock:
            return {
                "capacity": self.capacity,
                "evict": self.evict,
                "infos": self._infos,
                "generator": dict(self._rng.bit_generator.state),
                "salt": self._salt,
                "modules": list(self._tables),
                "tables": [table.get_state() for table in self._tables.values()],
            }

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` of a buffer with the same arguments returned.

        Raises:
            ReplayError: If it is not the state of a buffer with the same arguments; nothing is changed then.
        """
        own = {"capacity": self.capacity, "evict": self.evict, "infos": self._infos}
        given: object = state
        found = {name: given.get(name) for name in own} if isinstance(given, dict) else describe(given)
        if repr(found) != repr(own):  # arrays and tensors have no truth
            raise ReplayError(
                f"ReplayBuffer.set_state: found the state of a buffer with {found}, expected {own}. Make the buffer with "
                "the same arguments."
            )
        rng = copy.deepcopy(self._rng)
        try:
            rng.bit_generator.state = state["generator"]
            salt = int(state["salt"])
            tables = {module_id: self._new_table(module_id) for module_id in state["modules"]}
            for table, part in zip(tables.values(), state["tables"], strict=True):
                table.set_state(part)
        except (TypeError, ValueError, OverflowError, LookupError, AttributeError) as error:
            raise ReplayError(
                f"ReplayBuffer.set_state: found a state that does not fit ({error!r}), expected what `get_state()` of a buffer "
                "with the same arguments returned. Make the buffer with the same selector."
            ) from error
        with self._lock, self._changes.changing(lambda: self._tables):
            self._rng, self._tables, self._salt = rng, tables, salt

    def save(self, path: str | Path) -> None:
        """Write all that is stored to the directory `path`, see `get_state`; a later save replaces it.

        A crash at any moment leaves the earlier save or this one.

        Raises:
            ReplayError: If `path` is not a path.
            StoreError: If it cannot be written, or holds other files; an earlier save is intact.
        """
        save_snapshot(checked_path(ReplayError, "ReplayBuffer.save", "path", path), self.get_state())

    def load(self, path: str | Path) -> None:
        """Continue from what `save` of a buffer with the same arguments wrote, exactly as that buffer would have.

        All checksums are verified, and no code from a file is ever run.

        Raises:
            ReplayError: If it is not the save of a buffer with the same arguments; nothing is changed then.
            StoreError: If there is no save, or if it is damaged; nothing is changed then.
        """
        self.set_state(load_snapshot(checked_path(ReplayError, "ReplayBuffer.load", "path", path)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let `copy` and `pickle` make a buffer with the same arguments, which goes on from the same state.

        Raises:
            ReplayError: If the rows are in files, which belong to one buffer.
        """
        if isinstance(self._storage, MemoryMapped):
            raise ReplayError(
                f"ReplayBuffer: found rows in the files of {self._storage!r}, expected rows in memory: two buffers cannot "
                "write to the same files. Call `save`, and `load` it into a buffer with another path."
            )
        arguments = {
            "capacity": self.capacity,
            "evict": self.evict,
            "selector": self._selector,
            "storage": self._storage,
            "infos": self._infos,
        }
        return _continued, (arguments, self.get_state())

    # --- Display ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        with self._lock:
            if self._is_torn():
                return f"ReplayBuffer(interrupted while adding, capacity={self.capacity})"
            return buffer_text(self.capacity, [contents_of(table) for table in self._tables.values()])

    def _repr_html_(self) -> str:
        with self._lock:
            if self._is_torn():
                return block(repr(self))
            return buffer_html(self.capacity, [contents_of(table) for table in self._tables.values()])

    def _is_torn(self) -> bool:
        return any(table.is_torn for table in self._tables.values())


def _continued(arguments: dict[str, Any], state: State) -> ReplayBuffer:
    """Return a new buffer that goes on from the state of another one."""
    buffer = ReplayBuffer(**arguments)
    buffer.set_state(state)
    return buffer


def _modules_text(given: Item) -> str:
    return f"the modules {list(given)}" if isinstance(given, Mapping) else describe(given)


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


def _checked_storage(storage: RowStorage | None) -> RowStorage:
    if storage is None:
        return InMemory()
    given: object = storage
    if isinstance(given, type) or not isinstance(given, RowStorage):
        raise ReplayError(
            f"ReplayBuffer: found `storage={describe(storage)}`, expected an object with `check` and `array`. Pass "
            "`MemoryMapped(path)`, for example."
        )
    return storage
