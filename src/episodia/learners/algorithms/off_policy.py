"""The base of algorithms that learn from replay, and what their losses have in common."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from gymnasium import Space
from torch import Tensor

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from episodia.errors import LearnerError, ModuleError, NonFiniteError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.losses.loss import LossInputs
from episodia.modules import DistributionSpec, Module
from episodia.modules.masks_in_batches import action_mask, mask_in
from episodia.replay import Draw, Sequences, Transitions
from episodia.trees import map_batch
from episodia.types import Batch

# The pieces that write the columns that each step has.
_WRITERS = "the episodes or the draw of the replay buffer"


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(AlgorithmConfig, ABC):
    """The settings of all algorithms that learn from replay.

    Args:
        n_step: The number of steps whose rewards a target adds up before it takes the value of an observation.
    """

    n_step: int = 1

    # The class of the spaces of actions that the loss works for.
    action_space_class: ClassVar[type[Space[Any]]] = Space
    # The class of the descriptions of policies that it works for, and what else it asks of a module.
    policy_class: ClassVar[type[object]] = DistributionSpec
    module_parts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_whole(LearnerError, type(self).__name__, "n_step", self.n_step, 1)
        if self.burn_in and self.max_seq_len is None:
            raise LearnerError(
                f"{type(self).__name__}: found `burn_in={self.burn_in}` without `max_seq_len`, expected both: steps alone have "
                "no burn-in. Set `max_seq_len`, or `burn_in=0`."
            )
        if self.n_step > 1 and self.max_seq_len is not None:
            raise LearnerError(
                f"{type(self).__name__}: found `n_step={self.n_step}` and `max_seq_len={self.max_seq_len}`, expected single "
                "steps in sequences. Leave one of them out."
            )

    def check_module(self, module_id: str, module: Module) -> None:
        """Check the space of actions, the parts that the loss asks for, and that modules with a memory see all steps.

        Raises:
            LearnerError: If the space or the policy is of another kind, if a part is missing, or if a recurrent module would
                learn from several steps as one.
        """
        space, where = getattr(module, "action_space", None), f"{type(self).__name__}, module {module_id!r}"
        if isinstance(space, Space) and not isinstance(space, self.action_space_class):
            raise LearnerError(
                f"{where}: found the action space {space}, expected a {self.action_space_class.__name__} space. Choose an "
                "algorithm for such actions."
            )
        self._check_parts(where, module)
        if self.n_step > 1 and module.is_stateful():
            raise LearnerError(
                f"{where}: found `n_step={self.n_step}` for a recurrent module, expected 1: its state would miss the steps in "
                "between. Set `n_step=1`, and `max_seq_len` to learn from sequences."
            )

    def _check_parts(self, where: str, module: Module) -> None:
        missing = [name for name in self.module_parts if not hasattr(module, name)]
        policy = getattr(module, "distribution", None)
        if missing or (isinstance(policy, DistributionSpec) and not isinstance(policy, self.policy_class)):
            found = f"without {missing}" if missing else f"with {policy} as its `distribution`"
            settings = ", ".join(f"{name}={value!r}" for name, value in self.network().items())
            raise LearnerError(
                f"{where}: found {type(module).__name__} {found}, expected a module with {[*self.module_parts]}, and with a "
                f"{self.policy_class.__name__} as its `distribution` if it has one. Use `default_module(..., {settings})`, for "
                "example."
            )

    def draw(self) -> Draw:
        """Return what a sample of the replay buffer is made of."""
        if self.max_seq_len is not None:
            return Sequences(self.max_seq_len, burn_in=self.burn_in)
        return Transitions(n_step=self.n_step, gamma=self.gamma)

    def sequences(self) -> tuple[int | None, int]:
        """Return the largest length of a sampled sequence; its burn-in is marked by the draw."""
        return None if self.max_seq_len is None else self.max_seq_len + self.burn_in, 0

    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the piece that adds the observation after each step."""
        return [AddNextObservationsFromEpisodesToTrainBatch()]


