"""The index of rows: which rows are steps, to which episode each row belongs, and which row comes next.

A row is an observation and the step that was taken at it. The last row of an episode (its tail) has no step until the next
chunk arrives. Rows that are neighbours in the buffer and in time form a run; an episode is a chain of runs.

`t` is a time step, `rows` are int64 `[B]`, windows are `[B, K]`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, final

import numpy as np

from episodia.episodes.lists.ragged import rows_of_ranges
from episodia.replay.rows.records import Runs, StoredEpisodes
from episodia.types import State

# Bits of a row's kind.
STEP = 1
HOP = 2  # the next row in time is not the neighbour
TERMINATED = 4
TRUNCATED = 8
NEW = 16  # added by the call of `add` that is running

_ONE, _BOOL = np.array(1), np.dtype(np.bool_)
_STEP_BIT = np.array(STEP, np.uint8)
_STEP_KINDS = bytes(kind for kind in range(256) if kind & STEP)
_KINDS_WITHOUT_HOP = bytes(kind for kind in range(256) if not kind & HOP)


class RowPlaces(NamedTuple):
    """The run, the stored episode and the time step of each row: int64 [B]."""

    runs: np.ndarray
    episodes: np.ndarray
    times: np.ndarray


@final
class RowIndex:
    """Runs, episodes and kinds of rows.

    Attributes:
        kind: What each row is: uint8 [capacity].
        run_of: The run of each row, -1 for unused rows: int32 [capacity].
        num_steps: The number of rows that are steps.
    """

    __slots__ = ("_number", "episodes", "kind", "num_steps", "run_of", "runs")

    def __init__(self, capacity: int) -> None:
        self.kind = np.zeros(capacity, np.uint8)
        self.run_of = np.full(capacity, -1, np.int32)
        self.runs = Runs()
        self.episodes = StoredEpisodes()
        self.num_steps = 0
        self._number = 0

    # --- Writing ----------------------------------------------------------------------------------------------------

    def begin_episode(self, key: Hashable, t: int, extent: int) -> int:
        """Return a new stored episode without rows, which begins at time step `t` and writes into `extent`."""
        episode = self.episodes.take()
        self.episodes.name(episode, key)
        self.episodes.t_kept[episode] = self.episodes.t_stop[episode] = t
        self.episodes.extent[episode] = extent
        self.episodes.number[episode] = self._number
        self._number += 1
        return episode

    def append(self, episode: int, start: int, stop: int, t: int) -> None:
        """Let the rows from `start` to just before `stop` be the next ones of `episode`, from time step `t` on."""
        runs, last = self.runs, int(self.episodes.last[episode])
        if last >= 0 and runs.stop[last] == start:
            runs.stop[last] = stop
            self.run_of[start:stop] = last
            return
        run = runs.take()
        runs.start[run], runs.stop[run], runs.t[run] = start, stop, t
        runs.prev[run], runs.episode[run] = last, episode
        self.run_of[start:stop] = run
        if last >= 0:
            runs.next[last] = run
            self.kind[runs.stop[last] - 1] |= HOP
        else:
            self.episodes.first[episode] = run
        self.episodes.last[episode] = run

    def add_steps(self, steps: np.ndarray, flags: int) -> None:
        """Let the rows `steps`, in the order of time, be steps; `flags` belong to the last one."""
        self.kind[steps] |= STEP | NEW
        self.num_steps += len(steps)
        if flags and len(steps):
            self.kind[steps[-1]] |= flags

    def settle(self, steps: np.ndarray) -> np.ndarray:
        """Return those of the added `steps` that are still there, which are new no more."""
        kinds = self.kind.take(steps)
        if not (kinds & NEW).all():
            steps = steps[(kinds & NEW) != 0]
        self.kind[steps] &= np.uint8(255 - NEW)
        return steps

    def end_at_last_step(self, episode: int, flags: int) -> None:
        """Set `flags` at the last stored step of `episode`, if one is stored."""
        run = int(self.episodes.last[episode])
        if run < 0:
            return
        row = int(self.runs.stop[run]) - 2
        if row < self.runs.start[run]:
            before = int(self.runs.prev[run])
            if before < 0:
                return
            row = int(self.runs.stop[before]) - 1
        self.kind[row] |= flags

    def evict(self, start: int, stop: int) -> tuple[np.ndarray, list[int]]:
        """Empty the rows from `start` to just before `stop`.

        Returns:
            The rows among them that were steps (without new ones), and the episodes that lost rows.
        """
        found = self.run_of[start:stop]
        begins = np.ones(len(found), np.bool_)
        np.not_equal(found[1:], found[:-1], out=begins[1:])
        touched: dict[int, None] = {}
        # The oldest first: within a range, runs of one episode lie in the order of time.
        for run in found[begins].tolist():
            if run >= 0:
                touched[int(self.runs.episode[run])] = None
                self._cut(run, stop)
        return self._empty(start, stop), list(touched)

    def _cut(self, run: int, stop: int) -> None:
        """Take the rows before `stop` away from `run`."""
        runs = self.runs
        if runs.stop[run] <= stop:
            self._drop(run)
            return
        runs.t[run] += stop - runs.start[run]
        runs.start[run] = stop
        self.episodes.t_kept[runs.episode[run]] = runs.t[run]

    def _drop(self, run: int) -> None:
        """Take the first run of an episode away from it."""
        runs, episodes = self.runs, self.episodes
        episode, following = int(runs.episode[run]), int(runs.next[run])
        episodes.first[episode] = following
        if following >= 0:
            runs.prev[following] = -1
            episodes.t_kept[episode] = runs.t[following]
        else:
            episodes.last[episode] = -1
            episodes.t_kept[episode] = episodes.t_stop[episode]
        runs.give_back(run)

    def _empty(self, start: int, stop: int) -> np.ndarray:
        kinds = self.kind[start:stop]
        steps: np.ndarray = np.flatnonzero((kinds & (STEP | NEW)) == STEP) + start
        self.num_steps -= int(np.count_nonzero(kinds & STEP))
        self.kind[start:stop] = 0
        self.run_of[start:stop] = -1
        return steps

    def evict_episode(self, episode: int) -> list[np.ndarray]:
        """Empty all rows of `episode`; return those that were steps (without new ones)."""
        emptied: list[np.ndarray] = []
        run = int(self.episodes.first[episode])
        while run >= 0:
            start, stop, following = (int(column[run]) for column in (self.runs.start, self.runs.stop, self.runs.next))
            emptied.append(self._empty(start, stop))
            self._drop(run)
            run = following
        return emptied

    def clear(self) -> None:
        """Forget all rows."""
        self.kind[:] = 0
        self.run_of[:] = -1
        self.runs, self.episodes = Runs(), StoredEpisodes()
        self.num_steps = 0

    def forget(self, episode: int) -> None:
        """Drop the record of an episode without rows."""
        self.episodes.give_back(episode)

    # --- Reading ----------------------------------------------------------------------------------------------------

    def are_steps(self, rows: np.ndarray) -> np.ndarray:
        """Tell which rows are steps: bool [B]."""
        are_steps: np.ndarray = (self.kind.take(rows) & _STEP_BIT).view(_BOOL)
        return are_steps

    def with_next(self, rows: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return the row of each step, of these `kinds`, and of the observation after it, one after another: int64 [2 * B]."""
        both = np.empty(2 * len(rows), np.int64)
        both[::2] = rows
        np.add(rows, _ONE, both[1::2])
        # Bytes are searched faster than arrays.
        if kinds.tobytes().translate(None, _KINDS_WITHOUT_HOP):
            at = np.flatnonzero(kinds & HOP)
            both[2 * at + 1] = self.runs.start.take(self.runs.next.take(self.run_of.take(rows.take(at))))
        return both

    def places(self, rows: np.ndarray) -> RowPlaces:
        """Return the run, the episode and the time step of each row."""
        run = self.run_of.take(rows).astype(np.int64)
        return RowPlaces(run, self.runs.episode.take(run), self.runs.t.take(run) + rows - self.runs.start.take(run))

    def walk(self, rows: np.ndarray, runs: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """Return the rows at `shifts`, `[K]` or `[B, K]`, from each row, `[B, K]`; all of them must be stored.

        Shifts ascend, so that a look at the first and the last one tells whether a run is left.
        """
        found: np.ndarray = rows[:, None] + shifts
        stops, starts = self.runs.stop.take(runs), self.runs.start.take(runs)
        # Faster than `any`.
        is_over, is_under = np.count_nonzero(found[:, -1] >= stops), np.count_nonzero(found[:, 0] < starts)
        if is_over:
            over = found >= stops[:, None]
        if is_under:
            under = found < starts[:, None]
        if is_over:
            self._hop(found, over, runs, forward=True)
        if is_under:
            self._hop(found, under, runs, forward=False)
        return found

    def _hop(self, found: np.ndarray, outside: np.ndarray, runs: np.ndarray, *, forward: bool) -> None:
        """Move the entries `outside` of their run into the runs after or before it, in place."""
        table, flat = self.runs, found.reshape(-1)
        at = np.flatnonzero(outside)
        run, row = runs.take(at // found.shape[1]), flat.take(at)
        while len(at):
            if forward:
                following = table.next.take(run)
                row = table.start.take(following) + row - table.stop.take(run)
                more = row >= table.stop.take(following)
            else:
                following = table.prev.take(run)
                row = table.stop.take(following) - (table.start.take(run) - row)
                more = row < table.start.take(following)
            flat[at] = row
            at, run, row = at[more], following[more], row[more]

    def rows_of_episodes(self, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows of each episode in the order of time, one episode after another, flat; and how many each has."""
        begins, ends, counts = [], [], []
        for episode in episodes.tolist():
            run, count = int(self.episodes.first[episode]), 0
            while run >= 0:
                begins.append(int(self.runs.start[run]))
                ends.append(int(self.runs.stop[run]))
                count += ends[-1] - begins[-1]
                run = int(self.runs.next[run])
            counts.append(count)
        starts = np.array(begins, np.int64)
        return rows_of_ranges(starts, np.array(ends, np.int64) - starts), np.array(counts, np.int64)

    def episodes_with_steps(self) -> np.ndarray:
        """Return the stored episodes that have steps, in the order in which they came."""
        stored = self.episodes
        episodes = stored.in_use()
        episodes = episodes[stored.t_stop[episodes] > stored.t_kept[episodes]]
        in_order: np.ndarray = episodes[np.argsort(stored.number[episodes])]
        return in_order

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return the whole index; the ids of episodes are left to the caller."""
        return {
            "kind": self.kind.copy(),
            "run_of": self.run_of.copy(),
            "runs": self.runs.get_state(),
            "episodes": self.episodes.get_state(),
            "numbers": [self.num_steps, self._number],
        }

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self.kind[:] = state["kind"]
        self.run_of[:] = state["run_of"]
        self.runs.set_state(state["runs"])
        self.episodes.set_state(state["episodes"])
        self.num_steps, self._number = (int(number) for number in state["numbers"])


def are_kinds_of_steps(kinds: np.ndarray) -> bool:
    """Tell whether all `kinds`, uint8 [B], are those of steps.

    >>> are_kinds_of_steps(np.array([STEP, STEP | HOP], np.uint8)), are_kinds_of_steps(np.array([STEP, 0], np.uint8))
    (True, False)
    """
    return not kinds.tobytes().translate(None, _STEP_KINDS)
