"""Kinds of pieces by their dependence on time, which decides the laws that a piece has to obey."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """The rows that a row of a piece depends on."""

    CAUSAL = "causal"  # On the row itself and on earlier steps: chunks have the same rows as the whole episode.
    FORWARD_LOOKING = (
        "forward-looking"  # On later steps of the episode too: a chunk bootstraps at its last observation.
    )
    BATCH_WIDE = "batch-wide"  # On all rows of the batch, as standardising does.