@final
class ReplayedSteps:
    """Sampled steps: rewards, discounts of what follows, and the weights that correct how they were chosen.

    Args:
        inputs: What the loss works on.
        gamma: The discount of steps that have no column `discounts`, which n-step transitions have.

    Raises:
        LearnerError: If a column is missing, or has another shape than the rewards.

    >>> batch = {"rewards": torch.tensor([1.0, 2.0]), "terminateds": torch.tensor([False, True])}
    >>> batch["weights"] = torch.tensor([1.0, 3.0])
    >>> steps = ReplayedSteps(LossInputs(None, batch, {}), gamma=0.5)
    >>> steps.discounts, steps.mean(torch.tensor([1.0, 1.0]))
    (tensor([0.5000, 0.0000]), tensor(2.))
    """

    def __init__(self, inputs: LossInputs, gamma: float) -> None:
        self._batch = inputs.batch
        self.rewards = self._column(Columns.REWARDS, "`AddColumnsFromEpisodesToTrainBatch`").float()
        if Columns.DISCOUNTS in self._batch:
            self.discounts = self._numbers(Columns.DISCOUNTS)
        else:
            terminateds = self.one_each(self._column(Columns.TERMINATEDS, _WRITERS), "the column 'terminateds'")
            self.discounts = torch.where(terminateds.bool(), 0.0, gamma)
        self._mask = self._numbers(Columns.LOSS_MASK) if Columns.LOSS_MASK in self._batch else None
        self._weights = self._numbers(Columns.WEIGHTS) if Columns.WEIGHTS in self._batch else None

    def next_batch(self) -> Batch:
        """Return the observation after each step as a batch of its own, with the mask of actions allowed there.

        Where no action is allowed, because an episode is over, all of them are: the values there do not count.
        """
        observations = self._column(Columns.NEXT_OBS, "`AddNextObservationsFromEpisodesToTrainBatch`")
        mask = self._batch.get(Columns.NEXT_ACTION_MASK, mask_in(observations))
        if mask is None:
            return {Columns.OBS: observations}
        is_allowed = mask != 0
        return {Columns.OBS: observations, Columns.ACTION_MASK: is_allowed | ~is_allowed.any(-1, keepdim=True)}

    def next_outputs(self, network: Any) -> Batch:
        """Return what `network.forward_train` returns for the observation after each step.

        A recurrent network first sees the first observation of each sequence, with its stored state.
        """
        following = self.next_batch()
        if Columns.STATE_IN not in self._batch:
            outputs: Batch = network.forward_train(following)
            return {**outputs, **_without(following, Columns.OBS)}
        whole = map_batch(
            lambda first, others: torch.cat([first[:, :1], others], 1), self._batch[Columns.OBS], following[Columns.OBS]
        )
        columns = {Columns.OBS: whole, Columns.STATE_IN: self._batch[Columns.STATE_IN]}
        if Columns.SEQ_LENS in self._batch:
            columns[Columns.SEQ_LENS] = self._batch[Columns.SEQ_LENS] + 1
        found = _without(network.forward_train(columns), Columns.STATE_OUT)
        return {**{name: value[:, 1:] for name, value in found.items()}, **_without(following, Columns.OBS)}

    def targets(self, next_values: Tensor) -> Tensor:
        """Return rewards plus discounted values of what follows."""
        found: Tensor = self.rewards + self.discounts * self.one_each(next_values, "values of the next observations")
        return found

    def mean(self, errors: Tensor) -> Tensor:
        """Return the weighted mean of one number for each step, over the steps that count."""
        errors = self.one_each(errors, "errors")
        return self.unweighted_mean(errors if self._weights is None else errors * self._weights)

    def unweighted_mean(self, numbers: Tensor) -> Tensor:
        """Return the mean of one number for each step, over the steps that count: what an actor climbs."""
        numbers = self.one_each(numbers, "numbers")
        return numbers.mean() if self._mask is None else (numbers * self._mask).sum() / self._mask.sum()

    def priorities(self, errors: Tensor, share_of_largest: float = 0.9) -> Tensor:
        """Return one number for each row: the size of its error; of a sequence, a mix of the largest and the mean size."""
        sizes = self.one_each(errors, "errors").detach().abs()
        if sizes.dim() == 1:
            return sizes
        counted = torch.ones_like(sizes) if self._mask is None else self._mask
        means = (sizes * counted).sum(1) / counted.sum(1)
        mixed: Tensor = share_of_largest * (sizes * counted).amax(1) + (1.0 - share_of_largest) * means
        return mixed

    def one_each(self, found: Tensor, what: str) -> Tensor:
        """Return `found` if it has one number for each step: torch would broadcast other shapes without an error.

        Raises:
            LearnerError: If it has another shape.
        """
        if found.shape != self.rewards.shape:
            raise LearnerError(
                f"loss: found {what} {describe_column(found)}, expected one number for each step, {list(self.rewards.shape)}. "
                "Remove surplus axes where they are computed, for example by `.squeeze(-1)`."
            )
        return found

    def of_critics(self, module: object, found: Tensor) -> Tensor:
        """Return `found`, values by `module.get_q_values`, if each critic has one for each step.

        Raises:
            LearnerError: If it has another shape.
        """
        if found.shape[1:] != self.rewards.shape:
            raise LearnerError(
                f"loss: found {describe_column(found)} from `{type(module).__name__}.get_q_values`, expected a number of each "
                f"critic for each step, {['critics', *self.rewards.shape]}. Stack the critics along the first axis, even a "
                "single one."
            )
        return found

    def _numbers(self, name: str) -> Tensor:
        return self.one_each(self._column(name, _WRITERS), f"the column {name!r}").float()

    def _column(self, name: str, writer: str) -> Any:
        if name not in self._batch:
            raise LearnerError(
                f"loss: found no column {name!r}, only {sorted(map(str, self._batch))}; expected it from {writer}. Add it to "
                "the learner pipeline."
            )
        return self._batch[name]


def distribution_of(module: Any, batch: Batch) -> Any:
    """Return the distributions of a module's policy, over the actions that are allowed.

    Raises:
        NonFiniteError: If the module's outputs are not finite, so that this gradient step is skipped.
    """
    inputs = module.get_policy(batch)
    try:
        return module.distribution.from_logits(inputs, action_mask(batch))
    except ModuleError as error:
        if not bool(torch.isfinite(inputs).all()):
            raise NonFiniteError(str(error)) from error
        raise


def _without(columns: Batch, name: str) -> Batch:
    return {key: value for key, value in columns.items() if key != name}
