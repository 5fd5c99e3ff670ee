"""A small recurrent actor-critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.actor_critic import ActorCritic, needed
from episodia.modules.distributions.base import describe
from episodia.modules.layers import linear, lstm, tower

State = dict[str, Tensor]


@final
class LSTMActorCritic(ActorCritic):
    """Linear layers with tanh, one LSTM layer, and on top of it one head for actions and one for values.

    Batches are `[B, T, ...]` with `state_in` `{"h": [B, cell_size], "c": [B, cell_size]}`. Where sequences are padded at
    their ends, `seq_lens` `[B]` says how many steps are valid: `state_out` is the state after those. Outputs at padded
    steps mean nothing, and nothing at a padded step reaches a valid one.

    Args:
        observation_space: See `ActorCritic`.
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
        inputs = self.features.num_features
        self.cell_size = cell_size
        self.encoder = tower(inputs, hidden, generator)
        self.lstm = lstm(hidden[-1] if hidden else inputs, cell_size, generator)
        # All actions are about equally probable at first.
        self.actor_head = linear(cell_size, self.distribution.num_inputs, 0.01, generator)
        self.critic_head = linear(cell_size, 1, 1.0, generator)

    def forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return `action_dist_inputs` and `state_out`."""
        embeddings, state_out = self._unroll(batch)
        return {Columns.ACTION_DIST_INPUTS: self.actor_head(embeddings), Columns.STATE_OUT: state_out}

    def forward_train(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return `action_dist_inputs`, `vf_preds`, `embeddings` and `state_out`."""
        embeddings, state_out = self._unroll(batch)
        return {
            Columns.ACTION_DIST_INPUTS: self.actor_head(embeddings),
            Columns.VF_PREDS: self.critic_head(embeddings).squeeze(-1),
            Columns.EMBEDDINGS: embeddings,
            Columns.STATE_OUT: state_out,
        }

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the value of each observation, `[B, T]`."""
        if embeddings is None:
            # An LSTM never looks ahead: without a need for the last state, padding can be computed along.
            embeddings, _ = self.lstm(*self._inputs(batch))
        values: Tensor = self.critic_head(embeddings)
        return values.squeeze(-1)

    def get_initial_state(self) -> dict[str, Any]:
        """Return zeros."""
        return {name: np.zeros(self.cell_size, np.float32) for name in ("h", "c")}

    def is_stateful(self) -> bool:
        """Return True."""
        return True

    def _inputs(self, batch: dict[str, Any]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        observations = needed(batch, Columns.OBS, "`AddObservationsFromEpisodesToBatch`")
        state = needed(batch, Columns.STATE_IN, "`AddStatesFromEpisodesToBatch`")
        encoded: Tensor = self.encoder(self.features(observations))
        if encoded.dim() != 3:
            raise ModuleError(
                f"LSTMActorCritic: found observations with {encoded.dim() - 1} leading axes, expected [B, T, ...]. "
                "Add `AddTimeDimToBatchAndZeroPad` to the pipeline in front of the module."
            )
        self._check_state(state, len(encoded))
        return encoded, (state["h"].unsqueeze(0), state["c"].unsqueeze(0))

    def _check_state(self, state: State, rows: int) -> None:
        for name in ("h", "c"):
            if name not in state or state[name].shape != (rows, self.cell_size):
                raise ModuleError(
                    f"LSTMActorCritic: found {describe(state.get(name))} as state_in[{name!r}], expected a tensor "
                    f"[{rows}, {self.cell_size}]. Stack one state per sequence, at first `get_initial_state()`."
                )

    def _unroll(self, batch: dict[str, Any]) -> tuple[Tensor, State]:
        encoded, state = self._inputs(batch)
        lengths = _lengths(batch.get(Columns.SEQ_LENS), encoded)
        if lengths is None:
            outputs, (h, c) = self.lstm(encoded, state)
            return outputs, {"h": h[0], "c": c[0]}
        # Packing leaves padded steps out, and refuses sequences without any valid step.
        packed = pack_padded_sequence(encoded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        packed_outputs, (h, c) = self.lstm(packed, state)
        outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=encoded.shape[1])
        empty = (lengths == 0).to(h.device).unsqueeze(-1)
        return outputs, {"h": torch.where(empty, state[0][0], h[0]), "c": torch.where(empty, state[1][0], c[0])}


def _lengths(seq_lens: Any, encoded: Tensor) -> Tensor | None:
    """Return the lengths on the CPU, where packing wants them, or None if no sequence is padded."""
    if seq_lens is None:
        return None
    rows, steps = encoded.shape[:2]
    lengths = torch.as_tensor(seq_lens, device="cpu").long()
    if lengths.shape != (rows,) or bool(((lengths < 0) | (lengths > steps)).any()):
        raise ModuleError(
            f"LSTMActorCritic: found seq_lens {lengths.tolist()}, expected {rows} numbers from 0 to {steps}, the number of "
            "valid steps of each sequence. Let the piece that pads write them."
        )
    return None if bool((lengths == steps).all()) else lengths
