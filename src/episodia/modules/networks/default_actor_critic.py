"""The default network: an actor-critic made of the spaces and of a few settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor

from episodia.arguments import checked_flag, names_nearest_argument
from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.networks.acting_network import needed
from episodia.modules.networks.actor_critic import ActorCritic
from episodia.modules.networks.layers import check_size, check_sizes, linear, passed
from episodia.modules.networks.trunk import OBS_WRITER, Trunk, observations_of
from episodia.types import Batch, Item


@names_nearest_argument
class DefaultActorCritic(ActorCritic):
    """An encoder for each part of an observation, linear layers with tanh, an optional recurrent layer, and two heads.

    Weights are orthogonal. The head of the actor starts so small that all actions are about equally probable.

    Stateful modules take batches `[B, T, ...]` with `state_in` `[B, cell_size]`, `{"h": ...}` for a GRU and
    `{"h": ..., "c": ...}` for an LSTM. If sequences are padded at their ends, `seq_lens` `[B]` counts their valid steps:
    `state_out` is the state after these. Outputs at padded steps mean nothing, and padding never reaches a valid step.

    Without sharing, the critic has its own trunk and, if recurrent, its own state: `state_in` is then
    `{"actor": ..., "critic": ...}`. Acting computes both states, because learning starts from them, but no values.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these; see `encoder_for`.
        action_space: See `dist_for`.
        hidden: The sizes of the linear layers.
        recurrent: The kind of recurrent layer above them, `"lstm"` or `"gru"`, or None.
        cell_size: The number of units of the recurrent layer; None takes the size of the layer below it.
        shared: Whether actor and critic share one trunk and differ only in their heads.
        squashed: For Box actions, see `dist_for`.
        generator: The source of the initial weights; None takes torch's global generator (`torch.manual_seed`).

    Raises:
        ModuleError: If there is no network for the spaces, or if a size is not a positive integer.

    >>> import numpy as np
    >>> from gymnasium import spaces
    >>> module = DefaultActorCritic(spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Discrete(4))
    >>> list(module.forward({"obs": torch.zeros(5, 64, 64, 3, dtype=torch.uint8)}, critic=False))
    ['action_dist_inputs']
    """

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        recurrent: str | None = None,
        cell_size: int | None = None,
        shared: bool = False,
        squashed: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, squashed=squashed)
        self.hidden, self.recurrent = check_sizes("hidden", hidden), recurrent
        self.cell_size = None if cell_size is None else check_size("cell_size", cell_size)
        self.shared = checked_flag(ModuleError, "default module", "shared", shared)
        self.squashed = bool(squashed)

        def trunk() -> Trunk:
            return Trunk(observation_space, self.hidden, recurrent, self.cell_size, generator)

        if shared:
            self.trunk = trunk()
        else:
            self.actor, self.critic = trunk(), trunk()
        width = (self.trunk if shared else self.actor).num_features
        self.actor_head = linear(width, self.distribution.num_inputs, 0.01, generator)
        self.critic_head = linear(width, 1, 1.0, generator)

    def forward(self, batch: Batch, *, actor: bool = True, critic: bool = True) -> Batch:
        """Return the requested columns, see `ActorCritic.forward`."""
        # `self.actor_head` would search three dicts at every step of a runner.
        parts: Any = self._modules
        if actor and not critic and self.recurrent is None:
            observations = needed(batch, Columns.OBS, OBS_WRITER)
            trunk = parts["trunk" if self.shared else "actor"]
            return {Columns.ACTION_DIST_INPUTS: trunk.encoded(observations, parts["actor_head"])}
        of_actor, of_critic, state = self._embeddings(batch, actor, critic)
        outputs: Batch = {} if self.recurrent is None else {Columns.STATE_OUT: state}
        if actor:
            outputs[Columns.ACTION_DIST_INPUTS] = passed(parts["actor_head"], of_actor)
        if critic:
            outputs[Columns.VF_PREDS] = passed(parts["critic_head"], of_critic).squeeze(-1)
            outputs[Columns.EMBEDDINGS] = of_critic
        return outputs

    def _embeddings(self, batch: Batch, actor: bool, critic: bool) -> tuple[Any, Any, dict[str, Item]]:
        """Return the inputs of both heads, None for one that is not asked for, and the state after the last valid step."""
        parts: Any = self._modules
        observations = needed(batch, Columns.OBS, OBS_WRITER)
        if self.recurrent is None and not self.shared:
            of_actor = parts["actor"].encoded(observations) if actor else None
            return of_actor, parts["critic"].encoded(observations) if critic else None, {}
        state, seq_lens = self._state(batch), batch.get(Columns.SEQ_LENS)
        if self.shared:
            found, after = parts["trunk"].unrolled(observations, state, seq_lens)
            return found, found, after
        # Both states advance, even if only one output is asked for.
        of_actor, actor_state = parts["actor"].unrolled(observations, state.get("actor"), seq_lens)
        of_critic, critic_state = parts["critic"].unrolled(observations, state.get("critic"), seq_lens)
        return of_actor, of_critic, {"actor": actor_state, "critic": critic_state}

    def compute_values(self, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """Return the value of each observation; nothing of the actor alone is computed."""
        if embeddings is None:
            state = self._state(batch)
            embeddings = (
                self.trunk(observations_of(batch), state)
                if self.shared
                else self.critic(observations_of(batch), state.get("critic"))
            )
        return passed(self.critic_head, embeddings).squeeze(-1)

    def get_initial_state(self) -> dict[str, Item]:
        """Return zeros, or an empty dict without a recurrent layer."""
        if not self.is_stateful():
            return {}
        if self.shared:
            return self.trunk.initial_state()
        return {"actor": self.actor.initial_state(), "critic": self.critic.initial_state()}

    def is_stateful(self) -> bool:
        """Tell whether there is a recurrent layer."""
        return self.recurrent is not None

    def get_config(self) -> dict[str, Any]:
        """Return sizes and choices."""
        return {
            "hidden": list(self.hidden),
            "recurrent": self.recurrent,
            "cell_size": self.cell_size,
            "shared": self.shared,
            "squashed": self.squashed,
        }

    def _state(self, batch: Batch) -> Item:
        return {} if self.recurrent is None else needed(batch, Columns.STATE_IN, "`AddStatesFromEpisodesToBatch`")


@names_nearest_argument
@final
class MLPActorCritic(DefaultActorCritic):
    """The default network without a recurrent layer: separate stacks of linear layers for actions and for values.

    Args:
        observation_space: See `DefaultActorCritic`.
        action_space: See `dist_for`.
        hidden: The sizes of the hidden layers, the same in both stacks.
        generator: The source of the initial weights; None takes torch's global generator (`torch.manual_seed`).

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
        super().__init__(observation_space, action_space, hidden=hidden, generator=generator)

    def get_config(self) -> dict[str, Any]:
        """Return the sizes of the layers."""
        return {"hidden": list(self.hidden)}


@names_nearest_argument
@final
class LSTMActorCritic(DefaultActorCritic):
    """The default network with one LSTM layer that actor and critic share.

    Args:
        observation_space: See `DefaultActorCritic`.
        action_space: See `dist_for`.
        hidden: The sizes of the layers below the LSTM.
        cell_size: The number of units of the LSTM.
        generator: The source of the initial weights; None takes torch's global generator (`torch.manual_seed`).

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
        super().__init__(
            observation_space,
            action_space,
            hidden=hidden,
            recurrent="lstm",
            cell_size=cell_size,
            shared=True,
            generator=generator,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the sizes of the layers."""
        return {"hidden": list(self.hidden), "cell_size": self.cell_size}
