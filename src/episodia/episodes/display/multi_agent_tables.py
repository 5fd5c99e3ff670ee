"""How multi-agent episodes look: one line, a table of who observed when, and a table in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episodia.episodes.display.episode_tables import columns_html, columns_of
from episodia.notebook_html import block, bytes_text, folded, row, table
from episodia.trees import shortened

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

_MOST_AGENTS = 100
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
        for agent in agents[:_MOST_AGENTS]
    ]
    return ticks, rows, max(0, len(agents) - _MOST_AGENTS)


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
