"""The dtypes whose arrays can be stored as bytes: numbers, strings and times."""

from __future__ import annotations

import re
from typing import Any, TypeGuard

import numpy as np

from episodia.errors import CheckpointError

# Objects and records are rejected, because reading an object would run code.
_STORED = re.compile(r"[<>|=][biufcSUmM][1-9][0-9]{0,6}(\[[0-9]{0,6}[A-Za-z]{1,2}\])?")


def is_stored_dtype(name: object) -> TypeGuard[str]:
    """Tell whether `name` is the `dtype.str` of an array that can be stored.

    >>> is_stored_dtype("<f4"), is_stored_dtype("|O")
    (True, False)
    """
    return isinstance(name, str) and _STORED.fullmatch(name) is not None


def stored_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype with this `dtype.str`.

    Raises:
        CheckpointError: If NumPy has no such dtype.
    """
    try:
        return np.dtype(name)
    except TypeError as error:
        raise CheckpointError(f"found the dtype {name!r}, expected one that NumPy has") from error
