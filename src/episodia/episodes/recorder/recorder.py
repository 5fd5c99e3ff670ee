"""Recording vector steps of many lanes at once, and handing them out as episodes without taking them apart."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.indexing import as_count
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.recorded_list import RecordedList
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorded_episode import Layout, continue_episode, growing_episode, prepared
from episodia.episodes.recorder.recorder_columns import RecorderColumn
from episodia.episodes.recorder.recorder_input import (
    Flags,
    Lanes,
    StepInput,
    chosen_lanes,
    flags_of,
    lanes_that_begin,
    observed,
    stepped,
)
from episodia.episodes.recorder.tape import Tape
from episodia.episodes.recorder.vector_infos import InfoEntry
from episodia.episodes.recorder.vector_step import StepPlan
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError
from episodia.trees import fresh, frozen

# The infos of a step, and which lanes end with it, terminated and truncated or not.
_Outcome: TypeAlias = tuple[InfoEntry | None, list[tuple[int, bool, bool]]]


@final
class Recorder:
    """Takes the steps of a vector environment as they come, and gives them back as episodes.

    Each lane is one environment. A vector step is one write for each column; episodes are views on what was written. Those
    that run can be looked at with `episodes`; `take` hands out all that was recorded since the last time.

    >>> from gymnasium import spaces
    >>> recorder = Recorder(spaces.Discrete(9), spaces.Discrete(2), num_lanes=2, seed=7)
    >>> recorder.reset(np.array([0, 5]))
    >>> recorder.step(np.array([1, 6]), np.array([0, 1]), np.array([0.5, 1.0]), np.array([False, True]), np.zeros(2, bool))
    >>> recorder.latest(Columns.OBS)
    array([1, 6])
    >>> recorder.take()[0]
    SingleAgentEpisode(len=1, return=1, terminated, finalized, id_='7-1-0')
    """

    def __init__(
        self,
        observation_space: Space[Any] | None,
        action_space: Space[Any] | None,
        num_lanes: int,
        *,
        lookback: int = 1,
        block_steps: int = 256,
        seed: int | None = None,
    ) -> None:
        """Make a recorder without memory; blocks are made when data comes.

        Args:
            observation_space: The space of one lane's observations; None takes whatever the first ones are.
            action_space: The space of one lane's actions.
            num_lanes: How many environments there are.
            lookback: How many steps of the past a chunk has in front that continues an episode.
            block_steps: How many steps a block takes; more if rows are small and much is handed out at once. What does not
                fit into one block is joined by a copy when it is handed out.
            seed: What the ids of the episodes are derived from, together with lane and number; by default it is random.

        Raises:
            EpisodeError: If a number is out of its range.
        """
        self._num_lanes = as_count("num_lanes", num_lanes, "recorder")
        self._lookback = as_count("lookback", lookback, "recorder")
        if not self._num_lanes or as_count("block_steps", block_steps, "recorder") < 1:
            raise EpisodeError(
                f"recorder: found {num_lanes} lanes and blocks of {block_steps} steps, expected at least one of both."
            )
        self._seed = uuid.uuid4().hex if seed is None else str(seed)
        self._layout = Layout(observation_space, action_space)
        self._tape = Tape(num_lanes, block_steps)
        self._plan: StepPlan | None = None
        self._chunks: list[Chunk | None] = [None] * num_lanes
        self._numbers = [0] * num_lanes  # of the next episode
        self._idle = set(range(num_lanes))  # lanes that have ended, or were never reset
        self._never_reset = set(self._idle)
        self._finished: list[Chunk] = []
        self._has_steps = False  # since the last `take`
        self._last_time = 0.0
        self._weights_version: int | None = None

    def __repr__(self) -> str:
        running = self._num_lanes - len(self._idle)
        return f"Recorder({self._num_lanes} lanes, {running} running, {len(self._finished)} episodes finished)"

    @property
    def num_lanes(self) -> int:
        """How many environments are recorded."""
        return self._num_lanes

    @property
    def lookback(self) -> int:
        """How many steps of the past a chunk has in front that continues an episode; can be set, for those that follow."""
        return self._lookback

    @lookback.setter
    def lookback(self, lookback: int) -> None:
        self._lookback = as_count("lookback", lookback, "recorder")

    @property
    def idle_lanes(self) -> list[int]:
        """The lanes whose episode has ended, or that were never reset: those that need a reset."""
        return sorted(self._idle)

    @property
    def weights_version(self) -> int | None:
        """The version of the weights that choose the actions; setting it holds from the current step of each lane on."""
        return self._weights_version

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self._weights_version = version
        for chunk in self._running():
            chunk.weights_versions = versions.with_version(chunk.weights_versions, chunk.t, version)
            if chunk.episode is not None:
                self.episode(chunk.lane).weights_version = version

    # --- Recording --------------------------------------------------------------------------------------------------

    def reset(self, observations: Any, infos: Any = None, *, lanes: Lanes = None) -> None:
        """Begin an episode in each of `lanes`.

        If one of them is in the middle of an episode, what it has recorded is handed out as it is, not done.

        Args:
            observations: A batch with one row for each of `lanes`.
            infos: A dict in the vector form of gymnasium, or one dict for each of `lanes`.
            lanes: Indices or a boolean mask; all by default.

        Raises:
            EpisodeError: If something does not fit; nothing is recorded then.
        """
        chosen, numbers = chosen_lanes(lanes, self._num_lanes)
        if not numbers:
            return
        layout, values = observed(self._layout, observations, len(numbers))
        entry = InfoEntry.of(infos, numbers)
        self._make_room()
        interrupted = [self._up_to_date(lane) for lane in numbers if lane not in self._idle]
        self._finished += [chunk for chunk in interrupted if chunk.num_steps]
        self._use_layout(layout)
        self._tape.write(layout.known_observations, values, chosen)
        if entry is not None:
            self._tape.write_infos(entry, chosen)
        self._tape.advance(chosen)
        self._last_time = perf_counter()
        self._begin(numbers)

    def step(  # noqa: PLR0913  # one argument for each thing that a vector step brings
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminateds: Any,
        truncateds: Any,
        infos: Any = None,
        extras: Mapping[str, Any] | None = None,
        *,
        lanes: Lanes = None,
        resets: Any = None,
    ) -> None:
        """Record one step of each of `lanes`, which must be running.

        Columns take the dtype and the shape of their first data, if the spaces allow it, and no other afterwards. The
        names of `extras` may change with the first step after a `take`.

        Args:
            observations: The observations after the actions: a batch with one row for each of `lanes`.
            actions: A batch of actions.
            rewards: One number for each lane.
            terminateds: One flag for each lane: whether the episode ended by the rules of the environment.
            truncateds: One flag for each lane: whether the episode was stopped from outside.
            infos: A dict in the vector form of gymnasium, or one dict for each of `lanes`.
            extras: Batches of what else the module computed, by name.
            lanes: Indices or a boolean mask; all by default.
            resets: A mask of those among `lanes` for which this is no step but the first observation of the next episode
                (gymnasium's autoreset mode NEXT_STEP): their action, reward and extras are ignored.

        Raises:
            EpisodeError: If something does not fit; nothing is recorded then.
        """
        began: list[int] = []
        if resets is not None or self._idle:
            began = lanes_that_begin(resets, lanes, self._idle, self._num_lanes)
        plan = self._plan
        if (
            plan is None
            or lanes is not None
            or not plan.write(self._tape, (observations, actions, rewards, terminateds, truncateds), extras)
        ):
            step = StepInput(observations, actions, rewards, terminateds, truncateds, infos, extras)
            self._step_carefully(step, lanes, began)
        elif infos or began or (terminateds | truncateds).nonzero()[0].size:
            flags = Flags(terminateds, truncateds)
            self._commit(None, self._outcome(range(self._num_lanes), flags, infos, began), began)
        else:
            self._tape.advance(None)
            self._last_time = perf_counter()

    def _step_carefully(self, step: StepInput, lanes: Lanes, began: list[int]) -> None:
        """Record a step for which there is no plan, or that does not look as planned."""
        chosen, numbers = chosen_lanes(lanes, self._num_lanes)
        if not numbers:
            return
        layout, values = stepped(self._layout, step, len(numbers), is_first=not self._has_steps)
        outcome = self._outcome(numbers, flags_of(step, len(numbers)), step.infos, began)
        self._make_room()
        self._use_layout(layout)
        for column, leaves in values:
            self._tape.write(column, leaves, chosen)
        self._commit(chosen, outcome, began)
        self._has_steps = True
        if self._plan is None:
            self._plan = StepPlan.of(self._layout, self._tape)

    def _outcome(self, numbers: Sequence[int], flags: Flags, infos: Any, began: list[int]) -> _Outcome:
        """Return what a step brings beside its columns, checked."""
        terminateds, truncateds = flags
        rows = (terminateds | truncateds).nonzero()[0].tolist()
        ends = [(numbers[row], terminateds.item(row), truncateds.item(row)) for row in rows]
        both = set(began).intersection([lane for lane, _, _ in ends]) if began and ends else None
        if both:
            raise EpisodeError(
                f"recorder: found the end of an episode in the lanes {sorted(both)}, expected none in those that are reset at "
                "this step. Nothing was recorded."
            )
        return InfoEntry.of(infos, numbers), ends

    def _commit(self, chosen: np.ndarray | None, outcome: _Outcome, began: list[int]) -> None:
        """Make the step visible that was written after the cursors; this cannot fail."""
        entry, ends = outcome
        if entry is not None:
            self._tape.write_infos(entry, chosen)
        self._tape.advance(chosen)
        self._last_time = perf_counter()
        if began:
            self._begin(began)
        if not ends:
            return
        finished = [self._known(lane) for lane, _, _ in ends]
        self._bring_up_to_date(finished)
        for chunk, (lane, terminated, truncated) in zip(finished, ends, strict=True):
            chunk.is_terminated, chunk.is_truncated = terminated, truncated
            self._idle.add(lane)
        self._finished += finished

    def _begin(self, lanes: Sequence[int]) -> None:
        """Begin an episode at the cursor of each of `lanes`."""
        seed, numbers, block, cursor_of = self._seed, self._numbers, self._tape.block, self._tape.cursor_of
        weights_versions = () if self._weights_version is None else ((0, self._weights_version),)
        for lane in lanes:
            chunk = self._chunks[lane] = Chunk(lane, f"{seed}-{lane}-{numbers[lane]}", block, cursor_of(lane))
            numbers[lane] += 1
            chunk.start_time, chunk.weights_versions = self._last_time, weights_versions
        self._idle.difference_update(lanes)
        self._never_reset.difference_update(lanes)
        for column in self._layout.columns():
            if column.written:
                column.written.difference_update(lanes)

    def _use_layout(self, layout: Layout) -> None:
        """Have exactly the columns of `layout` in the current block."""
        if layout is self._layout:
            return
        block = self._tape.block
        before, after = self._layout.columns(), layout.columns()
        for column in after:
            if column not in before:
                block.add(column)
                for chunk in self._running():
                    chunk.add_without_past(column)
        for column in before:
            if column not in after:
                block.remove(column)
        self._layout, self._plan = layout, None

    def _make_room(self) -> None:
        """See to it that all lanes can take a slot more: chain another block if they cannot."""
        if self._tape.has_room():
            return
        block, cursor = self._tape.next_block(self._layout.columns(), self._lookback, fitted=False)
        for chunk in self._running():
            chunk.move(block, cursor)
        self._tape.switch(block, cursor)
        self._plan = None

    def _running(self) -> list[Chunk]:
        """Return the chunks that go on, up to date."""
        idle = self._idle
        running = [chunk for lane, chunk in enumerate(self._chunks) if chunk is not None and lane not in idle]
        self._bring_up_to_date(running)
        return running

    def _up_to_date(self, lane: int) -> Chunk:
        chunk = self._known(lane)
        if lane not in self._idle:
            self._bring_up_to_date((chunk,))
        return chunk

    def _known(self, lane: int) -> Chunk:
        """Return the chunk of `lane`, which may not know yet how far it has come."""
        chunk = self._chunks[lane]
        if chunk is None:
            raise EpisodeError(f"recorder: found lane {lane} without an episode, expected a reset. Call `reset` first.")
        return chunk

    def _bring_up_to_date(self, chunks: Iterable[Chunk]) -> None:
        """Let running chunks know how far their lanes have come; there may be hundreds of them."""
        cursor, cursor_of, last_time = self._tape.cursor, self._tape.cursor_of, self._last_time
        for chunk in chunks:
            chunk.cursor = cursor_of(chunk.lane) if cursor is None else cursor
            if chunk.t_at_slot_0 + chunk.cursor > chunk.t_started:
                chunk.last_step_time = last_time

    # --- Looking at what is recorded --------------------------------------------------------------------------------

    def episode(self, lane: int) -> SingleAgentEpisode:
        """Return the episode of one lane as it is now: growing while it runs, without a copy.

        It is always the same object for one chunk, and is brought up to date by this call, not by steps. When it is handed
        out by `take`, that very object becomes finalized. What is written into it is what later readers see.
        """
        chunk = self._up_to_date(lane)
        listed = None if chunk.handed_to is None else chunk.handed_to()
        if listed is not None:
            listed.list_episodes()  # it is one of them, and may be changed by who asks
        if chunk.is_handed_out and chunk.episode is not None:
            return chunk.episode
        return growing_episode(chunk, self._layout)

    def episodes(self) -> EpisodeList:
        """Return the episodes of all lanes, in order; see `episode`. Of an idle lane it is the one that has ended."""
        return EpisodeList(self.episode(lane) for lane in range(self._num_lanes))

    def latest(self, column: str) -> Any:
        """Return the last item of `column` of each lane: a read-only batch, without a copy if lanes step together.

        Where somebody wrote into an episode, it is what was written.

        Raises:
            EpisodeKeyError: If there is no such column.
            EpisodeIndexError: If a lane has no item yet.
        """
        if column == Columns.INFOS:
            return self.episodes().latest(column)
        found = self._layout.column(column)
        tape, ahead = self._tape, 0 if found.is_track else -1
        if found.written or not self._all_have(found):
            return self.episodes().latest(column)
        if tape.cursor is not None:
            leaves = [leaf.alias[:, tape.cursor + ahead] for leaf in tape.block.leaves(found)]
        else:
            lanes, slots = np.arange(self._num_lanes), tape.cursors + ahead
            leaves = [frozen(leaf.array[lanes, slots]) for leaf in tape.block.leaves(found)]
        return found.nested([fresh(leaf) if leaf.dtype.hasobject else leaf for leaf in leaves])

    def _all_have(self, column: RecorderColumn) -> bool:
        """Tell whether the last item of each lane is in the current block, at its place."""
        if column.is_track:
            return not self._never_reset
        chunks = [self._up_to_date(lane) for lane in range(self._num_lanes)]
        return all(chunk.count(column) and chunk.cursor - 1 >= chunk.start for chunk in chunks)

    # --- Handing out ------------------------------------------------------------------------------------------------

    def take(self) -> EpisodeList:
        """Hand out all that was recorded since the last time: finished episodes, and what there is of running ones.

        They are finalized, read-only views on a block that is never written again; changing one copies the column first. Large
        rows that fill several blocks are copied, and the blocks used again. Running episodes go on in a new block, with their
        lookback in front. An episode without a step stays here.

        Raises:
            ShapeError: If somebody wrote items into an episode that do not fit together; nothing is handed out then.
        """
        going_on = self._running()
        running = [chunk for chunk in going_on if chunk.num_steps]
        chunks = [*self._finished, *running]
        if not chunks:
            self._has_steps, self._plan = False, None
            return EpisodeList()
        storages = prepared(chunks, self._layout, copied=self._tape.has_chained and self._layout.has_large_rows)
        block, cursor = self._tape.next_block(self._layout.columns(), self._lookback, fitted=True)
        successors = [chunk.successor(block, cursor) for chunk in running]
        for chunk, following in zip(running, successors, strict=True):
            if chunk.episode is not None:
                continue_episode(chunk, following, self._layout, self._lookback)
        for chunk in going_on:
            if not chunk.num_steps:
                chunk.move(block, cursor)
        for following in successors:
            self._chunks[following.lane] = following
        self._tape.switch(block, cursor)
        self._finished, self._has_steps, self._plan = [], False, None
        episodes = RecordedList(chunks, self._layout, storages)
        self._tape.release()
        return episodes

    def take_finished(self) -> EpisodeList:
        """Hand out the episodes that have ended since the last time, those with large rows as copies; running ones stay whole.

        No slot that was handed out is written again, but its block is, until it is full or `take` is called.

        Raises:
            ShapeError: See `take`.
        """
        storages = prepared(self._finished, self._layout, copied=self._layout.has_large_rows)
        chunks, self._finished = self._finished, []
        episodes = RecordedList(chunks, self._layout, storages) if chunks else EpisodeList()
        self._tape.release(still_read=[part.block for chunk in self._running() for part in chunk.parts])
        return episodes
