"""Hooks: functions that a learner calls before and after each part of an update, for what a config cannot say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from episodia.arguments import checked_each
from episodia.columns import Columns
from episodia.errors import LearnerError
from episodia.learners.gradients.backward_pass import Gradients
from episodia.learners.losses.coefficients import check_positive
from episodia.learners.losses.loss import LossInputs, LossOutputs
from episodia.types import Batch


class LearnerHook:
    """The base of all hooks; its methods change nothing. Overwrite those that you need.

    Methods that return something may return a changed copy, which the learner then uses instead.

    >>> class HalveLosses(LearnerHook):
    ...     def after_loss(self, module_id, outputs):
    ...         return LossOutputs({name: loss / 2 for name, loss in outputs.losses.items()}, outputs.metrics, outputs.rows)
    """

    def before_update(self, batch: Mapping[str, Batch]) -> Mapping[str, Batch]:
        """Return the batch of an update: the columns of each module, on the CPU."""
        return batch

    def before_loss(self, module_id: str, inputs: LossInputs) -> LossInputs:
        """Return what the loss of a module works on, in one gradient step."""
        return inputs

    def after_loss(self, module_id: str, outputs: LossOutputs) -> LossOutputs:
        """Return the outputs of the loss of a module."""
        return outputs

    def after_gradients(self, gradients: Mapping[str, Gradients]) -> Mapping[str, Gradients]:
        """Return the gradients of each module by parameter name, before processors such as clipping."""
        return gradients

    def before_step(self) -> None:
        """Do something before the optimizers change the weights."""

    def after_step(self) -> None:
        """Do something after the optimizers and target networks have changed the weights."""

    def after_update(self, metrics: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        """Return extra metrics, by module and name, which are added to those of the update."""
        return {}


@final
class Hooks(LearnerHook):
    """Several hooks as one, called in order.

    Raises:
        LearnerError: If one of them is not a hook.
    """

    def __init__(self, hooks: object) -> None:
        wanted = "objects of subclasses of `LearnerHook`"
        self._hooks: list[LearnerHook] = checked_each(LearnerError, "learner", "hooks", hooks, _is_hook, wanted)

    def before_update(self, batch: Mapping[str, Batch]) -> Mapping[str, Batch]:
        """Return the batch after all hooks."""
        for hook in self._hooks:
            batch = hook.before_update(batch)
        return batch

    def before_loss(self, module_id: str, inputs: LossInputs) -> LossInputs:
        """Return the inputs after all hooks."""
        for hook in self._hooks:
            inputs = hook.before_loss(module_id, inputs)
        return inputs

    def after_loss(self, module_id: str, outputs: LossOutputs) -> LossOutputs:
        """Return the outputs after all hooks."""
        for hook in self._hooks:
            outputs = hook.after_loss(module_id, outputs)
        return outputs

    def after_gradients(self, gradients: Mapping[str, Gradients]) -> Mapping[str, Gradients]:
        """Return the gradients after all hooks."""
        for hook in self._hooks:
            gradients = hook.after_gradients(gradients)
        return gradients

    def before_step(self) -> None:
        """Call all hooks."""
        for hook in self._hooks:
            hook.before_step()

    def after_step(self) -> None:
        """Call all hooks."""
        for hook in self._hooks:
            hook.after_step()

    def after_update(self, metrics: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        """Return the extra metrics of all hooks."""
        extra: dict[str, dict[str, float]] = {}
        for hook in self._hooks:
            for module_id, found in hook.after_update(metrics).items():
                extra.setdefault(module_id, {}).update(found)
        return extra


@final
class WarnAboutBadRewardScales(LearnerHook):
    """Warns once for each module whose rewards are so large that its loss is dominated by values.

    Args:
        limit: The mean size of the rewards of a batch above which it warns.

    >>> WarnAboutBadRewardScales(limit=50.0)
    WarnAboutBadRewardScales(limit=50.0)
    """

    def __init__(self, limit: float = 100.0) -> None:
        check_positive("WarnAboutBadRewardScales", "limit", limit)
        self.limit = limit
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"WarnAboutBadRewardScales(limit={self.limit})"

    def before_update(self, batch: Mapping[str, Batch]) -> Mapping[str, Batch]:
        """Look at the rewards of each module; the batch stays as it is."""
        for module_id, columns in batch.items():
            rewards: Any = columns.get(Columns.REWARDS)
            size = float(torch.as_tensor(rewards).double().abs().mean()) if _has_rows(rewards) else 0.0
            if size > self.limit and module_id not in self._warned:
                self._warned.add(module_id)
                warnings.warn(
                    f"learner: found rewards of {module_id!r} with a mean size of {size:.3g}, expected at most {self.limit:g}. "
                    "Scale them down, for example with the piece `ScaleRewards`, or raise the `limit` of this hook.",
                    stacklevel=2,
                )
        return batch


def _has_rows(rewards: object) -> bool:
    return isinstance(rewards, Tensor) and rewards.numel() > 0


def _is_hook(value: object) -> bool:
    return isinstance(value, LearnerHook)
