"""Laws of recorders, and `check_recorder`, which checks a recorder against all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from episodia.episodes import EpisodeList, EpisodeRecorder, SingleAgentEpisode
from episodia.testing.episodes.recorder_subject import (
    ACTIONS,
    LOOKBACK,
    NUM_LANES,
    OBSERVATIONS,
    SEED,
    TAG,
    TAKE,
    TICKS,
    Drive,
    KindOfEpisode,
    RecorderSubject,
    columns_of,
    described_ticks,
    fewer_ticks,
)
from episodia.testing.law_checking import CheckResult, Family, Law, results_in

_Ticks = Sequence[str]

# Lines at which a step is interrupted: every one at first, then some.
_LINES = (*range(80), *range(80, 4000, 37))


def _compare(where: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{where}: found {found}, expected {expected}.")


def it_runs(subject: RecorderSubject, ticks: _Ticks) -> None:
    """It is an `EpisodeRecorder`, and `take` returns an `EpisodeList` of finalized, valid episodes with steps."""
    recorder = subject.new()
    if not isinstance(recorder, EpisodeRecorder):
        raise AssertionError(f"it runs: found {type(recorder).__name__}, expected a subclass of `EpisodeRecorder`.")
    taken: Any = Drive(recorder).run([*ticks, "..."]).recorder.take()
    if not isinstance(taken, EpisodeList):
        raise AssertionError(f"it runs: found {type(taken).__name__} from `take`, expected an `EpisodeList`.")
    for chunk in taken:
        if not isinstance(chunk, SingleAgentEpisode) or not chunk.is_finalized or not len(chunk):
            raise AssertionError(f"it runs: found {chunk!r} from `take`, expected finalized episodes with steps.")
        chunk.validate()


def every_step_is_there_once(subject: RecorderSubject, ticks: _Ticks) -> None:
    """Chunks, one after another, have the steps that were given, with their infos and extra outputs, each once."""
    for book, chunks in Drive(subject.new()).run([*ticks, TAKE]).by_book():
        where = f"every step is there once, lane {book.lane}, episode {book.number}"
        t = 0
        for chunk in chunks:
            expected = _between(book.columns(), t, t + len(chunk))
            _compare(f"{where}, t_started", chunk.t_started, t)
            for name, items in columns_of(chunk).items():
                _compare(f"{where}, t={t}, {name}", items, expected[name])
            t += len(chunk)
        _compare(f"{where}, number of steps", t, book.steps)


def _between(columns: dict[str, list[Any]], start: int, stop: int) -> dict[str, list[Any]]:
    tracks = ("observations", "infos")
    return {name: items[start : stop + (name in tracks)] for name, items in columns.items()}


def ends_are_as_given(subject: RecorderSubject, ticks: _Ticks) -> None:
    """The last chunk of an episode is terminated or truncated as its last step was; other chunks are neither."""
    for book, chunks in Drive(subject.new()).run([*ticks, TAKE]).by_book():
        for chunk in chunks:
            is_last = chunk is chunks[-1]
            where = f"ends are as given, lane {book.lane}, episode {book.number}, t={chunk.t}"
            _compare(f"{where}, is_terminated", chunk.is_terminated, is_last and book.terminated)
            _compare(f"{where}, is_truncated", chunk.is_truncated, is_last and book.truncated)


def chunks_carry_their_lookback(subject: RecorderSubject, ticks: _Ticks) -> None:
    """A chunk has the id of the one before, and the requested number of earlier steps in its lookback, or all there are."""
    for book, chunks in Drive(subject.new()).run([*ticks, TAKE]).by_book():
        for chunk in chunks:
            where = f"chunks carry their lookback, lane {book.lane}, episode {book.number}, t={chunk.t_started}"
            _compare(f"{where}, id", chunk.id_, chunks[0].id_)
            back = min(LOOKBACK, chunk.t_started)
            _compare(f"{where}, lookback", chunk.observations.lookback, back)
            past = range(-back, 0)
            found = [np.asarray(chunk.get_observations(t, neg_index_as_lookback=True)).tolist() for t in past]
            _compare(f"{where}, observations before", found, [book.place(chunk.t_started + t) for t in past])


def running_episodes_are_shown(subject: RecorderSubject, ticks: _Ticks) -> None:
    """After each step, `list_episodes` has the episode of each lane in order, and `idle_lanes` those that have ended."""
    drive = Drive(subject.new())
    for tick in ticks:
        drive.run([tick])
        books = drive.running()
        _compare(
            "running episodes are shown, idle lanes",
            list(drive.recorder.idle_lanes),
            [book.lane for book in books if book.is_over],
        )
        for book, episode in zip(books, drive.recorder.list_episodes(), strict=True):
            where = f"running episodes are shown, lane {book.lane}"
            _compare(
                f"{where}, last observation", np.asarray(episode.get_observations(-1)).tolist(), book.place(book.steps)
            )
            _compare(f"{where}, t", episode.t, book.steps)


def lanes_are_independent(subject: RecorderSubject, ticks: _Ticks) -> None:
    """A reset, `truncate` and `drop` of single lanes change these lanes only."""
    drive = Drive(subject.new()).run([*ticks, "...", "...", TAKE, "..."])
    ids = [episode.id_ for episode in drive.recorder.list_episodes()]
    _compare("lanes are independent, what `truncate` returns", drive.recorder.truncate([0]), ids[:1])
    _compare("lanes are independent, what `drop` returns", drive.recorder.drop([1]), {ids[1]: 1})
    _compare("lanes are independent, idle lanes", list(drive.recorder.idle_lanes), [0, 1])
    truncated, dropped, other = drive.running()
    truncated.truncated = True
    dropped.steps -= 1
    drive.reset([0, 1])
    drive.run(["...", TAKE])
    for book, chunks in drive.by_book():
        where = f"lanes are independent, lane {book.lane}, episode {book.number}"
        _compare(f"{where}, number of steps", sum(map(len, chunks)), book.steps)
        if book in (truncated, other):
            _compare(f"{where}, is_truncated", chunks[-1].is_truncated, book is truncated)
            _compare(f"{where}, observations", columns_of(chunks[-1])["observations"][-1], book.place(book.steps))


def all_that_waits_is_here(subject: RecorderSubject, ticks: _Ticks) -> None:
    """After each step, `episodes_here` has all steps that were not returned yet, also those of running episodes."""
    drive = Drive(subject.new())
    for tick in ticks:
        drive.run([tick])
        given = sum(book.steps for books in drive.books for book in books)
        found = sum(map(len, drive.recorder.episodes_here().values()))
        _compare("all that waits is here, number of steps", found, given - sum(map(len, drive.chunks)))


def a_reset_keeps_what_was_recorded(subject: RecorderSubject, ticks: _Ticks) -> None:
    """If a lane is reset in the middle of an episode, its steps are returned."""
    drive = Drive(subject.new()).run([*ticks, "...", "..."])
    drive.reset(range(NUM_LANES))
    drive.run(["...", TAKE])
    for book, chunks in drive.by_book():
        where = f"a reset keeps what was recorded, lane {book.lane}, episode {book.number}"
        _compare(f"{where}, number of steps", sum(map(len, chunks)), book.steps)


def settings_reach_the_episodes(subject: RecorderSubject, ticks: _Ticks) -> None:
    """Episodes have the class and the spaces that the recorder was given, and the version of the weights that acted."""
    drive = Drive(subject.new())
    drive.recorder.weights_version = 4
    for chunk in drive.run([*ticks, "...", TAKE]).chunks:
        where = f"settings reach the episodes, {chunk.id_!r}"
        _compare(f"{where}, class", type(chunk).__name__, KindOfEpisode.__name__)
        _compare(f"{where}, spaces", (chunk.observation_space, chunk.action_space), (OBSERVATIONS, ACTIONS))
        _compare(f"{where}, version of the weights", chunk.weights_version, 4)


def arrays_stay_apart(subject: RecorderSubject, ticks: _Ticks) -> None:
    """Arrays that were given may change afterwards, and what was returned stays, also during later steps."""
    drive = Drive(subject.new())
    for tick in [tick for tick in ticks if tick != TAKE]:
        given = drive.arguments(tick)
        drive.recorder.step(**given)
        for name in ("observations", "actions", "rewards"):
            given[name][...] = 7
        given["extras"][TAG][...] = 7
    first = drive.recorder.take()
    before = [columns_of(chunk) for chunk in first]
    drive.chunks += first
    drive.run(["...", "...", TAKE, "..."])
    for chunk, expected in zip(first, before, strict=True):
        _compare(f"arrays stay apart, {chunk.id_!r}", columns_of(chunk), expected)
    for book, chunks in drive.by_book():
        found = [row for chunk in chunks for row in columns_of(chunk)["actions"]]
        _compare(f"arrays stay apart, lane {book.lane}, actions", found, book.columns()["actions"][: len(found)])
        rows = [row for chunk in chunks for row in columns_of(chunk)["observations"][1:]]
        _compare(
            f"arrays stay apart, lane {book.lane}, observations",
            rows,
            book.columns()["observations"][1 : len(rows) + 1],
        )


def ids_follow_the_seed(subject: RecorderSubject, ticks: _Ticks) -> None:
    """Each episode has an id of its own; the same seed gives the same ids, also from `episode_numbers` on."""
    law = "ids follow the seed"
    first, second = (Drive(subject.new()).run([*ticks, TAKE]) for _ in range(2))
    ids = [chunks[0].id_ for _, chunks in first.by_book() if chunks]
    _compare(f"{law}, different ids", len(set(ids)), len(ids))
    _compare(law, [chunk.id_ for chunk in second.chunks], [chunk.id_ for chunk in first.chunks])
    other = subject.new(seed=SEED + 1)
    other.set_episode_numbers(SEED, first.recorder.episode_numbers())
    follow = [Drive(other), first]
    first.reset(range(NUM_LANES))
    expected, found = ([each.id_ for each in drive.recorder.list_episodes()] for drive in reversed(follow))
    _compare(f"{law}, after `set_episode_numbers`", found, expected)


def an_interrupted_take_loses_nothing(subject: RecorderSubject, ticks: _Ticks) -> None:
    """If `keep` is interrupted, the next call gives it the same episodes again."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    drive = Drive(subject.new()).run([*(tick for tick in ticks if tick != TAKE), "..."])
    try:
        drive.recorder.take(interrupt)
    except KeyboardInterrupt:
        drive.recorder.repair()
    drive.chunks += drive.recorder.take_finished()
    for book, chunks in drive.by_book():
        where = f"an interrupted take loses nothing, lane {book.lane}, episode {book.number}"
        _compare(f"{where}, number of steps", sum(map(len, chunks)), book.steps)


