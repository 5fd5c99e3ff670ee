"""Gives the columns of recurrent modules a time axis: `[B, T, ...]`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from gymnasium import Space

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, mapped_rows
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.module_outputs import module_of, needed_module
from episodia.connectors.batches.sequences import CutSequences, first_rows, padded, sequences
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError, PipelineError
from episodia.modules.protocol import DeclaresSequenceLength, Modules

# Default for modules that do not declare a sequence length.
_DEFAULT_MAX_SEQ_LEN = 20


# Key in `shared_data`, which both pipelines of a runner share; `RemoveSingleTsTimeRankFromBatch` reads it.
ADDED_TIME_AXIS = "_added_single_ts_time_rank"


class AddTimeDimToBatchAndZeroPad(ColumnPiece):
    """Gives the columns of recurrent modules a time axis: `[B, T, ...]`.

    In training, episodes are cut into sequences of `max_seq_len` steps, the last one padded with zeros. `state_in` is the
    state at the beginning of each; `seq_lens` and `loss_mask` tell steps from padding. With `burn_in`, each sequence is
    preceded by up to that many earlier steps, which only warm up the state. At the present moment, T is 1. Modules
    without state, and modules that are not in the container, are left alone.

    Views with `every=max_seq_len` have a row for each sequence already and, like `state_in`, no time axis.
    """

    reads = frozenset({Columns.OBS, Columns.STATE_IN})
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        max_seq_len: int | None = None,
        burn_in: int = 0,
        name: str | None = None,
    ) -> None:
        """Cut into sequences of `max_seq_len` steps; by default the length that the module declares, or else 20."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.max_seq_len = (
            None if max_seq_len is None else checked_whole(PipelineError, self.name, "max_seq_len", max_seq_len, 1)
        )
        self.burn_in = checked_whole(PipelineError, self.name, "burn_in", burn_in, 0)

    writes = frozenset({Columns.OBS, Columns.STATE_IN, Columns.SEQ_LENS, Columns.LOSS_MASK})
    fills = frozenset({Columns.LOSS_MASK, Columns.SEQ_LENS})
    alters = frozenset[str]()  # The same values with another axis.

    def check_module(self, rl_module: Modules) -> None:
        """Reject a missing module: only the module knows whether it is recurrent."""
        needed_module(self.name, rl_module)

    def work(self, run: Run) -> None:
        """Add the axis, or cut into sequences."""
        self.check_module(run.rl_module)
        for module_id, columns, rows in mapped_rows(run):
            module = module_of(run.rl_module, module_id)
            if module is None or not module.is_stateful():
                continue
            if rows.is_current:
                _add_time_axis(columns, rows)
                if run.shared_data is not None:
                    run.shared_data[ADDED_TIME_AXIS] = True
            else:
                cut = sequences(rows.row_counts, max_seq_len_of(module, self.max_seq_len), self.burn_in)
                columns.update(padded_columns(columns, cut, rows))


def max_seq_len_of(module: object, given: int | None) -> int:
    """Return the length of the sequences that `module` learns from."""
    declared = module.max_seq_len if isinstance(module, DeclaresSequenceLength) else None
    return given or declared or _DEFAULT_MAX_SEQ_LEN


def _add_time_axis(columns: MutableMapping[Any, Any], rows: EpisodeList) -> None:
    for name, column in columns.items():
        if name != Columns.STATE_IN:
            ragged = as_ragged(column, rows)
            columns[name] = ragged if ragged.every > 1 else ragged.map(lambda leaf: leaf[:, None])


# Zeros may not be a valid action, and a mask of zeros allows no action: padding repeats a valid row there.
_NEVER_ZERO = frozenset({Columns.ACTIONS, Columns.ACTION_MASK})


def padded_columns(columns: MutableMapping[Any, Any], cut: CutSequences, rows: EpisodeList) -> Batch:
    """Return all columns as padded sequences, the states at their beginnings, lengths, and the mask for the loss."""
    made: Batch = {}
    for name, column in columns.items():
        ragged = as_ragged(column, rows)
        if name == Columns.STATE_IN:
            made[name] = first_rows(ragged, cut)
        elif ragged.every > 1:
            made[name] = rows_of_sequences(name, ragged, cut)
        else:
            made[name] = padded(ragged, cut, zeros=name not in _NEVER_ZERO)
    made[Columns.SEQ_LENS] = cut.lengths
    given = made.get(Columns.LOSS_MASK)
    made[Columns.LOSS_MASK] = cut.loss_mask if given is None else given & cut.loss_mask
    return made


def rows_of_sequences(name: str, column: Ragged, cut: CutSequences) -> Any:
    """Return the rows of a sparse column, one for each sequence.

    Raises:
        BatchError: If it has rows for steps at which no sequence begins.
    """
    places = cut.mask.shape[1]
    if column.every != places or cut.warmups.any():
        raise BatchError(
            f"column {name!r}: found rows for every {column.every} steps, expected one for each sequence of {places} places, "
            f"of which up to {int(cut.warmups.max(initial=0))} are for warming up. Let `every` of the view be `max_seq_len`, "
            "without `burn_in`; or leave `every` out."
        )
    return column.body().values
