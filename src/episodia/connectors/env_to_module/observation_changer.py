"""Base classes of pieces that change observations: spaces of many agents, and the source of the observations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import add_to_run, rows_of_modules
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.spaces.row_spaces import Part, agent_space, agent_spaces, parts_of, reassembled
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.episodes.lists.live_agents import LiveRows
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.types import AgentID

# Called with some agent episodes, what they have in common, and their places among all, None for all of them.
_ChangePart: TypeAlias = Callable[[EpisodeList, Part, np.ndarray | None], Ragged]


class ObservationPiece(ColumnPiece):
    """A piece that changes the observation space, for each agent separately if there are many.

    Args:
        input_observation_space: The space of observations; with `multi_agent`, a `Dict` space with one entry for each agent.
        input_action_space: The same for actions.
        multi_agent: Whether the spaces have an entry for each agent.
        **kwargs: Those of `ConnectorV2`.
    """

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        multi_agent: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name, **kwargs)
        self.multi_agent = multi_agent

    @abstractmethod
    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the output observation space of one agent; `agent_id` is None without `multi_agent`."""

    def recompute_output_observation_space(
        self, input_observation_space: Space[Any], input_action_space: Space[Any] | None
    ) -> Space[Any]:
        """Return the space of the changed observations, with an entry for each agent if the input has them."""
        if not self.multi_agent:
            return self.output_space(input_observation_space, input_action_space, None)
        actions = {} if input_action_space is None else agent_spaces(self.name, input_action_space)
        return spaces.Dict(
            {
                agent: self.output_space(space, actions.get(agent), agent)
                for agent, space in agent_spaces(self.name, input_observation_space).items()
            }
        )


class ObservationChanger(ObservationPiece):
    """A piece that changes each observation separately; observations that are not in the batch come from the episodes.

    The episodes are not changed.

    Attributes:
        looks_at_one: Whether the change depends on nothing but the observation and its space, so that earlier observations
            can be changed in the same way, see `FrameStacking`.
    """

    looks_at_one: ClassVar[bool] = False
    reads = frozenset[str]()
    writes = fills = alters = frozenset({Columns.OBS})

    @abstractmethod
    def changed(self, column: Ragged, rows: EpisodeList, part: Part) -> Ragged:
        """Return the changed observations of `rows`, all of which belong to one part."""

    def input_spaces(self) -> Any:
        """Return the given space (of all agents) that decides how rows are changed."""
        return self.input_observation_space

    def own_space(self, episode: SingleAgentEpisode) -> Space[Any] | None:
        """Return the same space from an episode."""
        return episode.observation_space

    def label(self, episode: SingleAgentEpisode) -> Any:
        """Return the key that groups rows of one space."""
        return None

    def work(self, run: Run) -> None:
        """Change the observations in the batch, before or after it is mapped to modules."""
        if not run.batch and type(run.episodes) is LiveEpisodes:  # the first piece of a runner with one module
            run.batch[Columns.OBS] = self.by_part(None, run.episodes, is_mapped=False)
            return
        parts = rows_of_modules(run)
        there = [part for part in parts if Columns.OBS in part.columns]
        if not there:
            add_to_run(run, Columns.OBS, lambda rows: self.by_part(None, rows, is_mapped=False))
            return
        is_mapped = Columns.OBS not in run.batch
        for _, columns, rows in there:
            column = as_ragged(columns[Columns.OBS], rows)
            columns[Columns.OBS] = self.by_part(column, rows, is_mapped=is_mapped)

    def by_part(self, column: Ragged | None, rows: EpisodeList, *, is_mapped: bool) -> Ragged:
        """Return the changed rows; without a `column` they are taken from the episodes, for each part separately."""
        if not len(rows):
            return _observations(rows) if column is None else column

        def change(some: EpisodeList, part: Part, places: np.ndarray | None) -> Ragged:
            if column is None:
                return self.changed(_observations(some), some, part)
            return self.changed(column if places is None else column.select(places), some, part)

        return self.in_parts(rows, change, is_mapped=is_mapped)

    def in_parts(self, rows: EpisodeList, change: _ChangePart, *, is_mapped: bool) -> Ragged:
        """Return the rows that `change` makes of those of each part; the parts differ in their spaces."""
        given = self.input_spaces()
        if given is not None and not self.multi_agent:
            return change(rows, Part(None, given), None)
        parts, positions, singles = parts_of(rows, lambda single: self._part_of(single, given, is_mapped))
        if len(parts) == 1:
            return change(rows, parts[0], None)
        changed = [
            change(_some(rows, singles, places), part, places) for part, places in zip(parts, positions, strict=True)
        ]
        return reassembled(self.name, changed, positions)

    def _part_of(self, single: SingleAgentEpisode, given: Any, is_mapped: bool) -> Part:
        space = self.own_space(single) if given is None else agent_space(self.name, given, single, is_mapped=is_mapped)
        return Part(self.label(single), space)


def _observations(rows: EpisodeList) -> Ragged:
    return rows.flat(Columns.OBS, tail=True)


def _some(rows: EpisodeList, singles: Sequence[SingleAgentEpisode], places: np.ndarray) -> EpisodeList:
    """Return the agents at some places; those of a runner may have been shown what their episodes do not have yet."""
    if isinstance(rows, LiveRows):
        return rows.some(places)
    some = EpisodeList(singles[place] for place in places.tolist())
    return some.current() if rows.is_current else some
