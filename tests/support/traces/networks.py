"""Small seeded networks for the traces.

The traces are older than the one class of network: `MLPActorCritic` drew the weights of the actor's head before those of
the critic, and some weights had shorter names. Both are restored here, so that the recorded figures stay as they are.
"""

import torch

from episodia.modules import LSTMActorCritic, MLPActorCritic, default_module
from episodia.modules.networks.layers import HIDDEN_GAIN

SEED = 11
_RECORDED_NAMES = {
    MLPActorCritic: {".tower.": "."},
    LSTMActorCritic: {"trunk.tower.": "encoder.", "trunk.memory.": "lstm."},
}


def network(kind, observation_space, action_space):
    """Return a small seeded network; `kind` is "MLP", "LSTM", "GRU" or "default"."""
    generator = torch.Generator().manual_seed(SEED)
    if kind == "MLP":
        return _redrawn(MLPActorCritic(observation_space, action_space, (16, 16)))
    if kind == "LSTM":
        return LSTMActorCritic(observation_space, action_space, (16,), 8, generator=generator)
    recurrent = "gru" if kind == "GRU" else None
    return default_module(observation_space, action_space, hidden=(16,), recurrent=recurrent, generator=generator)


def _redrawn(module):
    """Return `module` with weights that are drawn in the order of the recording."""
    generator = torch.Generator().manual_seed(SEED)
    for trunk, head, gain in ((module.actor, module.actor_head, 0.01), (module.critic, module.critic_head, 1.0)):
        for layer in trunk.tower[::2]:
            torch.nn.init.orthogonal_(layer.weight, HIDDEN_GAIN, generator=generator)
        torch.nn.init.orthogonal_(head.weight, gain, generator=generator)
    return module


def recorded_weights(learner):
    """Return the weights of a learner under the names that they were recorded with."""
    found = {}
    for module_id, weights in learner.get_weights().items():
        renamed = _RECORDED_NAMES.get(type(learner.modules[module_id]), {})
        found[module_id] = {_replaced(name, renamed): value for name, value in weights.items()}
    return found


def _replaced(name, renamed):
    for new, old in renamed.items():
        name = name.replace(new, old)
    return name
