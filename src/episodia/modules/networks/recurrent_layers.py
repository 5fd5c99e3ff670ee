"""Recurrent layers over padded sequences, with states that episodes can keep.

Axes: sequences are `[B, T, ...]`, states are dicts of `[B, cell_size]`: `h`, and for an LSTM also `c`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from episodia.errors import ModuleError
from episodia.modules.distributions.action_distribution import describe
from episodia.modules.networks.layers import can_step, one_step
from episodia.types import Item

StateTensors = dict[str, Tensor]
Cell = nn.LSTM | nn.GRU


def initial_state(cell: Cell) -> dict[str, Item]:
    """Return zeros, for one sequence, in the dtype of the weights; NumPy has no bfloat16."""
    dtype = _IN_NUMPY.get(_dtype(cell), np.float32)
    return {name: np.zeros(cell.hidden_size, dtype) for name in _names(cell)}


_IN_NUMPY: dict[torch.dtype, Any] = {torch.float64: np.float64, torch.float16: np.float16}


def _dtype(cell: Cell) -> torch.dtype:
    return next(cell.parameters()).dtype


def unrolled(cell: Cell, encoded: Tensor, state: Item, seq_lens: Item) -> tuple[Tensor, StateTensors]:
    """Return the outputs of the layer at each step, and the state after the last valid one.

    Padded steps never reach a valid one; outputs at padded steps mean nothing.

    Args:
        cell: The layer.
        encoded: Its inputs, `[B, T, ...]`.
        state: The state before the first step.
        seq_lens: How many steps of each sequence are valid; None if all are.

    Raises:
        ModuleError: If an argument has the wrong shape.
    """
    state = _checked(cell, encoded, state)
    lengths = _lengths(seq_lens, encoded)
    if lengths is None:
        return _stepped(cell, encoded, state) if encoded.shape[1] == 1 else _unpadded(cell, encoded, state)
    # Packing leaves padded steps out, and rejects sequences without valid steps.
    packed = pack_padded_sequence(encoded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
    packed_outputs, after = cell(packed, _stacked(cell, state))
    outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=encoded.shape[1])
    empty = (lengths == 0).to(encoded.device).unsqueeze(-1)
    found = _named(cell, after)
    return outputs, {name: torch.where(empty, state[name], part) for name, part in found.items()}


def _stepped(cell: Cell, encoded: Tensor, state: StateTensors) -> tuple[Tensor, StateTensors]:
    """Return the same as `unrolled` for sequences of one step, which is how modules act."""
    if not can_step(cell):
        return _unpadded(cell, encoded, state)
    if isinstance(cell, nn.LSTM):
        h, c = one_step(cell, encoded[:, 0], (state["h"], state["c"]))
        return h[:, None], {"h": h, "c": c}
    h = one_step(cell, encoded[:, 0], state["h"])
    return h[:, None], {"h": h}


def _unpadded(cell: Cell, encoded: Tensor, state: StateTensors) -> tuple[Tensor, StateTensors]:
    outputs, after = cell(encoded, _stacked(cell, state))
    return outputs, _named(cell, after)


def outputs_of(cell: Cell, encoded: Tensor, state: Item) -> Tensor:
    """Return the outputs of the layer at each step.

    The layer never looks ahead, so that padding needs no care if the last state is not needed.

    Raises:
        ModuleError: If an argument has the wrong shape.
    """
    state = _checked(cell, encoded, state)
    outputs: Tensor = cell(encoded, _stacked(cell, state))[0]
    return outputs


def _names(cell: Cell) -> tuple[str, ...]:
    return ("h", "c") if isinstance(cell, nn.LSTM) else ("h",)


def _named(cell: Cell, after: Any) -> StateTensors:
    parts = after if isinstance(cell, nn.LSTM) else (after,)
    return {name: part[0] for name, part in zip(_names(cell), parts, strict=True)}


def _checked(cell: Cell, encoded: Tensor, state: Any) -> StateTensors:
    """Return `state` in the dtype of the weights; pipelines deliver float32."""
    if encoded.dim() != 3:
        raise ModuleError(
            f"recurrent module: found observations with {encoded.dim() - 1} leading axes, expected [B, T, ...]. "
            "Add `AddTimeDimToBatchAndZeroPad` to the pipeline in front of the module."
        )
    wanted = (len(encoded), cell.hidden_size)
    for name in _names(cell):
        part = state.get(name) if isinstance(state, dict) else None
        if part is None or part.shape != wanted:
            raise ModuleError(
                f"recurrent module: found {describe(part)} as state_in[{name!r}], expected a tensor {list(wanted)}. "
                "Stack one state per sequence, at first `get_initial_state()`."
            )
    if state["h"].dtype is encoded.dtype:
        return state  # type: ignore[no-any-return]  # it was looked at
    return {name: state[name].to(_dtype(cell)) for name in _names(cell)}


def _stacked(cell: Cell, state: StateTensors) -> Any:
    """Return the state as torch's layers take it: with an axis for layers in front."""
    parts = tuple(state[name].unsqueeze(0) for name in _names(cell))
    return parts if isinstance(cell, nn.LSTM) else parts[0]


def _lengths(seq_lens: Any, encoded: Tensor) -> Tensor | None:
    """Return the lengths on the CPU, as packing needs them, or None if no sequence is padded."""
    if seq_lens is None:
        return None
    rows, steps = encoded.shape[:2]
    lengths = torch.as_tensor(seq_lens, device="cpu").long()
    if lengths.shape != (rows,) or bool(((lengths < 0) | (lengths > steps)).any()):
        raise ModuleError(
            f"recurrent module: found seq_lens {lengths.tolist()}, expected {rows} numbers from 0 to {steps}, the number of "
            "valid steps of each sequence. Correct the piece that pads, which writes them."
        )
    return None if bool((lengths == steps).all()) else lengths
