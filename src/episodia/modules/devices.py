"""Devices of networks."""

from __future__ import annotations

import torch

from episodia.errors import EpisodiaError


def device_of(*modules: object) -> torch.device:
    """Return the device of the first module with weights; rules have no weights and compute on the CPU.

    >>> device_of(None, torch.nn.Linear(2, 2, device="meta"))
    device(type='meta')
    """
    networks = [module for module in modules if isinstance(module, torch.nn.Module)]
    weights = (weight for network in networks for weight in network.parameters())
    return next((weight.device for weight in weights), torch.device("cpu"))


def usable_device(error: type[EpisodiaError], device: str | torch.device | None) -> torch.device:
    """Return the device of this name; None is the CPU.

    Raises:
        EpisodiaError: The given one, if this machine lacks the device.

    >>> from episodia.errors import LearnerError
    >>> usable_device(LearnerError, None)
    device(type='cpu')
    """
    try:
        found = torch.device("cpu" if device is None else device)
        torch.zeros(1, device=found).tolist()
    # torch raises a different error for each type of device.
    except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError) as problem:
        reason = str(problem).splitlines()[0]
        raise error(
            f"device: found {device!r}, which cannot be used here ({reason}), expected one of this machine. Pass `'cpu'`, for "
            "example."
        ) from problem
    return found
