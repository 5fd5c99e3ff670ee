"""Turns all arrays of numbers in the batch into tensors on one device; objects, such as infos, are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space

from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import Ragged
from episodia.errors import PipelineError
from episodia.trees import map_batch, shown
from episodia.types import Item


class NumpyToTensor(ColumnPiece):
    """Turns all arrays of numbers in the batch into tensors on one device; objects, such as infos, are kept.

    Floats become float32, the dtype that modules compute in; float16 stays float16. With `pin_memory` and an accelerator,
    arrays are copied to page-locked memory first, so that the transfer to the device does not block.
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        pin_memory: bool = False,
        device: str | torch.device | None = None,
        name: str | None = None,
    ) -> None:
        """Put tensors on `device`, on the CPU by default."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.pin_memory = pin_memory
        try:
            self.device = torch.device("cpu" if device is None else device)
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise PipelineError(
                f"{self.name}: found `device={shown(device)}`, expected a torch device ({reason}). Pass `'cpu'`, for example."
            ) from error

    def work(self, run: Run) -> None:
        """Turn all columns of all modules into tensors."""
        batch, is_cpu = run.batch, self.device.type == "cpu"
        for name, column in batch.items():
            if is_cpu and type(column) is np.ndarray and column.dtype in _ADOPTED:
                batch[name] = torch.from_numpy(column if column.flags.carray else column.copy())
            else:
                batch[name] = self._converted(column)
                run.module_rows = None

    def _converted(self, column: Any) -> Any:
        if isinstance(column, Ragged):
            return column.map(self._tensor)
        if type(column) is not dict:
            return map_batch(self._tensor, column)
        device = self.device
        # The columns of a module, or parts of a nested one.
        return {
            key: as_tensor(part, device, pin_memory=self.pin_memory)
            if type(part) is np.ndarray
            else self._converted(part)
            for key, part in column.items()
        }

    def _tensor(self, leaf: Item) -> Any:
        return as_tensor(leaf, self.device, pin_memory=self.pin_memory)


def as_tensor(leaf: Item, device: torch.device, *, pin_memory: bool = False) -> Any:
    """Return numbers as a tensor on `device`, floats as float32 or float16; other values unchanged.

    The tensor has its own memory: writing into it does not change the episode that the numbers came from.
    """
    if type(leaf) is np.ndarray and leaf.dtype in _ADOPTED and device.type == "cpu":
        return torch.from_numpy(leaf if leaf.flags.carray or _has_large_rows(leaf) else leaf.copy())
    if isinstance(leaf, torch.Tensor):
        return _moved(leaf, device, pin_memory)
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype.kind not in "biufc":
        return leaf
    return _moved(torch.from_numpy(_for_torch(np.asarray(leaf))), device, pin_memory)


def _has_large_rows(array: np.ndarray) -> bool:
    """Tell whether whole rows lie apart in memory, so large that they are not worth a copy: every other stack of frames."""
    if array.ndim < 2 or array.strides[0] < _LARGE_ROW or not len(array) or not array.flags.writeable:
        return False
    row = array[0]
    return bool(row.flags.carray) and _LARGE_ROW <= row.nbytes <= array.strides[0]


# Rows of at least this many bytes stay apart: a copy costs more than what it spares later.
_LARGE_ROW = 4096


# Arrays of these dtypes become tensors without a copy, unless they are read-only or not contiguous.
_ADOPTED = frozenset(map(np.dtype, ("float32", "int64", "int32", "uint8", "bool")))


# The sizes of float16 and float32.
_KEPT_FLOATS = frozenset((2, 4))


def _for_torch(array: np.ndarray) -> np.ndarray:
    """Return an array that torch can adopt: writable, contiguous, in a dtype that its operations support."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f" and size not in _KEPT_FLOATS:
        return array.astype(np.float32)
    if kind == "u" and size > 1:
        return _as_signed(array)
    if not array.flags.writeable or not array.flags.c_contiguous or not array.dtype.isnative:
        return np.array(array, array.dtype.newbyteorder("="), order="C")
    return array


def _as_signed(array: np.ndarray) -> np.ndarray:
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise OverflowError(f"found {array.max()} in a column of {array.dtype}, expected numbers that int64 can hold.")
    return array.astype(np.int64)


def _moved(tensor: torch.Tensor, device: torch.device, pin_memory: bool) -> torch.Tensor:
    if device.type == "cpu":
        return tensor if tensor.is_cpu else tensor.cpu()
    if tensor.device == device:
        return tensor
    if pin_memory and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
