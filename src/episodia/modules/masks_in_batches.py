"""Masks of allowed actions in a batch: a column of their own, or a part of the observations."""

from __future__ import annotations

from episodia.columns import Columns
from episodia.types import Batch, Item


def action_mask(batch: Batch) -> Item:
    """Return the mask of the actions that are allowed at each step, or None.

    >>> action_mask({"obs": {"board": [0], "action_mask": [[1, 0]]}})
    [[1, 0]]
    """
    return batch[Columns.ACTION_MASK] if Columns.ACTION_MASK in batch else mask_in(batch.get(Columns.OBS))


def mask_in(observations: Item) -> Item:
    """Return the mask of allowed actions that is a part of `observations`, or None."""
    return observations.get(Columns.ACTION_MASK) if isinstance(observations, dict) else None
