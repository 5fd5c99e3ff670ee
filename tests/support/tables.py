"""A module whose outputs are its weights: what it should learn can be computed by hand."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from episodia.modules import dist_for


class Table(nn.Module):
    """Logits and values of each of a few situations, which are numbered."""

    def __init__(self, logits, values=None):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits, dtype=torch.float32))
        self.values = nn.Parameter(torch.tensor([0.0] * len(logits) if values is None else values))
        self.observation_space = spaces.Discrete(len(logits))
        self.action_space = spaces.Discrete(len(logits[0]))

    def forward_train(self, batch):
        return {"action_dist_inputs": self.logits[batch["obs"]], "vf_preds": self.values[batch["obs"]]}

    forward_inference = forward_exploration = forward_train

    def compute_values(self, batch, embeddings=None):
        return self.values[batch["obs"]]

    def get_train_action_dist_cls(self):
        return dist_for(self.action_space)

    get_inference_action_dist_cls = get_exploration_action_dist_cls = get_train_action_dist_cls

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


def softmax(logits):
    powers = np.exp(np.asarray(logits, np.float64))
    return powers / powers.sum(-1, keepdims=True)