def an_interrupt_leaves_whole_steps(subject: RecorderSubject, ticks: _Ticks) -> None:
    """An interrupted step is recorded in all lanes or in none, or the recorder is broken; it goes on after a reset."""
    law = "an interrupt leaves whole steps"
    for line in _LINES:
        drive = Drive(subject.new()).run([*ticks, "...", "..."])
        steps = [book.steps for book in drive.running()]
        given = drive.arguments("...")
        if not _interrupted(lambda: drive.recorder.step(**given), line):  # noqa: B023  # called at once
            return
        if drive.recorder.is_broken:
            drive.recorder.repair()
            _compare(f"{law}, idle lanes after `repair`", list(drive.recorder.idle_lanes), list(range(NUM_LANES)))
        else:
            found = [episode.t for episode in drive.recorder.list_episodes()]
            if found != steps:
                _compare(f"{law}, steps of the lanes", found, [t + 1 for t in steps])
        drive.reset(range(NUM_LANES))
        drive.run(["...", TAKE])
        last = [book.columns() for book in drive.running()]
        found_last = [columns_of(chunks[-1]) for book, chunks in drive.by_book() if book in drive.running() and chunks]
        _compare(f"{law}, episodes after a reset", found_last, last)


def _interrupted(call: Callable[[], object], line: int) -> bool:
    """Call `call` with a KeyboardInterrupt at the line of this number; return whether there are so many."""
    left = line

    def trace(_frame: Any, event: str, _argument: object) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


