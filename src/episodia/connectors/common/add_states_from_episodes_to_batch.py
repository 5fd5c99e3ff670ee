"""Adds the state of the module before each step, and after the last step."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import rows_of_modules
from episodia.connectors.batches.module_outputs import module_of, needed_module
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.episodes.lists.ragged import counted, offsets_of
from episodia.errors import BatchError, ModuleError
from episodia.modules.protocol import Modules
from episodia.trees import describe, leaves, map_batch
from episodia.types import Item

# Key under which a runner shares the current states of its module, one row per episode, to avoid reading the episodes.
CARRIED_STATES = "_carried_states"


class AddStatesFromEpisodesToBatch(ColumnPiece):
    """Adds the state of the module before each step, and after the last step.

    The state of a step is the `state_out` of the step before; at the beginning of an episode, the module's initial state.
    Modules without state, and modules that are not in the container, are left alone.
    """

    reads = frozenset[str]()
    writes = frozenset({Columns.STATE_IN})
    lookback = 1

    def check_module(self, rl_module: Modules) -> None:
        """Reject a missing module: only the module knows whether it has states, and its initial state."""
        needed_module(self.name, rl_module)

    def work(self, run: Run) -> None:
        """Add the states that a runner shares, or those stored in the episodes."""
        carried = (run.shared_data or {}).get(CARRIED_STATES)
        if carried is not None and Columns.OBS in run.batch:
            run.batch[Columns.STATE_IN] = Ragged(carried, counted(len(run.episodes) + 1))
            return
        self.check_module(run.rl_module)
        for module_id, columns, rows in rows_of_modules(run):
            module = module_of(run.rl_module, module_id)
            if module is not None and module.is_stateful():
                columns[Columns.STATE_IN] = states_of(rows, initial_state_of(module))


def states_of(rows: EpisodeList, initial: Item) -> Ragged:
    """Return the state before each step, and after the last one: a track; at the present moment, the current state."""
    if rows.is_current:
        _check_stored(rows, initial)
        return _current_states(rows, initial)
    if Columns.STATE_OUT in rows.extra_columns():
        return _preceding_states(rows, initial)
    if (rows.lengths + rows.lookbacks).any():
        _check_all_new(rows)
    return _repeated(initial, rows.row_counts + 1, tail=1)


def _preceding_states(rows: EpisodeList, initial: Item) -> Ragged:
    try:
        found = rows.preceding(Columns.STATE_OUT, initial)
        is_like_initial = isinstance(found.values, dict) and initial.keys() <= found.values.keys()
    except (LookupError, TypeError, ValueError):
        _check_stored(rows, initial)
        raise
    if not is_like_initial:
        _check_stored(rows, initial)
    return found


def initial_state_of(module: Any) -> Item:
    """Return the initial state of a module.

    Raises:
        ModuleError: If it is not a dict of arrays.
    """
    state = module.get_initial_state()
    if not isinstance(state, dict) or not all(hasattr(leaf, "shape") for _, leaf in leaves(state)):
        raise ModuleError(
            f"{type(module).__name__}.get_initial_state: found {describe(state)}, expected a dict of arrays, without a batch "
            "axis. Return `{'h': state}`."
        )
    return state


def _current_states(rows: EpisodeList, initial: Item) -> Ragged:
    stored = np.array([_stored_states(row) for row in rows.agent_episodes], np.int64)
    if not stored.any():
        _check_all_new(rows)
        return _repeated(initial, rows.row_counts, tail=0)
    found = rows.windows(Columns.STATE_OUT, shifts=[-1], fill=0)

    def with_initial(leaf: np.ndarray, start: Any) -> np.ndarray:
        leaf = leaf[:, 0]
        leaf[stored == 0] = start
        return leaf

    return found.with_values(map_batch(with_initial, found.values, initial))


def _repeated(initial: Item, counts: np.ndarray, tail: int) -> Ragged:
    offsets = offsets_of(counts)
    return Ragged(map_batch(lambda leaf: np.repeat(leaf[None], offsets[-1], axis=0), initial), offsets, tail)


def _stored_states(row: SingleAgentEpisode) -> int:
    """Return how many states an episode has stored, those of its lookback included."""
    column = row.extra_model_outputs.get(Columns.STATE_OUT)
    return 0 if column is None else column.len_incl_lookback()


def _check_stored(rows: EpisodeList, initial: Item) -> None:
    """Check that stored states are dicts with the keys of the initial state; the first episode that has some stands for all.

    It makes the episodes of a recorded list, so in a learner it runs only if the states do not fit.
    """
    row = next((row for row in rows.agent_episodes if _stored_states(row)), None)
    if row is None:
        return
    data = row.extra_model_outputs[Columns.STATE_OUT].data
    state = data[-1] if isinstance(data, list) else data
    if not isinstance(state, dict) or not initial.keys() <= state.keys():
        raise BatchError(
            f"episode {row.id_!r}, column {Columns.STATE_OUT!r}: found {describe(state)}, expected dicts with the keys "
            f"{list(initial)} of the initial state. Let the module return its states as `get_initial_state` does."
        )


def _check_all_new(rows: EpisodeList) -> None:
    old = next((row for row in rows.agent_episodes if row.rewards.len_incl_lookback()), None)
    if old is not None:
        raise BatchError(
            f"episode {old.id_!r}: found steps without the column {Columns.STATE_OUT!r}, expected the states of a recurrent "
            "module beside its actions. Store what the module returned in `extra_model_outputs`."
        )
