"""Multi-agent episodes as text, notebook tables and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.display import plotting
from episodia.display.notebook_html import block, bytes_text, folded, row, table
from episodia.episodes.display.episode_plots import check_columns, draw_line, ending_of, mark_end, mark_time
from episodia.episodes.display.episode_tables import columns_html, columns_of
from episodia.errors import EpisodeError
from episodia.trees import shortened

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode


_MOST_AGENTS_SHOWN = 100
_MOST_FOLDED = 20
_MOST_ROWS_EACH = 20
_MOST_STEPS = 100


def episode_text(episode: MultiAgentEpisode) -> str:
    """Return what an episode is in one line."""
    facts = [f"len={len(episode)}", f"agents={len(episode.agent_episodes)}"]
    if episode.env_lookback:
        facts.append(f"lookback={episode.env_lookback}")
    if episode.env_t_started:
        facts.append(f"t={episode.env_t_started}..{episode.env_t}")
    facts.append(f"return={episode.get_return():g}")
    facts += [name for name in ("terminated", "truncated") if getattr(episode, f"is_{name}")]
    if episode.is_finalized:
        facts.append("finalized")
    return f"{type(episode).__name__}({', '.join(facts)}, id_={shortened(repr(episode.id_))})"


def timeline_text(episode: MultiAgentEpisode) -> str:
    """Return a table with an `x` at each environment step at which an agent had an observation.

    Steps of the lookback have negative numbers, as with `neg_index_as_lookback`.
    """
    ticks, rows, hidden = _grid(episode)
    width = max([len(tick) for tick in ticks], default=1)
    names = _names([agent for agent, _ in rows])
    margin = max(map(len, ["ts", *names]))
    lines = [" ".join([f"{'ts':<{margin}}", *(f"{tick:>{width}}" for tick in ticks)])]
    for name, (_, marks) in zip(names, rows, strict=True):
        lines.append(" ".join([f"{name:<{margin}}", *(f"{'x' if mark else '':>{width}}" for mark in marks)]).rstrip())
    if hidden:
        lines.append(f"... and {hidden} more agents")
    return "\n".join(lines)


def _names(agents: list[object]) -> list[str]:
    """Return the ids as they read best; in quotes if 0 and "0" would look the same."""
    names = [shortened(str(agent), 60) for agent in agents]
    return names if len(set(names)) == len(names) else [shortened(repr(agent), 60) for agent in agents]


def _grid(episode: MultiAgentEpisode) -> tuple[list[str], list[tuple[object, list[bool]]], int]:
    """Return the shown environment steps, for each shown agent at which of them it had an observation, and what is hidden."""
    first = max(episode.env_t_started - episode.env_lookback, episode.env_t + 1 - _MOST_STEPS)
    steps = range(first, episode.env_t + 1) if episode.is_reset else range(0)
    ticks = [str(t - episode.env_t_started) for t in steps]
    agents = list(episode.agent_episodes)
    rows = [
        (agent, [episode.roster.records[agent].timeline.position_at(t) is not None for t in steps])
        for agent in agents[:_MOST_AGENTS_SHOWN]
    ]
    return ticks, rows, max(0, len(agents) - _MOST_AGENTS_SHOWN)


def episode_html(episode: MultiAgentEpisode) -> str:
    """Return a table of the agents, with who observed when, and the columns of each agent, folded."""
    _, rows, hidden = _grid(episode)
    shown = (row(_agent_cells(episode, agent, marks)) for agent, marks in rows)
    agents = table(_TITLES, shown, f"{hidden} more agents" if hidden else "")
    columns = "".join(_agent_columns(episode, agent) for agent, _ in rows[:_MOST_FOLDED])
    more = len(episode.agent_episodes) - _MOST_FOLDED
    unseen = f"<p>... and those of {more} more agents</p>" if more > 0 else ""
    return block(repr(episode), agents, folded("columns of each agent", columns + unseen))


_TITLES = ("agent", "module", "steps", "return", "state", "observed")


def _agent_cells(episode: MultiAgentEpisode, agent: object, marks: list[bool]) -> tuple[str, ...]:
    single = episode.agent_episodes[agent]
    state = "terminated" if single.is_terminated else "truncated" if single.is_truncated else "alive"
    if episode.roster.records[agent].has_acted:
        state += ", action pending"
    grid = "".join("■" if mark else "·" for mark in marks)
    return repr(agent), str(single.module_id), str(len(single)), f"{single.get_return():g}", state, grid


def _agent_columns(episode: MultiAgentEpisode, agent: object) -> str:
    columns, size = columns_html(columns_of(episode.agent_episodes[agent]), _MOST_ROWS_EACH)
    return folded(f"{shortened(repr(agent))}: {bytes_text(size)}", columns)


_MOST_AGENTS = 30
_MOST_IN_LEGEND = 10


def plot(episode: MultiAgentEpisode, columns: Sequence[str], ax: Any) -> Any:
    """Draw who stepped when, and below it a panel for each of `columns`; return the figure.

    Raises:
        EpisodeKeyError: If no agent has such a column.
        EpisodeError: If the items of a column are not single numbers.
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
        plotting.readable(figure)
    return figure


def _title(episode: MultiAgentEpisode) -> str:
    return f"{plotting.plain(episode.id_)}: {len(episode)} environment steps, return {episode.get_return():g}"


def _draw_timeline(axes: Any, episode: MultiAgentEpisode, agents: list[Any]) -> None:
    """Draw a row for each agent: rings where it was shown something, filled ones where it acted on that."""
    ends: dict[str, tuple[list[int], list[int]]] = {"terminated": ([], []), "truncated": ([], [])}
    for line, agent in enumerate(agents):
        single, colour = episode.agent_episodes[agent], _colour(line)
        record = episode.roster.records[agent]
        steps = record.timeline.env_steps
        acted = single.actions.len_incl_lookback() + record.has_acted
        axes.plot(steps, [line] * len(steps), color=colour, linewidth=0.8, alpha=0.5)
        axes.plot(steps[acted:], [line] * len(steps[acted:]), "o", color=colour, fillstyle="none", markersize=5)
        axes.plot(steps[:acted], [line] * len(steps[:acted]), "o", color=colour, markersize=5)
        if steps and single.is_done:
            for place, value in zip(ends[_end(single)], (steps[-1], line), strict=True):
                place.append(value)
    for name, marker in (("terminated", "x"), ("truncated", "|")):
        if ends[name][0]:
            axes.plot(*ends[name], marker, color=plotting.GREY, markersize=9, label=name)
    _label_rows(axes, episode, agents)


def _end(single: Any) -> str:
    return "terminated" if single.is_terminated else "truncated"


def _label_rows(axes: Any, episode: MultiAgentEpisode, agents: list[Any]) -> None:
    hidden = len(episode.agent_episodes) - len(agents)
    names = [plotting.plain(agent, 24) for agent in agents]
    axes.set_yticks(range(len(agents)), names, fontsize=8)
    axes.set_ylim(max(len(agents), 1) - 0.4, -0.6)
    axes.plot([], [], "o", color=plotting.GREY, markersize=5, label="acted")
    axes.plot([], [], "o", color=plotting.GREY, fillstyle="none", markersize=5, label="saw")
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
                f"episode {episode.id_!r}, agent {agent!r}, column {name!r}: found items that are not single numbers, expected "
                f"one number for each step. Draw them for one agent: `episode.agent_episodes[{agent!r}].plot({name!r})`."
            )
        lines.append((episode.roster.records[agent].timeline.env_steps[: len(values)], values))
    return lines


def _colour(number: int) -> str:
    return f"C{number % 10}"
