"""Laws about declarations of connectors: columns, changed episodes, lookback and spaces must be as declared."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    BatchIndividualItems,
    ConnectorV2,
    Kind,
)
from episodia.connectors.batches.tracked_batch import fingerprint
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import ConnectorError, PipelineError
from episodia.spaces import short_name
from episodia.stacking import unstack
from episodia.testing.comparing import same_numbers
from episodia.testing.connectors.connector_laws import check_cuts, needs_listed_rows, steady_places
from episodia.testing.connectors.connector_running import (
    ENV_TO_MODULE,
    LEARNER,
    MODULE_TO_ENV,
    Rows,
    open_places,
    pipeline_of,
    plain_rows,
    run,
)
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.law_checking import NotApplicableError
from episodia.trees import describe, leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]


# --- Columns ----------------------------------------------------------------------------------------------------------


class _Recording(dict[str, Any]):
    """A batch that records which columns are read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        self.read.add(key)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a column, and record it if it exists."""
        if key not in self:
            return default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        """Return a column and remove it, and record it if it existed."""
        if key in self:
            self.read.add(key)
        return super().pop(key, *default)


class _Watched(ConnectorV2):
    """Wraps a piece, and records the columns that it reads, adds, changes and removes."""

    def __init__(self, piece: ConnectorV2) -> None:
        super().__init__(name=f"watched {piece.name}")
        self.piece = piece
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.present: set[str] = set()

    @property
    def reads(self) -> Collection[str] | None:
        """The declaration of the piece."""
        return self.piece.reads

    @property
    def writes(self) -> Collection[str] | None:
        """The declaration of the piece."""
        return self.piece.writes

    @property
    def fills(self) -> Collection[str]:
        """The declaration of the piece."""
        return self.piece.fills

    @property
    def alters(self) -> Collection[str] | None:
        """The declaration of the piece."""
        return self.piece.alters

    @property
    def kind(self) -> Kind:
        """The declaration of the piece."""
        return self.piece.kind

    @property
    def lookback(self) -> int:
        """The declaration of the piece."""
        return self.piece.lookback

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the result of the piece."""
        before = copy.deepcopy(_values(batch, episodes))
        given = _Recording(batch)
        kwargs["data"] = given
        made = self.piece(batch=given, episodes=episodes, **kwargs)
        after = _values(dict(made), episodes)
        # A piece may read the columns that it wrote.
        self.read |= given.read & before.keys()
        self.written |= {name for name in before.keys() | after.keys() if not _same_column(name, before, after)}
        self.present |= after.keys()
        return dict(made)


def _values(batch: dict[str, Any], episodes: EpisodeList) -> Rows:
    """Return the rows of each column, in all forms of columns."""
    columns = {key: dict(column) if isinstance(column, dict) else column for key, column in batch.items()}
    made = BatchIndividualItems()(rl_module=None, batch=columns, episodes=episodes)
    return plain_rows(made)


def _same_column(name: str, before: Rows, after: Rows) -> bool:
    if name not in before or name not in after:
        return False
    ours, theirs = dict(leaves(before[name])), dict(leaves(after[name]))
    return ours.keys() == theirs.keys() and all(_same_leaf(leaf, theirs[path]) for path, leaf in ours.items())


def _same_leaf(before: Any, after: Any) -> bool:
    before, after = np.asarray(before), np.asarray(after)
    # Another form may have another precision.
    return before.shape == after.shape and bool(same_numbers(before, after, 1e-6).all())


def columns_are_those_declared(subject: Subject, episodes: Episodes) -> list[str]:
    """The piece reads and writes only columns that it declares; declared columns that it never reads are a remark."""
    piece = subject.connector
    if piece.reads is None and piece.writes is None:
        raise NotApplicableError("it declares neither `reads` nor `writes`")
    watched = [_watched(subject, place, episodes) for place in open_places(subject)]
    read = set[str]().union(*(watch.read for watch in watched))
    written = set[str]().union(*(watch.written for watch in watched))
    present = set[str]().union(*(watch.present for watch in watched))
    _check_columns("read", read, {*(piece.reads or ()), *(piece.writes or ())}, piece.reads is not None)
    _check_columns("written", written, {*(piece.writes or ())}, piece.writes is not None)
    missing = {*(piece.writes or ())} - {*piece.fills} - present
    if missing:
        raise AssertionError(
            f"columns are those declared: found no column {sorted(missing)} after any run, expected what `writes` declares. "
            "If that depends on the module, pass `rl_module=`."
        )
    unread = {*(piece.reads or ())} - read
    remarks = [f"it declares to read {sorted(unread)}, and did not"] if unread else []
    return [
        *remarks,
        *(f"it does not declare `{name}`" for name in ("reads", "writes") if getattr(piece, name) is None),
    ]


