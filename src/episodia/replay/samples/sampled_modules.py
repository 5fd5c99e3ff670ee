"""Samples of several modules as one list of episodes."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.replay.samples.sample_display import sample_html, sample_text
from episodia.replay.samples.sampled import Sampled


@final
class SampledModules(EpisodeList[SingleAgentEpisode]):
    """Samples of several modules, one after another; `groups()` has that of each module."""

    __slots__ = ("_parts", "_samples")

    def __init__(
        self, samples: dict[Any, Sampled], parts: dict[Any, EpisodeList[SingleAgentEpisode]] | None = None
    ) -> None:
        """List samples by module; `parts` are lists to read instead, such as forks of these samples."""
        self._samples = samples
        self._parts = dict(samples) if parts is None else parts
        counts = [len(part) for part in samples.values()]
        ranges = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
        self._begin([], is_multi_agent=False, modules=dict(zip(samples, ranges, strict=True)))

    @property
    def keys(self) -> dict[Any, np.ndarray]:
        """The keys of each module's stretches, for `ReplayBuffer.update_priorities`."""
        return {module_id: part.keys for module_id, part in self._samples.items()}

    @property
    def weights(self) -> dict[Any, np.ndarray | None]:
        """The weights of each module's stretches, see `Sampled.weights`."""
        return {module_id: part.weights for module_id, part in self._samples.items()}

    def load(self) -> SampledModules:
        """Return this sample with all columns gathered, see `Sampled.load`."""
        return SampledModules({module_id: part.load() for module_id, part in self._samples.items()})

    def groups(self) -> dict[Any, EpisodeList[SingleAgentEpisode]]:
        """Return the sample of each module."""
        return dict(self._parts)

    @property
    def _episodes(self) -> list[Any]:
        return [episode for part in self._parts.values() for episode in part]

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are made of rows."""

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def forked(self) -> EpisodeList[SingleAgentEpisode]:
        """Return an equal list whose episodes can be changed without changing ours."""
        return SampledModules(self._samples, {module_id: part.forked() for module_id, part in self._parts.items()})

    def __repr__(self) -> str:
        return sample_text(self)

    def _repr_html_(self) -> str:
        return sample_html(self)

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each stretch: int64 [B]."""
        return np.concatenate([part.lengths for part in self._parts.values()])

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each stretch that ends in a terminal state: bool [B]."""
        return np.concatenate([part.is_terminated for part in self._parts.values()])

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each stretch that ends where the episode was truncated: bool [B]."""
        return np.concatenate([part.is_truncated for part in self._parts.values()])

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each stretch's first step: int64 [B]."""
        return np.concatenate([part.t_started for part in self._parts.values()])
