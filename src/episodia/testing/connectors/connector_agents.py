"""The law of multi-agent episodes: the rows of an agent are those of its own episode."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AgentToModuleMapping,
    BatchIndividualItems,
    ConnectorV2,
    EnvToModulePipeline,
    Kind,
    LearnerConnectorPipeline,
    ModuleToEnvPipeline,
)
from episodia.connectors.batches.batch_columns import is_mapped
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.episodes import EpisodeList, MultiAgentEpisode
from episodia.errors import BatchError, ConnectorError
from episodia.testing.comparing import compare_batches
from episodia.testing.connectors.connector_laws import needs_listed_rows
from episodia.testing.connectors.connector_running import (
    LEARNER,
    MODULE_TO_ENV,
    AddWhatIsMissing,
    Rows,
    front_of,
    is_rejection,
    joined_rows,
    outputs_of,
    places_of,
    plain_rows,
    rows_of,
)
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.law_checking import NotApplicableError

_LAW = "agents have the rows of their own episodes"
_LAST_BITS = 1e-5


class _MapOnce(ConnectorV2):
    """Groups the batch by module, unless it is grouped already."""

    reads = writes = frozenset[str]()
    lookback = 0

    def __call__(self, *, batch: dict[Any, Any], episodes: Any, **kwargs: Any) -> dict[Any, Any]:
        """Return the batch, grouped by module."""
        if is_mapped(batch, episodes):
            return batch
        return AgentToModuleMapping()(rl_module=None, batch=batch, episodes=episodes)


def agents_have_the_rows_of_their_own_episodes(subject: Subject, _: object) -> list[str]:
    """In multi-agent episodes, each module gets the rows that the episodes of its agents give on their own."""
    episodes = subject.multi_agent_episodes
    if not episodes:
        raise NotApplicableError("no multi-agent episodes were given: it is not for several agents")
    needs_listed_rows(subject)
    remarks: list[str] = []
    rejections: list[str] = []
    for place in places_of(subject).open:
        try:
            found, is_after = _found(subject, place, episodes)
        except ConnectorError as error:
            # Without single-agent episodes, it is not known yet where the piece works.
            if not subject.episodes and place != MODULE_TO_ENV and is_rejection(error):
                rejections.append(str(error))
                continue
            raise AssertionError(
                f"{_LAW} ({place}): {error} If it is not for several agents, pass `multi_agent_episodes=()`."
            ) from error
        if is_after:
            remarks.append(f"it stands after `AgentToModuleMapping` in {place} pipelines")
        if subject.episodes and subject.connector.kind is not Kind.BATCH_WIDE and not subject.connector.is_stateful:
            _compare(subject, place, episodes, found)
    if len(rejections) == len(places_of(subject).open):
        raise AssertionError(f"{_LAW}: found no pipeline that it works in: {rejections}.")
    return remarks


def _found(subject: Subject, place: str, episodes: Sequence[MultiAgentEpisode]) -> tuple[dict[Any, Rows], bool]:
    """Return the rows of each module, and whether the piece needs a place after the mapping."""
    if place == MODULE_TO_ENV:
        return _acted(subject, episodes), False
    pieces = len(subject.make())
    for mapped_at in (pieces, pieces - 1, 0):
        try:
            return _mapped(subject, place, episodes, mapped_at), mapped_at < pieces
        except ConnectorError as error:
            if not isinstance(error.__cause__, BatchError) or not mapped_at:
                raise
    raise AssertionError(f"{_LAW}: found no place for the mapping.")  # pragma: no cover  # the last one raises


def _mapped(subject: Subject, place: str, episodes: Sequence[MultiAgentEpisode], mapped_at: int) -> dict[Any, Rows]:
    """Return the rows of each module, with the mapping before the piece at `mapped_at`, or after all pieces."""
    pieces = subject.make()
    connectors = [*front_of(pieces), *pieces[:mapped_at]]
    if mapped_at < len(pieces):
        connectors += [AgentToModuleMapping(name="the mapping in front"), *pieces[mapped_at:]]
    connectors += [AddWhatIsMissing(), _MapOnce(), BatchIndividualItems(name="the end")]
    kind = LearnerConnectorPipeline if place == LEARNER else EnvToModulePipeline
    shared: dict[str, Any] = {}
    batch = kind(connectors=connectors)(
        rl_module=subject.rl_module,
        episodes=[copy.copy(episode) for episode in episodes],
        shared_data=shared,
        explore=False,
    )
    has_time_axis = bool(shared.get(ADDED_TIME_AXIS))
    return {key: plain_rows({key: columns}, has_time_axis=has_time_axis) for key, columns in batch.items()}


def _acted(subject: Subject, episodes: Sequence[MultiAgentEpisode]) -> dict[Any, Rows]:
    """Return the result of a module-to-env pipeline for the outputs of all modules."""
    shared: dict[str, Any] = {}
    front = EnvToModulePipeline(connectors=[AddObservationsFromEpisodesToBatch(), AgentToModuleMapping()])
    front(rl_module=None, episodes=episodes, shared_data=shared)
    groups = EpisodeList(episodes).current().groups()
    outputs = {module: outputs_of(subject, group.agent_episodes) for module, group in groups.items()}
    made = ModuleToEnvPipeline(connectors=subject.make())(
        rl_module=subject.rl_module,
        batch=outputs,
        episodes=list(episodes),
        shared_data=shared,
        explore=False,
        generator=torch.Generator().manual_seed(0),
    )
    listed = EpisodeList(episodes).current()
    if is_mapped(made, listed):
        made = BatchIndividualItems()(rl_module=None, batch=made, episodes=listed)
    return made


def _compare(subject: Subject, place: str, episodes: Sequence[MultiAgentEpisode], found: dict[Any, Any]) -> None:
    listed = EpisodeList(episodes)
    groups = (listed if place == LEARNER else listed.current()).groups()
    for module, group in groups.items():
        if not isinstance(found.get(module), dict):
            # Some pieces change the layout of the batch, to agents or episodes.
            continue
        agents = [agent for agent in group.agent_episodes if len(agent) or place != LEARNER]
        alone = joined_rows([rows_of(subject, place, [agent]) for agent in agents])
        rows = plain_rows({module: found[module]}) if place == MODULE_TO_ENV else found[module]
        compare_batches(_LAW, alone, rows, f"{place}, module {module!r}", _LAST_BITS)
