"""Losses and gradients that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from episodia.errors import NonFiniteError


def not_finite(losses: Mapping[str, Tensor], norms: Mapping[str, Tensor]) -> dict[str, str]:
    """Return for each module whose loss, or the norm of whose gradients, is not finite, what was found.

    >>> not_finite({"left": torch.tensor(1.0)}, {"left": torch.tensor(2.0), "right": torch.tensor(torch.inf)})
    {'right': 'gradients of norm inf'}
    """
    numbers = [*losses.values(), *norms.values()]
    if not numbers:
        return {}
    device = numbers[0].device
    # One look at all numbers: each one waits for the device.
    found = torch.stack([number.to(device) for number in numbers]).tolist()
    named = [*((key, f"a loss of {value}") for key, value in zip(losses, found, strict=False))]
    named += [(key, f"gradients of norm {value}") for key, value in zip(norms, found[len(losses) :], strict=True)]
    bad: dict[str, str] = {}
    for (module_id, what), value in zip(named, found, strict=True):
        if not math.isfinite(value):
            bad.setdefault(module_id, what)
    return bad


def non_finite_error(bad: Mapping[str, str]) -> NonFiniteError:
    """Return the error for modules with what was found."""
    found = ", ".join(f"{what} for {module_id!r}" for module_id, what in bad.items())
    return NonFiniteError(
        f"gradient step: found {found}, expected finite numbers. The weights are as they were before this step. Look for NaN "
        'or huge numbers in observations and rewards, lower the learning rate, clip gradients, or pass `on_non_finite="skip"`.'
    )
