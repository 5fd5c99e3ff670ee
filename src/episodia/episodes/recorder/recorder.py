"""The recorder: takes vector steps of many lanes, and returns them as episodes without taking them apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills
from episodia.episodes.columns.indexing import as_count
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.gather import taken
from episodia.episodes.lists.recorded_rows import recorded_list
from episodia.episodes.recorder.blocks import Tape
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder, Keep
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorded_episode import continue_episode, growing_episodes, prepared
from episodia.episodes.recorder.recorder_columns import RecorderColumn, RecorderLayout
from episodia.episodes.recorder.vector_infos import InfoEntry, VectorInfos
from episodia.episodes.recorder.vector_step_writer import (
    Lanes,
    StepInput,
    StepPlan,
    chosen_lanes,
    flags_of,
    lanes_that_begin,
    observed,
    stepped,
)
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError
from episodia.trees import fresh, frozen
from episodia.types import Item

# The infos of a step, and which lanes end with it, terminated and truncated or not.
_Ends: TypeAlias = list[tuple[int, bool, bool]]
_Outcome: TypeAlias = tuple[InfoEntry | None, _Ends]


@final
class Recorder(EpisodeRecorder):
    """Records the steps of a vector environment, and returns them as episodes.

    Each lane is one environment. A vector step is one write for each column; episodes are views on these arrays.
    `episodes` shows the running ones; `take` returns everything that was recorded since the last `take`.

    An interrupt (Ctrl-C) leaves a step either recorded or not. Where that cannot be, the next call drops the running episodes
    (see `repair`) and asks for a reset; what has ended before stays.

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
        episode_class: type[SingleAgentEpisode] = SingleAgentEpisode,
    ) -> None:
        """Make a recorder without memory; blocks are made when data comes.

        Args:
            observation_space: The space of one lane's observations; None takes the form of the first ones.
            action_space: The space of one lane's actions.
            num_lanes: The number of environments.
            lookback: How many steps of the past a chunk has in front that continues an episode.
            block_steps: The number of steps that a block takes; more if rows are small and much is taken at once. An episode
                that does not fit into one block is joined by a copy when it is taken.
            seed: What the ids of the episodes are derived from, together with lane and number; by default it is random.
            episode_class: The class of the episodes. Its constructor is not called.

        Raises:
            EpisodeError: If a number is out of its range.
        """
        super().__init__(
            observation_space, action_space, num_lanes, lookback=lookback, seed=seed, episode_class=episode_class
        )
        if as_count("block_steps", block_steps, "recorder") < 1:
            raise EpisodeError(f"recorder: found blocks of {block_steps} steps, expected at least one.")
        self._layout = RecorderLayout(observation_space, action_space, episode_class=episode_class)
        self._tape = Tape(num_lanes, block_steps)
        self._plan: StepPlan | None = None
        self._chunks: list[Chunk | None] = [None] * num_lanes
        self._never_reset = set(self._idle)
        self._finished: list[Chunk] = []
        self._has_steps = False  # since the last `take`
        self._last_time = 0.0

    def __repr__(self) -> str:
        running = self._num_lanes - len(self._idle)
        return f"Recorder({self._num_lanes} lanes, {running} running, {len(self._finished)} episodes finished)"

    @property
    def layout(self) -> RecorderLayout:
        """The columns that are recorded, and the spaces."""
        return self._layout

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

    def reset(self, observations: Item, infos: VectorInfos = None, *, lanes: Lanes = None) -> None:
        """Begin an episode in each of `lanes`.

        If a lane is in the middle of an episode, the next `take` returns its steps so far, as an episode that is not done.

        Args:
            observations: A batch with one row for each of `lanes`.
            infos: A dict in the vector form of gymnasium, or one dict for each of `lanes`.
            lanes: Indices or a boolean mask; all by default.

        Raises:
            EpisodeError: If something does not fit; nothing is recorded then.
        """
        self.repair()
        chosen, numbers = chosen_lanes(lanes, self._num_lanes)
        if not numbers:
            return
        layout, values = observed(self._layout, observations, len(numbers))
        entry = InfoEntry.of(infos, numbers)
        self._make_room()
        self._use_layout(layout)
        self._tape.write(layout.known_observations, values, chosen)
        interrupted = [self._up_to_date(lane) for lane in numbers if lane not in self._idle]
        self._is_changing = True
        self._finished += [chunk for chunk in interrupted if chunk.num_steps]
        if entry is not None:
            self._tape.write_infos(entry, chosen)
        self._tape.advance(chosen)
        self._last_time = perf_counter()
        self._begin(numbers)
        self._is_changing = False

    def step(  # noqa: PLR0913  # one argument for each thing that a vector step brings
        self,
        observations: Item,
        actions: Item,
        rewards: Item,
        terminateds: Any,
        truncateds: Any,
        infos: VectorInfos = None,
        extras: Mapping[str, Any] | None = None,
        *,
        lanes: Lanes = None,
        resets: np.ndarray | Sequence[bool] | None = None,
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
            resets: A mask of those among `lanes` that do not step, but show the first observation of the next episode
                (gymnasium's autoreset mode NEXT_STEP): their action, reward and extras are ignored.

        Raises:
            EpisodeError: If something does not fit; nothing is recorded then.
        """
        began: list[int] = []
        if resets is not None or self._idle or self._is_changing:
            self.repair()
            began = lanes_that_begin(resets, lanes, self._idle, self._num_lanes)
        plan = self._plan
        if (
            plan is None
            or lanes is not None
            or not plan.write(self._tape, (observations, actions, rewards, terminateds, truncateds), extras)
        ):
            step = StepInput(observations, actions, rewards, terminateds, truncateds, infos, extras)
            self._step_carefully(step, lanes, began)
            return
        # To look for a byte takes a tenth of the time of an operation of NumPy.
        if infos or began or 1 in terminateds.tobytes() or 1 in truncateds.tobytes():
            rows = (terminateds | truncateds).nonzero()[0].tolist()
            ends = [(row, terminateds.item(row), truncateds.item(row)) for row in rows]
            self._commit(None, self._outcome(range(self._num_lanes), ends, infos, began), began)
        else:
            tape = self._tape
            if tape.cursor is None:
                tape.advance(None)
            else:
                tape.cursor += 1
            self._last_time = perf_counter()

    def _step_carefully(self, step: StepInput, lanes: Lanes, began: list[int]) -> None:
        """Record a step without a plan, or one that differs from the plan."""
        chosen, numbers = chosen_lanes(lanes, self._num_lanes)
        if not numbers:
            return
        layout, values = stepped(self._layout, step, len(numbers), is_first=not self._has_steps)
        terminateds, truncateds = flags_of(step, len(numbers))
        rows = (terminateds | truncateds).nonzero()[0].tolist()
        ends = [(numbers[row], terminateds.item(row), truncateds.item(row)) for row in rows]
        outcome = self._outcome(numbers, ends, step.infos, began)
        self._make_room()
        self._use_layout(layout)
        for column, leaves in values:
            self._tape.write(column, leaves, chosen)
        self._commit(chosen, outcome, began)
        self._has_steps = True
        if self._plan is None:
            self._plan = StepPlan.of(self._layout, self._tape)

    def _outcome(self, numbers: Sequence[int], ends: _Ends, infos: VectorInfos, began: list[int]) -> _Outcome:
        """Return the infos and the ends of a step, checked."""
        both = set(began).intersection([lane for lane, _, _ in ends]) if began and ends else None
        if both:
            raise EpisodeError(
                f"recorder: found the end of an episode in the lanes {sorted(both)}, expected none in those that are reset at "
                "this step. Nothing was recorded."
            )
        return InfoEntry.of(infos, numbers), ends

    def _commit(self, chosen: np.ndarray | None, outcome: _Outcome, began: list[int]) -> None:
        """Make the written step visible by moving the cursors; this cannot fail."""
        entry, ends = outcome
        self._is_changing = True
        if entry is not None:
            self._tape.write_infos(entry, chosen)
        self._tape.advance(chosen)
        self._last_time = perf_counter()
        if began:
            self._begin(began)
        if ends:
            finished = [self._known(lane) for lane, _, _ in ends]
            self._bring_up_to_date(finished)
            for chunk, (lane, terminated, truncated) in zip(finished, ends, strict=True):
                chunk.is_terminated, chunk.is_truncated = terminated, truncated
                self._finished.append(chunk)
                self._idle.add(lane)
        self._is_changing = False

    def _begin(self, lanes: Sequence[int]) -> None:
        """Begin an episode at the cursor of each of `lanes`."""
        seed, numbers, block = self._seed, self._numbers, self._tape.block
        cursor, cursor_of = self._tape.cursor, self._tape.cursor_of
        weights_versions = () if self._weights_version is None else ((0, self._weights_version),)
        for lane in lanes:
            first = cursor_of(lane) if cursor is None else cursor
            chunk = self._chunks[lane] = Chunk(lane, f"{seed}-{lane}-{numbers[lane]}", block, first)
            numbers[lane] += 1
            chunk.start_time, chunk.weights_versions = self._last_time, weights_versions
        self._idle.difference_update(lanes)
        self._never_reset.difference_update(lanes)
        for column in self._layout.columns():
            if column.written:
                column.written.difference_update(lanes)

    def _use_layout(self, layout: RecorderLayout) -> None:
        """Have exactly the columns of `layout` in the current block."""
        if layout is self._layout:
            return
        self._is_changing = True
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
        self._is_changing = False

    def _make_room(self) -> None:
        """Chain another block if a lane has no slot left."""
        if self._tape.has_room():
            return
        block, cursor = self._tape.next_block(self._layout.columns(), self._lookback, fitted=False)
        running = self._running()
        self._is_changing = True
        for chunk in running:
            chunk.move(block, cursor)
        self._tape.switch(block, cursor)
        self._plan = None
        self._is_changing = False

    def repair(self) -> dict[str, int]:
        """Drop the running episodes if a call was interrupted in the middle; else do nothing.

        All lanes are idle then. Episodes that have ended stay, and so does what an interrupted `take` was about to return.

        Returns:
            For the id of each episode that was dropped how many steps are lost.
        """
        if not self._is_changing:
            return {}
        waiting, lost = set(map(id, self._finished)), {}
        for lane, chunk in enumerate(self._chunks):
            if chunk is not None and lane not in self._idle and id(chunk) not in waiting:
                if chunk.block is self._tape.block:
                    chunk.cursor = self._tape.cursor_of(lane)
                lost[chunk.id_] = max(0, chunk.num_steps)
        self._tape.restart(self._layout.columns())
        self._plan = None
        self._idle, self._never_reset = set(range(self._num_lanes)), set(range(self._num_lanes))
        self._is_changing = False
        return lost

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
        """Return the chunk of `lane`; its cursor may be out of date."""
        chunk = self._chunks[lane]
        if chunk is None:
            raise EpisodeError(f"recorder: found lane {lane} without an episode, expected a reset. Call `reset` first.")
        return chunk

    def _bring_up_to_date(self, chunks: Iterable[Chunk]) -> None:
        """Set the cursors of running chunks, of which there may be hundreds."""
        cursor, cursor_of, last_time = self._tape.cursor, self._tape.cursor_of, self._last_time
        for chunk in chunks:
            chunk.cursor = cursor_of(chunk.lane) if cursor is None else cursor
            if chunk.t_at_slot_0 + chunk.cursor > chunk.t_started:
                chunk.last_step_time = last_time

    # --- Reading ---------------------------------------------------------------------------------------------------

    def episode(self, lane: int) -> SingleAgentEpisode:
        """Return the episode of one lane as it is now: growing while it runs, without a copy.

        It is always the same object for one chunk, and is brought up to date by this call, not by steps. `take` finalizes and
        returns that object. Later readers see what is written into it.
        """
        return self._episodes_of((self._up_to_date(lane),))[0]

    def _episodes_of(self, chunks: Sequence[Chunk]) -> list[SingleAgentEpisode]:
        """Return the episodes of `chunks`, which are up to date."""
        for chunk in chunks:
            listed = None if chunk.handed_to is None else chunk.handed_to()
            if listed is not None:
                listed.list_episodes()  # the episode is one of them, and the caller may change it
        return growing_episodes(chunks, self._layout)

    def list_episodes(self) -> list[SingleAgentEpisode]:
        """Return the episodes of all lanes, in order; see `episode`. Of an idle lane it is the one that has ended."""
        chunks: Any = self._chunks
        if None in chunks:
            self._known(chunks.index(None))  # raises
        if self._idle:
            self._bring_up_to_date([chunk for chunk in chunks if chunk.lane not in self._idle])
            return self._episodes_of(chunks)
        self._bring_up_to_date(chunks)
        return growing_episodes(chunks, self._layout)  # no running chunk was returned by `take`

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs that are recorded."""
        return list(self._layout.extras)

    def latest_rows(self, column: str) -> Any:
        """Return what `latest` does; None if the items have to be read from the episodes: they are not in the block."""
        if column == Columns.INFOS:
            return None
        layout, tape = self._layout, self._tape
        found = layout.observations if column == Columns.OBS else None
        if found is None:
            found = layout.column(column)
        if found.written or (self._never_reset if found.is_track else not self._all_have(found)):
            return None
        ahead = 0 if found.is_track else -1
        if tape.cursor is not None:
            if found.is_plain:
                return tape.block.leaves[found][0].alias[:, tape.cursor + ahead]
            leaves = [leaf.alias[:, tape.cursor + ahead] for leaf in tape.block.leaves[found]]
        else:
            lanes, slots = np.arange(self._num_lanes), tape.cursors + ahead
            leaves = [frozen(leaf.array[lanes, slots]) for leaf in tape.block.leaves[found]]
        return found.nested([fresh(leaf) if leaf.dtype.hasobject else leaf for leaf in leaves])

    def _all_have(self, column: RecorderColumn) -> bool:
        """Tell whether the last step of each lane is in the current block, at its place."""
        chunks = [self._up_to_date(lane) for lane in range(self._num_lanes)]
        return all(chunk.count(column) and chunk.cursor - 1 >= chunk.start for chunk in chunks)

    def recent_windows(self, column: str, shifts: Sequence[int], fill: Item | Fills) -> Any:
        """Return the items of `column` at `shifts` from the last observation of each lane: leaves `[lanes, K, ...]`.

        Returns:
            None if only episodes have the items: they are not in the block, or an episode was written into.
        """
        found, block = self._column_in_block(column), self._tape.block
        known = [chunk for chunk in self._chunks if chunk is not None]
        if found is None or not all(chunk.is_only_in(block) for chunk in known) or len(known) < self._num_lanes:
            return None
        self._running()
        places = [(chunk.cursor, chunk.start, -chunk.t_at_slot_0) for chunk in known]
        cursors, starts, births = np.array(places, np.int64).T[:, :, None]
        slots = cursors + np.asarray(shifts, np.int64)
        outside = (slots < births) | (slots > cursors - (not found.is_track))
        if ((slots < starts) & ~outside).any():
            return None
        positions = np.where(outside, 0, slots + np.arange(len(known))[:, None] * block.slots)
        values = found.nested([leaf.flat for leaf in block.leaves[found]])
        fills = fill if isinstance(fill, Fills) else Fills((fill,) * len(shifts))
        return taken(values, positions, outside if outside.any() else None, fills)

    def _column_in_block(self, name: str) -> RecorderColumn | None:
        layout = self._layout
        if name not in (Columns.OBS, Columns.ACTIONS, Columns.REWARDS) and name not in layout.extras:
            return None
        if (name == Columns.ACTIONS and layout.actions is None) or (name == Columns.REWARDS and layout.rewards is None):
            return None  # before the first step
        column = layout.column(name)
        return None if column.written or any(leaf.dtype.hasobject for leaf in column.leaves) else column

    # --- Taking -----------------------------------------------------------------------------------------------------

    def take(self, keep: Keep = bool) -> EpisodeList[SingleAgentEpisode]:
        """Return everything that was recorded since the last call: finished episodes, and the steps of running ones.

        They are finalized, read-only views on a block that is never written again; changing one copies the column first. Large
        rows that fill several blocks are copied, and the blocks used again. Running episodes go on in a new block, with their
        lookback in front. An episode without a step stays here.

        Args:
            keep: Called with the list before the recorder forgets it. After an interrupt it may be called with it again.

        Raises:
            ShapeError: If items that were written into an episode do not fit together; then nothing is taken.
        """
        self.repair()
        going_on = self._running()
        chunks = [*self._finished, *[chunk for chunk in going_on if chunk.num_steps]]
        if not chunks:
            self._has_steps, self._plan = False, None
            return EpisodeList()
        storages = prepared(chunks, self._layout, copied=self._tape.has_chained and self._layout.has_large_rows)
        self._cut(going_on, chunks)
        return self._given(recorded_list(list(chunks), self._layout, storages), keep)

    def _cut(self, going_on: list[Chunk], chunks: list[Chunk]) -> None:
        """Let the chunks of running lanes wait among `chunks` to be returned, and go on in another block."""
        block, cursor = self._tape.next_block(self._layout.columns(), self._lookback, fitted=True)
        self._is_changing = True
        self._finished = chunks  # from here on an interrupt loses nothing of them
        for chunk in going_on:
            if not chunk.num_steps:
                chunk.move(block, cursor)
                continue
            following = self._chunks[chunk.lane] = chunk.successor(block, cursor)
            if chunk.episode is not None:
                continue_episode(chunk, following, self._layout, self._lookback)
        self._tape.switch(block, cursor)
        self._plan = None
        self._is_changing = False

    def _given(self, episodes: EpisodeList[SingleAgentEpisode], keep: Keep) -> EpisodeList[SingleAgentEpisode]:
        """Return what was taken, and forget it."""
        keep(episodes)
        self._finished, self._has_steps = [], False
        self._tape.release()
        return episodes

    def take_finished(self, keep: Keep = bool) -> EpisodeList[SingleAgentEpisode]:
        """Return the episodes that have ended since the last call, with large rows as copies; running ones stay whole.

        Their slots are not written again, but the block is, until it is full or `take` is called.

        Args:
            keep: See `take`.

        Raises:
            ShapeError: See `take`.
        """
        self.repair()
        storages = prepared(self._finished, self._layout, copied=self._layout.has_large_rows)
        episodes = recorded_list(list(self._finished), self._layout, storages) if self._finished else EpisodeList()
        keep(episodes)
        self._finished = []
        self._tape.release(still_read=[part.block for chunk in self._running() for part in chunk.parts])
        return episodes

    # --- Lanes ------------------------------------------------------------------------------------------------------

    def truncate(self, lanes: Iterable[int]) -> list[str]:
        """End the running episodes of `lanes` with the last step that they have: truncated. The lanes are idle then.

        Return the ids of those with steps since the last `take`; the others leave nothing to return.

        >>> recorder = Recorder(None, None, num_lanes=1, seed=0)
        >>> recorder.reset(np.zeros(1))
        >>> recorder.step(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1, bool), np.zeros(1, bool))
        >>> recorder.truncate([0])
        ['0-0-0']
        >>> recorder.idle_lanes, recorder.take()
        ([0], ...)
        """
        left = []
        for lane in lanes:
            if lane not in self._idle:
                chunk = self._up_to_date(lane)
                self._is_changing = True
                chunk.is_truncated = True
                if chunk.num_steps:
                    self._finished.append(chunk)
                    left.append(chunk.id_)
                self._idle.add(lane)
                self._is_changing = False
        return left

    def drop(self, lanes: Iterable[int]) -> dict[str, int]:
        """Forget the running episodes of `lanes`, which are idle then; return for the id of each how many steps are lost.

        Steps that were returned before do not count.
        """
        lost = {}
        for lane in lanes:
            if lane not in self._idle:
                chunk = self._up_to_date(lane)
                lost[chunk.id_] = chunk.num_steps
                self._idle.add(lane)
        return lost

    def episode_id(self, lane: int) -> str:
        """Return the id of the episode of `lane`, the last one if it is idle."""
        return self._up_to_date(lane).id_

    def steps_waiting(self) -> int:
        """Return how many steps were recorded and not returned yet."""
        if not self._has_steps:
            return 0
        chunks = [*self._finished, *self._running()]
        return sum(chunk.num_steps for chunk in chunks)

    def episodes_here(self) -> dict[str, SingleAgentEpisode]:
        """Return, by id and in list form, the episodes that are running, or have ended and were not returned yet."""
        chunks = [*self._finished, *self._running()]
        return {episode.id_: episode for episode in growing_episodes(chunks, self._layout)}

    def is_surely_finite(self) -> bool:
        """Tell whether there is no NaN or infinite number in the observations and rewards since the last `take`.

        It looks at whole blocks, which costs little. It may say no without reason: slots that were never written count, too.
        """
        tape, layout = self._tape, self._layout
        if tape.cursor is None or tape.has_chained or layout.observations is None or layout.rewards is None:
            return False
        # A sum may overflow although all terms are finite; the caller then checks them one by one.
        with np.errstate(all="ignore"):
            return all(
                leaf.is_object
                or leaf.array.dtype.kind != "f"
                or math.isfinite(leaf.array[:, : tape.cursor + ahead].sum())
                for column, ahead in ((layout.observations, 1), (layout.rewards, 0))
                for leaf in tape.block.leaves[column]
            )

    def is_whole(self, lane: int) -> bool:
        """Tell whether `lane` has a running episode of which no chunk was returned yet."""
        return lane not in self._idle and self._up_to_date(lane).t_started == 0
