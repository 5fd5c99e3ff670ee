"""Reading and overwriting the columns of a single-agent episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.episodes.columns.indexing import Index, is_single
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.single_agent import single_agent_columns as columns
from episodia.episodes.single_agent import single_agent_stepping as stepping
from episodia.errors import EpisodeKeyError, EpisodiaError


class SingleAgentAccess:
    """The getters and setters of a `SingleAgentEpisode`, which has the columns: never used alone.

    What an index, a fill and new data mean is told by `LookbackBuffer.get` and `LookbackBuffer.set`; errors say also in which
    episode and column.
    """

    __slots__ = ()

    id_: str
    t: int
    observations: LookbackBuffer
    infos: LookbackBuffer
    actions: LookbackBuffer
    rewards: LookbackBuffer
    extra_model_outputs: dict[str, LookbackBuffer]

    def get_observations(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return observations, of which there are `len(self) + 1`; indices are those of `LookbackBuffer.get`.

        >>> from episodia import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(observations=[7, 8, 9], actions=[0, 1], rewards=[0.0, 1.0], len_lookback_buffer=1)
        >>> episode.get_observations()
        [8, 9]
        >>> episode.get_observations(slice(-2, 1), neg_index_as_lookback=True, fill=0)
        [0, 7, 8]
        """
        try:
            return self.observations._get(indices, neg_index_as_lookback, fill, one_hot_discrete)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "observations")

    def get_infos(self, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Any = None) -> Any:
        """Return info dicts, of which there are `len(self) + 1`, always as dicts in lists."""
        try:
            return self.infos._get(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "infos")

    def get_actions(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return actions; indices are those of `LookbackBuffer.get`."""
        try:
            return self.actions._get(indices, neg_index_as_lookback, fill, one_hot_discrete)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "actions")

    def get_rewards(self, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Any = None) -> Any:
        """Return rewards; indices are those of `LookbackBuffer.get`."""
        try:
            return self.rewards._get(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "rewards")

    def get_extra_model_outputs(
        self, key: str, indices: Index = None, *, neg_index_as_lookback: bool = False, fill: Any = None
    ) -> Any:
        """Return items of the extra column `key`; indices are those of `LookbackBuffer.get`.

        Raises:
            EpisodeKeyError: If there is no such column.
        """
        column = self._extra(key)
        try:
            return column._get(indices, neg_index_as_lookback, fill, False)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, key)

    def get_return(self) -> float:
        """Return the undiscounted sum of this chunk's rewards."""
        rewards = self.rewards.lend(slice(self.rewards.lookback, self.rewards.len_incl_lookback()))
        if isinstance(rewards, np.ndarray):
            rewards = rewards.tolist()
        # Beginning with a float, so that no narrow number of NumPy's is added to another.
        total = sum(rewards, 0.0)
        # Anything but a float comes of NumPy's scalars, which add up in a precision of their own: the sum is that of
        # Python's floats in both forms, however the rewards were stored.
        return total if type(total) is float else sum(map(float, rewards), 0.0)

    def set_observations(self, *, new_data: Any, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite observations; indices and data are those of `LookbackBuffer.set`."""
        try:
            self.observations._set(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "observations")

    def set_actions(self, *, new_data: Any, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite actions; indices and data are those of `LookbackBuffer.set`."""
        try:
            self.actions._set(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "actions")

    def set_rewards(self, *, new_data: Any, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite rewards, with numbers; indices and data are those of `LookbackBuffer.set`."""
        try:
            several = isinstance(new_data, (list, tuple, np.ndarray, LookbackBuffer)) and not is_single(at_indices)
            columns.check_rewards(new_data if several else [new_data])
            self.rewards._set(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, "rewards")

    def set_extra_model_outputs(
        self, *, key: str, new_data: Any, at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite items of the extra column `key`; indices and data are those of `LookbackBuffer.set`.

        Raises:
            EpisodeKeyError: If there is no such column.
        """
        column = self._extra(key)
        try:
            column._set(new_data, at_indices, neg_index_as_lookback)
        except EpisodiaError as error:
            stepping.raise_with_place(self, error, key)

    def _extra(self, key: str) -> LookbackBuffer:
        try:
            return self.extra_model_outputs[key]
        except (KeyError, TypeError):
            known = stepping.names(self.extra_model_outputs)
            raise EpisodeKeyError(
                f"episode {self.id_!r}: found the extra model output {key!r}, expected one of {known}. "
                "Extra columns come into being with `add_env_step(extra_model_outputs=...)`."
            ) from None
