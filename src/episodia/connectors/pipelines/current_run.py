"""The episodes that the running pipeline works on, and the episode that a piece is at.

The static helpers of `ConnectorV2` are called without the pipeline, as in RLlib. What they need to know of it (to whose
episode a row of a column belongs) and what it wants to know of them (at which episode a piece failed) is kept here, in a
context variable, so pipelines in several threads do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, final

from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError
from episodia.modules.protocol import Modules
from episodia.trees import describe
from episodia.types import AgentID, AnyBatch, ModuleID

if TYPE_CHECKING:
    from episodia.connectors.pipelines.checks.lost_writes import Writes
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode


class Owner(NamedTuple):
    """The owner of items of a batch, which RLlib's helpers pass to a function beside the item."""

    eps_id: Any = None
    agent_id: AgentID = None
    module_id: ModuleID = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of items in a batch: the episode alone, or with agent and module."""
        return (self.eps_id,) if self.agent_id is None else tuple(self)


@final
class Run:
    """One run of a pipeline, or of a piece on its own: the batch so far, and what the caller passed along.

    Attributes:
        batch: The batch so far. A step changes it in place, or calls `replace`.
        episodes: The episodes that the batch comes from, as the pieces get them.
        rl_module: The module, or modules by their ids.
        explore: Whether the actions explore.
        shared_data: A dict that the pieces of a runner's pipelines share.
        metrics: Where to log to.
        others: Further arguments of the caller.
        at_episode: The episode that the running piece was handed last, until it has seen all of them.
        given: The batch that the piece which is called got, as it was before.
        needed_by_agents: The columns that the caller needs by agents; it reads all others in `left_by_modules`. None: all
            columns by agents.
        left_by_modules: The batch by modules before the last step, if that step turned only the needed columns; else None.
        module_rows: See `batch_columns.rows_of_modules`, which keeps its answer here.
        has_other_rows: Whether columns have rows of episodes that are not in the list.
        module_outputs: See `module_outputs.outputs_of_modules`, which keeps its answer here.
        writes: What pieces write into episodes, in learner pipelines.
    """

    # Runners make two runs for each step, and need few of these: a run begins with the values of the class.
    at_episode: SingleAgentEpisode | None = None
    given: dict[Any, Any] | None = None
    has_other_rows = False
    needed_by_agents: frozenset[str] | None = None
    left_by_modules: dict[Any, Any] | None = None
    module_rows: Any = None
    module_outputs: Any = None
    writes: Writes | None = None

    def __init__(
        self,
        batch: dict[Any, Any],
        episodes: Any,
        rl_module: Modules,
        explore: bool | None,
        shared_data: dict[Any, Any] | None,
        metrics: Any,
        others: dict[str, Any],
    ) -> None:
        self.batch = batch
        self.episodes = episodes
        self.rl_module = rl_module
        self.explore = explore
        self.shared_data = shared_data
        self.metrics = metrics
        self.others = others

    def replace(self, batch: dict[Any, Any]) -> None:
        """Let `batch` be the batch so far; its columns may be other ones, and grouped in another way."""
        self.batch = batch
        self.module_rows = self.module_outputs = None


# Set while pieces are called that may use the static helpers.
RUNNING: ContextVar[Run | None] = ContextVar("episodia_pipeline_run", default=None)


def current_run() -> Run | None:
    """Return the innermost run of a pipeline around the caller, if there is one."""
    return RUNNING.get()


def owner_of(episode: SingleAgentEpisode) -> Owner:
    """Return the ids that RLlib files an item of `episode` under."""
    if episode.agent_id is None:
        return Owner(episode.id_)
    return Owner(episode.multi_agent_episode_id, episode.agent_id, episode.module_id)


def owners_of_stretches(count: int, module_id: ModuleID = None) -> list[Owner]:
    """Return the owner of each of `count` stretches of a column; an empty `Owner` where it is not known.

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


def copied(batch: AnyBatch | None) -> dict[str, Any]:
    """Return a batch that pieces can change without changing the caller's: new dicts for columns and modules.

    Raises:
        BatchError: If `batch` is no dict.
    """
    if not batch:
        return {}
    if not isinstance(batch, Mapping):
        raise BatchError(f"found {describe(batch)} as a batch, expected a dict of columns, or None. Pass one of these.")
    for column in batch.values():
        if type(column) is dict:
            return {key: dict(part) if type(part) is dict else part for key, part in batch.items()}
    return dict(batch)


def unwrapped(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch in which whole stretches are plain arrays or tensors of their steps, also inside of modules."""
    plain = {}
    for key, column in batch.items():
        if type(column) is dict:
            plain[key] = unwrapped(column)
        else:
            plain[key] = column.body().values if type(column) is Ragged else column
    return plain
