"""The way of recorded episodes to the caller: checked, counted, and never lost on the way."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from episodia.env_runners.lane_faults import Faults
from episodia.env_runners.metrics import EpisodeTotals
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.episodes.recorder import Recorder
from episodia.errors import EnvError
from episodia.trees import leaves


@final
class HandOut:
    """Keeps what was recorded until it is handed out, whatever is raised in between.

    Args:
        faults: What is known of episodes whose environment has failed.
        totals: Where chunks are counted.
        check_finite: Whether to refuse NaN and infinite numbers in observations and rewards.
    """

    def __init__(self, faults: Faults, totals: EpisodeTotals, *, check_finite: bool) -> None:
        self._faults = faults
        self._totals = totals
        self._check_finite = check_finite
        self._waiting: list[SingleAgentEpisode] = []

    @property
    def steps_waiting(self) -> int:
        """How many steps wait outside of the recorder."""
        return sum(map(len, self._waiting))

    def ids(self) -> list[str]:
        """Return the ids of all episodes of which something waits."""
        return [chunk.id_ for chunk in self._waiting]

    def whole_episodes(self) -> list[str]:
        """Return the ids of those that wait as a whole."""
        return [chunk.id_ for chunk in self._waiting if chunk.is_done and not chunk.t_started]

    def collect(self, recorder: Recorder) -> None:
        """Let all that was recorded wait here, running episodes cut where they are."""
        self._waiting += recorder.take()

    def collect_finished(self, recorder: Recorder) -> None:
        """Let the episodes wait here that have ended; running ones stay whole."""
        self._waiting += recorder.take_finished()

    def drop(self) -> None:
        """Forget what waits, and count it as dropped."""
        self._faults.metrics.num_episodes_dropped += len({chunk.id_ for chunk in self._waiting})
        self._faults.metrics.num_env_steps_dropped += self.steps_waiting
        self._waiting = []

    def everything(self) -> EpisodeList:
        """Hand out all that waits."""
        return self._handed_out(self._waiting)

    def these(self, ids: list[str]) -> EpisodeList:
        """Hand out the episodes of these ids, in this order; all others go on waiting."""
        by_id = {chunk.id_: chunk for chunk in self._waiting}
        return self._handed_out([by_id[id_] for id_ in ids])

    def _handed_out(self, chunks: list[SingleAgentEpisode]) -> EpisodeList:
        if self._check_finite:
            self._check(chunks)
        for chunk in chunks:
            self._faults.mark(chunk)
            self._totals.note(chunk, self._faults.metrics)
        gone = set(map(id, chunks))
        self._waiting = [chunk for chunk in self._waiting if id(chunk) not in gone]
        return EpisodeList(chunks)

    def _check(self, chunks: list[SingleAgentEpisode]) -> None:
        """Refuse a chunk with NaN or infinite numbers; it is dropped, all others go on waiting."""
        for chunk in chunks:
            for name, column in (("observation", chunk.observations), ("reward", chunk.rewards)):
                for path, leaf in leaves(column._storage.lend(slice(0, None))):
                    if leaf.dtype.kind == "f" and not _is_finite(leaf):
                        self._waiting = [other for other in self._waiting if other is not chunk]
                        self._totals.forget(chunk.id_)
                        raise EnvError(_not_finite(chunk, f"{name}{path}", leaf, column.lookback))


def _is_finite(array: np.ndarray) -> bool:
    # A finite sum has finite terms: one cheap reduction for the usual case.
    return math.isfinite(array.sum()) or bool(np.isfinite(array).all())


def _not_finite(chunk: SingleAgentEpisode, what: str, array: np.ndarray, lookback: int) -> str:
    bad = ~np.isfinite(array)
    place = np.argwhere(bad)[0]
    lane = chunk.id_.rsplit("-", 2)[1]
    t: Any = int(place[0]) - lookback + chunk.t_started
    return (
        f"environment {lane}, episode {chunk.id_!r}, t={t}: found {array[tuple(place)]} in its {what}, expected finite "
        "numbers. This chunk is dropped; all others come with the next `sample()`. Correct the environment, or allow such "
        "numbers with `check_finite=False`."
    )
