"""Lists whose episodes are made when one is read: until then, columns come from rows that are stored together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.episodes.lists import gather
from episodia.episodes.lists.episode_list import READING, AnyEpisode_co, EpisodeList, unpickled
from episodia.episodes.lists.list_columns import (
    DERIVED,
    STORED,
    check_asked,
    check_kept,
    check_name,
    check_windows,
    with_item_at,
)
from episodia.episodes.lists.ragged import Ragged, offsets_of, rows_of_ranges, sparse_rows
from episodia.episodes.lists.unmade_rows import RowsInPlace, UnmadeRows
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.types import Item


@final
class UnmadeList(EpisodeList[AnyEpisode_co]):
    """Episodes that are all made when the first one is read.

    Making an episode takes as long as many of its steps. Until one is read, no episode can have changed, and whole columns
    are taken from `UnmadeRows`; afterwards this is a list of episodes like any other. Several threads may read it.
    """

    __slots__ = ("__weakref__", "_listed", "_origin", "_picked", "_unmade")

    def __init__(self, rows: UnmadeRows) -> None:
        """List the episodes of `rows`."""
        self._open(rows, rows.is_multi_agent, None)

    def _open(
        self,
        rows: UnmadeRows,
        is_multi_agent: bool,
        origin: UnmadeList[Any] | None,
        picked: np.ndarray | None = None,
    ) -> None:
        """List the episodes of `rows`.

        Args:
            rows: Their rows.
            is_multi_agent: Of which kind they are.
            origin: The list that makes the episodes: ours are forks of them.
            picked: Ours are not forks, but these agent episodes of `origin`.
        """
        self._unmade: UnmadeRows | None = rows
        self._origin = origin
        self._picked = picked
        self._listed: list[Any] | None = None
        is_fork = origin is not None and picked is None
        self._begin([], is_multi_agent=is_multi_agent, copies_on_access=is_fork, modules=rows.modules)

    @property
    def is_untouched(self) -> bool:
        """Whether no episode has been read yet."""
        return self._listed is None and (self._origin is None or self._origin.is_untouched)

    @property
    def _episodes(self) -> list[Any]:
        return self.list_episodes() if self._listed is None else self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are made."""

    def list_episodes(self) -> list[Any]:
        """Make all episodes now, if that has not happened, and return them."""
        with READING:
            if self._listed is None:
                self._listed = self._made()
                if self.is_multi_agent:
                    self._modules = None  # agents may join
                # From now on the episodes hold the rows that they need.
                self._unmade = None
            return self._listed

    def _made(self) -> list[Any]:
        if self._origin is None:
            return [] if self._unmade is None else self._unmade.make()
        if self._picked is None:
            return list(self._origin.list_episodes())
        episodes = self._origin.agent_episodes
        return [episodes[position] for position in self._picked.tolist()]

    def untouched_rows(self) -> UnmadeRows | None:
        """Return what columns are read from, None after an episode was read; another thread may read one meanwhile."""
        rows = self._unmade
        if rows is None or self._listed is not None or not rows.is_untouched:
            return None
        return rows if self._origin is None or self._origin.is_untouched else None

    def _relist(self, episodes: list[Any]) -> None:
        self.list_episodes()
        self._listed = episodes

    def __len__(self) -> int:
        rows = self._unmade
        return len(self._episodes) if rows is None else len(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.untouched_rows()
        packed = None if rows is None else rows.packed()
        return super().__reduce__() if packed is None else (unpickled, (packed, False))

    def forked(self) -> EpisodeList[AnyEpisode_co]:
        """Return an equal list whose episodes can be changed without changing ours."""
        rows = self.untouched_rows()
        if rows is None:
            return super().forked()
        forked: UnmadeList[AnyEpisode_co] = UnmadeList.__new__(UnmadeList)
        forked._open(rows, self.is_multi_agent, self)
        return forked

    def groups(self) -> dict[Any, EpisodeList[SingleAgentEpisode]]:
        """Return the agent episodes of each module as a list of their own."""
        rows = self.untouched_rows()
        if rows is None:
            return super().groups()
        if not self.is_multi_agent and len(rows.modules) == 1:
            return dict.fromkeys(rows.modules, self._as_group())
        return {module_id: self._picked_from(rows, positions) for module_id, positions in rows.modules.items()}

    def _picked_from(self, rows: UnmadeRows, positions: np.ndarray) -> EpisodeList[SingleAgentEpisode]:
        group: UnmadeList[SingleAgentEpisode] = UnmadeList.__new__(UnmadeList)
        group._open(rows.selected(positions), False, self, positions)
        return group

    def _as_group(self) -> EpisodeList[SingleAgentEpisode]:
        # Also after an episode was read: this list sees forks as they are made.
        alike: EpisodeList[Any] = self
        return alike

    # --- Answers without episodes -----------------------------------------------------------------------------------

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each agent episode: int64 [B]."""
        rows = self.untouched_rows()
        return super().lengths if rows is None else rows.lengths

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each agent episode's first step: int64 [B]."""
        rows = self.untouched_rows()
        return super().t_started if rows is None else rows.t_started

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of steps that each agent episode keeps before its first one: int64 [B]."""
        rows = self.untouched_rows()
        return super().lookbacks if rows is None else rows.lookbacks

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each agent episode that is terminated: bool [B]."""
        rows = self.untouched_rows()
        return super().is_terminated if rows is None else rows.is_terminated

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each agent episode that is truncated: bool [B]."""
        rows = self.untouched_rows()
        return super().is_truncated if rows is None else rows.is_truncated

    @property
    def origins(self) -> list[Any]:
        """The common key of all chunks of an agent episode; see `EpisodeList.origins`."""
        rows = self.untouched_rows()
        return super().origins if rows is None else rows.origins

    def in_place(self) -> RowsInPlace | None:
        """Return where all columns but infos are stored together; None if they are not, or an episode has no steps."""
        rows = self.untouched_rows()
        return None if rows is None else rows.in_place()

    @property
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that chose the actions of each agent episode; see `EpisodeList.weights_versions`."""
        rows = self.untouched_rows()
        return super().weights_versions if rows is None else rows.weights_versions

    def has(self, column: str) -> bool:
        """Tell whether every agent episode has `column`."""
        rows = self.untouched_rows()
        if rows is None:
            return super().has(column)
        check_name(column)
        return column in STORED or column in DERIVED or rows.has_extra(column)

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`; the first episode with a step decides."""
        rows = self.untouched_rows()
        found = None if rows is None else rows.has_in_observations(key)
        return super().has_in_observations(key) if found is None else found

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs, those of all agent episodes together."""
        rows = self.untouched_rows()
        return super().extra_columns() if rows is None else list(rows.extras)

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`, None if it is not known."""
        check_name(column)
        rows = self.untouched_rows()
        return super().space_of(column) if rows is None else rows.space_of(column)

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all agent episodes, one after another; see `EpisodeList.flat`."""
        check_asked(column, tail)
        rows, extra = self.untouched_rows(), int(tail)
        values = None if rows is None else rows.flat(column, extra)
        if rows is None or values is None:
            return super().flat(column, tail=tail)
        return Ragged(values, rows.extent(extra)[0], extra)

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        rows = self.untouched_rows()
        return super()._extent(extra) if rows is None else rows.extent(extra)

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row the items at `shifts` from it; see `EpisodeList.windows`."""
        check_windows(column, shifts, tail, every)
        rows = self.untouched_rows()
        found = None if rows is None else rows.stored(column)
        if rows is None or found is None:
            return super().windows(column, shifts=shifts, fill=fill, tail=tail, every=every)
        lengths, extra = rows.lengths, int(tail)
        indices, counts = sparse_rows(lengths, extra, every) if every > 1 else (None, lengths + extra)
        stretches = gather.Stretches(
            lookbacks=found.lookbacks,
            counts=lengths + int(found.is_track),
            t_started=rows.t_started,
            begins=np.zeros_like(counts),
            rows=counts,
            indices=indices,
        )
        places = rows_of_ranges(found.zeros - found.lookbacks, found.lookbacks + stretches.counts)
        values = gather.windows(found.take(places), stretches, shifts, fill)
        return Ragged(values, offsets_of(counts), extra, every)

    def preceding(self, column: str, first: Item) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it; see `EpisodeList.preceding`."""
        check_name(column)
        rows = self.untouched_rows()
        found = None if rows is None else rows.stored(column)
        if rows is None or found is None:
            return super().preceding(column, first)
        check_kept(found.lookbacks, rows.t_started)
        offsets = rows.extent(1)[0]
        # Without a step before, this is a row of another episode, and is overwritten below.
        taken = found.take(rows_of_ranges(found.zeros - 1, rows.lengths + 1))
        begins = offsets[:-1][found.lookbacks == 0]
        return Ragged(with_item_at(begins, first, taken), offsets, 1)
