"""Small seeded networks for the traces."""

import torch

from episodia.modules import LSTMActorCritic, MLPActorCritic, default_module

SEED = 11


def network(kind, observation_space, action_space):
    """Return a small seeded network; `kind` is "MLP", "LSTM", "GRU" or "default"."""
    generator = torch.Generator().manual_seed(SEED)
    if kind == "MLP":
        return MLPActorCritic(observation_space, action_space, (16, 16), generator=generator)
    if kind == "LSTM":
        return LSTMActorCritic(observation_space, action_space, (16,), 8, generator=generator)
    recurrent = "gru" if kind == "GRU" else None
    return default_module(observation_space, action_space, hidden=(16,), recurrent=recurrent, generator=generator)
