"""Runs of a connector in each kind of pipeline that it can be part of."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from episodia.columns import COLUMN_NAMES, Columns
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    BatchIndividualItems,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
    add_column,
)
from episodia.connectors.batches.batch_columns import add_observations, has_column
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import BatchError, ConnectorError, NotYetError, PipelineError
from episodia.stacking import stack
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.law_checking import NotApplicableError
from episodia.trees import leaves, map_batch

#: The places of a piece, by kind of pipeline.
LEARNER, ENV_TO_MODULE, MODULE_TO_ENV = "learner", "env-to-module", "module-to-env"

Rows = dict[str, Any]

_FROM_STEPS = frozenset({Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})
_KINDS: dict[str, type[ConnectorPipelineV2]] = {
    LEARNER: LearnerConnectorPipeline,
    ENV_TO_MODULE: EnvToModulePipeline,
    MODULE_TO_ENV: ModuleToEnvPipeline,
}

# Columns with one row per sequence instead of one per step.
_PER_SEQUENCE = frozenset({Columns.STATE_IN, Columns.SEQ_LENS})


class AddWhatIsMissing(ConnectorV2):
    """Adds observations and rewards if they are missing, so that changes of the episodes are visible."""

    reads = writes = frozenset[str]()
    lookback = 0

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch with both columns."""
        if not has_column(batch, Columns.OBS):
            add_observations(batch, episodes)
        if not episodes.is_current and not has_column(batch, Columns.REWARDS):
            add_column(batch, Columns.REWARDS, episodes, lambda rows: rows.flat(Columns.REWARDS))
        return batch


# --- Pipelines --------------------------------------------------------------------------------------------------------


def pipeline_of(
    subject: Subject, place: str, pieces: Sequence[ConnectorV2] | None = None, *spaces: Any
) -> ConnectorPipelineV2:
    """Return a pipeline of new pieces of the subject (or of `pieces`), after pieces that write the columns they read.

    Args:
        subject: The subject.
        place: The kind of the pipeline.
        pieces: Pieces to use instead of those of the subject.
        *spaces: The observation and the action space that reach the first piece.
    """
    if pieces is None:
        pieces = subject.make()
    if place == MODULE_TO_ENV:
        return _KINDS[place](*spaces, connectors=[*pieces, BatchIndividualItems(name="the end")])
    return _KINDS[place](
        *spaces, connectors=[*front_of(pieces), *pieces, AddWhatIsMissing(), BatchIndividualItems(name="the end")]
    )


def front_of(pieces: Sequence[ConnectorV2]) -> list[ConnectorV2]:
    """Return pieces that add the columns of episodes that `pieces` read and do not write."""
    needed: set[str] = set()
    written: set[str] = set()
    for piece in pieces:
        needed |= {*(piece.reads or ())} - written
        written |= {*(piece.writes or ())}
    front: list[ConnectorV2] = []
    if Columns.OBS in needed:
        front.append(AddObservationsFromEpisodesToBatch())
    if needed & _FROM_STEPS:
        front.append(AddColumnsFromEpisodesToTrainBatch())
    return front


def rows_of(
    subject: Subject,
    place: str,
    episodes: Sequence[SingleAgentEpisode],
    pieces: Sequence[ConnectorV2] | None = None,
    *,
    explore: bool | None = None,
) -> Rows:
    """Return the rows of each column after one run of a new pipeline of the subject."""
    return run(subject, place, pipeline_of(subject, place, pieces), episodes, explore=explore)


def run(
    subject: Subject,
    place: str,
    pipeline: ConnectorPipelineV2,
    episodes: Sequence[SingleAgentEpisode],
    *,
    explore: bool | None = None,
    batch: dict[str, Any] | None = None,
) -> Rows:
    """Return the rows of each column after a run of `pipeline`, whose kind is `place`."""
    # Forks, so that a piece that writes into episodes does not affect the next run.
    episodes = [copy.copy(episode) for episode in episodes]
    return run_on_originals(subject, place, pipeline, episodes, explore=explore, batch=batch)


def run_on_originals(
    subject: Subject,
    place: str,
    pipeline: ConnectorPipelineV2,
    episodes: Sequence[SingleAgentEpisode],
    *,
    explore: bool | None = None,
    batch: dict[str, Any] | None = None,
) -> Rows:
    """Return the result of `run` on the episodes themselves instead of forks."""
    shared: dict[str, Any] = {}
    arguments: dict[str, Any] = {"rl_module": subject.rl_module, "explore": explore, "shared_data": shared}
    if place == MODULE_TO_ENV:
        arguments["batch"] = outputs_of(subject, episodes) if batch is None else batch
        arguments["generator"] = torch.Generator().manual_seed(0)
    made = pipeline(episodes=EpisodeList(episodes), **arguments)
    return plain_rows(made, has_time_axis=bool(shared.get(ADDED_TIME_AXIS)))


