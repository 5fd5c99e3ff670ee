"""Q-networks: a value, or a distribution of returns, for each discrete action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from episodia.arguments import checked_flag, checked_number, names_nearest_argument
from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.distributions.categorical import CategoricalSpec
from episodia.modules.distributions.for_space import dist_for
from episodia.modules.distributions.point import GreedySpec
from episodia.modules.masks_in_batches import action_mask
from episodia.modules.networks.acting_network import ActingNetwork, needed
from episodia.modules.networks.layers import check_size, check_sizes, linear, passed
from episodia.modules.networks.noisy_linear import noisy_layers, set_exploring
from episodia.modules.networks.trunk import Trunk, observations_of
from episodia.trees import shown
from episodia.types import Batch, Item


@names_nearest_argument
@final
class QNetwork(ActingNetwork):
    """Estimates the return of each action, or the distribution of returns, and acts greedily.

    Exploration is a piece behind it (`EpsilonGreedy`), or the noise of its last layers (`noisy`).

    Args:
        observation_space: See `encoder_for`.
        action_space: A Discrete space.
        hidden: The sizes of the linear layers, each with a rectifier.
        recurrent: The kind of recurrent layer above them, `"lstm"` or `"gru"`, or None.
        cell_size: The number of units of the recurrent layer; None takes the size of the layer below it.
        dueling: Whether values of states and advantages of actions have heads of their own.
        noisy: Whether each head is two layers with noisy weights, see `NoisyLinear`.
        atoms: The number of atoms of the distribution of returns; 1 estimates the mean alone.
        value_range: With several atoms, the smallest and the largest return: atoms are then evenly spaced returns with learned
            probabilities (C51). None learns the returns themselves, quantiles of equal probability.
        generator: The source of the initial weights; None takes torch's global generator.

    Raises:
        ModuleError: If there is no network for the spaces, or if an argument is out of range.

    >>> module = QNetwork(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), dueling=True, atoms=51, value_range=(0.0, 10.0))
    >>> outputs = module.forward_train({"obs": torch.zeros(5, 3)})
    >>> outputs["q_values"].shape, outputs["q_atoms"].shape
    (torch.Size([5, 2]), torch.Size([5, 2, 51]))
    """

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        hidden: Sequence[int] = (64, 64),
        recurrent: str | None = None,
        cell_size: int | None = None,
        dueling: bool = False,
        noisy: bool = False,
        atoms: int = 1,
        value_range: tuple[float, float] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        choices = _choices(action_space)
        super().__init__(observation_space, action_space, GreedySpec(choices))
        self.hidden, self.recurrent = check_sizes("hidden", hidden), recurrent
        self.cell_size = None if cell_size is None else check_size("cell_size", cell_size)
        self.dueling = checked_flag(ModuleError, "Q-network", "dueling", dueling)
        self.noisy = checked_flag(ModuleError, "Q-network", "noisy", noisy)
        self.atoms = check_size("atoms", atoms)
        self.value_range = _checked_range(value_range, self.atoms)
        self.choices = choices
        self.trunk = Trunk(observation_space, self.hidden, recurrent, self.cell_size, generator, "relu")
        width, make = self.trunk.num_features, noisy_layers if noisy else linear
        self.advantage_head: nn.Module = make(width, choices.n * self.atoms, 1.0, generator)
        self.value_head: nn.Module | None = make(width, self.atoms, 1.0, generator) if dueling else None

    @property
    def returns(self) -> Tensor | None:
        """The returns that atoms stand for, `[atoms]`; None if returns are learned."""
        if self.value_range is None:
            return None
        return torch.linspace(*self.value_range, self.atoms, device=next(self.parameters()).device)

    def forward(self, batch: Batch) -> Batch:
        """Return `q_values`, with several atoms also `q_atoms`, and `state_out` if there is a state.

        `q_atoms` are unnormalised log-probabilities if there is a `value_range`, otherwise returns.
        """
        features, state = self._features(batch)
        outputs: Batch = {} if self.recurrent is None else {Columns.STATE_OUT: state}
        advantages, value = self._heads(features)
        if self.atoms == 1:
            return {**outputs, Columns.Q_VALUES: _joined(advantages, value, -1)}
        found = advantages.reshape(*features.shape[:-1], self.choices.n, self.atoms)
        found = _joined(found, None if value is None else value.unsqueeze(-2), -2)
        return {**outputs, Columns.Q_VALUES: self._means(found), Columns.Q_ATOMS: found}

    def forward_inference(self, batch: Batch) -> Batch:
        """Return the values as `action_dist_inputs`, of which the largest allowed one is taken."""
        outputs = self.forward(batch)
        return {
            Columns.ACTION_DIST_INPUTS: outputs[Columns.Q_VALUES],
            **{name: outputs[name] for name in (Columns.STATE_OUT,) if name in outputs},
        }

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return the same as `forward_inference`, with the noise of noisy heads."""
        if not self.noisy:
            return self.forward_inference(batch)
        set_exploring(self, True)
        try:
            return self.forward_inference(batch)
        finally:
            set_exploring(self, False)

    def forward_train(self, batch: Batch) -> Batch:
        """Return the same as `forward`."""
        return self.forward(batch)

    def get_q_values(self, batch: Batch) -> Tensor:
        """Return the value of each action, `[..., n]`."""
        found: Tensor = self.forward(batch)[Columns.Q_VALUES]
        return found

    def get_q_value_distributions(self, batch: Batch) -> Tensor:
        """Return the probabilities of `returns`, or the learned returns, of each action: `[..., n, atoms]`."""
        outputs = self.forward(batch)
        found: Tensor = outputs[Columns.Q_VALUES].unsqueeze(-1) if self.atoms == 1 else outputs[Columns.Q_ATOMS]
        return found if self.value_range is None else found.softmax(-1)

    def get_state_value(self, batch: Batch) -> Tensor:
        """Return the value of the best allowed action, `[...]`."""
        return _best_values(self.get_q_values(batch), action_mask(batch))

    def get_initial_state(self) -> dict[str, Item]:
        """Return zeros, or an empty dict without a recurrent layer."""
        return self.trunk.initial_state()

    def is_stateful(self) -> bool:
        """Tell whether there is a recurrent layer."""
        return self.recurrent is not None

    def get_config(self) -> dict[str, Any]:
        """Return sizes and choices."""
        return {
            "hidden": list(self.hidden),
            "recurrent": self.recurrent,
            "cell_size": self.cell_size,
            "dueling": self.dueling,
            "noisy": self.noisy,
            "atoms": self.atoms,
            "value_range": None if self.value_range is None else list(self.value_range),
        }

    def _features(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        observations = observations_of(batch)
        if self.recurrent is None:
            return self.trunk.encoded(observations), {}
        state = needed(batch, Columns.STATE_IN, "`AddStatesFromEpisodesToBatch`")
        return self.trunk.unrolled(observations, state, batch.get(Columns.SEQ_LENS))

    def _heads(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return advantages, or values, of all actions and atoms, and the atoms of the state's value of a dueling network."""
        parts: Any = self._modules
        value = passed(parts["value_head"], features) if self.dueling else None
        return passed(parts["advantage_head"], features), value

    def _means(self, atoms: Tensor) -> Tensor:
        returns = self.returns
        means: Tensor = atoms.mean(-1) if returns is None else (atoms.softmax(-1) * returns.to(atoms.dtype)).sum(-1)
        return means


def _joined(advantages: Tensor, value: Tensor | None, actions: int) -> Tensor:
    """Return the values of actions, which lie along the axis `actions`."""
    return advantages if value is None else value + advantages - advantages.mean(actions, keepdim=True)


def _best_values(values: Tensor, mask: Item = None) -> Tensor:
    """Return the largest value of the allowed actions, `[..., n]` to `[...]`.

    >>> _best_values(torch.tensor([[1.0, 2.0]]), torch.tensor([[1, 0]]))
    tensor([1.])
    """
    allowed = values if mask is None else values.masked_fill(torch.as_tensor(mask) == 0, -torch.inf)
    return allowed.amax(-1)


def _choices(action_space: Space[Any]) -> CategoricalSpec:
    if not isinstance(action_space, spaces.Discrete):
        raise ModuleError(
            f"Q-network: found the action space {action_space}, expected a Discrete space. Choose another kind of network, or "
            "give the environment discrete actions."
        )
    spec = dist_for(action_space)
    if not isinstance(spec, CategoricalSpec):
        raise ModuleError(f"Q-network: found {spec}, expected a `CategoricalSpec`. Pass a Discrete space.")
    return spec


def _checked_range(value_range: object, atoms: int) -> tuple[float, float] | None:
    if value_range is None:
        return None
    if not isinstance(value_range, (tuple, list)) or len(value_range) != 2 or atoms == 1:
        raise ModuleError(
            f"Q-network: found `value_range={shown(value_range)}` with `atoms={atoms}`, expected a smallest and a largest "
            "return and several atoms. Pass both, such as `atoms=51, value_range=(-10.0, 10.0)`, or leave both out."
        )
    low, high = (checked_number(ModuleError, "Q-network", "value_range", number) for number in value_range)
    if not low < high:
        raise ModuleError(
            f"Q-network: found `value_range={shown(value_range)}`, expected the smaller return first. Swap them."
        )
    return float(low), float(high)
