"""Parts of configs as plain data, so that they can be saved; only parts that the library knows can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np
import torch

from episodia.errors import LearnerError
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, ClipByNorm, ClipByValue
from episodia.learners.losses.coefficients import AdaptiveKL
from episodia.learners.optimizers import OptimizerConfig
from episodia.schedules import SCHEDULE_KEY, Schedule, decoded_schedule, encoded_schedule

KEY = "part"

_PARTS: dict[str, Any] = {
    made.__name__: made for made in (AdaptiveKL, ClipByGlobalNorm, ClipByNorm, ClipByValue, OptimizerConfig)
}
_OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name: found
    for name, found in vars(torch.optim).items()
    if isinstance(found, type) and issubclass(found, torch.optim.Optimizer)
}


def _rejected(value: Any) -> Any:
    raise LearnerError(
        f"config: found {value!r}, expected numbers, strings, and parts of configs from `episodia.learners`: other values "
        "cannot be saved. Pass the config again when you load."
    )


def encoded(value: object, otherwise: Callable[[Any], Any] = _rejected) -> Any:
    """Return JSON values that `decoded` understands.

    Args:
        value: A part of a config, or a list of them.
        otherwise: Called with functions and other parts without a name; its result replaces them. By default it raises.

    Raises:
        LearnerError: If there is such a part.

    >>> encoded((ClipByNorm(0.5),))
    [{'part': 'ClipByNorm', 'limit': 0.5}]
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [encoded(each, otherwise) for each in value]
    if isinstance(value, Schedule) and (schedule := encoded_schedule(value)) is not None:
        return schedule
    if _PARTS.get(type(value).__name__) is type(value):
        arguments = {each.name: _argument(getattr(value, each.name), otherwise) for each in fields(cast("Any", value))}
        return {KEY: type(value).__name__, **arguments}
    return otherwise(value)


def _argument(value: Any, otherwise: Callable[[Any], Any]) -> Any:
    optimizer = next((name for name, found in _OPTIMIZERS.items() if found is value), None)
    if optimizer is not None:
        return optimizer
    if isinstance(value, Mapping):
        return {str(key): encoded(each, otherwise) for key, each in value.items()}
    return encoded(value, otherwise)


def decoded(data: object) -> Any:
    """Return the value that `encoded` turned into `data`; lists become tuples.

    Raises:
        LearnerError: If `data` is not such data, or if a number is out of its range.
        PipelineError: If a schedule is invalid.

    >>> decoded({"part": "OptimizerConfig", "optimizer": "SGD", "options": {"momentum": 0.9}}).options
    {'momentum': 0.9}
    """
    if isinstance(data, (list, tuple)):
        return tuple(decoded(each) for each in data)
    if not isinstance(data, Mapping):
        return data
    if SCHEDULE_KEY in data:
        return decoded_schedule(dict(data))
    made = _PARTS.get(data[KEY]) if isinstance(data.get(KEY), str) else None
    arguments = {name: value for name, value in data.items() if name != KEY}
    if made is None or not arguments.keys() <= {each.name for each in fields(made)}:
        raise LearnerError(
            f"config: found {repr(dict(data))[:120]}, expected one of {sorted(_PARTS)} with its own arguments, such as "
            "{'part': 'ClipByNorm', 'limit': 0.5}, or a schedule. Correct it."
        )
    try:
        return made(**{name: _decoded_argument(made, name, value) for name, value in arguments.items()})
    except TypeError as error:
        raise LearnerError(
            f"config: found {data[KEY]} with {arguments}, expected all its arguments ({error}). Add the missing ones."
        ) from error


def _decoded_argument(made: Any, name: str, value: Any) -> Any:
    if made is not OptimizerConfig:
        return decoded(value)
    if name == "optimizer":
        known = _OPTIMIZERS.get(value) if isinstance(value, str) else None
        if known is None:
            raise LearnerError(
                f"config: found the optimizer {repr(value)[:80]}, expected one of {sorted(_OPTIMIZERS)}. Choose one of these."
            )
        return known
    if name == "options" and isinstance(value, Mapping):
        return {key: decoded(each) for key, each in value.items()}
    return decoded(value)
