"""Laws about the rows that a connector makes.

The laws of a piece follow from its declared kind. A *causal* piece makes the same rows for an episode, for its chunks, and
at the moment of acting. A *forward-looking* piece makes the rows of a chunk as if the episode was truncated there, and the
rows of the whole if the chunks are joined. A *batch-wide* piece does not depend on the order of episodes. The state of a
*stateful* piece can be stored and given to another piece. No piece changes the episodes of its caller, and the form of the
episodes (growing, finalized, recorded) does not matter.

A law is a function of a subject and episodes. It raises an AssertionError if it is broken, and a `NotApplicableError` if it
does not apply to the subject.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors import AddLossMask, ConnectorV2, Kind, as_ragged
from episodia.connectors.batches.batch_columns import module_batches
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import PipelineError
from episodia.modules import Module
from episodia.testing.comparing import assert_same_episode, compare_batches
from episodia.testing.connectors.connector_memory import restored_pieces_go_on_alike
from episodia.testing.connectors.connector_running import (
    ENV_TO_MODULE,
    LEARNER,
    MODULE_TO_ENV,
    Rows,
    count_rows,
    front_of,
    joined_rows,
    open_places,
    outputs_of,
    pipeline_of,
    rows_of,
    run,
    run_on_originals,
)
from episodia.testing.connectors.connector_subject import Pieces, Subject, episode_without_steps, recorded
from episodia.testing.law_checking import NotApplicableError
from episodia.trees import leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]
Law = Callable[[Subject, Episodes], None]

# The length of a batch may change the last bit of the output of a network.
_LAST_BITS = 1e-5


def check_connector_laws(pieces: Pieces, episodes: Episodes, *, rl_module: Module | None = None) -> list[str]:
    """Check the last of `pieces` against the laws about rows, on your own `episodes`, and return the names of the laws.

    `check_connector` checks more laws, on sample episodes.

    Args:
        pieces: Makes new pieces: the one to check, after pieces that write the columns that it reads. Observations, actions,
            rewards and flags are added automatically.
        episodes: Whole episodes, from their first step on.
        rl_module: The module, for pieces that need it.

    Raises:
        AssertionError: If a law is broken; it names the law, the column and the row.

    >>> from episodia.connectors import AddObservationsFromEpisodesToBatch as AddObservations
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0)
    >>> check_connector_laws(lambda: [AddObservations()], [walk])[-1]
    'acting_sees_what_learning_sees'
    """
    subject = Subject(pieces, rl_module=rl_module, episodes=episodes)
    checked = []
    for law in laws_of(pieces()[-1]):
        try:
            law(subject, episodes)
        except NotApplicableError:
            continue
        checked.append(law.__name__)
    return checked


def laws_of(piece: ConnectorV2) -> list[Law]:
    """Return the laws about rows that apply to the kind of `piece`."""
    laws: list[Law] = [callers_data_stay_as_they_are, form_does_not_matter, running_again_changes_nothing]
    if piece.kind is not Kind.BATCH_WIDE:
        laws.append(episodes_do_not_depend_on_each_other)
    laws.append(order_of_episodes_does_not_matter)
    if piece.kind is Kind.CAUSAL:
        laws += [cutting_changes_nothing, acting_sees_what_learning_sees]
    elif piece.kind is Kind.FORWARD_LOOKING:
        laws.append(chunks_stand_for_themselves)
    return [restored_pieces_go_on_alike, *laws] if piece.is_stateful else laws


# --- Time -------------------------------------------------------------------------------------------------------------


def cutting_changes_nothing(subject: Subject, episodes: Episodes) -> None:
    """Chunks with the derived lookback give the rows of the whole episode, for all places of the cut."""
    _needs_kind(subject, Kind.CAUSAL)
    for place in steady_places(subject):
        check_cuts(subject, place, episodes, pipeline_of(subject, place).lookback)


def check_cuts(subject: Subject, place: str, episodes: Episodes, lookback: int) -> None:
    """Check that chunks with a `lookback` give the rows of the whole, for all places of the cut."""
    for episode in episodes:
        whole = rows_of(subject, place, [episode])
        for point in range(len(episode) + 1):
            chunks = cut_at(episode, point, lookback)
            # Only learners use the rows of past steps.
            found = rows_of(subject, place, chunks if place == LEARNER else chunks[1:])
            where = f"{place}, cut at {point}, lookback {lookback}"
            compare_batches("cutting changes nothing", whole, found, where)


def cut_at(episode: SingleAgentEpisode, point: int, lookback: int) -> list[SingleAgentEpisode]:
    """Return `episode` as two chunks, the second with a lookback of `lookback` steps."""
    return [episode[:point], episode.slice(slice(point, None), len_lookback_buffer=lookback)]


def acting_sees_what_learning_sees(subject: Subject, episodes: Episodes) -> None:
    """The rows of a step are the same for acting and for learning."""
    _needs_kind(subject, Kind.CAUSAL)
    open_places(subject, LEARNER)
    open_places(subject, ENV_TO_MODULE)
    steady_places(subject)
    for episode in episodes:
        learned = rows_of(subject, LEARNER, [episode])
        acted = [rows_of(subject, ENV_TO_MODULE, [episode[:t]]) for t in range(len(episode))]
        for column in acted[0] if acted else ():
            if column in learned:
                expected, found = {column: learned[column]}, joined_rows([{column: rows[column]} for rows in acted])
                compare_batches("acting sees what learning sees", expected, found, "each step")


def chunks_stand_for_themselves(subject: Subject, episodes: Episodes) -> None:
    """A chunk gives the rows of its steps as a truncated episode, and the last chunk gives the last rows of the whole.

    A chunk does not know the steps after it, so values are bootstrapped at its last observation, as in a truncated episode.
    Joined chunks give the rows of the whole.
    """
    _needs_kind(subject, Kind.FORWARD_LOOKING)
    open_places(subject, LEARNER)
    steady_places(subject)
    lookback = pipeline_of(subject, LEARNER).lookback
    for episode in episodes:
        whole = rows_of(subject, LEARNER, [episode])
        for point in range(1, len(episode)):
            _check_chunks(subject, whole, cut_at(episode, point, lookback), point)


def _check_chunks(subject: Subject, whole: Rows, chunks: list[SingleAgentEpisode], point: int) -> None:
    law = "chunks stand for themselves"
    head, tail = chunks
    truncated = SingleAgentEpisode.from_state(head.get_state())
    truncated.is_truncated = True
    expected = _without(rows_of(subject, LEARNER, [truncated]), Columns.TRUNCATEDS)
    found = _without(rows_of(subject, LEARNER, [head]), Columns.TRUNCATEDS)
    where = f"learner, the first {point} steps, running instead of truncated"
    compare_batches(law, expected, found, where, _LAST_BITS)
    last = map_batch(lambda leaf: leaf[point:], whole)
    found = rows_of(subject, LEARNER, [tail])
    compare_batches(law, last, found, f"learner, the steps from {point} on, instead of the whole", _LAST_BITS)
    head.concat_episode(tail)
    found = rows_of(subject, LEARNER, [head])
    compare_batches(law, whole, found, f"learner, cut at {point} and put together again", _LAST_BITS)


def _without(rows: Rows, column: str) -> Rows:
    return {name: values for name, values in rows.items() if name != column}


# --- Other episodes ---------------------------------------------------------------------------------------------------


def episodes_do_not_depend_on_each_other(subject: Subject, episodes: Episodes) -> None:
    """Several episodes give the rows that each of them gives alone."""
    if subject.connector.kind is Kind.BATCH_WIDE:
        raise NotApplicableError("it is batch-wide: rows may depend on those of other episodes")
    needs_listed_rows(subject)
    for place in steady_places(subject):
        chosen = [episode for episode in episodes if len(episode) or place != LEARNER]
        alone = [rows_of(subject, place, [episode]) for episode in chosen]
        if len(alone) > 1:
            together = rows_of(subject, place, chosen)
            law = "episodes do not depend on each other"
            compare_batches(law, joined_rows(alone), together, f"{place}, all at once", _LAST_BITS)


def order_of_episodes_does_not_matter(subject: Subject, episodes: Episodes) -> None:
    """Episodes in another order give the same rows in that order."""
    needs_listed_rows(subject)
    for place in steady_places(subject):
        lengths = [len(episode) if place == LEARNER else 1 for episode in episodes]
        forwards = rows_of(subject, place, episodes)
        backwards = rows_of(subject, place, [*reversed(episodes)])
        ends = np.cumsum(lengths)
        ranges = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        rows = np.concatenate(ranges[::-1]) if ranges else np.arange(0)
        expected = map_batch(lambda leaf, rows=rows: leaf[rows] if len(leaf) else leaf, forwards)
        compare_batches("the order of episodes does not matter", expected, backwards, f"{place}, reversed", _LAST_BITS)


# --- Other forms ------------------------------------------------------------------------------------------------------


def form_does_not_matter(subject: Subject, episodes: Episodes) -> None:
    """Growing episodes give the rows of finalized ones and of recorded ones."""
    growing = [episode for episode in episodes if not episode.is_finalized]
    if not growing:
        raise NotApplicableError("all episodes are finalized; give growing ones, too")
    with_steps = [episode for episode in growing if len(episode)]
    for place in steady_places(subject):
        finalized = [copy.copy(episode).finalize() for episode in growing]
        expected = rows_of(subject, place, finalized)
        found = rows_of(subject, place, growing)
        compare_batches("the form does not matter", expected, found, f"{place}, growing instead of finalized")
        if with_steps:
            expected = rows_of(subject, place, with_steps)
            found = rows_of(subject, place, recorded(with_steps))
            compare_batches("the form does not matter", expected, found, f"{place}, recorded instead of growing")


def running_again_changes_nothing(subject: Subject, episodes: Episodes) -> None:
    """A second run, and a third after a commit, give the same batch, unless the piece declares a state."""
    if subject.connector.is_stateful and _varies(subject):
        raise NotApplicableError("it declares a state, and makes other rows with another state")
    for place in open_places(subject):
        pipeline = pipeline_of(subject, place)
        first = run(subject, place, pipeline, episodes)
        second = run(subject, place, pipeline, episodes)
        law = "running again changes nothing"
        compare_batches(law, first, second, f"{place}, the second time; `is_stateful` is False")
        if subject.connector.is_stateful:
            continue
        pipeline.commit()
        third = run(subject, place, pipeline, episodes)
        compare_batches(law, first, third, f"{place}, after a commit; `is_stateful` is False")


def callers_data_stay_as_they_are(subject: Subject, episodes: Episodes) -> None:
    """Neither the piece nor code that writes to its batch changes the episodes and arrays of the caller."""
    for place in open_places(subject, LEARNER, MODULE_TO_ENV):
        before = [SingleAgentEpisode.from_state(episode.get_state()) for episode in episodes]
        given = outputs_of(subject, episodes) if place == MODULE_TO_ENV else None
        kept = copy.deepcopy(given)
        for explore in (False, True):
            pipeline = pipeline_of(subject, place)
            made = run_on_originals(subject, place, pipeline, episodes, explore=explore, batch=given)
            if given is not None and kept is not None:
                law = "the caller's data stay as they are"
                compare_batches(law, kept, given, f"{place}, what the module has put out")
            else:
                _scribble(made)
        for episode, copied in zip(episodes, before, strict=True):
            assert_same_episode(episode, copied)


def _scribble(batch: Rows) -> None:
    """Write zeros to all writable arrays."""
    for _, leaf in leaves(batch):
        if isinstance(leaf, np.ndarray) and leaf.flags.writeable and leaf.dtype.kind in "biuf":
            leaf[...] = 0


# --- What several laws need -------------------------------------------------------------------------------------------


def _needs_kind(subject: Subject, kind: Kind) -> None:
    needs_listed_rows(subject)
    if subject.connector.kind is not kind:
        raise NotApplicableError(f"it is {subject.connector.kind.value}, and the law is about {kind.value} pieces")


def needs_listed_rows(subject: Subject) -> None:
    """Skip a law that expects a row for each step of the given episodes, if the piece changes the list of episodes."""
    if subject.connector.changes_episodes:
        raise NotApplicableError("it changes the list of episodes, and rows follow the list")


def steady_places(subject: Subject) -> list[str]:
    """Return the places where the subject works, if equal states give equal rows."""
    places = open_places(subject)
    if subject.connector.is_stateful and _varies(subject):
        raise NotApplicableError("two runs give different rows (it draws at random, or learns): rows are not compared")
    return places


def _varies(subject: Subject) -> bool:
    for place in open_places(subject):
        pipeline, episodes = pipeline_of(subject, place), subject.fresh_episodes()
        first = run(subject, place, pipeline, episodes)
        try:
            compare_batches("", first, run(subject, place, pipeline, episodes), "")
        except AssertionError:
            return True
    return False


def it_runs_without_episodes(subject: Subject, _: Episodes) -> None:
    """No episodes give no rows."""
    for place in open_places(subject):
        _check_count("it runs without episodes", place, rows_of(subject, place, []), 0)


def it_runs_on_single_steps(subject: Subject, episodes: Episodes) -> None:
    """An episode of one step gives one row."""
    needs_listed_rows(subject)
    for place in open_places(subject):
        for episode in episodes:
            if len(episode):
                _check_count("it runs on single steps", place, rows_of(subject, place, [episode[:1]]), 1)


def it_runs_on_episodes_without_steps(subject: Subject, episodes: Episodes) -> None:
    """An episode without steps has no row for a learner and one for a runner, and does not affect other episodes."""
    needs_listed_rows(subject)
    law = "it runs on episodes without steps"
    for place in open_places(subject):
        empty = episode_without_steps(episodes[0])
        _check_count(law, place, rows_of(subject, place, [empty]), 0 if place == LEARNER else 1)
        if place == LEARNER and not subject.connector.is_stateful:
            expected = rows_of(subject, place, episodes)
            found = rows_of(subject, place, [empty, *episodes, empty])
            compare_batches(law, expected, found, f"{place}, between two without steps", 1e-5)


def _check_count(law: str, place: str, columns: Rows, expected: int) -> None:
    for name, count in count_rows(columns).items():
        if count != expected:
            raise AssertionError(f"{law} ({place}), column {name!r}: found {count} rows, expected {expected}.")


# --- Rows that do not count -------------------------------------------------------------------------------------------


class _MaskSome(ConnectorV2):
    """Excludes every third row from the loss, and writes other numbers to these rows of `columns`."""

    reads = writes = frozenset({Columns.LOSS_MASK})
    lookback = 0

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__()
        self.columns = columns

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch with the mask, and with other numbers in the excluded rows of `columns`."""
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            mask = columns[Columns.LOSS_MASK]
            counted = np.arange(mask.num_steps) % 3 != 1
            columns[Columns.LOSS_MASK] = mask.with_values(counted)
            for name in self.columns:
                if name in columns and name != Columns.LOSS_MASK:
                    column = as_ragged(columns[name], rows).body()
                    disturbed = partial(_disturbed, counted=counted)
                    columns[name] = column.with_values(map_batch(disturbed, column.values))
        return batch


