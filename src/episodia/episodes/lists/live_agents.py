"""The agents that are to act in several multi-agent episodes, as a list that knows whether it still holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress
from operator import is_
from typing import Any, final

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.columns.storage import ListStorage
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, counted, positions_by_module
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.stacking import stack

_LAST = slice(-1, None)


@final
class LiveAgents(EpisodeList[MultiAgentEpisode]):
    """Multi-agent episodes at the present moment; see `EpisodeList.current`.

    Attributes:
        was_read: Whether anything has got hold of an episode, which it may change. Last observations, ids and spaces are known
            without that.
        lacks_ended: Whether agents that have ended by the last step have a last observation, and no row here.
        num_acting: How many agents of each episode are to act.
        are_shown: Whether the last observations of all agents are known as arrays, beside which there are no infos.

    The agents that are to act, and their modules, are determined once. In most environments the same agents act again: as
    long as `holds` says so, the list can be used at the next moment, too.

    >>> episode = MultiAgentEpisode("game")
    >>> episode.add_env_reset(observations={"white": 0, "black": 1})
    >>> agents = LiveAgents([episode])
    >>> agents.owners_by_module()
    {'default_policy': [(0, 'white'), (0, 'black')]}
    >>> episode.add_env_step({"white": 2}, {"white": 5, "black": 6}, {"white": 1.0})
    >>> agents.holds([episode])
    False
    """

    __slots__ = (
        "_by_module",
        "_listed",
        "_live_groups",
        "_moment",
        "_own_rows",
        "_owners",
        "are_shown",
        "lacks_ended",
        "num_acting",
        "was_read",
    )

    def __init__(self, episodes: Sequence[MultiAgentEpisode], *, with_ended: bool = False) -> None:
        """List episodes; `with_ended` adds rows of agents that have ended by the last step, on which no module acts."""
        self.was_read = self.are_shown = False
        self._begin(list(episodes), is_multi_agent=True, is_current=True)
        owners: list[tuple[int, Any]] = []
        rows: list[SingleAgentEpisode] = []
        self.num_acting = []
        for position, episode in enumerate(self._listed):
            chosen = _shown(episode, with_ended=with_ended)
            owners += [(position, agent) for agent in chosen]
            rows += chosen.values()
            self.num_acting.append(len(chosen))
        self._know(owners, rows)

    def _know(self, owners: list[tuple[int, Any]], rows: list[SingleAgentEpisode]) -> None:
        """Note the agents that are to act: for each the position of its episode, its id and its own episode."""
        self._owners, self._own_rows = owners, rows
        self.note_moment()
        ids = [row.module_id for row in rows]
        modules = positions_by_module(ids) if self._listed else {DEFAULT_MODULE_ID: counted(0)}
        self._modules = modules
        if len(modules) == 1:
            self._live_groups = {module_id: LiveRows(rows, self) for module_id in modules}
            self._by_module = dict.fromkeys(modules, owners)
            return
        places = {module_id: positions.tolist() for module_id, positions in modules.items()}
        self._live_groups = {
            module_id: LiveRows([rows[place] for place in chosen], self) for module_id, chosen in places.items()
        }
        self._by_module = {module_id: [owners[place] for place in chosen] for module_id, chosen in places.items()}

    def note_moment(self) -> None:
        """Let the list hold at the present moment, after a step by which the same agents are to act again."""
        self._moment = _moment_of(self._listed)
        self.lacks_ended = sum([len(observed) for _, observed in self._moment]) > len(self._owners)

    def without(self, ended: Collection[tuple[int, Any]]) -> LiveAgents:
        """Return the list after some of the agents that were to act have ended; what others are shown is kept.

        Args:
            ended: The position of the episode of each of these agents, and the agent.
        """
        made = LiveAgents.__new__(LiveAgents)
        made.was_read = made.are_shown = False
        made._begin(self._listed, is_multi_agent=True, is_current=True)
        made.num_acting = self.num_acting.copy()
        for position, _ in ended:
            made.num_acting[position] -= 1
        kept = [owner not in ended for owner in self._owners]
        made._know([*compress(self._owners, kept)], [*compress(self._own_rows, kept)])
        for module_id, group in made._live_groups.items():
            shown = self._live_groups[module_id].shown
            if shown is not None:
                group.shown = shown[np.array(kept)[self.by_module()[module_id]]]
        made.was_read, made.are_shown = self.was_read, self.are_shown
        return made

    def holds(self, episodes: Sequence[MultiAgentEpisode]) -> bool:
        """Tell whether a new list of `episodes` would be the same."""
        return self.lists(episodes) and self._moment == _moment_of(episodes)

    def lists(self, episodes: Sequence[MultiAgentEpisode]) -> bool:
        """Tell whether these, and no others, are the episodes of the list."""
        return len(self._listed) == len(episodes) and all(map(is_, self._listed, episodes))

    def owners_by_module(self) -> dict[Any, list[tuple[int, Any]]]:
        """Return for each module the position of the episode, and the agent, of each of its rows."""
        return self._by_module

    def current(self) -> EpisodeList[MultiAgentEpisode]:
        """Return this list, which speaks of the present moment anyway."""
        return self

    def row_owners(self) -> list[tuple[int, Any]]:
        """Return for each row the position of its episode, and its agent."""
        return self._owners

    @property
    def _episodes(self) -> list[Any]:
        self.note_reading()
        return self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        self._listed = episodes

    def __len__(self) -> int:
        return len(self._listed)

    def _rows(self) -> list[SingleAgentEpisode]:
        self.note_reading()
        return self._own_rows

    def note_reading(self) -> None:
        """Note that something gets hold of the episodes; from now on, their columns say what was observed last."""
        self.was_read = True
        self.show_none()

    def agents_for_reading(self) -> list[SingleAgentEpisode]:
        """Return the agents' episodes as they are; see `EpisodeList.agents_for_reading`."""
        return self._own_rows

    def module_has_in_observations(self, module_id: Any, key: str) -> bool:
        """Tell whether the last observations of a module's agents are dicts with the key `key`."""
        group = self._live_groups.get(module_id)
        return group is not None and group.has_in_observations(key)

    def groups(self) -> dict[Any, EpisodeList[SingleAgentEpisode]]:
        """Return the agents of each module as a list of their own."""
        return {**self._live_groups}

    def show(self, observations: Sequence[tuple[Any, np.ndarray]]) -> None:
        """Let these be the last observations of the agents of all modules, beside which there are no infos."""
        for module_id, rows in observations:
            self._live_groups[module_id].shown = rows
        self.are_shown = True

    def show_none(self) -> None:
        """Look into the episodes for last observations."""
        if self.are_shown:
            self.are_shown = False
            for group in self._live_groups.values():
                group.shown = None


