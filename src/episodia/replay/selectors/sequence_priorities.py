"""One value for each sequence, from the values of its steps."""

from __future__ import annotations

import numpy as np

from episodia.arguments import checked_number
from episodia.errors import ReplayError
from episodia.types import Item


def sequence_priorities(values: Item, mask: Item, eta: float = 0.9) -> np.ndarray:
    """Return `eta` times the largest absolute value of each sequence, plus `1 - eta` times the mean of its absolute values.

    Args:
        values: A value for each step, such as TD errors: an array or a tensor `[B, L]`.
        mask: Which steps count, `[B, L]`: the column `loss_mask`.
        eta: The share of the largest value.

    Returns:
        The value of each sequence, 0 where no step counts: float64 [B].

    Raises:
        ReplayError: If `eta` is out of range, or the shapes differ.

    >>> sequence_priorities(np.array([[-1.0, 3.0], [5.0, 2.0]]), np.array([[True, True], [False, True]]), eta=0.5).tolist()
    [2.5, 2.0]
    """
    checked_number(ReplayError, "sequence_priorities", "eta", eta, 0.0, 1.0)
    absolute, counts = np.abs(np.asarray(values, np.float64)), np.asarray(mask, np.bool_)
    if absolute.ndim != 2 or absolute.shape != counts.shape:
        raise ReplayError(
            f"sequence_priorities: found values of the shape {list(absolute.shape)}, a mask of the shape {list(counts.shape)}, "
            "expected [B, L] for both. Pass the values of padded sequences, and their column 'loss_mask'."
        )
    absolute[~counts] = 0.0
    means = absolute.sum(axis=1) / np.maximum(1, counts.sum(axis=1))
    priorities: np.ndarray = eta * absolute.max(axis=1, initial=0.0) + (1.0 - eta) * means
    return priorities
