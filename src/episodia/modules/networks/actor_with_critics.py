"""An actor with several critics that value its actions: the networks of DDPG, TD3 and SAC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from episodia.arguments import checked_choice, checked_flag, names_nearest_argument
from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.distributions import DistributionSpec, dist_for
from episodia.modules.distributions.categorical import CategoricalSpec
from episodia.modules.distributions.point import PointSpec
from episodia.modules.distributions.squashed_gaussian import SquashedGaussianSpec
from episodia.modules.masks_in_batches import action_mask
from episodia.modules.networks.acting_network import ActingNetwork, needed
from episodia.modules.networks.encoders import Features, encoder_for
from episodia.modules.networks.ensembles import Ensemble
from episodia.modules.networks.layers import called, check_size, check_sizes, linear, passed, tower
from episodia.modules.networks.trunk import observations_of
from episodia.types import Batch, Item

_POLICIES = ("deterministic", "stochastic")


@names_nearest_argument
@final
class ActorWithCritics(ActingNetwork):
    """An actor, critics that value observations with actions, and the temperature of soft policies.

    For a bounded Box, a deterministic actor returns actions between -1 and 1, and a stochastic one a squashed Gaussian; the
    critics get an action with the observation. For Discrete actions the actor is a categorical distribution, and each critic
    returns a value for each action.

    Args:
        observation_space: See `encoder_for`.
        action_space: A bounded Box of floats, or, for stochastic actors, a Discrete space.
        policy: `"deterministic"` or `"stochastic"`.
        hidden: The sizes of the linear layers, each with a rectifier.
        num_critics: The number of critics.
        shared: Whether the actor reads the features of the critics' encoder, which then only critics train.
        generator: The source of the initial weights; None takes torch's global generator.

    Raises:
        ModuleError: If there is no network for the spaces, or if an argument is out of range.

    >>> module = ActorWithCritics(spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-2.0, 2.0, (1,)))
    >>> batch = {"obs": torch.zeros(5, 3), "actions": torch.zeros(5, 1)}
    >>> module.get_q_values(batch, batch["actions"]).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        policy: str = "stochastic",
        hidden: Sequence[int] = (64, 64),
        num_critics: int = 2,
        shared: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        self_policy = checked_choice(ModuleError, "actor with critics", "policy", policy, _POLICIES)
        super().__init__(observation_space, action_space, _spec(action_space, self_policy))
        self.policy = self_policy
        self.hidden = check_sizes("hidden", hidden)
        self.num_critics = check_size("num_critics", num_critics)
        self.shared = checked_flag(ModuleError, "actor with critics", "shared", shared)
        self.critics = _Critics(
            encoder_for(observation_space, generator),
            (self.num_critics, self.num_action_features, self.num_values),
            self.hidden,
            generator,
        )
        self.actor = _Actor(
            None if shared else encoder_for(observation_space, generator),
            self.critics.encoder.num_features,
            self.hidden,
            self.distribution.num_inputs,
            generator,
        )
        self.log_temperature = nn.Parameter(torch.zeros(()))

    @property
    def num_action_features(self) -> int:
        """The number of elements of an action that critics get; 0 for Discrete actions."""
        return 0 if isinstance(self.distribution, CategoricalSpec) else math.prod(self.action_space.shape or ())

    @property
    def num_values(self) -> int:
        """The number of values of each critic: one, or one for each of the Discrete actions."""
        return self.distribution.n if isinstance(self.distribution, CategoricalSpec) else 1

    def get_policy(self, batch: Batch) -> Tensor:
        """Return the inputs of `distribution`, `[..., num_inputs]`."""
        observations = observations_of(batch)
        found = called(self.actor, called(self.critics.encoder, observations).detach() if self.shared else observations)
        return found.tanh() if self.policy == "deterministic" else found

    def get_q_values(self, batch: Batch, actions: Item = None) -> Tensor:
        """Return what each critic makes of `actions`: `[critics, ...]`; for Discrete spaces of each: `[critics, ..., n]`.

        Args:
            batch: A batch with observations.
            actions: For Box spaces, one action for each observation, as the actor returns them; None takes those of the batch.
        """
        if self.num_action_features and actions is None:
            actions = needed(batch, Columns.ACTIONS, "the episodes")
        found: Tensor = self.critics(observations_of(batch), actions if self.num_action_features else None)
        return found

    def get_state_value(self, batch: Batch) -> Tensor:
        """Return the smallest value that a critic gives to the most probable action, `[...]`."""
        mode = self.distribution.from_logits(self.get_policy(batch), action_mask(batch)).mode()
        if self.num_action_features:
            return self.get_q_values(batch, mode).amin(0)
        chosen = (mode - getattr(self.distribution, "start", 0)).unsqueeze(-1)
        return self.get_q_values(batch).amin(0).gather(-1, chosen).squeeze(-1)

    def forward_inference(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`."""
        return {Columns.ACTION_DIST_INPUTS: self.get_policy(batch)}

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return the same as `forward_inference`; a deterministic actor explores by a piece that adds noise."""
        return self.forward_inference(batch)

    def forward_train(self, batch: Batch) -> Batch:
        """Return the same as `forward_inference`; losses ask for values by `get_q_values`."""
        return self.forward_inference(batch)

    def get_initial_state(self) -> dict[str, Item]:
        """Return an empty dict: there is no state."""
        return {}

    def is_stateful(self) -> bool:
        """Return False."""
        return False

    def get_config(self) -> dict[str, Any]:
        """Return sizes and choices."""
        return {
            "policy": self.policy,
            "hidden": list(self.hidden),
            "num_critics": self.num_critics,
            "shared": self.shared,
        }


@final
class _Actor(nn.Module):
    """Layers from observations, or from features if there is no encoder, to the inputs of a distribution."""

    def __init__(
        self,
        encoder: Features | None,
        features: int,
        hidden: Sequence[int],
        outputs: int,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tower = tower(features, hidden, generator, "relu")
        self.head = linear(hidden[-1] if hidden else features, outputs, 0.01, generator)

    def forward(self, observations: Item) -> Tensor:
        features = observations if self.encoder is None else called(self.encoder, observations)
        return passed(self.head, passed(self.tower, features))


@final
class _Critics(nn.Module):
    """An encoder of observations, and an ensemble of networks behind it: `sizes` are critics, action features and values."""

    def __init__(
        self,
        encoder: Features,
        sizes: tuple[int, int, int],
        hidden: Sequence[int],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        members, of_actions, values = sizes
        self.encoder = encoder
        self.values = Ensemble(members, encoder.num_features + of_actions, hidden, values, generator)
        self._is_per_action = not of_actions

    def forward(self, observations: Item, actions: Item) -> Tensor:
        features = called(self.encoder, observations)
        leading = features.shape[:-1]
        if actions is not None:
            features = torch.cat([features, actions.reshape(*leading, -1).to(features.dtype)], -1)
        found = called(self.values, features.flatten(0, -2))
        return found.reshape(len(found), *leading, -1) if self._is_per_action else found.reshape(len(found), *leading)


def _spec(action_space: Space[Any], policy: str) -> DistributionSpec:
    if isinstance(action_space, spaces.Discrete) and policy == "stochastic":
        return dist_for(action_space)
    if not isinstance(action_space, spaces.Box):
        raise ModuleError(
            f"actor with critics: found the action space {action_space} with `policy={policy!r}`, expected a bounded Box of "
            "floats, or a Discrete space with a stochastic policy. Choose another kind of network."
        )
    squashed = dist_for(action_space, squashed=True)
    if policy == "stochastic" or not isinstance(squashed, SquashedGaussianSpec):
        return squashed
    return PointSpec(squashed.shape, squashed.dtype)
