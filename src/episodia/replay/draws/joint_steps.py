"""Joint steps: the steps of all agents at one environment step."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from episodia.columns import Columns
from episodia.errors import ReplayError
from episodia.replay.adding.env_times import are_known, env_times_at, steps_at
from episodia.replay.draws.draw import Draw
from episodia.replay.draws.drawn import Drawn
from episodia.replay.draws.stretches import keeps_lookback, single_steps
from episodia.replay.rows.row_columns import ENV_T
from episodia.replay.rows.row_index import STEP
from episodia.replay.table import Picked, Table
from episodia.types import ModuleID


class _Moments(NamedTuple):
    """Environment steps of episodes, with a weight each."""

    ids: list[Hashable]
    env_times: np.ndarray
    weights: np.ndarray | None


@final
@dataclass(frozen=True)
class JointSteps(Draw):
    """The steps that all agents of an episode took at one environment step: one row for each environment step and agent.

    The steps of an agent stand where it saw the observation that it acted on. In the sample of a module, row `i * A + a` is
    that of agent `sample.agents[a]` at the i-th environment step, with A the number of agents that the module has acted for.
    Where an agent is absent (it has not joined yet, has left, does not act at this step, or its step was evicted), the row is
    that of another step, `loss_mask` is false, and the key is -1, which `update_priorities` leaves out.

    The selector chooses a step of one agent, and with it the environment step, so that an environment step is drawn in
    proportion to the number (or the priorities) of its steps.

    >>> JointSteps()
    JointSteps()
    """

    def draw(
        self, tables: Mapping[ModuleID, Table], num: int, lookback: int, rng: np.random.Generator
    ) -> dict[ModuleID, Drawn]:
        """Return the rows of `num` environment steps, for each module that has steps."""
        stored = {module_id: table for module_id, table in tables.items() if table.writer.index.num_steps}
        if not stored:
            raise ReplayError("JointSteps: found no step, expected one at least. Add episodes first.")
        moments = _chosen(list(stored.values()), num, lookback, rng)
        found = {module_id: _drawn(table, moments, lookback) for module_id, table in stored.items()}
        return {module_id: drawn for module_id, drawn in found.items() if drawn is not None}


def _chosen(tables: list[Table], num: int, lookback: int, rng: np.random.Generator) -> _Moments:
    """Choose environment steps: each by a step of a module, and modules by their numbers of steps."""
    sizes = np.array([table.writer.index.num_steps for table in tables], np.float64)
    ids: list[Hashable] = []
    times, weights = [], []
    for table, count in zip(tables, rng.multinomial(num, sizes / sizes.sum()).tolist(), strict=True):
        if not count:
            continue
        picked = table.pick(count, rng, keeps_lookback(table, lookback))
        origins = table.origins(picked.rows)
        _check_known(table, picked.rows, origins)
        ids += [origin[0] if isinstance(origin, tuple) else origin for origin in origins]
        times.append(env_times_at(table, picked.rows))
        weights += [] if picked.weights is None else [picked.weights]
    return _Moments(ids, np.concatenate(times), np.concatenate(weights) if weights else None)


def _check_known(table: Table, rows: np.ndarray, origins: list[Hashable]) -> None:
    """Reject steps of agents whose environment steps are not known.

    Raises:
        ReplayError: If there is such a step.
    """
    known = are_known(table, rows)
    if ENV_T not in table.columns:
        known = np.array([not isinstance(origin, tuple) for origin in origins])
    if not known.all():
        origin = origins[int(np.flatnonzero(~known)[0])]
        raise ReplayError(
            f"JointSteps: found steps of {origin!r} without their environment steps, expected steps of multi-agent episodes. "
            "Add the `MultiAgentEpisode` itself: episodes of its agents alone do not know when the others acted."
        )


def _drawn(table: Table, moments: _Moments, lookback: int) -> Drawn | None:
    """Return the rows of a module's agents at some moments; None if no row can stand for those that are absent."""
    agents = list(table.agents) or [None]
    rows = _rows(table, moments, agents, lookback)
    is_present = rows >= 0
    if not is_present.all():
        others = rows[is_present]
        if not len(others):
            others = _some_step(table, lookback)
        if not len(others):
            return None
        rows = np.where(is_present, rows, others[0])
    kinds = table.writer.index.kind.take(rows)
    weights = None if moments.weights is None else np.repeat(moments.weights, len(agents))
    drawn = single_steps(table, Picked(rows, kinds, weights), lookback)
    drawn.added[Columns.LOSS_MASK] = is_present
    drawn.added[Columns.KEYS] = np.where(is_present, table.keys(rows), -1)
    drawn.agents = agents
    return drawn


def _some_step(table: Table, lookback: int) -> np.ndarray:
    steps = np.flatnonzero(table.writer.index.kind & STEP)
    allowed = keeps_lookback(table, lookback)
    return steps if allowed is None else steps[allowed(steps)]


def _rows(table: Table, moments: _Moments, agents: list[Hashable], lookback: int) -> np.ndarray:
    """Return the row of each agent's step at each moment, one moment after another; -1 for absent agents: int64 [B * A]."""
    places: list[int] = []
    episodes: list[int] = []
    stored = table.writer.index.episodes
    for moment, id_ in enumerate(moments.ids):
        for position, agent in enumerate(agents):
            for episode in stored.parts.get(id_ if agent is None else (id_, agent), ()):
                places.append(moment * len(agents) + position)
                episodes.append(episode)
    at, parts = np.array(places, np.int64), np.array(episodes, np.int64)
    has_rows = stored.last.take(parts) >= 0
    at, parts = at[has_rows], parts[has_rows]
    found = steps_at(table, parts, moments.env_times.take(at // len(agents)))
    at, found = at[found >= 0], found[found >= 0]
    allowed = keeps_lookback(table, lookback)
    if allowed is not None:
        kept = allowed(found)
        at, found = at[kept], found[kept]
    rows = np.full(len(moments.ids) * len(agents), -1, np.int64)
    rows[at] = found
    return rows