def outputs_of(subject: Subject, episodes: Sequence[SingleAgentEpisode]) -> dict[str, Any]:
    """Return the batch of module outputs for the last observations of `episodes`."""
    if subject.outputs is None:
        raise ValueError("found no `outputs`, expected a function that returns what the module puts out.")
    asked = list(episodes) or list(subject.episodes[:1])
    items = [subject.outputs(episode) for episode in asked]
    columns = {name: stack([item[name] for item in items]) for name in items[0]}
    return map_batch(lambda leaf: leaf[: len(episodes)], columns)  # type: ignore[no-any-return]  # the dict


def plain_rows(batch: dict[Any, Any], *, has_time_axis: bool = False) -> Rows:
    """Return the columns of a batch of one module as arrays with one row per step, without padding and time axis."""
    columns = batch
    if len(batch) == 1:
        (key, inner), *_ = batch.items()
        columns = inner if isinstance(inner, dict) and key not in COLUMN_NAMES else batch
    return _without_padding({name: map_batch(as_array, column) for name, column in columns.items()}, has_time_axis)


def _without_padding(columns: Rows, has_time_axis: bool) -> Rows:
    if has_time_axis:
        stepped = {name: column for name, column in columns.items() if name != Columns.STATE_IN}
        return {**columns, **map_batch(lambda leaf: leaf[:, 0], stepped)}
    if Columns.SEQ_LENS not in columns:
        return columns
    mask = columns[Columns.LOSS_MASK]
    kept = {name: column for name, column in columns.items() if name not in _PER_SEQUENCE}
    return map_batch(lambda leaf: leaf[mask] if leaf.shape[:2] == mask.shape else leaf, kept)  # type: ignore[no-any-return]


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several batches, which have the same columns, one after another."""
    columns = parts[0] if parts else ()
    return {name: map_batch(lambda *rows: np.concatenate(rows), *(rows[name] for rows in parts)) for name in columns}


def count_rows(columns: Rows) -> dict[str, int]:
    """Return the number of rows of each column."""
    return {name: len(next(leaves(column))[1]) for name, column in columns.items() if any(True for _ in leaves(column))}


# --- Where a piece works ----------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """The kinds of pipelines in which a piece works, which it rejects, and in which it fails."""

    open: list[str]
    rejected: dict[str, str]
    broken: dict[str, Exception]


_PLACES: WeakKeyDictionary[Subject, Places] = WeakKeyDictionary()


def places_of(subject: Subject) -> Places:
    """Return the places where the subject works, found by one run on ordinary episodes."""
    if subject not in _PLACES:
        _PLACES[subject] = _found_places(subject)
    return _PLACES[subject]


def _found_places(subject: Subject) -> Places:
    asked = [LEARNER, ENV_TO_MODULE] if subject.outputs is None else [MODULE_TO_ENV]
    if not subject.episodes:
        # Only a run on multi-agent episodes can tell.
        return Places(asked, {}, {})
    places = Places([], {}, {})
    for place in asked:
        read = {column for piece in subject.make() for column in piece.reads or ()} & _FROM_STEPS
        if place == ENV_TO_MODULE and read:
            places.rejected[place] = f"it reads {sorted(read)}, which only learners have"
            continue
        try:
            rows_of(subject, place, _ordinary(subject.fresh_episodes()))
        except Exception as error:  # noqa: BLE001  # pieces may raise anything, and it is reported
            if place != MODULE_TO_ENV and is_rejection(error):
                places.rejected[place] = str(error).splitlines()[0]
            else:
                places.broken[place] = error
        else:
            places.open.append(place)
    return places


def _ordinary(episodes: Sequence[SingleAgentEpisode]) -> list[SingleAgentEpisode]:
    """Return the episodes of several steps; short episodes have their own laws."""
    return [episode for episode in episodes if len(episode) > 1] or list(episodes)


def is_rejection(error: Exception) -> bool:
    """Tell whether a piece itself rejects this kind of pipeline."""
    cause = error.__cause__ if isinstance(error, ConnectorError) else error
    return isinstance(cause, (NotYetError, PipelineError, BatchError))


def open_places(subject: Subject, *wanted: str) -> list[str]:
    """Return the `wanted` places (all by default) at which the subject works.

    Raises:
        NotApplicableError: If it works at no place, or if there are no single-agent episodes.
    """
    if not subject.episodes:
        raise NotApplicableError("no single-agent episodes were given")
    places = places_of(subject)
    found = [place for place in places.open if not wanted or place in wanted]
    if found:
        return found
    reasons = [f"{place}: {reason}" for place, reason in places.rejected.items() if not wanted or place in wanted]
    raise NotApplicableError("; ".join(reasons) or f"it has no place in the pipelines {list(wanted)}")
