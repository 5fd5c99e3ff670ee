"""Turns all tensors in the batch into NumPy arrays."""

from __future__ import annotations

from typing import Any, final

import torch

from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.trees import map_batch
from episodia.types import Item


@final
class TensorToNumpy(ConnectorV2):
    """Turns all tensors in the batch into NumPy arrays."""

    reads = writes = frozenset[str]()
    lookback = 0

    def __call__(self, *, batch: Batch, **kwargs: Any) -> Batch:
        return {key: map_batch(as_array, column) for key, column in batch.items()}


def as_array(leaf: Item) -> Any:
    """Return a tensor as a NumPy array; anything else as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    try:
        # `force` is slower, and needed only for tensors with gradients or on other devices.
        return leaf.numpy(force=leaf.requires_grad or not leaf.is_cpu)
    except TypeError:
        # NumPy has no bfloat16. Each of its numbers is one of float32.
        return leaf.float().numpy(force=True)