def _check_columns(what: str, found: set[str], declared: set[str], is_declared: bool) -> None:
    undeclared = found - declared
    if is_declared and undeclared:
        attribute = "reads" if what == "read" else "writes"
        raise AssertionError(
            f"columns are those declared: found that {sorted(undeclared)} were {what}, expected {sorted(declared)} only. "
            f"Declare them in `{attribute}`."
        )


def _watched(subject: Subject, place: str, episodes: Episodes) -> _Watched:
    """Return the piece after a run with as many other columns as it accepts."""
    for make in (_crowded, _plain):
        *before, piece = subject.make()
        watched = _Watched(piece)
        try:
            run(subject, place, make(subject, place, [*before, watched]), episodes, explore=True)
        except (ConnectorError, PipelineError):
            if make is _plain:
                raise
        else:
            return watched
    raise AssertionError("columns are those declared: found no run.")  # pragma: no cover  # the last one raises


def _plain(subject: Subject, place: str, pieces: list[ConnectorV2]) -> Any:
    return pipeline_of(subject, place, pieces)


def _crowded(subject: Subject, place: str, pieces: list[ConnectorV2]) -> Any:
    """Return a pipeline with columns that the piece does not declare."""
    if place == MODULE_TO_ENV:
        return _plain(subject, place, pieces)
    own = {*(pieces[-1].writes or ())} - {*(pieces[-1].reads or ())}
    crowd: list[ConnectorV2] = [] if Columns.OBS in own else [AddObservationsFromEpisodesToBatch()]
    if place == LEARNER:
        crowd.append(AddColumnsFromEpisodesToTrainBatch(skip_columns=own))
    return type(pipeline_of(subject, place))(connectors=[*crowd, *pieces, BatchIndividualItems()])


# --- Episodes ---------------------------------------------------------------------------------------------------------


class _EpisodeWitness(ConnectorV2):
    """Records the content of all episodes; it reads no columns and changes nothing."""

    reads = writes = frozenset[str]()
    lookback = 0
    writes_to_episodes = False

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.seen: list[tuple[SingleAgentEpisode, Any]] = []

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch unchanged."""
        self.seen = [(episode, fingerprint(episode.get_state())) for episode in episodes]
        return batch


def episodes_are_written_only_if_declared(subject: Subject, episodes: Episodes) -> list[str]:
    """A piece with `writes_to_episodes = False` changes no episode; a piece that may write and does not is a remark."""
    written = [id_ for place in open_places(subject) for id_ in _written(subject, place, episodes)]
    if subject.connector.writes_to_episodes:
        return [] if written else ["it declares (or does not deny) `writes_to_episodes`, and wrote into no episode"]
    if written:
        raise AssertionError(
            f"episodes are written only if declared: found that the piece changed the episodes {sorted(set(written))}, "
            "expected no change, because `writes_to_episodes` is False. Declare `writes_to_episodes = True`."
        )
    return []


def _written(subject: Subject, place: str, episodes: Episodes) -> list[str]:
    """Return the ids of the episodes that the piece changes in place."""
    changed: list[str] = []
    for explore in (False, True):
        *before, piece = subject.make()
        first, second = _EpisodeWitness("in front of the piece"), _EpisodeWitness("behind the piece")
        run(subject, place, pipeline_of(subject, place, [*before, first, piece, second]), episodes, explore=explore)
        earlier = {id(episode): content for episode, content in first.seen}
        changed += [episode.id_ for episode, content in second.seen if earlier.get(id(episode), content) != content]
    return changed


class _ListWitness(ConnectorV2):
    """Records the list of episodes; it reads no columns and changes nothing."""

    reads = writes = frozenset[str]()
    lookback = 0
    writes_to_episodes = changes_episodes = False

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.seen: list[SingleAgentEpisode] = []

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch unchanged."""
        self.seen = list(episodes)
        return batch


