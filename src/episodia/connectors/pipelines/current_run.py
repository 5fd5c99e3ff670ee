"""Which episodes the running pipeline works on, and at which of them a piece is.

The static helpers of `ConnectorV2` are called without the pipeline, as in RLlib. What they need to know of it (to whose
episode a row of a column belongs) and what it wants to know of them (at which episode a piece failed) is kept here, in a
context variable, so pipelines in several threads do not disturb each other.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from episodia.connectors.pipelines.explaining import Watcher
    from episodia.connectors.pipelines.tracing import Tracer
    from episodia.episodes.lists.episode_list import EpisodeList
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode


class Owner(NamedTuple):
    """To whom items of a batch belong: what RLlib's helpers tell a function beside the item."""

    eps_id: Any = None
    agent_id: Any = None
    module_id: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What items are filed under in a batch: the episode alone, or with agent and module."""
        return (self.eps_id,) if self.agent_id is None else tuple(self)


@final
class Run:
    """One call of an outermost pipeline; inside of `with Run(episodes):` the helpers know of it."""

    __slots__ = ("_token", "at_episode", "episodes", "watcher")

    def __init__(self, episodes: EpisodeList | None, watcher: Watcher | Tracer | None = None) -> None:
        self.episodes = episodes
        # The episode that the piece which runs was handed last, until it has seen all of them.
        self.at_episode: SingleAgentEpisode | None = None
        # Told before and after each piece, when a pipeline is explained or runs for the first time.
        self.watcher = watcher

    def __enter__(self) -> Run:
        self._token = _RUN.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _RUN.reset(self._token)


_RUN: ContextVar[Run | None] = ContextVar("episodia_pipeline_run", default=None)


def current_run() -> Run | None:
    """Return the innermost run of a pipeline around the caller, if there is one."""
    return _RUN.get()


def owner_of(episode: SingleAgentEpisode) -> Owner:
    """Return the ids that RLlib files an item of `episode` under."""
    if episode.agent_id is None:
        return Owner(episode.id_)
    return Owner(episode.multi_agent_episode_id, episode.agent_id, episode.module_id)


def owners_of_stretches(count: int, module_id: Any = None) -> list[Owner]:
    """Return to whom each of `count` stretches of a column belongs; nobody is named where that is not known.

    Stretch i of a column belongs to agent episode i of the running pipeline, or of those that `module_id` acts for. Outside
    of a pipeline, and for a column that has other stretches than that, nothing is known.
    """
    run = current_run()
    if run is None or run.episodes is None:
        return [Owner()] * count
    if module_id is None:
        episodes = run.episodes.agent_episodes
    else:
        group = run.episodes.groups().get(module_id)
        episodes = [] if group is None else group.agent_episodes
    return [owner_of(episode) for episode in episodes] if len(episodes) == count else [Owner()] * count


def mark(error: Exception, column: str, eps_id: Any) -> None:
    """Note on `error` at which column and episode it happened; the innermost note stays."""
    if not hasattr(error, "_episodia_mark"):
        error._episodia_mark = (column, eps_id)  # type: ignore[attr-defined]  # ours, read by `mark_of` alone


def mark_of(error: Exception) -> tuple[str | None, Any]:
    """Return the column and the episode id that `mark` has noted; None for what is not known."""
    return getattr(error, "_episodia_mark", (None, None))
