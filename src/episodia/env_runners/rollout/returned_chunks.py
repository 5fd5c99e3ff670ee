"""Recorded chunks that wait to be returned: checked, counted, and never lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from episodia.columns import Columns
from episodia.connectors import RewardShaper
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.delayed_reward_chunks import settle
from episodia.env_runners.rollout.episode_totals import EpisodeTotals, MultiAgentTotals, Summary, summaries
from episodia.env_runners.rollout.nan_and_bounds_checks import BoundsWatch, is_finite
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import EnvError
from episodia.trees import leaves


@final
class HandOut:
    """Keeps recorded chunks until they are returned, whatever is raised in between.

    Args:
        faults: What is known of episodes whose environment has failed.
        totals: Where chunks are counted.
        on_cut: Called with chunks that the recorder does not go on with.
        check_finite: Whether to reject NaN and infinite numbers in observations and rewards.
    """

    def __init__(
        self, faults: Faults, totals: EpisodeTotals, *, on_cut: Callable[[EpisodeList], None], check_finite: bool
    ) -> None:
        self._faults = faults
        self._totals = totals
        self._on_cut = on_cut
        self._check_finite = check_finite
        self._bounds = BoundsWatch()
        self._waiting: list[EpisodeList] = []
        self._is_finite = False  # whether that is known of all that waits

    @property
    def steps_waiting(self) -> int:
        """How many steps wait outside of the recorder."""
        return sum(int(chunks.lengths.sum()) for chunks in self._waiting)

    def _summaries(self) -> list[Summary]:
        return [summary for chunks in self._waiting for summary in summaries(chunks)]

    def ids(self) -> list[str]:
        """Return the ids of all episodes of which something waits."""
        return [summary.id_ for summary in self._summaries()]

    def whole_episodes(self) -> list[str]:
        """Return the ids of those that wait as a whole."""
        return [summary.id_ for summary in self._summaries() if summary.is_done and not summary.t_started]

    def collect(self, recorder: Recorder) -> None:
        """Let all that was recorded wait here, running episodes cut where they are."""
        is_finite = recorder.is_surely_finite()
        self._keep(recorder.take(), is_finite)

    def collect_finished(self, recorder: Recorder) -> None:
        """Let the episodes wait here that have ended; running ones stay whole."""
        self._keep(recorder.take_finished(), False)

    def _keep(self, chunks: EpisodeList, is_finite: bool) -> None:
        if len(chunks):
            self._is_finite = is_finite and not self._waiting
            self._waiting.append(chunks)
            self._on_cut(chunks)

    def drop(self) -> None:
        """Forget what waits, and count it as dropped."""
        self._faults.metrics.num_episodes_dropped += len(set(self.ids()))
        self._faults.metrics.num_env_steps_dropped += self.steps_waiting
        self._waiting = []

    @property
    def has_running(self) -> bool:
        """Whether a chunk waits whose episode goes on."""
        return any(not summary.is_done for summary in self._summaries())

    def settle(self, recorder: Recorder, shapers: Sequence[RewardShaper]) -> None:
        """Give chunks the rewards that were set after they were cut."""
        chunks = (chunk for chunks in self._waiting for chunk in chunks)
        settle(chunks, recorder.episodes_here(), shapers, self._faults.unseen_ends)
        self._is_finite = False  # the rewards that were set are not checked yet

    def everything(self) -> EpisodeList:
        """Return all waiting chunks."""
        if len(self._waiting) == 1:
            # The usual case: what the recorder has made, without a look at its episodes.
            (chunks,) = self._waiting
        else:
            chunks = EpisodeList(chunk for chunks in self._waiting for chunk in chunks)
        self._check_and_count(chunks)
        self._waiting = []
        return chunks

    def these(self, ids: list[str]) -> EpisodeList:
        """Return the episodes of these ids, in this order; all others keep waiting."""
        by_id = {chunk.id_: chunk for chunks in self._waiting for chunk in chunks}
        chosen = EpisodeList(by_id[id_] for id_ in ids)
        self._check_and_count(chosen)
        self._remove(list(chosen))
        return chosen

    def _remove(self, gone: list[SingleAgentEpisode]) -> None:
        left = [chunk for chunks in self._waiting for chunk in chunks if not any(chunk is other for other in gone)]
        self._waiting = [EpisodeList(left)] if left else []

    def _check_and_count(self, chunks: EpisodeList) -> None:
        if self._check_finite and not self._is_finite:
            self._check(chunks)
        self._bounds.look_at(chunks)
        self._bounds.warn()
        if self._faults.reasons:
            for chunk in chunks:
                self._faults.mark(chunk)
        self._totals.note(chunks, self._faults.metrics)

    def _check(self, chunks: EpisodeList) -> None:
        """Reject a chunk with NaN or infinite numbers; it is dropped, all others keep waiting."""
        columns = (Columns.OBS, Columns.REWARDS)
        if all(is_finite(chunks.flat(name, tail=name == Columns.OBS).values) for name in columns if len(chunks)):
            return
        for chunk in chunks:
            for name, column in (("observation", chunk.observations), ("reward", chunk.rewards)):
                for path, leaf in leaves(column.storage.lend(slice(0, None))):
                    if not is_finite(leaf):
                        self._remove([chunk])
                        self._totals.forget(chunk.id_)
                        self._faults.metrics.num_episodes_dropped += 1
                        self._faults.metrics.num_env_steps_dropped += len(chunk)
                        raise EnvError(_not_finite(chunk, f"{name}{path}", leaf, column.lookback))


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


class _Entry(NamedTuple):
    order: int
    chunk: MultiAgentEpisode
    totals: MultiAgentTotals


@final
class Harvest:
    """Recorded chunks that were not returned yet. They outlive a call of `sample` that fails."""

    def __init__(self) -> None:
        self._ready: list[_Entry] = []
        self.env_steps = 0
        self.agent_steps = 0
        self.num_whole = 0

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, order: int, chunk: MultiAgentEpisode, totals: MultiAgentTotals) -> None:
        """Take a finalized chunk.

        Args:
            order: When its episode began.
            chunk: What follows the chunks of that episode that were added before.
            totals: What adds up the chunks of that episode.
        """
        self._ready.append(_Entry(order, chunk, totals))
        self._count(chunk, 1)

    @property
    def chunks(self) -> list[MultiAgentEpisode]:
        """All that waits, in the order in which it came."""
        return [entry.chunk for entry in self._ready]

    def _count(self, episode: MultiAgentEpisode, sign: int) -> None:
        self.env_steps += sign * len(episode)
        self.agent_steps += sign * episode.agent_steps()
        self.num_whole += sign * is_whole(episode)

    def take_first(self, count: int, metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        """Return the chunks that came first, and count them in `metrics`."""
        return self._take(self._ready[:count], metrics)

    def take_whole(self, count: int, metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        """Return whole episodes, in the order in which they began, and count them; all other chunks stay."""
        whole = sorted((entry for entry in self._ready if is_whole(entry.chunk)), key=lambda entry: entry.order)
        return self._take(whole[:count], metrics)

    def _take(self, taken: list[_Entry], metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        gone = {id(entry.chunk) for entry in taken}
        self._ready = [entry for entry in self._ready if id(entry.chunk) not in gone]
        for entry in taken:
            self._count(entry.chunk, -1)
            # Not before: rewards may have been set until now.
            entry.totals.note(entry.chunk, metrics)
        return [entry.chunk for entry in taken]


def is_whole(episode: MultiAgentEpisode) -> bool:
    """Tell whether nothing is missing between the reset and the end."""
    return episode.is_done and episode.env_t_started == 0
