"""Small modules whose values can be computed in one's head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class SumModule:
    """Values an observation at the sum of its numbers."""

    observation_space = action_space = None

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        return batch["obs"].sum(-1)

    def get_initial_state(self) -> dict[str, Any]:
        return {}

    def is_stateful(self) -> bool:
        return False


class MemoryModule(SumModule):
    """Values an observation at the sum of its numbers, of those before it in the sequence, and of its state at the start."""

    max_seq_len = 3

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        return batch["obs"].sum(-1).cumsum(1) + batch["state_in"]["h"].sum(-1, keepdim=True)

    def get_initial_state(self) -> dict[str, Any]:
        return {"h": np.full(4, 0.5, np.float32), "c": np.zeros(4, np.float32)}

    def is_stateful(self) -> bool:
        return True