def _disturbed(leaf: Any, counted: np.ndarray) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind != "f":
        return leaf
    other = leaf.copy()
    other[~counted] = 7 - 5 * other[~counted]
    return other


def masked_rows_do_not_count(subject: Subject, episodes: Episodes) -> None:
    """Rows that the loss mask excludes do not affect other rows."""
    piece = subject.connector
    if piece.kind is not Kind.BATCH_WIDE:
        raise NotApplicableError(f"it is {piece.kind.value}: rows depend on their own episode only")
    open_places(subject, LEARNER)
    if Columns.LOSS_MASK in (piece.writes or ()):
        raise NotApplicableError("it writes the loss mask itself")
    expected, found = (_masked_rows(subject, episodes, columns) for columns in ((), tuple(piece.reads or ())))
    mask = found[Columns.LOSS_MASK]
    written = set(piece.writes or found) & found.keys()
    wanted, got = (
        {name: map_batch(lambda leaf: leaf[mask], rows[name]) for name in written} for rows in (expected, found)
    )
    compare_batches("masked rows do not count", wanted, got, "other numbers in masked rows", 1e-5)


def _masked_rows(subject: Subject, episodes: Episodes, columns: Sequence[str]) -> Rows:
    *before, piece = subject.make()
    # The front comes first, because the masking piece changes its columns.
    pieces = [*front_of([*before, piece]), *before, AddLossMask(), _MaskSome(columns), piece]
    try:
        return rows_of(subject, LEARNER, episodes, pieces)
    except PipelineError as error:
        raise NotApplicableError(f"no mask can be put in front of it: {error}") from error
