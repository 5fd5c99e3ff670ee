"""A small recurrent actor-critic."""

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
from episodia.modules.networks.layers import check_size, check_sizes, linear, recurrent, tower
from episodia.modules.networks.recurrent_layers import initial_state, outputs_of, unrolled


@final
class LSTMActorCritic(ActorCritic):
    """Linear layers with tanh, one LSTM layer, and on top of it one head for actions and one for values.

    Batches are `[B, T, ...]` with `state_in` `{"h": [B, cell_size], "c": [B, cell_size]}`. Where sequences are padded at
    their ends, `seq_lens` `[B]` says how many steps are valid: `state_out` is the state after those. Outputs at padded
    steps mean nothing, and nothing at a padded step reaches a valid one.

    Args:
        observation_space: Observations are flattened, and discrete parts of them one-hot, see `flat_features`.
        action_space: See `ActorCritic`.
        hidden: The sizes of the layers below the LSTM.
        cell_size: The number of units of the LSTM.
        generator: Where the initial weights come from; None takes torch's global generator (`torch.manual_seed`).

    >>> from gymnasium import spaces
    >>> module = LSTMActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), cell_size=8)
    >>> state = {name: torch.zeros(5, 8) for name in module.get_initial_state()}
    >>> outputs = module.forward_train({"obs": torch.zeros(5, 7, 3), "state_in": state})
    >>> outputs["vf_preds"].shape, outputs["state_out"]["h"].shape
    (torch.Size([5, 7]), torch.Size([5, 8]))
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        hidden: Sequence[int] = (64,),
        cell_size: int = 64,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.hidden, self.cell_size = check_sizes("hidden", hidden), check_size("cell_size", cell_size)
        self.features = flat_features(observation_space)
        self.encoder = tower(self.features.num_features, self.hidden, generator)
        width = self.hidden[-1] if self.hidden else self.features.num_features
        self.lstm = recurrent("lstm", width, self.cell_size, generator)
        # All actions are about equally probable at first.
        self.actor_head = linear(self.cell_size, self.distribution.num_inputs, 0.01, generator)
        self.critic_head = linear(self.cell_size, 1, 1.0, generator)

    def forward(self, batch: dict[str, Any], *, actor: bool = True, critic: bool = True) -> dict[str, Any]:
        """Return what is asked for, see `ActorCritic.forward`."""
        embeddings, state_out = unrolled(self.lstm, self._encoded(batch), _state_of(batch), batch.get(Columns.SEQ_LENS))
        outputs: dict[str, Any] = {Columns.STATE_OUT: state_out}
        if actor:
            outputs[Columns.ACTION_DIST_INPUTS] = passed(self.actor_head, embeddings)
        if critic:
            outputs[Columns.VF_PREDS] = passed(self.critic_head, embeddings).squeeze(-1)
            outputs[Columns.EMBEDDINGS] = embeddings
        return outputs

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the value of each observation, `[B, T]`."""
        if embeddings is None:
            embeddings = outputs_of(self.lstm, self._encoded(batch), _state_of(batch))
        return passed(self.critic_head, embeddings).squeeze(-1)

    def get_initial_state(self) -> dict[str, Any]:
        """Return zeros."""
        return initial_state(self.lstm)

    def is_stateful(self) -> bool:
        """Return True."""
        return True

    def get_config(self) -> dict[str, Any]:
        """Return the sizes of the layers."""
        return {"hidden": list(self.hidden), "cell_size": self.cell_size}

    def _encoded(self, batch: dict[str, Any]) -> Tensor:
        observations = needed(batch, Columns.OBS, "`AddObservationsFromEpisodesToBatch`")
        return passed(self.encoder, self.features.forward(observations))


def _state_of(batch: dict[str, Any]) -> Any:
    return needed(batch, Columns.STATE_IN, "`AddStatesFromEpisodesToBatch`")
