"""Finds rows for chunks of episodes: where they continue, where new rows are claimed, and what is evicted for that.

Growing episodes write into *extents*, rows that are set aside for them, so that episodes which grow side by side do not lie
step by step between each other. What an episode leaves of its extent, the next episode uses.

The order is important: rows are claimed first, which evicts old ones; then it is seen what is left of the episode; then rows
are linked.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import repeat
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np

from episodia.episodes.lists.ragged import rows_of_ranges
from episodia.episodes.lists.unmade_rows import ChunkFacts
from episodia.errors import ReplayError
from episodia.replay.rows.claims import Claims
from episodia.replay.rows.records import Extents
from episodia.replay.rows.reservoir import Reservoir
from episodia.replay.rows.ring import Ring
from episodia.replay.rows.row_index import NEW, STEP, TERMINATED, RowIndex
from episodia.replay.rows.row_pool import RowPool
from episodia.types import State

Eviction: TypeAlias = Literal["steps", "episodes", "reservoir"]

# The largest number of rows that are set aside for one episode.
_LARGEST_EXTENT = 64

# Arrays without axes, which NumPy combines with others faster than numbers.
_ONE = np.array(1)
_FLAG = np.array(TERMINATED, np.uint8)
# NumPy takes a dtype faster than the type of a number.
_INT, _RUN = np.dtype(np.int64), np.dtype(np.int32)


class Placed(NamedTuple):
    """Rows for chunks.

    Attributes:
        steps: The row of each step: int64 [N].
        tracks: The row of each new observation, int64.
        is_stored: Of which chunks the first observation is not new: bool [B]; None if that holds for all of them.
        added: The rows of `steps` that are stored now; a chunk may evict rows of the chunks before it.
    """

    steps: np.ndarray
    tracks: np.ndarray
    is_stored: np.ndarray | None
    added: np.ndarray


class Continued(NamedTuple):
    """The episodes and runs that chunks continue.

    Attributes:
        chunks: The chunks.
        episodes: The growing episode of each, -1 if there is none: int64 [B].
        runs: The last run of each episode, -1 if there is none: int64 [B].
        stops: The time step after the last step of each chunk: int64 [B].
        fits: Which chunks only go on inside of their extents, so that nothing is claimed or evicted for them: bool [B].
        all_fit: Whether all do.
    """

    chunks: ChunkFacts
    episodes: np.ndarray
    runs: np.ndarray
    stops: np.ndarray
    fits: np.ndarray
    all_fit: bool


@final
class RowWriter:
    """Places chunks in a ring of rows, and evicts what was there.

    Attributes:
        index: The index of the rows.
        evict: What is evicted: the oldest steps, the oldest episodes, or what a reservoir does not keep.
        ring: The order in which rows are claimed.
        reservoir: Decides which episodes are kept; None if the newest ones are.
        growing: The stored episode of each id that may go on.
        num_lost_episodes: The number of episodes that have lost their last row.
        evicted: The rows of the steps that were evicted since the last call of `take_evicted`.
    """

    __slots__ = (
        "_continued_by",
        "_emptied",
        "_oldest",
        "evict",
        "evicted",
        "extents",
        "growing",
        "index",
        "num_lost_episodes",
        "reservoir",
        "ring",
    )

    def __init__(self, capacity: int, *, evict: Eviction, salt: int = 0) -> None:
        self.index = RowIndex(capacity)
        self.reservoir = Reservoir(RowPool(capacity), salt) if evict == "reservoir" else None
        self.ring: Claims = self.reservoir.pool if self.reservoir else Ring(capacity)
        self.extents = Extents()
        self.growing: dict[Hashable, int] = {}
        self.num_lost_episodes = 0
        self.evict = evict
        self.evicted: list[np.ndarray] = []
        self._emptied: list[int] = []
        self._continued_by: Continued | None = None  # as long as nothing has changed
        self._oldest = 0  # no extent in use was claimed before

    def take_evicted(self) -> np.ndarray:
        """Return the rows of the steps that were evicted since the last call."""
        evicted, self.evicted = self.evicted, []
        return np.concatenate(evicted) if evicted else np.empty(0, np.int64)

    # --- What is kept -----------------------------------------------------------------------------------------------

    def admit(self, chunks: ChunkFacts) -> np.ndarray | None:
        """Make room in the reservoir; return the positions of the chunks that are kept, None if all are.

        To be called before `place`; later chunks of an episode that is not kept are not kept either.
        """
        if self.reservoir is None:
            return None
        needed = np.where(self.continued(chunks).fits, 0, chunks.lengths + 1)
        self._continued_by = None
        kept = self.reservoir.admit(chunks.origins, needed, self._drop)
        positions = np.flatnonzero(kept)
        self.reservoir.keep(chunks.origins[position] for position in positions.tolist())
        return None if kept.all() else positions

    def _drop(self, key: Hashable) -> None:
        """Evict all that is stored of an episode, and give its rows back."""
        for episode in list(self.index.episodes.parts[key]):
            rows, _ = self.index.rows_of_episodes(np.array([episode]))
            self.evicted += self.index.evict_episode(episode)
            for part in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                self.ring.leave(int(part[0]), int(part[-1]) + 1, 0)
            self.num_lost_episodes += 1
            if self.growing.get(key, -1) == episode:
                self._close(key)
            else:
                self.index.forget(episode)

    # --- Many chunks at once ----------------------------------------------------------------------------------------

    def place(self, chunks: ChunkFacts) -> Placed:
        """Make room for `chunks`, which together are at most half of the buffer, and link their rows."""
        found = self.continued(chunks)
        self._continued_by = None
        if not found.all_fit:
            return self._place_each(found)
        tracks = self._extend(chunks, found)
        steps = tracks - _ONE
        self.index.kind[steps] = STEP
        return Placed(steps, tracks, None, steps)

    def continued(self, chunks: ChunkFacts) -> Continued:
        """Return what `chunks` continue; if nothing has changed, what was returned before."""
        found = self._continued_by
        if found is None or found.chunks is not chunks:
            found = self._continued_by = self._look_up(chunks)
        return found

    def _look_up(self, chunks: ChunkFacts) -> Continued:
        stored, keys = self.index.episodes, chunks.origins
        episodes = np.fromiter(map(self.growing.get, keys, repeat(-1)), _INT, len(keys))
        # An index is faster than `take` for the few chunks of a step.
        stops, runs = chunks.t_started + chunks.lengths, stored.last[episodes]
        fits: np.ndarray = stops <= stored.limit[episodes]
        t_stops = stored.t_stop[episodes]
        # Few bytes are compared and searched faster than arrays.
        if t_stops.tobytes() != chunks.t_started.tobytes():
            fits &= t_stops == chunks.t_started
        if chunks.ends.tobytes().strip(b"\0"):
            fits &= chunks.ends == 0
        if self.ring.old_before > self._oldest and self._has_old_extents():
            fits &= self.extents.born.take(stored.extent.take(episodes)) >= self.ring.old_before
        if len(keys) > 1 and len(set(keys)) != len(keys):
            fits[:] = False  # two chunks of one episode are placed one after the other
        return Continued(chunks, episodes, runs, stops, fits, b"\0" not in fits.tobytes())

    def _has_old_extents(self) -> bool:
        """Tell whether there are extents in use whose rows are claimed again soon."""
        born = self.extents.born
        self._oldest = int(born.min(where=born >= 0, initial=self.ring.claimed))
        return self.ring.old_before > self._oldest

    def _extend(self, chunks: ChunkFacts, found: Continued) -> np.ndarray:
        """Link the next rows of the extents of episodes; return these rows, which are one behind those of the steps."""
        index, stored, last = self.index, self.index.episodes, found.runs
        rows: np.ndarray = index.runs.stop[last]
        index.runs.stop[last] = rows + chunks.lengths
        stored.t_stop[found.episodes] = found.stops
        if chunks.num_steps > len(rows):
            rows, last = rows_of_ranges(rows, chunks.lengths), np.repeat(last, chunks.lengths)
        index.run_of[rows] = last.astype(_RUN)  # NumPy writes into rows faster than it converts there
        index.num_steps += chunks.num_steps
        return rows

    def _place_each(self, found: Continued) -> Placed:
        """Place the chunks that fit together, and the others one by one."""
        chunks, fits = found.chunks, found.fits
        lengths = chunks.lengths
        first_step = np.cumsum(lengths) - lengths
        first_track = first_step + np.arange(len(lengths))
        steps, tracks = np.empty(chunks.num_steps, np.int64), np.empty(chunks.num_steps + len(lengths), np.int64)
        is_new = np.ones(len(tracks), np.bool_)
        if fits.any():
            fitting = found._replace(episodes=found.episodes[fits], runs=found.runs[fits], stops=found.stops[fits])
            rows = self._extend(chunks.at(np.flatnonzero(fits)), fitting)
            self.index.kind[rows - 1] = STEP | NEW
            steps[rows_of_ranges(first_step[fits], lengths[fits])] = rows - 1
            tracks[rows_of_ranges(first_track[fits] + 1, lengths[fits])] = rows
            is_new[first_track[fits]] = False
        others = np.flatnonzero(~fits)
        self._empty_ahead(found, others)
        times, counts, flags = chunks.t_started.tolist(), lengths.tolist(), (chunks.ends * _FLAG).tolist()
        for chunk in others.tolist():
            rows, has_tail = self._place_one(chunks.origins[chunk], times[chunk], counts[chunk], flags[chunk])
            step, track = int(first_step[chunk]), int(first_track[chunk])
            steps[step : step + len(rows) - 1] = rows[:-1]
            tracks[track : track + len(rows)] = rows
            is_new[track] = not has_tail
        self._forget_emptied()
        return Placed(steps, tracks[is_new], ~is_new[first_track], self.index.settle(steps))

    def _empty_ahead(self, found: Continued, others: np.ndarray) -> None:
        """Evict at once what would be evicted for one chunk after another: rows that growing episodes surely claim."""
        stored, chunks = self.index.episodes, found.chunks
        goes_on = others[(stored.limit.take(found.episodes[others]) >= 0) & (chunks.ends[others] == 0)]
        limits = stored.limit.take(found.episodes[goes_on])
        num_claiming = int(np.count_nonzero(found.stops[goes_on] > limits))
        if num_claiming > 1:
            start, stop = self.ring.emptied_ahead(num_claiming * self.reserve())
            if start < stop:
                self._evict(start, stop)

    # --- One chunk --------------------------------------------------------------------------------------------------

    def _place_one(self, key: Hashable, t: int, length: int, flags: int) -> tuple[np.ndarray, bool]:
        """Make room for one chunk; return the rows of its observations, and whether the first one is stored already."""
        stored = self.index.episodes
        episode = self._growing_episode(key, t)
        if episode < 0:
            episode = self.growing[key] = self.index.begin_episode(key, t, self._new_extent())
        extent, reserve = int(stored.extent[episode]), 0 if flags else self.reserve()
        self._note_place(episode, extent)
        room = self._room(extent, length + 1 - int(stored.last[episode] >= 0), reserve)
        has_tail = bool(stored.last[episode] >= 0)
        if not has_tail:
            stored.t_kept[episode] = stored.t_stop[episode] = t
            missing = length + 1 - sum(stop - start for start, stop in room)
            room += self._claimed(extent, missing, reserve)
        rows = self._link(episode, room, t, length, has_tail=has_tail)
        stored.t_stop[episode] = t + length
        self.index.add_steps(rows[:-1], flags)
        if flags:
            self._close(key)
        else:
            self._set_limit(episode, extent)
        return rows, has_tail

    def _note_place(self, episode: int, extent: int) -> None:
        """Bring the place in the extent of an episode up to date, before it changes otherwise."""
        stored = self.index.episodes
        if stored.limit[episode] >= 0:
            self.extents.at[extent] = stored.t_stop[episode] + stored.shift[episode]
            stored.limit[episode] = -1

    def _set_limit(self, episode: int, extent: int) -> None:
        """Note how far an episode can go on in its extent."""
        stored, at, t = self.index.episodes, int(self.extents.at[extent]), int(self.index.episodes.t_stop[episode])
        is_next = at == self.index.runs.stop[stored.last[episode]]
        stored.limit[episode] = t + int(self.extents.stop[extent]) - at if is_next else -1
        stored.shift[episode] = at - t

    def _growing_episode(self, key: Hashable, t: int) -> int:
        """Return the growing episode that a chunk from `t` on continues, -1 if it begins a new one.

        What comes after a gap is stored as a part of its own.
        """
        episode = self.growing.get(key, -1)
        if episode >= 0 and self.index.episodes.last[episode] >= 0 and self.index.episodes.t_stop[episode] != t:
            self._close(key)
            return -1
        return episode

    def end(self, key: Hashable, t: int, flags: int) -> None:
        """Let a growing episode end at its last step, which was added without flags."""
        self._continued_by = None
        episode = self._growing_episode(key, t)
        if episode >= 0:
            self.index.end_at_last_step(episode, flags)
            self._close(key)

    def _link(self, episode: int, room: list[tuple[int, int]], t: int, length: int, *, has_tail: bool) -> np.ndarray:
        """Link rows of `room` to `episode`; return those of the chunk's observations, with the tail that was there."""
        stored, parts = self.index.episodes, []
        if has_tail:
            tail = int(self.index.runs.stop[stored.last[episode]]) - 1
            parts.append(np.arange(tail, tail + 1))
        missing, at, extent = length + 1 - has_tail, t + has_tail, int(stored.extent[episode])
        for start, stop in room:
            count = min(missing, stop - start)
            if count:
                self.index.append(episode, start, start + count, at)
                parts.append(np.arange(start, start + count))
            missing, at = missing - count, at + count
            self.extents.at[extent], self.extents.stop[extent] = start + count, stop
        return np.concatenate(parts)

    def _close(self, key: Hashable) -> None:
        """Let an episode grow no more; the next ones use what it has left of its extent."""
        episode = self.growing.pop(key)
        extent = int(self.index.episodes.extent[episode])
        self._note_place(episode, extent)
        start, stop, born = (int(column[extent]) for column in (self.extents.at, self.extents.stop, self.extents.born))
        if start < stop:
            self.ring.leave(start, stop, born)
        self.extents.give_back(extent)
        self.index.episodes.extent[episode] = -1
        if self.index.episodes.last[episode] < 0:
            self.index.forget(episode)

    # --- Room -------------------------------------------------------------------------------------------------------

    def reserve(self) -> int:
        """Return how many rows to claim at once: what all growing episodes have set aside stays small."""
        return max(1, min(_LARGEST_EXTENT, self.ring.capacity // (16 * max(1, len(self.growing)))))

    def _new_extent(self) -> int:
        """Return an extent that begins with what a finished episode has left, if that is young enough."""
        extent, table = self.extents.take(), self.extents
        table.at[extent], table.stop[extent], born = self.ring.left()
        table.born[extent] = born
        self._oldest = min(self._oldest, born)
        return extent

    def _room(self, extent: int, num: int, reserve: int) -> list[tuple[int, int]]:
        """Return ranges of at least `num` rows: what is left of the extent, then newly claimed rows."""
        start, stop = int(self.extents.at[extent]), int(self.extents.stop[extent])
        missing = num - (stop - start)
        if start == stop or self.ring.is_old(int(self.extents.born[extent]), missing):
            return self._claimed(extent, num, reserve)
        return [(start, stop), *self._claimed(extent, missing, reserve)]

    def _claimed(self, extent: int, num: int, reserve: int) -> list[tuple[int, int]]:
        """Claim at least `num` rows for an extent, and evict what was there."""
        found = []
        while num > 0:
            start, stop, is_used = self.ring.claim(num, max(num, reserve))
            if is_used:
                self._evict(start, stop)
            found.append((start, stop))
            num -= stop - start
            self.extents.born[extent] = self.ring.claimed
        return found

    def _evict(self, start: int, stop: int) -> None:
        """Empty rows; with them, if asked for, the whole episodes that they belong to."""
        steps, touched = self.index.evict(start, stop)
        self.evicted.append(steps)
        for episode in touched:
            if self.evict == "episodes":
                self.evicted += self.index.evict_episode(episode)
            if self.index.episodes.last[episode] < 0:
                self._note_place(episode, int(self.index.episodes.extent[episode]))
                self._emptied.append(episode)

    def _forget_emptied(self) -> None:
        """Drop the records of episodes that have lost all rows, growing ones included."""
        emptied, self._emptied = self._emptied, []
        stored = self.index.episodes
        for episode in emptied:
            # The chunk that was being placed may have given it rows again.
            if stored.last[episode] >= 0 or episode not in stored.ids:
                continue
            self.num_lost_episodes += 1
            key = stored.ids[episode]
            if self.growing.get(key, -1) == episode:
                self._close(key)
            else:
                self.index.forget(episode)

    # --- Checks and state -------------------------------------------------------------------------------------------

    def check(self, chunks: ChunkFacts) -> None:
        """Reject chunks that begin before the end of what is stored of their episode, or are too long.

        Raises:
            ReplayError: If there is such a chunk.
        """
        if self.continued(chunks).all_fit:
            return
        stops, longest = self._stops(chunks), self.ring.capacity // 2
        is_early, is_long = chunks.t_started < stops, chunks.lengths >= longest
        is_wrong = is_early | is_long
        if not np.count_nonzero(is_wrong):
            return
        place = int(is_wrong.argmax())
        if is_early[place]:
            raise ReplayError(
                f"episode {chunks.origins[place]!r}: found a chunk from t={chunks.t_started[place]} on, expected one from "
                f"t={stops[place]} on, because the steps before are stored. Add the chunks of an episode in order, and each of "
                "them once."
            )
        raise ReplayError(
            f"episode {chunks.origins[place]!r}: found {chunks.lengths[place]} steps in one chunk, expected at most "
            f"{longest - 1} in a buffer of {self.ring.capacity} rows. Add shorter chunks, or make the buffer larger."
        )

    def check_end(self, key: Hashable, t: int) -> None:
        """Reject a chunk without steps that says that an episode has ended at `t`, if later steps are stored already.

        Raises:
            ReplayError: If it is such a chunk.
        """
        episode = self.growing.get(key, -1)
        if episode >= 0 and t < self.index.episodes.t_stop[episode]:
            raise ReplayError(
                f"episode {key!r}: found an end at t={t}, expected one at t={self.index.episodes.t_stop[episode]} or later, "
                "because the steps before are stored. Add the chunks of an episode in order."
            )

    def _stops(self, chunks: ChunkFacts) -> np.ndarray:
        """Return the time step before which each chunk must not begin: int64 [B]."""
        # -1 for those that begin.
        stops = self.index.episodes.t_stop.take(self.continued(chunks).episodes)
        if len(set(chunks.origins)) != len(chunks.origins):
            known: dict[Hashable, int] = {}
            for place, key in enumerate(chunks.origins):
                stops[place] = known.get(key, stops[place])
                known[key] = 0 if chunks.ends[place] else int(chunks.t_started[place] + chunks.lengths[place])
        return stops

    def clear(self) -> None:
        """Forget all episodes; rows that were in use count as overwritten."""
        self.index.clear()
        self.ring.clear()
        self.extents = Extents()
        self.growing = {}
        if self.reservoir:
            self.reservoir.clear()
        self.evicted, self._emptied = [], []
        self._continued_by, self._oldest = None, 0

    def get_state(self) -> State:
        """Return index, ring and extents."""
        return {
            "index": self.index.get_state(),
            "ring": self.ring.get_state(),
            "extents": self.extents.get_state(),
            "reservoir": self.reservoir.get_state() if self.reservoir else {},
            "num_lost_episodes": self.num_lost_episodes,
        }

    def set_state(self, state: State, ids: dict[int, Hashable]) -> None:
        """Continue from what `get_state` returned, with the ids of the stored episodes."""
        self.index.set_state(state["index"])
        self.ring.set_state(state["ring"])
        self.extents.set_state(state["extents"])
        self.num_lost_episodes = int(state["num_lost_episodes"])
        self._continued_by, self._oldest = None, 0
        for episode, key in ids.items():
            self.index.episodes.name(episode, key)
        self.growing = {key: episode for episode, key in ids.items() if self.index.episodes.extent[episode] >= 0}
        if self.reservoir:
            numbers = self.index.episodes.number
            self.reservoir.set_state(
                state["reservoir"], [ids[each] for each in sorted(ids, key=lambda one: numbers[one])]
            )
