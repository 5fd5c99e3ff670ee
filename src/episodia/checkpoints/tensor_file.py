"""Tensors and arrays in the form in which one safetensors file holds them. The only importer of safetensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from episodia.checkpoints.checkpoint_limits import MAX_AXES, MAX_TENSORS
from episodia.checkpoints.stored_dtypes import is_stored_dtype, stored_dtype
from episodia.errors import CheckpointError, MissingExtraError


def tensor_bytes(tensors: dict[str, Tensor]) -> bytes:
    """Return the content of a file with `tensors`, which are contiguous, on the CPU, and share no memory.

    Raises:
        MissingExtraError: If safetensors is not installed.
    """
    found: bytes = _library().save(tensors)
    return found


def tensors_from(content: bytes, where: str) -> dict[str, Tensor]:
    """Return the tensors in the content of a file; `where` names the file in messages.

    Raises:
        CheckpointError: If it is not a safetensors file, or if it has too many tensors.
        MissingExtraError: If safetensors is not installed.
    """
    library = _library()
    if _num_entries(content) > MAX_TENSORS:
        raise CheckpointError(
            f"{where}: found more than {MAX_TENSORS} tensors, expected fewer. Another program wrote the file; use another "
            "checkpoint."
        )
    try:
        tensors: dict[str, Tensor] = library.load(content)
    except Exception as error:  # the parser may raise anything for untrusted bytes
        raise CheckpointError(
            f"{where}: found an invalid safetensors file ({error}), expected a valid one. Another program wrote the file; "
            "use another checkpoint."
        ) from error
    return tensors


def _num_entries(content: bytes) -> int:
    """Return a number that the tensors in the header of a file do not exceed, without parsing the header.

    The header is a JSON object, and follows its length. A tensor takes four colons (its name, dtype, shape and place) and at
    least three commas; each further axis takes another comma.
    """
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    return max(header.count(b":") // 4, header.count(b",") // (4 + MAX_AXES))


def _library() -> Any:
    try:
        # An optional dependency.
        import safetensors.torch as library  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "checkpoints: found that safetensors is not installed, expected it, because it stores tensors. Run "
            '`pip install "episodia[train]"`.'
        ) from error
    return library


# Dtypes of both NumPy and the file. Arrays of all other dtypes are stored as bytes.
_NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_COMMON = frozenset(map(np.dtype, _NAMES))
_COMMON_TENSORS = frozenset(getattr(torch, name) for name in _NAMES)
_TENSORS = _COMMON_TENSORS | {torch.bfloat16}


def tensor_copy(tensor: Tensor) -> Tensor:
    """Return a contiguous copy on the CPU, without gradients.

    Raises:
        CheckpointError: If a file cannot hold the tensor.
    """
    if tensor.layout != torch.strided or tensor.dtype not in _TENSORS or tensor.is_meta:
        raise CheckpointError(
            f"found a tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device}, expected a dense tensor of real numbers. "
            "Convert it before saving; nothing was written."
        )
    _check_axes(tensor.dim())
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def array_tensor(array: np.ndarray) -> tuple[Tensor, dict[str, Any]]:
    """Return a tensor with the content of `array`, and the dtype and shape that are needed to restore the array.

    Raises:
        CheckpointError: If a file cannot hold the array.
    """
    _check_axes(array.ndim)
    if array.dtype in _COMMON and array.dtype.isnative:
        return torch.from_numpy(np.array(array, order="C")), {}
    if not is_stored_dtype(array.dtype.str):
        raise CheckpointError(
            f"found an array of {array.dtype}, expected numbers, strings or times. Convert it before saving; nothing was "
            "written."
        )
    content = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8) if array.size else torch.empty(0)
    return content.to(torch.uint8), {"dtype": array.dtype.str, "shape": list(array.shape)}


def _check_axes(found: int) -> None:
    if found > MAX_AXES:
        raise CheckpointError(
            f"found {found} axes, expected at most {MAX_AXES}. Reshape it before saving; nothing was written."
        )


def tensor_from(tensor: Tensor) -> Tensor:
    """Return `tensor`, which was read from a file, after checking it.

    Raises:
        CheckpointError: If it cannot be from `tensor_copy`.
    """
    if tensor.dtype not in _TENSORS or tensor.dim() > MAX_AXES:
        raise CheckpointError(
            f"found {tensor.dim()} axes of {tensor.dtype}, expected at most {MAX_AXES}, of real numbers"
        )
    return tensor


def array_from(tensor: Tensor, form: dict[str, Any]) -> np.ndarray:
    """Return the array that `array_tensor` turned into `tensor` and `form`.

    Raises:
        CheckpointError: If they are not from `array_tensor`.
    """
    if not form:
        if tensor.dtype not in _COMMON_TENSORS or tensor.dim() > MAX_AXES:
            raise CheckpointError(f"found {tensor.dim()} axes of {tensor.dtype}, expected a NumPy array")
        return tensor.numpy()
    dtype, shape = form.get("dtype"), form.get("shape")
    if form.keys() != {"dtype", "shape"} or not is_stored_dtype(dtype):
        raise CheckpointError(f"found {repr(form)[:80]}, expected a dtype of numbers, strings or times, and a shape")
    if (
        not isinstance(shape, list)
        or not all(type(size) is int and size >= 0 for size in shape)
        or len(shape) > MAX_AXES
    ):
        raise CheckpointError(f"found the shape {repr(shape)[:80]}, expected a list of sizes")
    kind = stored_dtype(dtype)
    if tensor.dtype != torch.uint8 or tensor.dim() != 1 or len(tensor) != math.prod(shape) * kind.itemsize:
        raise CheckpointError(f"found {len(tensor.reshape(-1))} bytes, expected as many as {dtype}{shape} has")
    try:
        return tensor.numpy().view(kind).reshape(shape) if len(tensor) else np.empty(shape, kind)
    except (OverflowError, ValueError) as error:  # if one size is 0, the others may be too large
        raise CheckpointError(f"found the shape {shape}, expected one that NumPy has") from error


def scalar_from(tensor: Tensor, form: dict[str, Any]) -> Any:
    """Return the scalar whose array `array_tensor` turned into `tensor` and `form`.

    Raises:
        CheckpointError: If they are not from `array_tensor`, or not a scalar.
    """
    array = array_from(tensor, form)
    if array.ndim:
        raise CheckpointError(f"found the shape {list(array.shape)}, expected a scalar")
    try:
        return array[()]
    except (SystemError, ValueError) as error:  # NumPy raises these for invalid characters
        raise CheckpointError(f"found an invalid scalar ({error}), expected one that NumPy can hold") from error