@final
class LiveRows(EpisodeList[SingleAgentEpisode]):
    """The agents of one module at the present moment.

    Attributes:
        shown: Their last observations, if they are known as one array.
    """

    __slots__ = ("_listed", "_offsets", "_whole", "shown")

    def __init__(self, rows: list[SingleAgentEpisode], whole: LiveAgents) -> None:
        """List agents' own episodes, which are part of those of `whole`."""
        self._whole = whole
        self._begin(rows, is_multi_agent=False, is_current=True)
        self._offsets = counted(len(rows) + 1)
        self.shown: np.ndarray | None = None

    def current(self) -> EpisodeList[SingleAgentEpisode]:
        """Return this list, which speaks of the present moment anyway."""
        return self

    @property
    def _episodes(self) -> list[Any]:
        self._whole.note_reading()
        return self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        self._listed = episodes

    def __len__(self) -> int:
        return len(self._listed)

    def agents_for_reading(self) -> list[SingleAgentEpisode]:
        """Return the agents' episodes as they are; see `EpisodeList.agents_for_reading`."""
        return self._listed

    def has_in_observations(self, key: str) -> bool:
        """Tell whether the last observations are dicts with the key `key`."""
        if self.shown is not None or not self._listed:
            return False
        first = self._listed[0].get_observations(-1)
        return isinstance(first, dict) and key in first

    def some(self, places: np.ndarray) -> LiveRows:
        """Return the agents at these places, with what they are shown."""
        some = LiveRows([self._listed[place] for place in places.tolist()], self._whole)
        some.shown = None if self.shown is None else self.shown[places]
        return some

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return one row for each agent; see `EpisodeList.flat`."""
        if column == Columns.OBS and self.shown is not None:
            return Ragged(self.shown, self._offsets)
        if column == Columns.OBS:
            rows = self._listed
            storages = [row.observations.storage for row in rows]
            if storages and set(map(type, storages)) == {ListStorage}:
                # Straight from the storages: this is done for each agent at each step.
                items = [storage.lend(_LAST)[0] for storage in storages]
                return Ragged(stack(items, rows[0].observations.object_leaves), self._offsets)
        return super().flat(column, tail=tail)


def _moment_of(episodes: Sequence[MultiAgentEpisode]) -> list[tuple[int, set[Any]]]:
    """Return what decides which agents act next: how many have ended, and which were shown an observation last."""
    rosters = [episode.roster for episode in episodes]
    return [(roster.num_ended, roster.observed_last) for roster in rosters]


def _shown(episode: MultiAgentEpisode, *, with_ended: bool) -> dict[Any, SingleAgentEpisode]:
    """Return the own episodes of the agents that were shown the last step, in the order in which they came."""
    roster = episode.roster
    observed = roster.observed_last
    return {
        agent: single
        for agent, single in roster.episodes.items()
        if agent in observed and (with_ended or not (single.is_terminated or single.is_truncated))
    }
