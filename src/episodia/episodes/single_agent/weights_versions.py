"""Versions of the weights: which version chose the actions of which time steps.

A history is a tuple of `(t, version)` pairs, ascending in `t`: from time step `t` on, `version` was in use.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from episodia.errors import EpisodeError
from episodia.trees import describe

Versions: TypeAlias = tuple[tuple[int, int], ...]


def with_version(versions: Versions, t: int, version: int) -> Versions:
    """Return the history with `version` in use from `t` on.

    >>> with_version(((0, 1),), 5, 2)
    ((0, 1), (5, 2))
    """
    given: object = version
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise EpisodeError(f"found the weights version {describe(version)}, expected an int. Count the updates.")
    earlier = tuple(entry for entry in versions if entry[0] < t)
    return earlier if earlier and earlier[-1][1] == version else (*earlier, (t, version))


def version_at(versions: Versions, t: int) -> int | None:
    """Return the version in use at time step `t`, None if it is not known."""
    return next((version for start, version in reversed(versions) if start <= t), None)


def between(versions: Versions, start: int, stop: int) -> Versions:
    """Return the part of the history for the time steps from `start` to just before `stop`.

    >>> between(((0, 1), (5, 2), (9, 3)), 6, 8)
    ((6, 2),)
    """
    if not versions:
        return ()
    if len(versions) == 1 and versions[0][0] <= start:  # nearly always
        return ((start, versions[0][1]),)
    first = version_at(versions, start)
    head: Versions = () if first is None else ((start, first),)
    return head + tuple(entry for entry in versions if start < entry[0] < max(stop, start + 1))


def joined(first: Versions, second: Versions, t: int) -> Versions:
    """Return `first` before time step `t` and `second` from there on."""
    whole: Versions = tuple(entry for entry in first if entry[0] < t)
    for start, version in between(second, t, max([t, *(entry[0] for entry in second)]) + 1):
        whole = with_version(whole, start, version)
    return whole
