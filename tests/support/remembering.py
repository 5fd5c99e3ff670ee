"""A network that behaves differently while it learns: it normalises over batches, and forgets a part of what it is shown."""

from __future__ import annotations

from torch import nn

from drives import ACTIONS, OBSERVATIONS
from episodia.modules import ActorCritic


class Remembering(ActorCritic):
    """Batch normalisation, dropout, and two heads."""

    def __init__(self, observation_space=OBSERVATIONS, action_space=ACTIONS, *, dropout=0.0):
        super().__init__(observation_space, action_space)
        inputs = observation_space.shape[0]
        self.norm, self.drop = nn.BatchNorm1d(inputs), nn.Dropout(dropout)
        self.actor_head, self.critic_head = nn.Linear(inputs, int(action_space.n)), nn.Linear(inputs, 1)

    def forward(self, batch, *, actor=True, critic=True):
        shown = self.drop(self.norm(batch["obs"]))
        found = {"action_dist_inputs": self.actor_head(shown)}
        return found | ({"vf_preds": self.critic_head(shown).squeeze(-1)} if critic else {})

    def compute_values(self, batch, embeddings=None):
        return Remembering.forward(self, batch)["vf_preds"]

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False

    def get_config(self):
        return {}
