"""What pieces are made with, checked when a piece is made and not when it first runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from episodia.connectors.base import ConnectorV2
from episodia.errors import PipelineError


def checked_fraction(piece: str, name: str, value: Any) -> float:
    """Return `value` if it is a number from 0 to 1.

    Raises:
        PipelineError: If it is not.

    >>> checked_fraction("GeneralAdvantageEstimation", "gamma", 0.99)
    0.99
    """
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 0.0 <= value <= 1.0:
        raise PipelineError(f"{piece}: found `{name}={value!r}`, expected a number from 0 to 1. Pass such a number.")
    return float(value)


def checked_count(piece: str, name: str, value: Any, least: int) -> int:
    """Return `value` if it is an integer of at least `least`.

    Raises:
        PipelineError: If it is not.

    >>> checked_count("NStepReturns", "n", 3, least=1)
    3
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise PipelineError(
            f"{piece}: found `{name}={value!r}`, expected an integer of at least {least}. Pass such a number."
        )
    return int(value)


def checked_seed(piece: str, value: Any) -> int | None:
    """Return `value` if it is None or an integer that random generators can begin with.

    Raises:
        PipelineError: If it is not.
    """
    if value is not None and checked_count(piece, "seed", value, 0) >= 2**64:
        raise PipelineError(f"{piece}: found `seed={value!r}`, expected an integer below 2**64. Pass such a number.")
    return None if value is None else int(value)


def checked_number(piece: str, name: str, value: Any) -> float:
    """Return `value` if it is a number; infinity is one, NaN is not.

    Raises:
        PipelineError: If it is not.

    >>> checked_number("ClipRewards", "low", -1)
    -1.0
    """
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or np.isnan(value):
        raise PipelineError(f"{piece}: found `{name}={value!r}`, expected a number. Pass one.")
    return float(value)


def checked_pieces(where: str, name: str, value: Any) -> list[Any]:
    """Return what is in `value` as a list; that these are pieces is checked by the pipeline that gets them.

    Raises:
        PipelineError: If it is a single piece, which a pipeline is too, or no collection.

    >>> checked_pieces("defaults.learner", "custom", ())
    []
    """
    if isinstance(value, (str, bytes, ConnectorV2)) or not isinstance(value, Iterable):
        raise PipelineError(
            f"{where}: found `{name}={value!r}`, expected a list of pieces. Pass `{name}=[...]`, also for a single one."
        )
    return list(value)


def checked_keys(piece: str, name: str, value: Any) -> list[Any]:
    """Return the ids or keys in `value` as a list; a string is one key, and not a collection of them.

    Raises:
        PipelineError: If it is no collection.

    >>> checked_keys("FlattenObservations", "agent_ids", ("left", 1))
    ['left', 1]
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        raise PipelineError(f"{piece}: found `{name}={value!r}`, expected a list of keys. Pass `[{value!r}]`.")
    return list(value)
