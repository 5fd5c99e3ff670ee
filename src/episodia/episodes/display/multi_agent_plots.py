"""Pictures of a multi-agent episode: who stepped when, and columns of all agents on the clock of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia import plotting
from episodia.episodes.display.episode_plots import check_columns, draw_line, ending_of, mark_end, mark_time
from episodia.episodes.display.episode_tables import columns_of
from episodia.errors import EpisodeError

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

_MOST_AGENTS = 30
_MOST_IN_LEGEND = 10


def plot(episode: MultiAgentEpisode, columns: Sequence[str], ax: Any) -> Any:
    """Draw who stepped when, and below it a panel for each of `columns`; return the figure.

    Raises:
        EpisodeKeyError: If no agent has such a column.
        EpisodeError: If items of a column are no single numbers.
        MissingExtraError: If matplotlib is not installed.
    """
    agents = list(episode.agent_episodes)[:_MOST_AGENTS]
    if agents:
        known = {name for single in episode.agent_episodes.values() for name in columns_of(single)}
        check_columns(episode.id_, columns, sorted(known))
    series = {column: _series(episode, agents, column) for column in columns}
    heights = [0.9 + 0.22 * max(1, len(agents)), *[1.9] * len(columns)]
    figure, (timeline, *others) = plotting.panels(["the timeline", *columns], ax, heights=heights)
    _draw_timeline(timeline, episode, agents)
    for (column, lines), axes in zip(series.items(), others, strict=True):
        for number, (agent, (times, values)) in enumerate(zip(agents, lines, strict=True)):
            label = repr(agent) if number < _MOST_IN_LEGEND else "_"
            draw_line(axes, times, values, color=_colour(number), label=label)
        axes.set_ylabel(plotting.plain(column))
        if agents:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7, frameon=False)
    for axes in (timeline, *others):
        mark_time(axes, episode.env_t_started - episode.env_lookback, episode.env_t_started, episode.env_t)
        mark_end(axes, episode.env_t, ending_of(episode))
    (others or [timeline])[-1].set_xlabel("environment step")
    if ax is None:
        figure.suptitle(_title(episode), fontsize=11)
    return figure


def _title(episode: MultiAgentEpisode) -> str:
    return f"{plotting.plain(episode.id_)}: {len(episode)} environment steps, return {episode.get_return():g}"


def _draw_timeline(axes: Any, episode: MultiAgentEpisode, agents: list[Any]) -> None:
    """Draw a row for each agent: rings where it was shown something, filled ones where it acted on that."""
    ends: dict[str, tuple[list[int], list[int]]] = {"terminated": ([], []), "truncated": ([], [])}
    for row, agent in enumerate(agents):
        single, colour = episode.agent_episodes[agent], _colour(row)
        record = episode.roster.records[agent]
        steps = record.timeline.env_steps
        acted = single.actions.len_incl_lookback() + record.has_acted
        axes.plot(steps, [row] * len(steps), color=colour, linewidth=0.8, alpha=0.5)
        axes.plot(steps[acted:], [row] * len(steps[acted:]), "o", color=colour, fillstyle="none", markersize=5)
        axes.plot(steps[:acted], [row] * len(steps[:acted]), "o", color=colour, markersize=5)
        if steps and single.is_done:
            for place, value in zip(ends[_end(single)], (steps[-1], row), strict=True):
                place.append(value)
    for name, marker in (("terminated", "x"), ("truncated", "|")):
        if ends[name][0]:
            axes.plot(*ends[name], marker, color="black", markersize=9, label=name)
    _label_rows(axes, episode, agents)


def _end(single: Any) -> str:
    return "terminated" if single.is_terminated else "truncated"


def _label_rows(axes: Any, episode: MultiAgentEpisode, agents: list[Any]) -> None:
    hidden = len(episode.agent_episodes) - len(agents)
    names = [plotting.plain(agent, 24) for agent in agents]
    axes.set_yticks(range(len(agents)), names, fontsize=8)
    axes.set_ylim(max(len(agents), 1) - 0.4, -0.6)
    axes.plot([], [], "o", color="0.4", markersize=5, label="acted")
    axes.plot([], [], "o", color="0.4", fillstyle="none", markersize=5, label="saw")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7, frameon=False)
    if hidden > 0:
        axes.set_ylabel(f"and {hidden} more agents", fontsize=7)


def _series(episode: MultiAgentEpisode, agents: list[Any], name: str) -> list[tuple[list[int], np.ndarray]]:
    """Return, for each agent, environment steps and the numbers that stand at them."""
    found = [columns_of(episode.agent_episodes[agent]).get(name) for agent in agents]
    lines = []
    for agent, column in zip(agents, found, strict=True):
        stored: Any = None if column is None else column.stacked()
        values = np.empty(0) if stored is None else stored.arrays
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "biuf":
            raise EpisodeError(
                f"episode {episode.id_!r}, agent {agent!r}, column {name!r}: found items that are no single numbers, expected "
                f"one number for each step. Draw them for one agent: `episode.agent_episodes[{agent!r}].plot({name!r})`."
            )
        lines.append((episode.roster.records[agent].timeline.env_steps[: len(values)], values))
    return lines


def _colour(number: int) -> str:
    return f"C{number % 10}"
