"""The rows of one module in a buffer: columns, index and selector."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import Space

from episodia.errors import ReplayError
from episodia.replay.adding.incoming import Incoming, in_parts, joined_chunks, kept_chunks, versions_of_steps
from episodia.replay.rows.keys import are_fresh, keys_of, rows_of_keys
from episodia.replay.rows.row_columns import ENV_T, RowColumns
from episodia.replay.rows.row_index import STEP, are_kinds_of_steps
from episodia.replay.rows.row_storage import RowStorage
from episodia.replay.rows.row_writer import Eviction, Placed, RowWriter
from episodia.replay.selectors.selector import AddedSteps, Selection, Selector, StatefulSelector, StoredSteps
from episodia.space_codec import decode_space, encode_space
from episodia.trees import describe
from episodia.types import ModuleID, State

_INT = np.dtype(np.int64)


class Picked(NamedTuple):
    """The steps that a draw takes.

    Attributes:
        rows: Their rows: int64 [B].
        kinds: The kinds of these rows: uint8 [B].
        weights: Their weights, float64 [B]; None if the selector has no weights.
    """

    rows: np.ndarray
    kinds: np.ndarray
    weights: np.ndarray | None


class Added(NamedTuple):
    """The changes of a call of `add`: new steps, and evicted steps and episodes.

    >>> Added(3, 2, 0) + Added(1, 0, 1)
    Added(num_steps=4, num_evicted_steps=2, num_evicted_episodes=1)
    """

    num_steps: int = 0
    num_evicted_steps: int = 0
    num_evicted_episodes: int = 0

    def __add__(self, other: object) -> Added:
        return Added(*map(sum, zip(self, other, strict=True))) if isinstance(other, Added) else NotImplemented

    @classmethod
    def of(cls, parts: list[Added]) -> Added:
        """Return what several calls have changed together."""
        return parts[0] if len(parts) == 1 else sum(parts, cls())


@final
class Table:
    """The stored rows of one module.

    Attributes:
        module_id: The module.
        capacity: The number of rows.
        columns: What is stored in each row.
        writer: Where rows lie, and to which episodes they belong.
        selector: Which steps draws take.
        is_torn: Whether an exception, such as Ctrl-C, came while rows were written: rows and index may not fit together then.
        lock: Held while rows are written or read.
        spaces: The spaces of observations and actions, by column.
        agents: The agents that the module has acted for, in the order in which they came, of multi-agent episodes.
    """

    __slots__ = (
        "_newest",
        "_unused_selector",
        "agents",
        "capacity",
        "columns",
        "is_torn",
        "lock",
        "module_id",
        "selector",
        "spaces",
        "steps",
        "writer",
    )

    def __init__(
        self,
        module_id: ModuleID,
        capacity: int,
        *,
        evict: Eviction,
        salt: int,
        selector: Selector,
        storage: RowStorage,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.module_id = module_id
        self.capacity = capacity
        self.columns = RowColumns(capacity, storage, f"{module_id}.")
        self.writer = RowWriter(capacity, evict=evict, salt=salt)
        self._unused_selector = selector
        self._newest: list[np.ndarray] = []  # the rows of the steps of the last `add`
        self.selector = copy.deepcopy(selector)
        self.steps = StoredSteps(self.writer.index, self.writer.ring)
        self.lock = lock
        self.is_torn = False
        self.spaces: dict[str, Space[Any] | None] = {}
        self.agents: dict[Any, None] = {}

    def check_whole(self) -> None:
        """Reject a table whose rows were not written to the end.

        Raises:
            ReplayError: If an exception came while rows were written.
        """
        if self.is_torn:
            raise ReplayError(
                f"module {self.module_id!r}: found rows that were not written to the end, because an exception such as Ctrl-C "
                "came during `add` or `clear`. Expected whole rows. Call `clear()` and add again, or `load` an earlier save."
            )

    # --- Writing ----------------------------------------------------------------------------------------------------

    def check(self, parts: list[Incoming]) -> None:
        """Reject chunks that cannot be stored, one part after another.

        Raises:
            ReplayError: If a chunk comes too early or is too long, or if values do not fit the columns.
        """
        if self.is_torn:
            self.check_whole()
        self.writer.check(parts[0].chunks if len(parts) == 1 else joined_chunks(parts))
        earlier: dict[str, Any] = {}
        for found in parts:
            for ending in found.endings:
                self.writer.check_end(ending.key, ending.t)
            self.columns.check(found.values, earlier)
            if len(parts) > 1:
                earlier = {**found.values, **earlier}

    def add(self, parts: list[Incoming]) -> Added:
        """Store checked chunks, while the caller has the lock."""
        if not self.spaces:
            self.spaces = parts[0].spaces()
        self._newest = []
        return Added.of([self._add_part(found) for found in parts])

    def _add_part(self, found: Incoming) -> Added:
        if ENV_T in found.values:
            self.agents |= {key[1]: None for key in found.chunks.origins if isinstance(key, tuple)}
        if not found.chunks.origins:
            added = Added()
        elif self.writer.continued(found.chunks).all_fit:
            added = self._add(found)
        else:
            parts = in_parts(found, self.writer.reserve(), self.capacity // 2)
            added = Added.of([self._add(part) for part in parts])
        for ending in found.endings:
            self.writer.end(*ending)
        return added

    def _add(self, found: Incoming) -> Added:
        writer = self.writer
        num_lost, num_before = writer.num_lost_episodes, writer.index.num_steps
        self.columns.begin(found.values, had_rows=writer.ring.used > 0)
        self.is_torn = True
        num_left_out, kept = 0, writer.admit(found.chunks)
        if kept is not None:
            num_left_out = int(found.chunks.lengths.sum() - found.chunks.lengths[kept].sum())
            found = kept_chunks(found, kept)
        placed = writer.place(found.chunks)
        self._newest.append(placed.steps)
        num = len(placed.steps)
        tracks = placed.tracks, found.track_rows(placed.is_stored, len(placed.tracks))
        self.columns.write(found.values, (placed.steps, found.step_rows(num)), tracks)
        if writer.evicted:
            evicted = writer.take_evicted()
            if len(evicted):
                self.selector.on_evict(evicted)
        if len(placed.added):
            self.selector.on_add(placed.added, AddedSteps(self.capacity, lambda: self._versions(found, placed)))
        self.is_torn = False
        # Not those that the selector has got: a chunk may evict steps of earlier chunks, which the selector never got.
        num_evicted = num_before + num - writer.index.num_steps
        return Added(num + num_left_out, num_evicted + num_left_out, writer.num_lost_episodes - num_lost)

    def _versions(self, found: Incoming, placed: Placed) -> np.ndarray:
        versions = versions_of_steps(found)
        if len(placed.added) == len(placed.steps):
            return versions
        kept: np.ndarray = versions[(self.writer.index.kind.take(placed.steps) & STEP) != 0]
        return kept

    def update_newest(self, values: np.ndarray) -> None:
        """Tell the selector values of the steps that `add` has stored last, in their order, or one value for all.

        Raises:
            ReplayError: If there are more or fewer steps.
        """
        with self.lock:
            self.check_whole()
            rows = np.concatenate(self._newest) if self._newest else np.empty(0, np.int64)
            if not values.ndim:
                values = np.full(len(rows), values)
            if len(rows) != len(values):
                raise ReplayError(
                    f"update_newest: found {len(values)} values for the {len(rows)} steps of {self.module_id!r} that were "
                    "stored last, expected one for each. Call it right after `add`, with a buffer that leaves none out."
                )
            stored = (self.writer.index.kind.take(rows) & STEP) != 0
            if stored.any():
                self.selector.update(rows[stored], values[stored])

    def update(self, keys: np.ndarray, values: np.ndarray) -> int:
        """Tell the selector new values of sampled steps; return how many keys were stale and ignored."""
        with self.lock:
            self.check_whole()
            fresh = are_fresh(keys, self.writer.index, self.writer.ring)
            num_fresh = int(np.count_nonzero(fresh))
            if num_fresh:
                is_all = num_fresh == len(keys)
                rows = rows_of_keys(keys if is_all else keys[fresh])
                self.selector.update(rows, values if is_all else values[fresh])
        # Keys of -1 stand for agents that are absent.
        return 0 if num_fresh == len(keys) else int(np.count_nonzero(~fresh & (keys >= 0)))

    def clear(self) -> None:
        """Forget all steps; the columns keep their nesting, shapes and dtypes."""
        with self.lock:
            steps = np.flatnonzero(self.writer.index.kind & STEP)
            was_torn, self.is_torn = self.is_torn, True
            if was_torn:
                self.selector = copy.deepcopy(self._unused_selector)
            elif len(steps):
                self.selector.on_evict(steps)
            self.writer.clear()
            self.is_torn = False

    # --- Reading ----------------------------------------------------------------------------------------------------

    def pick(
        self, num: int, rng: np.random.Generator, allowed: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> Picked:
        """Return `num` steps that the selector chooses among those that are `allowed`.

        Raises:
            ReplayError: If there is no such step, or if the selector returns something else.
        """
        if self.is_torn:
            self.check_whole()
        index = self.writer.index
        steps = self.steps if allowed is None else StoredSteps(index, self.writer.ring, allowed)
        found: object = self.selector.select(num, steps, rng)
        if not isinstance(found, Selection) or not _is_selection_of(found, num):
            raise ReplayError(
                f"{self.selector!r}: found {describe(found)} from `select`, expected a `Selection` with int64[{num}] rows, and "
                f"with float64[{num}] weights or None. `check_selector` finds such faults."
            )
        # An array of our own: a selector may use its array again.
        rows = found.rows.copy() if found.rows.dtype == _INT else found.rows.astype(_INT)
        try:
            kinds = index.kind.take(rows)
        except IndexError:
            kinds = np.zeros(num, np.uint8)  # rows that no buffer of this size has
        if not are_kinds_of_steps(kinds):
            raise ReplayError(
                f"{self.selector!r}: found {num} rows, of which some are no stored steps, expected {num} rows of steps. Let "
                "`select` return rows that `steps.allowed` accepts; `check_selector` finds such faults."
            )
        return Picked(rows, kinds, found.weights)

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return all rows, the index, and the state of the selector."""
        self.check_whole()
        index = self.writer.index
        ids = {episode: list(key) if isinstance(key, tuple) else key for episode, key in index.episodes.ids.items()}
        return {
            "spaces": {name: encode_space(space) for name, space in self.spaces.items()},
            "agents": list(self.agents),
            "ids": [[episode, key] for episode, key in ids.items()],
            "writer": self.writer.get_state(),
            "columns": self.columns.get_state(self.writer.ring.used),
            "selector": self.selector.get_state() if isinstance(self.selector, StatefulSelector) else {},
        }

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self.spaces = {name: decode_space(space) for name, space in state["spaces"].items()}
        ids = {int(episode): tuple(key) if isinstance(key, list) else key for episode, key in state["ids"]}
        self.agents = dict.fromkeys(state["agents"])
        self.writer.set_state(state["writer"], ids)
        self.columns.set_state(state["columns"], self.writer.ring.used)
        if isinstance(self.selector, StatefulSelector):
            self.selector.set_state(state["selector"])
            return
        if state["selector"]:
            raise ValueError(f"{self.selector!r} has no state, but there is one with {list(state['selector'])}")
        steps = np.flatnonzero(self.writer.index.kind & STEP)
        if len(steps):
            # The oldest first, as they came.
            oldest_first = steps[np.argsort(-self.writer.ring.ages(steps))]
            self.selector.on_add(oldest_first, AddedSteps(self.capacity, lambda: np.full(len(steps), -1, np.int64)))

    def origins(self, rows: np.ndarray) -> list[Any]:
        """Return the id of the episode of each row, in a tuple with the agent if there is one."""
        index = self.writer.index
        return [index.episodes.ids[episode] for episode in index.places(rows).episodes.tolist()]

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return the keys of rows in use."""
        return keys_of(rows, self.writer.ring, self.writer.ring.claimed)


def _is_selection_of(found: Selection, num: int) -> bool:
    """Tell whether a selection has `num` rows, and as many weights or none."""
    rows: object = found.rows
    if not isinstance(rows, np.ndarray) or rows.shape != (num,) or rows.dtype.kind not in "iu":
        return False
    weights: object = found.weights
    return weights is None or (isinstance(weights, np.ndarray) and weights.shape == (num,))
