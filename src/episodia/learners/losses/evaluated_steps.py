"""Recorded steps, evaluated by the module as it is now: the common part of all losses."""

from __future__ import annotations

from typing import Any, cast, final

import torch
from torch import Tensor

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import LearnerError, ModuleError, NonFiniteError
from episodia.learners.minibatches import check_is_dict
from episodia.modules.distributions import ActionDistribution
from episodia.modules.masks_in_batches import action_mask
from episodia.modules.protocol import DistributionModule, Module
from episodia.trees import map_batch
from episodia.types import Batch, Item


@final
class EvaluatedSteps:
    """The steps of a batch that count for the loss, one after another, with the module's current outputs for them.

    Steps that `loss_mask` excludes, such as padding and burn-in, are left out first. So a loss is written once, for columns
    `[N, ...]`, for recurrent and other modules. The numbers that a loss multiplies or subtracts are checked to have the
    shape `[N]`, because torch broadcasts `[N]` and `[N, 1]` to `[N, N]` without an error.

    Args:
        module: The module; its `forward_train` is called once, with gradients.
        batch: Its columns.

    Raises:
        BatchError: If `batch` is not a dict of columns.
        LearnerError: If `module` is not a module with distributions, see `DistributionModule`.
        NonFiniteError: If the module's outputs are NaN.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), hidden=())
    >>> batch = {"obs": torch.zeros(3, 3), "actions": torch.tensor([0, 1, 1]), "loss_mask": torch.tensor([True, False, True])}
    >>> EvaluatedSteps(module, batch).logp()
    tensor([-0.6931, -0.6931], grad_fn=<SqueezeBackward1>)
    """

    def __init__(self, module: Module, batch: Batch) -> None:
        check_is_dict("loss", batch)
        # The two methods that a loss calls; to look for all methods of `DistributionModule` takes as long as a layer.
        if not (hasattr(module, "forward_train") and hasattr(module, "get_train_action_dist_cls")):
            raise LearnerError(
                f"loss: found {module!r}, expected a module with `forward_train` and `get_train_action_dist_cls`. Pass one."
            )
        self._module = cast(DistributionModule, module)
        self._batch = batch
        self._outputs = module.forward_train(batch)
        inputs = _needed(self._outputs, Columns.ACTION_DIST_INPUTS, f"`{type(module).__name__}.forward_train`")
        self._axes = inputs.dim() - 1
        self._rows = _counted_rows(batch, inputs.shape[:-1])
        self._mask = self._action_mask()
        flat = self._flat(inputs)
        self._num_steps = len(flat)
        self.distribution = self.distribution_of(flat)

    def column(self, name: str, writer: str = "a piece of the learner pipeline") -> Item:
        """Return a column of the batch; `writer` is the piece that usually adds it, for messages.

        Raises:
            LearnerError: If it is missing.
        """
        return map_batch(self._flat, _needed(self._batch, name, writer))

    def numbers(self, name: str, writer: str = "a piece of the learner pipeline") -> Tensor:
        """Return a column with one number for each step, see `column`.

        Raises:
            LearnerError: If it is missing, or has another shape.
        """
        return self._one_each(self.column(name, writer), f"the column {name!r}")

    def has(self, name: str) -> bool:
        """Tell whether the batch has a column."""
        return name in self._batch

    @property
    def values(self) -> Tensor:
        """The module's value of each step's observation."""
        writer = f"`{type(self._module).__name__}.forward_train`"
        found = self._flat(_needed(self._outputs, Columns.VF_PREDS, writer))
        return self._one_each(found, f"{Columns.VF_PREDS!r} of {writer}")

    def logp(self) -> Tensor:
        """Return the current log-probability of each action."""
        actions = self.column(Columns.ACTIONS, "`AddColumnsFromEpisodesToTrainBatch`")
        return self._one_each(self.distribution.logp(actions), "the log-probabilities of actions")

    def entropy(self) -> Tensor:
        """Return the entropy of the distribution over actions at each step."""
        return self._one_each(self.distribution.entropy(), "the entropies of action distributions")

    def distribution_of(self, inputs: Tensor) -> ActionDistribution:
        """Return the distributions with these `inputs`, one for each step, over the actions that are allowed there."""
        made_by: Any = self._module.get_train_action_dist_cls()
        # Distribution classes of other packages take no masks.
        masks = {} if self._mask is None else {"action_mask": self._mask}
        try:
            made: ActionDistribution = made_by.from_logits(inputs, **masks)
        except ModuleError as error:
            if bool((torch.isnan(inputs) | torch.isposinf(inputs)).any()):
                raise NonFiniteError(str(error)) from error
            raise
        return made

    def _action_mask(self) -> Any:
        mask = action_mask(self._batch)
        return None if mask is None else map_batch(self._flat, mask)

    def _one_each(self, found: Any, what: str) -> Tensor:
        if isinstance(found, Tensor) and found.shape == (self._num_steps,):
            return found
        raise LearnerError(
            f"loss: found {describe_column(found)} as {what}, expected a tensor with one number for each of the "
            f"{self._num_steps} steps that count, [{self._num_steps}]. Remove surplus axes where it is "
            "computed, for example by `.squeeze(-1)`."
        )

    def _flat(self, leaf: Any) -> Any:
        """Return the steps that count, without the time axis."""
        if not isinstance(leaf, Tensor):
            return leaf
        flat = leaf if self._axes == 1 else leaf.flatten(0, self._axes - 1)
        return flat if self._rows is None else flat.index_select(0, self._rows)


def _counted_rows(batch: Batch, shape: torch.Size) -> Tensor | None:
    if Columns.LOSS_MASK not in batch:
        return None
    mask = torch.as_tensor(batch[Columns.LOSS_MASK])
    if mask.shape != shape:
        raise LearnerError(
            f"loss: found {describe_column(mask)} as {Columns.LOSS_MASK!r}, expected one flag for each step, {list(shape)}. "
            "Correct the piece of the learner pipeline that writes it."
        )
    return mask.flatten().nonzero().squeeze(-1)


def _needed(columns: Batch, name: str, writer: str) -> Any:
    try:
        return columns[name]
    except KeyError:
        raise LearnerError(
            f"loss: found no column {name!r}, only {sorted(map(str, columns))}; expected it from {writer}. Add it there, or "
            "use an algorithm that does without it."
        ) from None


def explained_variance(values: Tensor, targets: Tensor) -> Tensor:
    """Return which part of the variance of the targets the values explain: 1 for perfect ones, 0 for a constant.

    >>> explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    tensor(0.7500)
    """
    with torch.no_grad():
        spread, unexplained = torch.stack([targets, targets - values]).var(1, correction=0).unbind()
        # Equal targets have nothing to explain.
        return torch.where(spread > 0, 1.0 - unexplained / spread, 0.0)
