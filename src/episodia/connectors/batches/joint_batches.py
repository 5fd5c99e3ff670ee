"""Batches whose rows are spread over several learners, for pieces that work on all rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

# What each of several batches says, by module; a batch without a module has nothing to say of it.
Said: TypeAlias = Mapping[Any, Any]


class JointBatch(Protocol):
    """The batches that are one batch together."""

    def said_by_all(self, piece: str, own: Said) -> list[Said]:
        """Return what a piece says in each batch, in their order.

        Args:
            piece: The name of the piece, which has to be the same in all batches.
            own: What it says here.
        """


# The batch that the running pipeline makes a part of; None if it makes all of it.
JOINT_BATCH: ContextVar[JointBatch | None] = ContextVar("JOINT_BATCH", default=None)
