"""A sample: a list of episodes whose columns are gathered from the buffer when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills
from episodia.episodes.lists import gather, list_state
from episodia.episodes.lists.chosen_times import ChooseTimes
from episodia.episodes.lists.episode_list import EpisodeList, unpickled
from episodia.episodes.lists.list_columns import DERIVED, at_ends, check_asked, check_name, check_windows, with_item_at
from episodia.episodes.lists.ragged import Ragged, counted, offsets_of, sparse_rows
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import DroppedHistoryError, EpisodeKeyError, ReplayError
from episodia.replay.draws.drawn import Drawn
from episodia.replay.rows.row_columns import TRACKS
from episodia.replay.rows.row_index import TERMINATED, TRUNCATED, RowPlaces
from episodia.replay.samples.packed_sample import packed_sample
from episodia.replay.samples.sample_display import sample_html, sample_text
from episodia.replay.samples.sample_source import SampleSource
from episodia.types import Item, ModuleID, State

# Arrays without axes, which NumPy combines with others faster than numbers.
_TERMINATED, _TRUNCATED = np.array(TERMINATED, np.uint8), np.array(TRUNCATED, np.uint8)
_BOOL = np.dtype(np.bool_)


@final
class Sampled(EpisodeList[SingleAgentEpisode]):
    """Stretches of stored episodes of one module; a sequence of `SingleAgentEpisode`.

    A column of all stretches is one gather from the buffer. Episodes are made when the first one is read; afterwards this is a
    list of episodes like any other. Reading rows that were overwritten meanwhile raises `StaleSampleError`.

    Beside the stored columns there are `keys`, and, depending on selector and draw, `weights`, `discounts` and `loss_mask`.
    """

    __slots__ = ("_drawn", "_listed", "_origins", "_placed", "_source", "_times")

    def __init__(self, source: SampleSource, drawn: Drawn) -> None:
        self._source = source
        self._drawn = drawn
        self._listed: list[SingleAgentEpisode] | None = None
        self._origins: list[Any] | None = None
        self._placed: RowPlaces | None = None
        self._times = drawn.times
        self._begin([], is_multi_agent=False, modules={source.module_id: counted(len(drawn.lengths))})

    @property
    def module_id(self) -> ModuleID:
        """The module that has acted in the stretches."""
        return self._source.module_id

    @property
    def keys(self) -> np.ndarray:
        """The key of each stretch, for `ReplayBuffer.update_priorities`: int64 [B]; -1 for an agent that is absent."""
        drawn = self._drawn
        return self._source.keys(drawn.anchors) if drawn.agents is None else drawn.added[Columns.KEYS]

    @property
    def agents(self) -> list[Any] | None:
        """The agents of joint steps, in the order of their rows at each environment step; None in other samples."""
        return self._drawn.agents

    @property
    def weights(self) -> np.ndarray | None:
        """The weight of each stretch in the loss, float64 [B]; None if the selector has no weights."""
        weights = self._drawn.added.get(Columns.WEIGHTS)
        return None if weights is None else weights[self._drawn.offsets[:-1]]

    def load(self) -> Sampled:
        """Return this sample with all columns gathered: later changes of the buffer do not matter to it.

        Raises:
            StaleSampleError: If rows were overwritten already.
        """
        drawn = self._drawn
        rows, places = np.unique(drawn.rows, return_inverse=True)
        added = {**drawn.added, Columns.KEYS: self._keys_of_steps()}
        loaded = Sampled(self._source.copied(rows), drawn.with_rows(places.reshape(-1), added))
        loaded._times, loaded._origins = self.t_started, self.origins
        return loaded

    # --- A list of episodes -----------------------------------------------------------------------------------------

    @property
    def _episodes(self) -> list[Any]:
        if self._listed is None:
            self._listed = list_state.unpack(self._packed())
        return self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are made of rows."""

    def _relist(self, episodes: list[Any]) -> None:
        self._listed = episodes

    def _packed(self) -> State:
        return packed_sample(self, self._source, self._drawn)

    def __reduce__(self) -> tuple[Any, ...]:
        return super().__reduce__() if self._listed is not None else (unpickled, (self._packed(), False))

    def __len__(self) -> int:
        return len(self._drawn.lengths) if self._listed is None else len(self._listed)

    def forked(self) -> EpisodeList[SingleAgentEpisode]:
        """Return an equal list whose episodes can be changed without changing ours."""
        if self._listed is not None:
            return super().forked()
        forked = Sampled(self._source, self._drawn)
        forked._times, forked._origins, forked._placed = self._times, self._origins, self._placed
        return forked

    def _as_group(self) -> EpisodeList[SingleAgentEpisode]:
        return self

    def __repr__(self) -> str:
        return sample_text(self)

    def _repr_html_(self) -> str:
        return sample_html(self)

    # --- Answers without episodes -----------------------------------------------------------------------------------

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each stretch: int64 [B]."""
        return self._drawn.lengths if self._listed is None else super().lengths

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each stretch's first step: int64 [B]."""
        if self._listed is not None:
            return super().t_started
        if self._times is None:
            self._times = self._places.times
        return self._times

    @property
    def origins(self) -> list[Any]:
        """The id of the episode of each stretch, in a tuple with the agent if there is one."""
        if self._listed is not None:
            return super().origins
        if self._origins is None:
            self._origins = self._source.origins(self._places, self._drawn.anchors)
        return self._origins

    @property
    def _places(self) -> RowPlaces:
        """The time steps of the anchors in their episodes."""
        if self._placed is None:
            self._placed = self._source.places(self._drawn.anchors)
        return self._placed

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of steps that each stretch has before its first one: int64 [B]."""
        if self._listed is not None:
            return super().lookbacks
        drawn = self._drawn
        lookbacks = drawn.lookbacks
        if lookbacks is None:
            return np.zeros_like(drawn.lengths)
        return lookbacks[::2] if drawn.is_macro else lookbacks

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each stretch that ends in a terminal state: bool [B]."""
        return (self._drawn.ends & _TERMINATED).astype(_BOOL) if self._listed is None else super().is_terminated

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each stretch that ends where the episode was truncated: bool [B]."""
        return (self._drawn.ends & _TRUNCATED).astype(_BOOL) if self._listed is None else super().is_truncated

    def has(self, column: str) -> bool:
        """Tell whether there is a `column`."""
        if self._listed is not None:
            return super().has(column)
        check_name(column)
        return column in DERIVED or self._has_rows(column)

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`."""
        if self._listed is not None:
            return super().has_in_observations(key)
        observations = self._source.columns[Columns.OBS]
        return isinstance(observations, dict) and key in observations

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs, with `keys` and the columns that selector and draw have added."""
        if self._listed is not None:
            return super().extra_columns()
        return list(dict.fromkeys([*self._source.columns.extras, Columns.KEYS, *_beside_rewards(self._drawn)]))

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`, None if it is not known."""
        check_name(column)
        return self._source.spaces.get(column) if self._listed is None else super().space_of(column)

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        if self._listed is not None:
            return super()._extent(extra)
        counts = self._drawn.lengths + extra
        return offsets_of(counts), counts.tolist()

    def _has_rows(self, column: str) -> bool:
        """Tell whether a column is read from the buffer, or was added by the draw, as long as no episode was read."""
        if self._listed is not None:
            return False
        return column in self._source.columns or column in self._drawn.added or column == Columns.KEYS

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all stretches, one after another; see `EpisodeList.flat`."""
        if type(column) is not str or type(tail) is not bool:
            check_asked(column, tail)
        if self._listed is not None:
            return super().flat(column, tail=tail)
        drawn, source = self._drawn, self._source
        if column in source.columns.arrays and column not in drawn.added:
            if tail:
                return Ragged.known(source.take(column, drawn.track_rows), drawn.track_offsets, 1, 1, drawn.track_width)
            return Ragged.known(source.take(column, drawn.step_rows), drawn.offsets, 0, 1, drawn.width)
        offsets = drawn.offsets
        if column in DERIVED:
            if column == Columns.T:
                return Ragged(self.steps()[1], offsets)
            flags = self.is_terminated if column == Columns.TERMINATEDS else self.is_truncated
            return Ragged.known(flags if drawn.is_single else at_ends(flags, offsets), offsets, 0, 1, drawn.width)
        if column in drawn.added:
            return Ragged.known(drawn.added[column], offsets, 0, 1, drawn.width)
        if column == Columns.KEYS:
            return Ragged.known(self._keys_of_steps(), offsets, 0, 1, drawn.width)
        raise self._missing(column)

    def _keys_of_steps(self) -> np.ndarray:
        drawn = self._drawn
        if Columns.KEYS in drawn.added:
            return drawn.added[Columns.KEYS]
        return self._source.keys(drawn.step_rows)

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row the items at `shifts` from it; see `EpisodeList.windows`."""
        check_windows(column, shifts, tail, every)
        drawn, extra = self._drawn, int(tail)
        # Rewards of n steps together stand at their first step; the rewards before it are those that are stored.
        is_added = column in drawn.added and not max(shifts, default=0) < 0
        if self._listed is not None or column not in self._source.columns or is_added:
            return super().windows(column, shifts=shifts, fill=fill, tail=tail, every=every)
        indices, counts = None, drawn.lengths + extra
        if every > 1:
            indices, counts = sparse_rows(drawn.lengths, extra, every)
        if not drawn.is_macro:
            asked = counts
        elif max(shifts) > 0:
            raise ReplayError(
                f"column {column!r}: found the shifts {list(shifts)} asked for in n-step transitions, expected none above 0: "
                "steps between a step and the observation n steps later are not in the sample. Draw `Sequences`."
            )
        else:
            asked, indices = np.tile(np.array([1, extra]), len(counts)), None
        rows, outside = self._rows_of_windows(column, shifts, asked, indices)
        width = drawn.width and drawn.width + extra if every == 1 else None
        return Ragged(self._source.items_at(column, rows, outside, fill), offsets_of(counts), extra, every, width)

    def computed_windows(
        self, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
    ) -> Ragged:
        """Return time steps, flags or origins at `shifts` from each row; see `EpisodeList.computed_windows`."""
        if column == Columns.T and tail and self._drawn.is_macro:
            raise ReplayError(
                "found the time steps of observations after n-step transitions asked for, expected those of their first "
                "observations alone: a sample does not have the number of steps in between. Draw `Sequences`."
            )
        return super().computed_windows(column, shifts=shifts, fills=fills, tail=tail, every=every)

    def known_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the time steps of the first and the last observation that the buffer has of each stretch's episode.

        If the sample is loaded, or an episode of it was read, these are the time steps of the stretch itself.
        """
        if self._listed is not None or not self._source.is_open:
            return super().known_times()
        return self._source.known_times(self._drawn.anchors)

    def items_at(self, column: str, choose: ChooseTimes, *, key: str | None = None) -> Any:
        """Return the item of `column` at one of the known time steps of each stretch's episode; see `EpisodeList.items_at`."""
        if self._listed is not None or not self._source.is_open:
            return super().items_at(column, choose, key=key)
        return self._source.items_at_times(column, self._drawn.anchors, self._times, choose, key)

    def _rows_of_windows(
        self, column: str, shifts: Sequence[int], asked: np.ndarray, indices: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows at `shifts` from `asked` rows of each part, `[N, K]`, and which of them are not there."""
        drawn, is_track = self._drawn, column in TRACKS
        parts, times = drawn.parts, self.t_started
        if drawn.is_macro:
            # How far the second observation is from the first does not matter: both have what they need of the past.
            times = np.repeat(times, 2) + np.tile(np.array([0, 1]), len(times))
        counts = parts.counts(is_track=is_track)
        stretches = gather.Stretches(parts.lookbacks, counts, times, np.zeros_like(counts), asked, indices)
        try:
            positions, outside = gather.window_positions(stretches, shifts)
        except DroppedHistoryError as error:
            raise DroppedHistoryError(
                error.episode // (2 if drawn.is_macro else 1),
                error.needed,
                error.kept,
                error.t_started,
                remedy="Pass `lookback=pipeline.lookback` to `ReplayBuffer.sample`.",
            ) from None
        past = parts.rows_with_past(is_track=is_track)
        # Where there are no items at all, everything is outside; any row will do.
        return (past.take(positions) if len(past) else np.zeros_like(positions)), outside

    def preceding(self, column: str, first: Item) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it; see `EpisodeList.preceding`."""
        check_name(column)
        drawn = self._drawn
        if self._listed is not None or column not in self._source.columns:
            return super().preceding(column, first)
        rows, outside = self._rows_of_windows(column, [-1], drawn.parts.tracks, None)
        taken = self._source.take(column, rows[:, 0])
        if outside is not None:
            taken = with_item_at(outside[:, 0], first, taken)
        return Ragged(taken, drawn.track_offsets, 1)

    def _missing(self, column: str) -> ReplayError | EpisodeKeyError:
        """Return the error to raise for a column that is not in the sample."""
        if column == Columns.INFOS:
            return ReplayError(
                "found infos asked for, expected only columns that the buffer stores. Make the buffer with `infos=True`."
            )
        return EpisodeKeyError(
            f"found no column {column!r} in the sample, expected one of {sorted([*self._source.columns, *DERIVED])}. Ask "
            "for one of them, or store it in `extra_model_outputs` of the episodes."
        )


def _beside_rewards(drawn: Drawn) -> list[str]:
    return [name for name in drawn.added if name != Columns.REWARDS]
