"""Tensors as the content of a safetensors file. Only this file imports safetensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

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
        CheckpointError: If it is not a safetensors file.
        MissingExtraError: If safetensors is not installed.
    """
    library = _library()
    try:
        tensors: dict[str, Tensor] = library.load(content)
    except Exception as error:  # the parser may raise anything for untrusted bytes
        raise CheckpointError(
            f"{where}: found an invalid safetensors file ({error}), expected a valid one. Another program wrote the file; "
            "use another checkpoint."
        ) from error
    return tensors


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