#: The laws of recorders, in the order of the checks.
RECORDER_LAWS: tuple[Law, ...] = (
    it_runs,
    every_step_is_there_once,
    ends_are_as_given,
    chunks_carry_their_lookback,
    running_episodes_are_shown,
    lanes_are_independent,
    all_that_waits_is_here,
    a_reset_keeps_what_was_recorded,
    settings_reach_the_episodes,
    arrays_stay_apart,
    ids_follow_the_seed,
    an_interrupted_take_loses_nothing,
    an_interrupt_leaves_whole_steps,
)

RECORDERS = Family(laws=RECORDER_LAWS, inputs=lambda _: list(TICKS), smaller=fewer_ticks, described=described_ticks)


def check_recorder(make: Callable[..., Any], **options: Any) -> list[CheckResult]:
    """Check a kind of recorder against all laws, and return the results.

    Args:
        make: Makes a recorder: a class or a function; see `RecorderSubject`.
        **options: The other attributes of `RecorderSubject`: `label` and `expected_failures`.

    Raises:
        AssertionError: If laws are broken; it names each law, the difference, and the fewest steps that show it.

    >>> from episodia.episodes import Recorder
    >>> print(check_recorder(Recorder)[1])
    passed   every_step_is_there_once
    """
    return results_in(RECORDERS, RecorderSubject(make, **options))
