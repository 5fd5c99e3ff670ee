"""Samples of several buffers as one list of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.lists.chosen_times import ChooseTimes
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.list_columns import check_asked
from episodia.episodes.lists.ragged import Ragged, counted, offsets_of
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay.samples.sample_display import sample_html, sample_text
from episodia.replay.samples.sampled import Sampled
from episodia.trees import leaves, map_batch
from episodia.types import Item


@final
class JoinedSample(EpisodeList[SingleAgentEpisode]):
    """Samples of several buffers, one after another; a column is one gather from each buffer.

    It has the columns that all parts have, and `weights` if one of them has weights: 1 for the other parts.
    """

    __slots__ = ("_listed", "_parts", "_samples")

    def __init__(
        self, samples: Sequence[Sampled | None], parts: Sequence[EpisodeList[SingleAgentEpisode]] | None = None
    ) -> None:
        """Join samples, None for a buffer without a part; `parts` are lists to read instead, such as forks of them.

        Raises:
            ReplayError: If the samples are of several modules.
        """
        self._samples = samples
        found = [sample for sample in samples if sample is not None]
        self._parts = list(found) if parts is None else list(parts)
        self._listed: list[SingleAgentEpisode] | None = None
        modules = list(dict.fromkeys(module_id for part in found for module_id in part.by_module()))
        if len(modules) != 1:
            raise ReplayError(
                f"found samples of the modules {modules}, expected one module. Mix buffers of one module, and sample "
                "the others apart."
            )
        self._begin([], is_multi_agent=False, modules={modules[0]: counted(sum(map(len, found)))})

    @property
    def keys(self) -> list[np.ndarray]:
        """The keys of the stretches of each buffer, for `MixedReplay.update_priorities`."""
        return [np.empty(0, np.int64) if sample is None else sample.keys for sample in self._samples]

    def load(self) -> JoinedSample:
        """Return this sample with all columns gathered, see `Sampled.load`."""
        return JoinedSample([None if sample is None else sample.load() for sample in self._samples])

    # --- A list of episodes -----------------------------------------------------------------------------------------

    @property
    def _episodes(self) -> list[Any]:
        if self._listed is None:
            self._listed = [episode for part in self._parts for episode in part]
        return self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are those of the parts."""

    def _relist(self, episodes: list[Any]) -> None:
        self._parts, self._listed = [EpisodeList(episodes)], episodes

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def forked(self) -> EpisodeList[SingleAgentEpisode]:
        """Return an equal list whose episodes can be changed without changing ours."""
        return (
            super().forked()
            if self._listed is not None
            else JoinedSample(self._samples, [part.forked() for part in self._parts])
        )

    def _as_group(self) -> EpisodeList[SingleAgentEpisode]:
        return self

    def __repr__(self) -> str:
        return sample_text(self)

    def _repr_html_(self) -> str:
        return sample_html(self)

    # --- Answers of the parts ---------------------------------------------------------------------------------------

    def _joined(self, attribute: str) -> np.ndarray:
        return np.concatenate([getattr(part, attribute) for part in self._parts])

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each stretch: int64 [B]."""
        return self._joined("lengths")

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each stretch's first step: int64 [B]."""
        return self._joined("t_started")

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of steps that each stretch has before its first one: int64 [B]."""
        return self._joined("lookbacks")

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each stretch that ends in a terminal state: bool [B]."""
        return self._joined("is_terminated")

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each stretch that ends where the episode was truncated: bool [B]."""
        return self._joined("is_truncated")

    @property
    def origins(self) -> list[Any]:
        """The id of the episode of each stretch, in a tuple with the agent if there is one."""
        return [origin for part in self._parts for origin in part.origins]

    def has(self, column: str) -> bool:
        """Tell whether there is a `column`."""
        some = any if column == Columns.WEIGHTS else all
        return some(part.has(column) for part in self._parts)

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`."""
        return all(part.has_in_observations(key) for part in self._parts)

    def extra_columns(self) -> list[str]:
        """Return the names of the extra columns that all parts have, and of their weights."""
        names = dict.fromkeys(name for part in self._parts for name in part.extra_columns())
        return [name for name in names if self.has(name)]

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`, None if it is not known."""
        return self._parts[0].space_of(column)

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        counts = self.lengths + extra
        return offsets_of(counts), counts.tolist()

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all stretches, one after another; see `EpisodeList.flat`."""
        check_asked(column, tail)
        return self._column(column, lambda part: _flat(part, column, tail))

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row the items at `shifts` from it; see `EpisodeList.windows`."""
        return self._column(column, lambda part: part.windows(column, shifts=shifts, fill=fill, tail=tail, every=every))

    def preceding(self, column: str, first: Item) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it; see `EpisodeList.preceding`."""
        return self._column(column, lambda part: part.preceding(column, first))

    def latest(self, column: str) -> Any:
        """Return the last item of `column` of each stretch, as a batch of B rows."""
        return self._column(column, lambda part: _latest(part, column)).values

    def known_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the time steps of the first and the last observation that the buffers have of each stretch's episode."""
        if self._listed is not None:
            return super().known_times()
        firsts, lasts = zip(*(part.known_times() for part in self._parts), strict=True)
        return np.concatenate(firsts), np.concatenate(lasts)

    def items_at(self, column: str, choose: ChooseTimes, *, key: str | None = None) -> Any:
        """Return the item of `column` at one of the known time steps of each stretch's episode; see `EpisodeList.items_at`."""
        if self._listed is not None:
            return super().items_at(column, choose, key=key)
        each = [part.items_at(column, choose, key=key) for part in self._parts]
        return map_batch(lambda *leaves: np.concatenate(leaves), *each)

    def _column(self, name: str, read: Callable[[EpisodeList[Any]], Ragged]) -> Ragged:
        """Return one column of the columns of all parts.

        Raises:
            ReplayError: If their nesting, dtypes or shapes differ.
        """
        if self._listed is not None:
            return read(EpisodeList(self._listed))
        columns = [read(part) for part in self._parts]
        kinds = [[(path, leaf.dtype, leaf.shape[1:]) for path, leaf in leaves(column.values)] for column in columns]
        different = next((kind for kind in kinds if kind != kinds[0]), None)
        if different is not None:
            raise ReplayError(
                f"column {name!r}: found {different} in one buffer and {kinds[0]} in another, expected the same. Convert the "
                "episodes before they are added: nothing is cast."
            )
        values = map_batch(lambda *parts: np.concatenate(parts), *(column.values for column in columns))
        counts = np.concatenate([np.diff(column.offsets) for column in columns])
        return Ragged(values, offsets_of(counts), columns[0].tail, columns[0].every)


def _flat(part: EpisodeList[Any], column: str, tail: bool) -> Ragged:
    if column == Columns.WEIGHTS and not part.has(column):
        return part.flat(Columns.REWARDS).with_values(np.ones(int(part.lengths.sum()), np.float32))
    return part.flat(column, tail=tail)


def _latest(part: EpisodeList[Any], column: str) -> Ragged:
    values = part.latest(column)
    return Ragged(values, counted(len(part) + 1))
