"""The network that a module is, unless someone says otherwise: made of the spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from gymnasium import Space
from torch import Tensor

from episodia.arguments import checked_flag
from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.networks.actor_critic import ActorCritic, needed
from episodia.modules.networks.layer_calls import passed
from episodia.modules.networks.layers import check_sizes, linear
from episodia.modules.networks.trunk import Bottom


def default_module(
    observation_space: Space[Any],
    action_space: Space[Any],
    *,
    hidden: Sequence[int] = (64, 64),
    recurrent: str | None = None,
    shared: bool = False,
    squashed: bool = False,
    generator: torch.Generator | None = None,
) -> DefaultActorCritic:
    """Return an actor-critic for these spaces, see `DefaultActorCritic`, whose arguments these are.

    >>> from gymnasium import spaces
    >>> module = default_module(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), hidden=(8,), recurrent="gru", shared=True)
    >>> sorted(name for name, _ in module.named_children())
    ['actor_head', 'bottom', 'critic_head']
    """
    return DefaultActorCritic(
        observation_space,
        action_space,
        hidden=hidden,
        recurrent=recurrent,
        shared=shared,
        squashed=squashed,
        generator=generator,
    )


@final
class DefaultActorCritic(ActorCritic):
    """An encoder for each part of an observation, linear layers with tanh, perhaps a memory, and two heads.

    Weights are orthogonal. The head of the actor begins so small that all actions are about equally probable.

    Without sharing, the critic has a bottom of its own, and with a memory a state of its own: `state_in` is then
    `{"actor": ..., "critic": ...}`. While acting, both states are computed, since learning begins from them, but no values.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these; see `encoder_for`.
        action_space: See `dist_for`.
        hidden: The sizes of the linear layers.
        recurrent: The kind of memory above them, `"lstm"` or `"gru"`, or None. It has as many units as the last of these
            layers. See `LSTMActorCritic` for batches and states.
        shared: Whether actor and critic have one bottom, with only their heads apart.
        squashed: For Box actions, see `dist_for`.
        generator: Where the initial weights come from; None takes torch's global generator (`torch.manual_seed`).

    Raises:
        ModuleError: If there is no network for the spaces, or a size is none.

    >>> import numpy as np
    >>> from gymnasium import spaces
    >>> module = DefaultActorCritic(spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Discrete(4))
    >>> list(module.forward({"obs": torch.zeros(5, 64, 64, 3, dtype=torch.uint8)}, critic=False))
    ['action_dist_inputs']
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        recurrent: str | None = None,
        shared: bool = False,
        squashed: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, squashed=squashed)
        self.hidden, self.recurrent = check_sizes("hidden", hidden), recurrent
        self.shared = checked_flag(ModuleError, "default module", "shared", shared)
        self.squashed = bool(squashed)
        bottom = Bottom(observation_space, self.hidden, recurrent, generator)
        if shared:
            self.bottom = bottom
        else:
            self.actor = bottom
            self.critic = Bottom(observation_space, self.hidden, recurrent, generator)
        # All actions are about equally probable at first.
        self.actor_head = linear(bottom.num_features, self.distribution.num_inputs, 0.01, generator)
        self.critic_head = linear(bottom.num_features, 1, 1.0, generator)

    def forward(self, batch: dict[str, Any], *, actor: bool = True, critic: bool = True) -> dict[str, Any]:
        """Return what is asked for, see `ActorCritic.forward`."""
        below = self._below_shared(batch) if self.shared else self._below_separate(batch, actor, critic)
        outputs: dict[str, Any] = {Columns.STATE_OUT: below.state} if self.is_stateful() else {}
        if actor:
            outputs[Columns.ACTION_DIST_INPUTS] = passed(self.actor_head, below.actor)
        if critic:
            outputs[Columns.VF_PREDS] = passed(self.critic_head, below.critic).squeeze(-1)
            outputs[Columns.EMBEDDINGS] = below.critic
        return outputs

    def _below_shared(self, batch: dict[str, Any]) -> _Below:
        embeddings, state = self.bottom.unrolled(_observations(batch), self._state(batch), batch.get(Columns.SEQ_LENS))
        return _Below(embeddings, embeddings, state)

    def _below_separate(self, batch: dict[str, Any], actor: bool, critic: bool) -> _Below:
        observations, states, seq_lens = _observations(batch), self._state(batch), batch.get(Columns.SEQ_LENS)
        found: dict[str, tuple[Any, Any]] = {"actor": (None, None), "critic": (None, None)}
        # A state has to keep up, whether or not its output is asked for.
        if actor or self.is_stateful():
            found["actor"] = self.actor.unrolled(observations, states.get("actor"), seq_lens)
        if critic or self.is_stateful():
            found["critic"] = self.critic.unrolled(observations, states.get("critic"), seq_lens)
        state = {name: after for name, (_, after) in found.items()}
        return _Below(found["actor"][0], found["critic"][0], state)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the value of each observation; nothing of the actor alone is computed."""
        if embeddings is None:
            state = self._state(batch)
            embeddings = (
                self.bottom(_observations(batch), state)
                if self.shared
                else self.critic(_observations(batch), state.get("critic"))
            )
        return passed(self.critic_head, embeddings).squeeze(-1)

    def get_initial_state(self) -> dict[str, Any]:
        """Return zeros, or an empty dict if there is no memory."""
        if not self.is_stateful():
            return {}
        if self.shared:
            return self.bottom.initial_state()
        return {"actor": self.actor.initial_state(), "critic": self.critic.initial_state()}

    def is_stateful(self) -> bool:
        """Tell whether there is a memory."""
        return self.recurrent is not None

    def get_config(self) -> dict[str, Any]:
        """Return sizes and choices."""
        return {
            "hidden": list(self.hidden),
            "recurrent": self.recurrent,
            "shared": self.shared,
            "squashed": self.squashed,
        }

    def _state(self, batch: dict[str, Any]) -> Any:
        return needed(batch, Columns.STATE_IN, "`AddStatesFromEpisodesToBatch`") if self.is_stateful() else {}


class _Below(NamedTuple):
    """What the heads get, each its own, and the state to go on from; None for what was not asked for."""

    actor: Any
    critic: Any
    state: Any


def _observations(batch: dict[str, Any]) -> Any:
    return needed(batch, Columns.OBS, "`AddObservationsFromEpisodesToBatch`")
