"""Copies by pickling, as for another process. A file of its own, because a test forbids unpickling in all other files."""

from __future__ import annotations

import pickle
import sys
from typing import TypeVar

from episodia.testing.law_checking import NotApplicableError

T = TypeVar("T")


def pickled_copy(original: T, law: str) -> T:
    """Return a copy of `original` by pickling; the law fails if that is impossible.

    Unpickling is safe, because the bytes were made here.
    """
    try:
        copy: T = pickle.loads(pickle.dumps(original))  # noqa: S301  # see above
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise AssertionError(f"{law}: found {type(error).__name__}: {error}") from error
    return copy


def require_importable(kind: type) -> None:
    """Raise a NotApplicableError unless another process can import the class."""
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        raise NotApplicableError("its class is not at the top of a module, where another process could find it")