def lists_are_changed_only_if_declared(subject: Subject, episodes: Episodes) -> list[str]:
    """A piece that adds, drops or replaces episodes declares `changes_episodes = True`; one that does not is a remark."""
    open_places(subject, LEARNER)
    declared = subject.connector.changes_episodes
    *before, piece = subject.make()
    first, second = _ListWitness("in front of the piece"), _ListWitness("behind the piece")
    run(subject, LEARNER, pipeline_of(subject, LEARNER, [*before, first, piece, second]), episodes)
    if [*map(id, first.seen)] == [*map(id, second.seen)]:
        return ["it declares `changes_episodes`, and left the list of episodes as it was"] if declared else []
    if not declared:
        raise AssertionError(
            f"lists are changed only if declared: found {len(first.seen)} episodes before the piece and {len(second.seen)} "
            "after it, or other ones; expected the same episodes, because the piece does not declare to change them. Declare "
            "`changes_episodes = True`."
        )
    return []


# --- Lookback ---------------------------------------------------------------------------------------------------------


def lookback_is_as_small_as_declared(subject: Subject, episodes: Episodes) -> list[str]:
    """The declared lookback is not larger than needed; a larger one is a remark, and the law of cuts finds smaller ones."""
    if subject.connector.kind is not Kind.CAUSAL:
        raise NotApplicableError(f"it is {subject.connector.kind.value}: chunks are not compared with the whole")
    needs_listed_rows(subject)
    lookback = subject.connector.lookback
    if not lookback:
        return []
    try:
        for place in steady_places(subject):
            check_cuts(subject, place, episodes, lookback - 1)
    except NotApplicableError:
        raise
    except Exception:  # noqa: BLE001  # a failure with a smaller lookback is correct
        return []
    return [f"it declares a lookback of {lookback}; on these episodes {lookback - 1} was enough"]


# --- Spaces -----------------------------------------------------------------------------------------------------------


def observations_are_in_the_declared_space(subject: Subject, episodes: Episodes) -> None:
    """The observations of the batch are in the space that the piece derives from its input space."""
    places = open_places(subject, LEARNER, ENV_TO_MODULE)
    given = episodes[0].observation_space, episodes[0].action_space
    if given[0] is None:
        raise NotApplicableError("the episodes know no observation space")
    for place in places:
        pipeline = pipeline_of(subject, place, None, *given)
        columns = run(subject, place, pipeline, episodes)
        space = pipeline.observation_space
        if space is None:
            raise NotApplicableError("it derives no observation space")
        for row, item in enumerate(unstack(columns[Columns.OBS])):
            _check_item(place, row, space, item)


def _check_item(place: str, row: int, space: Space[Any], item: Any) -> None:
    item = map_batch(lambda leaf: np.asarray(leaf) if isinstance(leaf, np.generic) else leaf, item)
    if not _is_in(space, item):
        raise AssertionError(
            f"observations are in the declared space ({place}), row {row}: found {describe(item)} {item}, expected an item of "
            f"{short_name(space)}, which `recompute_output_observation_space` returns."
        )


def _is_in(space: Space[Any], item: Any) -> bool:
    if isinstance(space, spaces.Dict):
        return (
            isinstance(item, dict)
            and item.keys() == space.spaces.keys()
            and all(_is_in(child, item[key]) for key, child in space.spaces.items())
        )
    if isinstance(space, spaces.Tuple):
        return isinstance(item, tuple) and len(item) == len(space.spaces) and all(map(_is_in, space.spaces, item))
    if isinstance(space, spaces.Box):
        # gymnasium accepts every dtype that can be cast safely.
        return isinstance(item, np.ndarray) and item.dtype == space.dtype and space.contains(item)
    return bool(space.contains(item[()] if isinstance(item, np.ndarray) and not item.ndim else item))
