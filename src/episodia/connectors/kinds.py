"""What a piece does along the time axis, which decides the laws that it has to obey."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """How a row that a piece makes depends on other rows."""

    CAUSAL = "causal"  # On the row itself and on earlier steps: chunks give the rows of the whole episode.
    FORWARD_LOOKING = (
        "forward-looking"  # On later steps of the episode too: a chunk bootstraps at its last observation.
    )
    BATCH_WIDE = "batch-wide"  # On all rows of the batch, as standardising does.
