"""Many environment steps at once, in which the same agents act and are shown what follows.

That is what most environments do most of the time. Such steps are kept as they come, one array for all agents of a module,
and stored in the episodes before these are read: a few list operations for each agent, instead of all that has
to be decided for an agent at a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

import numpy as np

from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.trees import PLAIN_DTYPES

_LAST = slice(-1, None)


class JointStep(NamedTuple):
    """One environment step of all agents of a module, in the order of its rows."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: list[Any]
    extras: Mapping[str, np.ndarray]


@final
class BulkSteps:
    """Steps that the agents of a `LiveAgents` list have made, and their episodes do not know yet.

    Until `flush`, nothing but these steps may be added to the episodes. All agents must have made a step before in their
    chunks, whose columns are the pattern for what is taken here.

    Args:
        agents: Who makes the steps.
    """

    def __init__(self, agents: LiveAgents) -> None:
        self._agents = agents
        self._rows: dict[Any, list[AgentRecord]] = {
            module_id: [agents[position].roster.records[agent] for position, agent in owners]
            for module_id, owners in agents.owners_by_module().items()
        }
        self._patterns = {module_id: _pattern(rows) for module_id, rows in self._rows.items()}
        self._steps: list[dict[Any, JointStep]] = []
        self.is_broken = False  # whether storing was interrupted, so that the episodes do not fit together

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def takes_steps(self) -> bool:
        """Whether there is a pattern for all agents."""
        return None not in self._patterns.values()

    @property
    def agents(self) -> LiveAgents:
        """Who makes the steps."""
        return self._agents

    def add(self, step: dict[Any, JointStep]) -> bool:
        """Take a step of all modules, if it looks like the steps before; the arrays must not change afterwards.

        Returns:
            Whether it was taken. If not, add it with `MultiAgentEpisode.add_env_step`, after `flush`.
        """
        if step.keys() != self._rows.keys():
            return False
        for module_id, joint in step.items():
            pattern = self._patterns[module_id]
            if pattern is None or not pattern.fits(joint):
                return False
        self._steps.append(step)
        for module_id, joint in step.items():
            self._agents.show(module_id, joint.observations)
        return True

    def flush(self) -> None:
        """Store all steps in the episodes."""
        steps = self._steps
        if not steps or self.is_broken:
            return
        try:
            for module_id, rows in self._rows.items():
                _push([step[module_id] for step in steps], rows)
        except BaseException:  # an interrupt must not leave half a step
            for rows in self._rows.values():
                for row in rows:
                    row.drop_pushed_steps()
            raise
        self.is_broken = True
        self._steps, now = [], perf_counter()
        self._agents.show_none()
        observed: list[set[Any]] = [set() for _ in self._agents]
        for position, agent in self._agents.row_owners():
            episode = self._agents[position]
            episode.roster.records[agent].settle_steps(len(steps), episode.env_t, now)
            observed[position].add(agent)
        for episode, agents in zip(self._agents, observed, strict=True):
            # Without those who were shown their last observation before.
            episode.roster.tick(len(steps), agents)
        self.is_broken = False


class _Pattern(NamedTuple):
    """What the last items of all agents of a module look like: what looks the same is stored without being looked at."""

    observations: Any
    actions: Any
    extras: dict[str, Any]
    reward_types: frozenset[type]

    def fits(self, step: JointStep) -> bool:
        """Tell whether a step could be stored just as it is."""
        return (
            _rows_kind(step.observations) == self.observations
            and _rows_kind(step.actions) == self.actions
            and step.extras.keys() == self.extras.keys()
            and all(_rows_kind(step.extras[name]) == kind for name, kind in self.extras.items())
            and self.reward_types.issuperset(map(type, step.rewards))
        )


def _pattern(rows: Sequence[AgentRecord]) -> _Pattern | None:
    """Return what the last items of all `rows` have in common; None if they differ, or are not plain."""
    patterns = [_pattern_of(row) for row in rows]
    first = patterns[0] if patterns else None
    return first if all(pattern == first for pattern in patterns) else None


def _pattern_of(record: AgentRecord) -> _Pattern | None:
    row = record.known
    if not record.is_free or not len(row) or row.observations.finalized:
        return None
    observations, actions = _item_kind(row.observations), _item_kind(row.actions)
    extras = {name: _item_kind(column) for name, column in row.extra_model_outputs.items()}
    if None in (observations, actions, *extras.values()):
        return None
    return _Pattern(observations, actions, extras, row.rewards.free_types)


def _item_kind(column: LookbackBuffer) -> tuple[Any, tuple[int, ...]] | None:
    """Return dtype and shape of the last item; None if it is not the row of an array of numbers."""
    item = column.lend(_LAST)[0]
    if isinstance(item, np.generic) or (type(item) is np.ndarray and item.ndim):
        return (item.dtype, item.shape) if item.dtype in PLAIN_DTYPES else None
    return None


def _rows_kind(batch: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Return dtype and shape of each row."""
    return (batch.dtype, batch.shape[1:]) if type(batch) is np.ndarray else None


def _push(steps: list[JointStep], rows: list[AgentRecord]) -> None:
    """Append steps to the columns of all agents of one module."""
    observations = np.stack([step.observations for step in steps], 1)
    actions = np.stack([step.actions for step in steps], 1)
    extras = {name: np.stack([step.extras[name] for step in steps], 1) for name in steps[0].extras}
    rewards = list(zip(*(step.rewards for step in steps), strict=True))
    for position, row in enumerate(rows):
        row.push_steps(
            list(observations[position]),
            list(actions[position]),
            list(rewards[position]),
            {name: list(batch[position]) for name, batch in extras.items()},
        )
