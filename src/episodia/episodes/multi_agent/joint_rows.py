"""Steps of many agents at once, each of which acts, is paid and is shown what follows.

That is what most agents do at most environment steps. Nothing has to be decided for them, so the rows of one array for all
agents of a module go straight into their columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import call, is_
from typing import Any, NamedTuple, final

import numpy as np

from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import REWARD_TYPES
from episodia.episodes.columns.storage import NO_INFO
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.single_agent.single_agent_columns import extra_columns, take_back
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

# The dtype and the shape of each row.
_Kind = tuple[np.dtype[Any], tuple[int, ...]]
_Append = Callable[[Any], None]
# Larger observations are copied, so that an episode does not keep those of all others in memory.
_LARGE_ROW = 2**12
_ARRAYS = frozenset({np.ndarray})
_NEW_COLUMN = LookbackBuffer()


class RowKinds(NamedTuple):
    """The kinds of rows of a joint step."""

    observations: _Kind
    actions: _Kind
    extras: dict[str, _Kind]

    def fit(self, record: AgentRecord) -> bool:
        """Tell whether such rows can be stored for an agent as they are, as one of its steps."""
        single = record.episode
        if single is None or record.pending is not None or single.is_terminated or single.is_truncated:
            return False
        columns = single.extra_model_outputs
        has_columns = columns.keys() == self.extras.keys() or not (columns or len(single))  # then they are made
        return (
            single.observations.takes_rows(*self.observations)
            and single.actions.takes_rows(*self.actions)
            and not single.rewards.finalized
            and has_columns
            and all(columns.get(name, _NEW_COLUMN).takes_rows(*kind) for name, kind in self.extras.items())
        )


class JointStep(NamedTuple):
    """One environment step of agents of a module: a row, or a reward, for each of them. The arrays must not change."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: list[Any]
    extras: Mapping[str, np.ndarray]

    def kinds(self) -> RowKinds | None:
        """Return the kinds of the rows; None if something has to be decided for an agent."""
        if not REWARD_TYPES.issuperset(map(type, self.rewards)):
            return None
        if not _ARRAYS.issuperset(map(type, (self.actions, *self.extras.values()))):
            return None
        observations, actions = self.observations, self.actions
        return RowKinds(
            (observations.dtype, observations.shape[1:]),
            (actions.dtype, actions.shape[1:]),
            {name: (rows.dtype, rows.shape[1:]) for name, rows in self.extras.items()},
        )


@final
class JointRows:
    """Agents whose steps are stored together, as long as it `holds`.

    Args:
        owners: The position of each agent's multi-agent episode, and the agent.
        records: Their records.

    Attributes:
        owners: As given.
        records: As given.
        kinds: The kinds of rows that all of their columns are known to take.
    """

    __slots__ = ("_appends", "_outputs", "_singles", "_times", "kinds", "owners", "records")

    def __init__(self, owners: list[tuple[int, Any]], records: list[AgentRecord]) -> None:
        self.owners = owners
        self.records = records
        self.kinds: RowKinds | None = None
        self._singles = [record.known for record in records]
        # Looked up once, because they are called at each step.
        self._appends = _appends(self._singles)
        self._outputs: dict[str, list[_Append]] = {}
        self._times = [record.timeline.env_steps.append for record in records]

    def holds(self) -> bool:
        """Tell whether the columns of the agents are still the same, and nothing is noted for their next steps."""
        singles = [record.episode for record in self.records]
        if not all(map(is_, singles, self._singles)) or any(record.pending for record in self.records):
            return False
        same = (all(map(is_, now, known)) for now, known in zip(_appends(self._singles), self._appends, strict=True))
        return all(same) and all(
            single.extra_model_outputs[name].push is append
            for name, appends in self._outputs.items()
            for single, append in zip(self._singles, appends, strict=True)
        )

    def of(self, kept: Sequence[bool]) -> JointRows:
        """Return those that are `kept`; what has been looked up stays."""
        made = JointRows.__new__(JointRows)
        made.kinds = self.kinds
        made.owners, made.records = [*compress(self.owners, kept)], [*compress(self.records, kept)]
        made._singles, made._times = [*compress(self._singles, kept)], [*compress(self._times, kept)]
        observations, actions, rewards, infos = map(list, map(compress, self._appends, repeat(kept)))
        made._appends = observations, actions, rewards, infos
        made._outputs = {name: [*compress(appends, kept)] for name, appends in self._outputs.items()}
        return made

    def push(self, step: JointStep) -> None:
        """Append a step to the columns, which take its kinds of rows; `settle` has to follow."""
        shown: Iterable[Any] = step.observations
        if step.observations[0].nbytes > _LARGE_ROW:
            shown = [row.copy() for row in step.observations]
        observations, actions, rewards, infos = self._appends
        # The fastest loops there are.
        deque(map(call, observations, shown), 0)
        deque(map(call, actions, step.actions), 0)
        deque(map(call, rewards, step.rewards), 0)
        deque(map(call, infos, repeat(NO_INFO)), 0)
        if step.extras.keys() != self._outputs.keys():
            self._find_outputs(step.extras)
        for name, outputs in step.extras.items():
            deque(map(call, self._outputs[name], outputs), 0)

    def _find_outputs(self, extras: Mapping[str, Any]) -> None:
        """Look up the columns of extra model outputs; agents without a step get new ones."""
        for single in self._singles:
            if single.extra_model_outputs.keys() != extras.keys():
                single.extra_model_outputs = extra_columns(single, extras)
        self._outputs = {name: [single.extra_model_outputs[name].push for single in self._singles] for name in extras}

    def take_back(self) -> None:
        """Remove what was pushed and not settled."""
        for single in self._singles:
            take_back(single)
            columns = single.extra_model_outputs
            single.extra_model_outputs = {
                name: column for name, column in columns.items() if column.len_incl_lookback()
            }

    def settle(self, env_ts: list[int], now: float) -> None:
        """Count a step that was pushed; `env_ts` are the environment steps of all episodes after it."""
        for (position, _), note_time, single in zip(self.owners, self._times, self._singles, strict=True):
            note_time(env_ts[position])
            single.t += 1
            single._last_step_time = now


def _appends(singles: list[SingleAgentEpisode]) -> tuple[list[_Append], list[_Append], list[_Append], list[_Append]]:
    """Return what appends to the columns of each agent: observations, actions, rewards and infos."""
    return (
        [single.observations.push for single in singles],
        [single.actions.push for single in singles],
        [single.rewards.push for single in singles],
        [single.infos.push for single in singles],
    )
