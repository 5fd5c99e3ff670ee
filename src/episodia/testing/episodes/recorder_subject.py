"""`RecorderSubject`, a recorder with all that its checks need: steps to record, and plain lists of the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from episodia.episodes import EpisodeRecorder, SingleAgentEpisode
from episodia.errors import SubjectError

NUM_LANES = 3
LOOKBACK = 2
SEED = 11
TAG = "tag"
TAKE = "take"
#: A step of three lanes, each of which goes on ("."), terminates ("T") or is truncated ("X"); or a call of `take`.
TICKS = ("...", "T..", TAKE, "...", ".X.", "...", "...", TAKE, "..T", TAKE, "XTX", "...", "...", ".T.")

OBSERVATIONS = spaces.Box(-1.0, 2.0**20, (3,), np.float32)
ACTIONS = spaces.Discrete(1000)


class KindOfEpisode(SingleAgentEpisode):
    """The class of the episodes that recorders have to make."""


@dataclass(frozen=True, eq=False)
class RecorderSubject:
    """A kind of recorder with all that its checks need.

    Attributes:
        make: Makes a recorder, called as `make(observation_space, action_space, num_lanes, lookback=, seed=, episode_class=)`.
        label: The name of the subject in its checks; the name of `make` by default.
        expected_failures: The reasons why checks are expected to fail, by the names of the checks.

    >>> from episodia.episodes import Recorder
    >>> RecorderSubject(Recorder).name
    'Recorder'
    """

    make: Callable[..., Any]
    _: KW_ONLY
    label: str = ""
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject a `make` that is not callable."""
        if not callable(self.make):
            raise SubjectError(
                f"check of a recorder: found {self.make!r}, expected a class or a function that makes recorders. Pass one, "
                "such as `Recorder`."
            )

    @property
    def name(self) -> str:
        """The name of the subject in its checks."""
        made_by = getattr(self.make, "func", self.make)
        return self.label or getattr(made_by, "__name__", type(made_by).__name__)

    def new(self, seed: int = SEED) -> EpisodeRecorder:
        """Make a recorder."""
        made: EpisodeRecorder = self.make(
            OBSERVATIONS, ACTIONS, NUM_LANES, lookback=LOOKBACK, seed=seed, episode_class=KindOfEpisode
        )
        return made


@dataclass
class Book:
    """The expected episode: its lane, its number in the lane, its steps and its end."""

    lane: int
    number: int
    steps: int = 0
    terminated: bool = False
    truncated: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.terminated or self.truncated

    def columns(self) -> dict[str, list[Any]]:
        """Return all items, as plain lists."""
        times = range(self.steps)
        return {
            "observations": [self.place(t) for t in range(self.steps + 1)],
            "actions": [self.action(t) for t in times],
            "rewards": [float(self.action(t)) / 2 for t in times],
            TAG: [[*self.place(t), 1.0] for t in times],
            "infos": [{"t": t} for t in range(self.steps + 1)],
        }

    def place(self, t: int) -> list[float]:
        """Return the observation at `t`."""
        return [float(self.lane), float(self.number), float(t)]

    def action(self, t: int) -> int:
        """Return the action at `t`."""
        return 100 * self.lane + 10 * self.number + t


class Drive:
    """A recorder, the steps that it was given, and the chunks that it has returned."""

    def __init__(self, recorder: EpisodeRecorder) -> None:
        """Begin an episode in each lane."""
        self.recorder = recorder
        self.books: list[list[Book]] = [[] for _ in range(NUM_LANES)]
        self.chunks: list[SingleAgentEpisode] = []
        self.reset(range(NUM_LANES))

    def running(self) -> list[Book]:
        """Return the last episode of each lane."""
        return [books[-1] for books in self.books]

    def reset(self, lanes: Sequence[int]) -> None:
        """Begin an episode in each of `lanes`."""
        for lane in lanes:
            self.books[lane].append(Book(lane, len(self.books[lane])))
        first = np.array([self.books[lane][-1].place(0) for lane in lanes], np.float32)
        self.recorder.reset(first, [{"t": 0} for _ in lanes], lanes=list(lanes))

    def run(self, ticks: Sequence[str]) -> Drive:
        """Record steps, or take what was recorded."""
        for tick in ticks:
            if tick == TAKE:
                self.chunks += self.recorder.take()
            else:
                self.recorder.step(**self.arguments(tick))
        return self

    def arguments(self, tick: str) -> dict[str, Any]:
        """Return the arguments of `step`, and write them down."""
        resets = np.array([book.is_over for book in self.running()])
        for lane in np.flatnonzero(resets).tolist():
            self.books[lane].append(Book(lane, len(self.books[lane])))
        for book, how in zip(self.running(), tick, strict=True):
            if not resets[book.lane]:
                book.steps += 1
                book.terminated, book.truncated = how == "T", how == "X"
        books = self.running()
        before = [max(0, book.steps - 1) for book in books]
        actions = [book.action(t) for book, t in zip(books, before, strict=True)]
        tags = [[*book.place(t), 1.0] for book, t in zip(books, before, strict=True)]
        return {
            "observations": np.array([book.place(book.steps) for book in books], np.float32),
            "actions": np.array(actions, np.int64),
            "rewards": np.array(actions, np.float64) / 2,
            "terminateds": np.array([book.terminated for book in books]),
            "truncateds": np.array([book.truncated for book in books]),
            "infos": [{"t": book.steps} for book in books],
            "extras": {TAG: np.array(tags, np.float32)},
            "resets": resets if resets.any() else None,
        }

    def by_book(self) -> list[tuple[Book, list[SingleAgentEpisode]]]:
        """Return each episode with its chunks, in the order in which they were returned."""
        found: dict[tuple[int, int], list[SingleAgentEpisode]] = {}
        for chunk in self.chunks:
            lane, number = np.asarray(chunk.get_observations(0))[:2].tolist()
            found.setdefault((int(lane), int(number)), []).append(chunk)
        return [(book, found.get((book.lane, book.number), [])) for books in self.books for book in books]


def columns_of(chunk: SingleAgentEpisode) -> dict[str, list[Any]]:
    """Return all items of `chunk`, as plain lists."""
    names = {"observations": chunk.get_observations(), "actions": chunk.get_actions(), "rewards": chunk.get_rewards()}
    tags = chunk.get_extra_model_outputs(TAG) if TAG in chunk.extra_model_outputs else []
    found = {name: np.asarray(items).tolist() for name, items in (*names.items(), (TAG, tags))}
    return {**found, "infos": [dict(info) for info in chunk.get_infos()]}


def fewer_ticks(ticks: list[str]) -> Iterator[list[str]]:
    """Yield the ticks with one of them removed; one tick always remains."""
    if len(ticks) > 1:
        yield from ([*ticks[:place], *ticks[place + 1 :]] for place in range(len(ticks)))


def described_ticks(ticks: Sequence[str]) -> str:
    """Return a description of ticks.

    >>> described_ticks(["T..", "take"])
    'The fewest steps that show it, "." goes on, "T" terminates, "X" truncates: T.. take'
    """
    return f'The fewest steps that show it, "." goes on, "T" terminates, "X" truncates: {" ".join(ticks)}'
