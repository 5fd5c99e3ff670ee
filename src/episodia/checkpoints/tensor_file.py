"""Named tensors as the bytes of one safetensors file. The only place that imports safetensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from episodia.errors import CheckpointError, MissingExtraError


def tensor_bytes(tensors: dict[str, Tensor]) -> bytes:
    """Return the content of a file with these tensors, which lie on the CPU in order, each with memory of its own.

    Raises:
        MissingExtraError: If safetensors is not installed.
    """
    found: bytes = _library().save(tensors)
    return found


def tensors_from(content: bytes, where: str) -> dict[str, Tensor]:
    """Return the tensors of a file with this content; `where` is its name, for messages.

    Raises:
        CheckpointError: If it is no such file.
        MissingExtraError: If safetensors is not installed.
    """
    library = _library()
    try:
        tensors: dict[str, Tensor] = library.load(content)
    except Exception as error:  # whatever the parser has to say about bytes that nobody can vouch for
        raise CheckpointError(
            f"{where}: found bytes that are no safetensors file ({error}), expected one. The file was made by something else; "
            "use another checkpoint."
        ) from error
    return tensors


def _library() -> Any:
    try:
        # Optional, so it is imported when it is needed.
        import safetensors.torch as library  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "checkpoints: found no safetensors, expected it, since tensors are stored with it. Install it with "
            '`pip install "episodia[train]"`.'
        ) from error
    return library
