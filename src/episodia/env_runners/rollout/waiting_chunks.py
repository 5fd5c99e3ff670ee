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
from episodia.env_runners.rollout.nan_and_bounds_checks import BoundsWatch, FiniteWatch, is_finite
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.runner_settings import CheckFinite
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder
from episodia.errors import EnvError
from episodia.trees import leaves


@final
class WaitingChunks:
    """Keeps recorded chunks until they are returned, whatever is raised in between.

    Args:
        faults: What is known of episodes whose environment has failed.
        totals: Where chunks are counted.
        on_cut: Called with chunks that the recorder does not continue.
        check_finite: What becomes of NaN and infinite numbers in observations and rewards.
    """

    def __init__(
        self, faults: Faults, totals: EpisodeTotals, *, on_cut: Callable[[EpisodeList], None], check_finite: CheckFinite
    ) -> None:
        self._faults = faults
        self._totals = totals
        self._on_cut = on_cut
        self._finite = FiniteWatch(check_finite)
        self._bounds = BoundsWatch()
        self._waiting: list[EpisodeList] = []
        self._staying: list[EpisodeList] = []  # what waits after `release`
        self._counted = EpisodeList()  # was returned, but not released: an interrupt may have come between
        self._is_finite = False  # whether that is known of all that waits

    @property
    def steps_waiting(self) -> int:
        """The number of steps that wait outside of the recorder."""
        return sum(int(chunks.lengths.sum()) for chunks in self._waiting)

    def _summaries(self) -> list[Summary]:
        return [summary for chunks in self._waiting for summary in summaries(chunks)]

    def ids(self) -> list[str]:
        """Return the ids of all episodes of which something waits."""
        return [summary.id_ for summary in self._summaries()]

    def whole_episodes(self) -> list[str]:
        """Return the ids of those that wait as a whole."""
        return [summary.id_ for summary in self._summaries() if summary.is_done and not summary.t_started]

    def collect(self, recorder: EpisodeRecorder) -> None:
        """Let all that was recorded wait here, running episodes cut where they are."""
        is_finite = recorder.is_surely_finite()
        recorder.take(lambda chunks: self._keep(chunks, is_finite))

    def collect_finished(self, recorder: EpisodeRecorder) -> None:
        """Let the episodes wait here that have ended; running ones stay whole."""
        recorder.take_finished(lambda chunks: self._keep(chunks, False))

    def recover(self, recorder: EpisodeRecorder) -> None:
        """Let each chunk wait here once, whatever an interrupt has left in the recorder and here."""
        self.collect_finished(recorder)
        once: dict[tuple[str, int], SingleAgentEpisode] = {}
        for chunk in (chunk for chunks in self._waiting for chunk in chunks):
            once.setdefault((chunk.id_, chunk.t_started), chunk)
        self._waiting = [EpisodeList(once.values())] if once else []

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

    def settle(self, recorder: EpisodeRecorder, shapers: Sequence[RewardShaper]) -> None:
        """Give chunks the rewards that were set after they were cut."""
        chunks = (chunk for chunks in self._waiting for chunk in chunks)
        settle(chunks, recorder.episodes_here(), shapers, self._faults.unseen_ends)
        self._is_finite = False  # the rewards that were set are not checked yet

    def everything(self) -> EpisodeList:
        """Return all waiting chunks; they wait until `release`."""
        if len(self._waiting) == 1:
            # The usual case: what the recorder has made, without a look at its episodes.
            (chunks,) = self._waiting
        else:
            chunks = EpisodeList(chunk for chunks in self._waiting for chunk in chunks)
        self._staying = []
        self._check_and_count(chunks)
        return chunks

    def these(self, ids: list[str]) -> EpisodeList:
        """Return the episodes of these ids, in this order; they wait until `release`, all others longer."""
        by_id = {chunk.id_: chunk for chunks in self._waiting for chunk in chunks}
        chosen = EpisodeList(by_id[id_] for id_ in ids)
        self._staying = self._without(list(chosen))
        self._check_and_count(chosen)
        return chosen

    def release(self) -> None:
        """Forget what was returned last; the last assignment decides."""
        self._counted = EpisodeList()
        self._waiting = self._staying

    def _without(self, gone: list[SingleAgentEpisode]) -> list[EpisodeList]:
        left = [chunk for chunks in self._waiting for chunk in chunks if not any(chunk is other for other in gone)]
        return [EpisodeList(left)] if left else []

    def _check_and_count(self, chunks: EpisodeList) -> None:
        if self._finite.is_open and not self._is_finite:
            self._check(chunks)
        self._bounds.look_at(chunks)
        self._bounds.warn()
        if self._faults.reasons:
            for chunk in chunks:
                self._faults.mark(chunk)
        if len(self._counted):
            known = {(summary.id_, summary.t_started) for summary in summaries(self._counted)}
            self._totals.note(
                EpisodeList(chunk for chunk in chunks if (chunk.id_, chunk.t_started) not in known),
                self._faults.metrics,
            )
        else:
            self._totals.note(chunks, self._faults.metrics)
        self._counted = chunks

    def _check(self, chunks: EpisodeList) -> None:
        """Reject a chunk with NaN or infinite numbers; it is dropped, all others keep waiting."""
        columns = (Columns.OBS, Columns.REWARDS)
        if all(is_finite(chunks.flat(name, tail=name == Columns.OBS).values) for name in columns if len(chunks)):
            return
        for chunk in chunks:
            for name, column in (("observation", chunk.observations), ("reward", chunk.rewards)):
                for path, leaf in leaves(column.storage.lend(slice(0, None))):
                    if not is_finite(leaf):
                        self._note_not_finite(chunk, _not_finite(chunk, f"{name}{path}", leaf, column.lookback))
                        return

    def _note_not_finite(self, chunk: SingleAgentEpisode, found: str) -> None:
        try:
            self._finite.note(found)
        except EnvError:
            self._waiting = self._without([chunk])
            self._totals.forget(chunk.id_)
            self._faults.metrics.num_episodes_dropped += 1
            self._faults.metrics.num_env_steps_dropped += len(chunk)
            raise


