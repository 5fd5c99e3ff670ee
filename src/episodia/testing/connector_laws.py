"""Laws that connectors obey, as checks that plugin authors run on their own.

What a piece is held to follows from the kind that it declares: a *causal* piece makes the same rows of an episode however it
is cut, and at the moment of acting; a *forward-looking* one makes them of its own episode alone; a *batch-wide* one does not
care in which order episodes come; what a *stateful* one remembers can be stored, and given to another one. No piece changes
the episodes of its caller, and none cares whether they are finalized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors import (
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    Kind,
    LearnerConnectorPipeline,
    check_state,
)
from episodia.connectors.batching import BatchIndividualItems
from episodia.connectors.episode_columns import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.fingerprints import fingerprint
from episodia.connectors.observations import AddObservationsFromEpisodesToBatch
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.episodes.episode_list import NotYetError
from episodia.errors import ConnectorError, ConnectorStateError
from episodia.testing.comparing import assert_same_episode
from episodia.trees import describe, leaves, map_batch

# Makes the pieces to check, fresh for each run: the last one is what the law is about, those before it feed it.
Pieces = Callable[[], Sequence[ConnectorV2]]

Law = Callable[[Pieces, Sequence[SingleAgentEpisode], Any], None]

_FROM_STEPS = frozenset({Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})


def check_connector_laws(pieces: Pieces, episodes: Sequence[SingleAgentEpisode], *, rl_module: Any = None) -> list[str]:
    """Hold the last of `pieces` to all laws of its kind, on `episodes`, and return the names of the laws.

    Args:
        pieces: Makes the piece, fresh each time, after pieces that write what it reads; observations, actions, rewards and
            flags are added by themselves.
        episodes: Whole episodes, from their first step on.
        rl_module: The module, for pieces that need it.

    Raises:
        AssertionError: Naming the law that is broken, the column and the row.

    >>> from episodia.connectors.observations import AddObservationsFromEpisodesToBatch as AddObservations
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0)
    >>> check_connector_laws(lambda: [AddObservations()], [walk])[-1]
    'acting_sees_what_learning_sees'
    """
    checked = []
    for law in laws_of(pieces()[-1]):
        law(pieces, episodes, rl_module)
        checked.append(law.__name__)
    return checked


def laws_of(piece: ConnectorV2) -> list[Law]:
    """Return the laws for pieces of its kind."""
    laws: list[Law] = [callers_episodes_stay_as_they_are, form_does_not_matter, running_again_changes_nothing]
    if piece.kind is not Kind.BATCH_WIDE:
        laws.append(episodes_do_not_depend_on_each_other)
    else:
        laws.append(order_of_episodes_does_not_matter)
    if piece.kind is Kind.CAUSAL:
        laws += [cutting_changes_nothing, acting_sees_what_learning_sees]
    return [restored_pieces_go_on_alike, *laws] if piece.is_stateful else laws


# --- The laws -------------------------------------------------------------------------------------------------------


def cutting_changes_nothing(pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None) -> None:
    """Law 2: cut anywhere, with the lookback that the pipeline derives, chunks give the rows of the whole."""
    for episode in episodes:
        whole = learner_rows(pieces, [episode], rl_module)
        lookback = learner_pipeline(pieces).lookback
        for point in range(len(episode) + 1):
            chunks = cut_at(episode, point, lookback)
            _compare("cutting changes nothing", whole, learner_rows(pieces, chunks, rl_module), f"cut at {point}")


def acting_sees_what_learning_sees(
    pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None
) -> None:
    """What the module acts on at a step is what it learns from for that step; for pieces that take part in acting."""
    if any(_FROM_STEPS & {*(piece.reads or ())} for piece in pieces()):
        return
    for episode in episodes:
        learned = learner_rows(pieces, [episode], rl_module)
        try:
            acted = [_acting_rows(pieces, episode[:t], rl_module) for t in range(len(episode))]
        except ConnectorError as error:
            if isinstance(error.__cause__, NotYetError):
                return  # for learners only
            raise
        for column in acted[0] if acted else ():
            if column in learned:
                joined = map_batch(lambda *rows: np.concatenate(rows), *(rows[column] for rows in acted))
                _compare("acting sees what learning sees", {column: learned[column]}, {column: joined}, "each step")


def episodes_do_not_depend_on_each_other(
    pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None
) -> None:
    """Law 6: all episodes at once give what each of them gives alone."""
    alone = [learner_rows(pieces, [episode], rl_module) for episode in episodes if len(episode)]
    if len(alone) > 1:
        joined = {
            column: map_batch(lambda *rows: np.concatenate(rows), *(rows[column] for rows in alone))
            for column in alone[0]
        }
        together = learner_rows(pieces, [episode for episode in episodes if len(episode)], rl_module)
        # The length of a batch may change the last bit of what a network computes.
        _compare("episodes do not depend on each other", joined, together, "all at once", tolerance=1e-5)


def order_of_episodes_does_not_matter(
    pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None
) -> None:
    """Episodes in another order give the same rows in that order."""
    lengths = [len(episode) for episode in episodes]
    forwards = learner_rows(pieces, episodes, rl_module)
    backwards = learner_rows(pieces, [*reversed(episodes)], rl_module)
    ends = np.cumsum(lengths)
    rows = np.concatenate([np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)][::-1])
    expected = map_batch(lambda leaf: leaf[rows], forwards)
    _compare("the order of episodes does not matter", expected, backwards, "reversed", tolerance=1e-5)


def callers_episodes_stay_as_they_are(
    pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None
) -> None:
    """Law 8: neither the piece nor whoever writes into the batch changes an episode of the caller."""
    before = [SingleAgentEpisode.from_state(episode.get_state()) for episode in episodes]
    batch = learner_rows(pieces, episodes, rl_module)
    for _, leaf in leaves(batch):
        if isinstance(leaf, np.ndarray) and leaf.flags.writeable and leaf.dtype.kind in "biuf":
            leaf[...] = 0
    for episode, copy in zip(episodes, before, strict=True):
        assert_same_episode(episode, copy)


def form_does_not_matter(pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None) -> None:
    """Growing episodes give the rows of finalized ones."""
    growing = [episode for episode in episodes if not episode.is_finalized]
    if growing:
        finalized = [SingleAgentEpisode.from_state(episode.get_state()).finalize() for episode in growing]
        expected = learner_rows(pieces, finalized, rl_module)
        _compare("the form does not matter", expected, learner_rows(pieces, growing, rl_module), "growing")


def running_again_changes_nothing(
    pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None
) -> None:
    """A learner pipeline that runs twice gives the same batch twice."""
    pipeline = learner_pipeline(pieces)
    first = _rows(pipeline, episodes, rl_module)
    _compare("running again changes nothing", first, _rows(pipeline, episodes, rl_module), "the second time")


def restored_pieces_go_on_alike(pieces: Pieces, episodes: Sequence[SingleAgentEpisode], rl_module: Any = None) -> None:
    """A state is JSON values and arrays; a new piece that is given it is in that state, and makes the same rows."""
    law = "restored pieces go on alike"
    kind: Callable[[Pieces], ConnectorPipelineV2] = acting_pipeline
    try:
        _rows(acting_pipeline(pieces), episodes, rl_module)
    except ConnectorError as error:
        if not isinstance(error.__cause__, NotYetError):
            raise
        kind = learner_pipeline  # for learners only
    original, twin = kind(pieces), kind(pieces)
    _rows(original, episodes, rl_module)
    state = original.get_state()
    try:
        check_state(state)
    except ConnectorStateError as error:
        raise AssertionError(f"{law}: {error}") from error
    twin.set_state(deepcopy(state))
    if fingerprint(twin.get_state()) != fingerprint(state):
        raise AssertionError(f"{law}: found the state {twin.get_state()}, expected {state}, which was set before.")
    _compare(law, _rows(original, episodes, rl_module), _rows(twin, episodes, rl_module), "after `set_state`")


# --- How they are run -----------------------------------------------------------------------------------------------


def learner_pipeline(pieces: Pieces) -> LearnerConnectorPipeline:
    """Return a learner pipeline of `pieces`, with pieces in front that add what they read."""
    return LearnerConnectorPipeline(connectors=[*_front(pieces()), *pieces(), BatchIndividualItems()])


def _front(pieces: Sequence[ConnectorV2]) -> list[ConnectorV2]:
    """Return pieces that add what `pieces` read, as far as that comes from the episodes."""
    needed = {column for piece in pieces for column in piece.reads or ()}
    front: list[ConnectorV2] = []
    if Columns.OBS in needed:
        front.append(AddObservationsFromEpisodesToBatch())
    if needed & _FROM_STEPS:
        front.append(AddColumnsFromEpisodesToTrainBatch())
    return front


def learner_rows(pieces: Pieces, episodes: Iterable[SingleAgentEpisode], rl_module: Any = None) -> dict[str, Any]:
    """Return the columns that a learner gets."""
    return _rows(learner_pipeline(pieces), episodes, rl_module)


def _rows(pipeline: ConnectorPipelineV2, episodes: Iterable[SingleAgentEpisode], rl_module: Any) -> dict[str, Any]:
    batch = pipeline(rl_module=rl_module, episodes=EpisodeList(episodes))
    by_module = [columns for columns in batch.values() if isinstance(columns, dict)]
    columns = by_module[0] if by_module and len(batch) == 1 and next(iter(batch)) not in _COLUMN_NAMES else batch
    return {name: map_batch(_as_array, column) for name, column in columns.items()}


_COLUMN_NAMES = frozenset(value for name, value in vars(Columns).items() if name.isupper())


def acting_pipeline(pieces: Pieces) -> EnvToModulePipeline:
    """Return the same as an env-to-module pipeline."""
    return EnvToModulePipeline(connectors=[*_front(pieces()), *pieces(), BatchIndividualItems()])


def _acting_rows(pieces: Pieces, episode: SingleAgentEpisode, rl_module: Any) -> dict[str, Any]:
    batch = acting_pipeline(pieces)(rl_module=rl_module, episodes=[episode])
    return {name: map_batch(_as_array, column) for name, column in batch.items()}


def _as_array(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if hasattr(leaf, "detach") else leaf


def cut_at(episode: SingleAgentEpisode, point: int, lookback: int) -> list[SingleAgentEpisode]:
    """Return `episode` in two chunks, the second with `lookback` steps of the first in front."""
    return [episode[:point], episode.slice(slice(point, None), len_lookback_buffer=lookback)]


def _compare(law: str, expected: Any, found: Any, where: str, tolerance: float = 0.0) -> None:
    """Raise if two batches differ, naming law, column and row."""
    if expected.keys() != found.keys():
        raise AssertionError(f"{law} ({where}): found the columns {sorted(found)}, expected {sorted(expected)}.")
    for column in expected:
        wanted, got = dict(leaves(expected[column])), dict(leaves(found[column]))
        if wanted.keys() != got.keys():
            raise AssertionError(f"{law} ({where}), column {column!r}: found {list(got)}, expected {list(wanted)}.")
        for path, leaf in wanted.items():
            _compare_leaves(f"{law} ({where}), column {column!r}{path}", leaf, got[path], tolerance)


def _compare_leaves(where: str, expected: np.ndarray, found: np.ndarray, tolerance: float) -> None:
    if expected.shape != found.shape or (expected.size and expected.dtype != found.dtype):
        raise AssertionError(f"{where}: found {describe(found)}, expected {describe(expected)}.")
    if expected.dtype.hasobject:
        same = np.array([left == right for left, right in zip(expected.flat, found.flat, strict=True)], np.bool_)
    elif tolerance:
        same = np.isclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = (expected == found) | ((expected != expected) & (found != found))  # noqa: PLR0124  # NaN
    if not same.all():
        row = int(np.argwhere(~same.reshape(len(same), -1).all(axis=1))[0, 0])
        raise AssertionError(f"{where}, row {row}: found {found[row]}, expected {expected[row]}.")
