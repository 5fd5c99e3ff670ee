"""A small feed-forward actor-critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor

from episodia.columns import Columns
from episodia.modules.networks.actor_critic import ActorCritic, needed
from episodia.modules.networks.features import flat_features
from episodia.modules.networks.layer_calls import passed
from episodia.modules.networks.layers import check_sizes, linear, tower


@final
class MLPActorCritic(ActorCritic):
    """Two separate stacks of linear layers with tanh: one for actions, one for values.

    Args:
        observation_space: Observations are flattened, and discrete parts of them one-hot, see `flat_features`.
        action_space: See `ActorCritic`.
        hidden: The sizes of the hidden layers, the same in both stacks.
        generator: Where the initial weights come from; None takes torch's global generator (`torch.manual_seed`).

    >>> from gymnasium import spaces
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), generator=torch.Generator().manual_seed(0))
    >>> outputs = module.forward_train({"obs": torch.zeros(5, 3)})
    >>> outputs["action_dist_inputs"].shape, outputs["vf_preds"].shape
    (torch.Size([5, 2]), torch.Size([5]))
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        hidden: Sequence[int] = (64, 64),
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.features = flat_features(observation_space)
        self.hidden = check_sizes("hidden", hidden)
        inputs = self.features.num_features
        width = self.hidden[-1] if self.hidden else inputs
        self.actor = tower(inputs, self.hidden, generator)
        # All actions are about equally probable at first.
        self.actor_head = linear(width, self.distribution.num_inputs, 0.01, generator)
        self.critic = tower(inputs, self.hidden, generator)
        self.critic_head = linear(width, 1, 1.0, generator)

    def forward(self, batch: dict[str, Any], *, actor: bool = True, critic: bool = True) -> dict[str, Any]:
        """Return what is asked for, see `ActorCritic.forward`."""
        # Not `self.actor`: torch looks for a module's parts in three places, at every step of a runner.
        features, parts = self._flat(batch), self._modules
        outputs: dict[str, Any] = {}
        if actor:
            outputs[Columns.ACTION_DIST_INPUTS] = passed(parts["actor_head"], passed(parts["actor"], features))
        if critic:
            embeddings = outputs[Columns.EMBEDDINGS] = passed(parts["critic"], features)
            outputs[Columns.VF_PREDS] = passed(parts["critic_head"], embeddings).squeeze(-1)
        return outputs

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the value of each observation; only the critic is computed."""
        if embeddings is None:
            embeddings = passed(self.critic, self._flat(batch))
        return passed(self.critic_head, embeddings).squeeze(-1)

    def get_initial_state(self) -> dict[str, Any]:
        """Return an empty dict."""
        return {}

    def is_stateful(self) -> bool:
        """Return False."""
        return False

    def get_config(self) -> dict[str, Any]:
        """Return the sizes of the layers."""
        return {"hidden": list(self.hidden)}

    def _flat(self, batch: dict[str, Any]) -> Any:
        observations = needed(batch, Columns.OBS, "`AddObservationsFromEpisodesToBatch`")
        features: Any = self._modules["features"]
        return features.forward(observations)