def _not_finite(chunk: SingleAgentEpisode, what: str, array: np.ndarray, lookback: int) -> str:
    bad = ~np.isfinite(array)
    place = np.argwhere(bad)[0]
    lane = chunk.id_.rsplit("-", 2)[1]
    t: Any = int(place[0]) - lookback + chunk.t_started
    return f"environment {lane}, episode {chunk.id_!r}, t={t}: found {array[tuple(place)]} in its {what}"


class _Entry(NamedTuple):
    order: int
    chunk: MultiAgentEpisode
    totals: MultiAgentTotals


@final
class Harvest:
    """Recorded chunks that were not returned yet. They outlive a call of `sample` that fails."""

    def __init__(self) -> None:
        self._ready: dict[int, _Entry] = {}  # by the identity of the chunk, in the order in which they came
        self._returned: list[int] = []
        self._counted: set[int] = set()  # in metrics: an interrupt may come before `release`
        self.recount()

    def __len__(self) -> int:
        return len(self._ready)

    def __contains__(self, chunk: MultiAgentEpisode) -> bool:
        return id(chunk) in self._ready

    def add(self, order: int, chunk: MultiAgentEpisode, totals: MultiAgentTotals) -> None:
        """Take a finalized chunk, once.

        Args:
            order: When its episode began.
            chunk: What follows the chunks of that episode that were added before.
            totals: What adds up the chunks of that episode.
        """
        if chunk not in self:
            self._ready[id(chunk)] = _Entry(order, chunk, totals)
            self._count(chunk)

    @property
    def chunks(self) -> list[MultiAgentEpisode]:
        """All that waits, in the order in which it came."""
        return [entry.chunk for entry in self._ready.values()]

    def recount(self) -> None:
        """Count what waits: some was released, and an interrupt may have come between a chunk and its count."""
        self.env_steps = self.agent_steps = self.num_whole = 0
        for chunk in self.chunks:
            self._count(chunk)

    def _count(self, episode: MultiAgentEpisode) -> None:
        self.env_steps += len(episode)
        self.agent_steps += episode.agent_steps()
        self.num_whole += is_whole(episode)

    def first(self, count: int, metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        """Return the chunks that came first, and count them in `metrics`; they wait until `release`."""
        return self._leaving(list(self._ready.values())[:count], metrics)

    def whole(self, count: int, metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        """Return whole episodes, in the order in which they began, and count them; they wait until `release`."""
        whole = [entry for entry in self._ready.values() if is_whole(entry.chunk)]
        return self._leaving(sorted(whole, key=lambda entry: entry.order)[:count], metrics)

    def _leaving(self, entries: list[_Entry], metrics: RunnerMetrics) -> list[MultiAgentEpisode]:
        for entry in entries:
            if id(entry.chunk) not in self._counted:
                self._counted.add(id(entry.chunk))
                # Not before: rewards may have been set until now.
                entry.totals.note(entry.chunk, metrics)
        self._returned = [id(entry.chunk) for entry in entries]
        return [entry.chunk for entry in entries]

    def release(self) -> None:
        """Forget what was returned last; the last assignment decides."""
        gone = set(self._returned)
        self._counted -= gone
        self._ready = {place: entry for place, entry in self._ready.items() if place not in gone}


def is_whole(episode: MultiAgentEpisode) -> bool:
    """Tell whether nothing is missing between the reset and the end."""
    return episode.is_done and episode.env_t_started == 0
