"""The episodes that a recorder is recording, as a list that is always up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from gymnasium import spaces

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.types import Item


@final
class LiveEpisodes(EpisodeList[SingleAgentEpisode]):
    """The episodes of all lanes of a recorder at the present moment; see `EpisodeList.current`.

    `observation_keys` are the keys of observations that are dicts; empty for others. `offsets` are those of a column with one
    row for each lane.

    The latest items of a column are read from the recorder as they are. Handles of episodes are made when the first one is
    read, and kept between steps. Call `refresh` after each step.

    >>> from episodia import Recorder
    >>> from gymnasium import spaces
    >>> recorder = Recorder(spaces.Discrete(9), spaces.Discrete(2), num_lanes=2, seed=7)
    >>> recorder.reset(np.array([0, 5]))
    >>> LiveEpisodes(recorder).flat(Columns.OBS)
    Ragged(2 stretches, 2 steps of int64[2])
    """

    __slots__ = ("_listed", "_recorder", "observation_keys", "offsets")

    def __init__(self, recorder: EpisodeRecorder) -> None:
        """List the episodes of `recorder`, which must be reset before the list is read."""
        # The base counts its episodes, and the recorder may not be reset yet.
        self._listed: list[SingleAgentEpisode] | None = []
        super().__init__()
        self.is_current = True
        self._recorder = recorder
        self._listed = None
        self.offsets = np.arange(recorder.num_lanes + 1)
        self._modules = {DEFAULT_MODULE_ID: np.arange(recorder.num_lanes)}
        self._group = self
        space = recorder.observation_space
        self.observation_keys = frozenset(space.spaces) if isinstance(space, spaces.Dict) else frozenset[str]()

    def refresh(self) -> None:
        """Make the list follow the recorder, which has recorded something."""
        self._listed = None

    @property
    def _episodes(self) -> list[Any]:
        return self.agent_episodes

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore the list of the base: episodes come from the recorder."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[SingleAgentEpisode]:
        return iter(self.agent_episodes)

    @property
    def agent_episodes(self) -> list[SingleAgentEpisode]:
        """The episodes themselves."""
        if self._listed is None:
            self._listed = self._recorder.list_episodes()
        return self._listed

    def current(self) -> EpisodeList[SingleAgentEpisode]:
        """Return this list, which is current already."""
        return self

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with the key `key`."""
        return key in self.observation_keys

    def space_of(self, column: str) -> spaces.Space[Any] | None:
        """Return the space of the items of `column`, None if it is not known."""
        recorder = self._recorder
        return {Columns.OBS: recorder.observation_space, Columns.ACTIONS: recorder.action_space}.get(column)

    @property
    def row_counts(self) -> np.ndarray:
        """One row for each lane."""
        return np.ones(len(self), np.int64)

    def latest(self, column: str) -> Any:
        """Return the last item of `column` of each lane, read-only."""
        rows = self._recorder.latest_rows(column)
        return super().latest(column) if rows is None else rows

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all lanes; see `EpisodeList.flat`."""
        if column in (Columns.OBS, Columns.INFOS):
            return Ragged(self.latest(column), self.offsets)
        return super().flat(column, tail=tail)

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs that are recorded."""
        return self._recorder.extra_columns()

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return the items at `shifts` from the present moment of each lane; see `EpisodeList.windows`."""
        values = self._recorder.recent_windows(column, shifts, fill)
        if values is None:
            return super().windows(column, shifts=shifts, fill=fill, tail=tail, every=every)
        return Ragged(values, self.offsets, 0, every)
