"""Laws about modules with a state: the first state, sequences and their steps, padding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from episodia.columns import Columns
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import SingleAgentEpisode
from episodia.testing.connectors.batch_comparing import compare_batches
from episodia.testing.modules.module_subject import (
    LAST_BITS,
    LEARNING,
    PASSES,
    ModuleSubject,
    Rows,
    as_arrays,
    batch_for,
    needs_a_state,
    needs_to_be_repeatable,
    outputs_of,
    rows_in,
    some_rows,
    without_padding,
)
from episodia.trees import describe, leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]


def states_look_like_the_first_one(subject: ModuleSubject, episodes: Episodes) -> None:
    """`get_initial_state` is a nest of arrays without a batch axis; `state_out` is the same nest with one."""
    law, module = "states look like the first one", subject.make()
    first = module.get_initial_state()
    if not module.is_stateful():
        if first:
            raise AssertionError(f"{law}: found {describe(first)} as the initial state, expected none without a state.")
        needs_a_state(subject)
    wanted = _form(first)
    if not wanted:
        raise AssertionError(f"{law}: found the initial state {first!r}, expected a dict of NumPy arrays.")
    for path, leaf in leaves(first):
        if not isinstance(leaf, np.ndarray):
            raise AssertionError(
                f"{law}: found {type(leaf).__name__} as the initial state{path}, expected a NumPy array."
            )
    for which in PASSES:
        outputs = outputs_of(module, which, batch_for(subject, which, episodes))
        if Columns.STATE_OUT not in outputs:
            raise AssertionError(
                f"{law} (`{which}`): found the columns {sorted(outputs)}, expected `state_out` among them."
            )
        found = _form(map_batch(lambda leaf: leaf[0], outputs[Columns.STATE_OUT]))
        if found != wanted:
            raise AssertionError(f"{law} (`{which}`): found rows of `state_out` {found}, expected {wanted}.")


def _form(state: Any) -> dict[str, str]:
    return {path: describe(np.asarray(leaf)) for path, leaf in leaves(state)}


def steps_give_what_sequences_give(subject: ModuleSubject, episodes: Episodes) -> None:
    """Step by step, with each state handed on to the next step, it puts out what it does for whole sequences."""
    needs_a_state(subject)
    batch = batch_for(subject, LEARNING, episodes)
    for which in PASSES:
        needs_to_be_repeatable(subject, which, batch)
        expected = without_padding(outputs_of(subject.make(), which, batch), batch)
        found = without_padding(_step_by_step(subject, which, batch), batch)
        law = "steps give what sequences give"
        compare_batches(law, expected, found, f"`{which}`, step by step", LAST_BITS)


def _step_by_step(subject: ModuleSubject, which: str, batch: Rows) -> Rows:
    module, state, outputs = subject.make(), batch[Columns.STATE_IN], []
    axes = _axes(batch)
    for t in range(axes[1]):
        step = {
            name: map_batch(partial(_at, t=t), column)
            for name, column in batch.items()
            if name not in (Columns.STATE_IN, Columns.SEQ_LENS) and _has_axes(column, axes)
        }
        outputs.append(outputs_of(module, which, {**step, Columns.STATE_IN: state}))
        state = map_batch(torch.from_numpy, outputs[-1][Columns.STATE_OUT])
    joined = {
        name: map_batch(lambda *steps: np.concatenate(steps, axis=1), *(step[name] for step in outputs))
        for name in outputs[0]
        if name != Columns.STATE_OUT
    }
    return {**joined, Columns.STATE_OUT: _last_states(batch, [step[Columns.STATE_OUT] for step in outputs])}


def _at(leaf: Any, t: int) -> Any:
    return leaf[:, t : t + 1]


def _last_states(batch: Rows, states: list[Any]) -> Any:
    """Return for each sequence the state after its last valid step."""
    last = np.asarray(as_array(batch[Columns.SEQ_LENS])) - 1
    return map_batch(lambda *steps: np.stack(steps)[last, np.arange(len(last))], *states)


def _axes(batch: Rows) -> tuple[int, int]:
    rows, steps = next(iter(leaves(batch[Columns.OBS])))[1].shape[:2]
    return rows, steps


def _has_axes(column: Any, axes: tuple[int, int]) -> bool:
    return all(tuple(leaf.shape[:2]) == axes for _, leaf in leaves(column))


def padding_changes_nothing(subject: ModuleSubject, episodes: Episodes) -> None:
    """What stands at padded steps reaches neither outputs of valid steps nor `state_out`."""
    needs_a_state(subject)
    law, batch = "padding changes nothing", batch_for(subject, LEARNING, episodes)
    lengths = np.asarray(as_array(batch[Columns.SEQ_LENS]))
    for which in PASSES:
        needs_to_be_repeatable(subject, which, batch)
        for row in range(rows_in(batch)):
            # The same sequence, once without any padding.
            padded = some_rows(batch, slice(row, row + 1))
            bare = _cut(padded, int(lengths[row]))
            expected = outputs_of(subject.make(), which, bare)
            found = _cut_outputs(outputs_of(subject.make(), which, _disturbed(padded)), int(lengths[row]))
            compare_batches(law, expected, found, f"`{which}`, sequence {row}, other numbers there", LAST_BITS)


def _cut(batch: Rows, length: int) -> Rows:
    axes = _axes(batch)
    return {
        name: map_batch(lambda leaf: leaf[:, :length], column)
        if name != Columns.STATE_IN and _has_axes(column, axes)
        else column
        for name, column in batch.items()
    }


def _cut_outputs(outputs: Rows, length: int) -> Rows:
    return {
        name: column if name == Columns.STATE_OUT else map_batch(lambda leaf: leaf[:, :length], column)
        for name, column in as_arrays(outputs).items()
    }


def _disturbed(batch: Rows) -> Rows:
    """Return the batch with the observations of valid steps, the other way round, where there was padding."""
    length = int(batch[Columns.SEQ_LENS][0])

    def other(leaf: Any) -> Any:
        made = leaf.clone()
        steps = leaf.shape[1] - length
        source = leaf[:, :length].flip(1)
        made[:, length:] = source.repeat(1, steps // length + 1, *[1] * (leaf.dim() - 2))[:, :steps]
        return made

    return {**batch, Columns.OBS: map_batch(other, batch[Columns.OBS])}
