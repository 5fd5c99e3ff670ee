"""The mapping of agents to modules: from rows of episodes to rows of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from gymnasium import Space, spaces

from episodia.connectors.batches.batch_columns import Batch, ModuleRows, is_by_module, split_by_module
from episodia.connectors.batches.batch_descriptions import is_collected
from episodia.connectors.batches.batch_items import switch_batch_from_column_to_module_ids
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.errors import BatchError
from episodia.types import AgentID, ModuleID

# Key in `shared_data`, which both pipelines of a runner share; `ModuleToAgentUnmapping` reads the owners of rows there.
ROW_OWNERS = "memorized_map_structure"
# The ids in the key of an agent's items: multi-agent episode, agent, module.
_LEN_AGENT_KEY = 3


class AgentToModuleMapping(ColumnPiece):
    """Groups the batch by module: `{column: ...}` becomes `{module_id: {column: ...}}`.

    Each agent's module is the one that its episode names. At the present moment, the owner of each row is stored in
    `shared_data`, so that actions can be mapped back to agents.
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        agent_to_module_mapping_fn: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Map spaces of agents to those of their modules with `agent_to_module_mapping_fn(agent_id, episode)`."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn

    def recompute_output_observation_space(
        self,
        input_observation_space: Space[Any],
        input_action_space: Space[Any] | None,
    ) -> Space[Any]:
        return self._by_module(input_observation_space)

    def recompute_output_action_space(
        self,
        input_observation_space: Space[Any] | None,
        input_action_space: Space[Any],
    ) -> Space[Any]:
        return self._by_module(input_action_space)

    def _by_module(self, space: Space[Any]) -> Space[Any]:
        """Return the space of each module, taken from the first agent that it serves."""
        if self.agent_to_module_mapping_fn is None or not isinstance(space, spaces.Dict):
            return space
        modules: dict[Any, Space[Any]] = {}
        for agent_id, agent_space in space.spaces.items():
            modules.setdefault(self.agent_to_module_mapping_fn(agent_id, None), agent_space)
        return spaces.Dict(modules)

    def compile(self, layout: Layout) -> Step:
        """Return `work`; in a shorter form for runners."""
        return self._group_live_agents if layout.episodes is LiveAgents else self.work

    def _group_live_agents(self, run: Run) -> None:
        """Group columns that are split by module already, as pieces that add observations leave them."""
        agents, groups, shared = run.episodes, run.episodes.groups(), run.shared_data
        modules: Batch = {}
        for name, column in run.batch.items():
            if type(column) is not dict:
                return self.work(run)
            for module_id, part in column.items():
                if type(part) is not Ragged or module_id not in groups:
                    return self.work(run)
                modules.setdefault(module_id, {})[name] = part
        if not modules or shared is None:
            return self.work(run)
        shared[ROW_OWNERS] = agents.owners_by_module()
        run.replace(modules)
        # Known here, so later pieces need not look for it.
        run.module_rows = [ModuleRows(module_id, columns, groups[module_id]) for module_id, columns in modules.items()]
        return None

    def work(self, run: Run) -> None:
        """Group the batch."""
        batch, episodes = run.batch, EpisodeList.of(run.episodes)
        if episodes.is_current and run.shared_data is not None:
            run.shared_data[ROW_OWNERS] = row_owners(episodes)
        if not len(episodes) and batch and all(map(is_collected, batch.values())) and _names_modules(batch):
            run.replace(_items_by_module(batch))
            return
        if not episodes.is_grouped:
            run.replace({next(iter(episodes.groups())): batch})
            return
        by_module = {
            name: column if is_by_module(column) else split_by_module(column, episodes)
            for name, column in batch.items()
        }
        run.replace(switch_batch_from_column_to_module_ids(by_module))


def _names_modules(batch: Batch) -> bool:
    """Return whether the keys of a batch that was made by hand name modules; keys of single agents, `(id,)`, do not.

    Raises:
        BatchError: If a key has another form.
    """
    keys = [key for column in batch.values() for key in column]
    lengths = set(map(len, keys))
    if not lengths <= {1} and lengths != {_LEN_AGENT_KEY}:
        wrong = next(key for key in keys if len(key) != _LEN_AGENT_KEY)
        raise BatchError(
            f"found the key {wrong!r} in a batch without episodes, expected keys of the form (id of the multi-agent episode, "
            "agent id, module id), or (id,) for single agents alone. Name the module in the key."
        )
    return lengths == {_LEN_AGENT_KEY}


def _items_by_module(batch: Batch) -> Batch:
    """Return the items of a batch that was made by hand, without episodes, by the modules that its keys name."""
    modules: Batch = {}
    for name, column in batch.items():
        for (_, _, module_id), items in column.items():
            modules.setdefault(module_id, {}).setdefault(name, []).extend(items)
    return modules


def row_owners(episodes: EpisodeList) -> dict[Any, list[tuple[int, Any]]]:
    """Return for each module the position of the episode, and the agent, that each of its rows is for."""
    if isinstance(episodes, LiveAgents):
        return episodes.owners_by_module()
    owners = episodes.row_owners()
    return {
        module_id: [owners[position] for position in positions.tolist()]
        for module_id, positions in episodes.by_module().items()
    }


def default_mapping(modules: Mapping[Any, Any] | None) -> Callable[[Any, Any], Any]:
    """Return the default mapping function: the only module for all agents, or the module with the agent's name."""
    if modules is not None and len(modules) == 1:
        return OnlyModule(next(iter(modules)))
    return own_module


@final
class OnlyModule:
    """Lets one module act for all agents; unlike a nested function, it can be pickled with an episode."""

    def __init__(self, module_id: ModuleID) -> None:
        self.module_id = module_id

    def __call__(self, agent_id: AgentID, episode: object) -> Any:
        """Return the module."""
        return self.module_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnlyModule) and other.module_id == self.module_id

    def __hash__(self) -> int:
        return hash(self.module_id)

    def __repr__(self) -> str:
        return f"OnlyModule({self.module_id!r})"


def own_module(agent_id: AgentID, episode: object) -> Any:  # noqa: ARG001  # the signature of a mapping function
    """Return the agent's id as the id of its module."""
    return agent_id
