"""Copies that went through pickle, as an object does on its way to another process."""

from __future__ import annotations

import pickle
import sys
from typing import TypeVar

from episodia.testing.laws_and_checks import NotApplicableError

T = TypeVar("T")


def pickled_copy(original: T, law: str) -> T:
    """Return a copy of `original` that went through pickle; fail `law` if it cannot be made.

    Nothing is read from outside: the bytes are those that `original` has just been turned into.
    """
    try:
        copy: T = pickle.loads(pickle.dumps(original))  # noqa: S301  # see above
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise AssertionError(f"{law}: found {type(error).__name__}: {error}") from error
    return copy


def require_importable(kind: type) -> None:
    """Raise `NotApplicableError` unless another process would find a class where this one has it."""
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        raise NotApplicableError("its class is not at the top of a module, where another process could find it")
