"""Comparing two batches of rows, with a message that names the column and the row that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from episodia.trees import describe, equal, leaves


def compare_batches(
    law: str, expected: Mapping[str, Any], found: Mapping[str, Any], where: str, tolerance: float = 0.0
) -> None:
    """Check that two batches have the same columns with the same rows; columns without rows may have any dtype.

    Args:
        law: What is broken if they differ.
        expected: The batch as it should be.
        found: The batch to judge.
        where: How `found` was made.
        tolerance: How far numbers may be apart, absolutely and relatively.

    Raises:
        AssertionError: Naming the law, the column and the row.

    >>> compare_batches("cutting changes nothing", {"x": np.array([1, 2])}, {"x": np.array([1, 3])}, "cut at 1")
    Traceback (most recent call last):
    ...
    AssertionError: cutting changes nothing (cut at 1), column 'x', row 1: found 3, expected 2.
    """
    if expected.keys() != found.keys():
        raise AssertionError(f"{law} ({where}): found the columns {sorted(found)}, expected {sorted(expected)}.")
    for column in expected:
        wanted, got = dict(leaves(expected[column])), dict(leaves(found[column]))
        if wanted.keys() != got.keys():
            raise AssertionError(f"{law} ({where}), column {column!r}: found {list(got)}, expected {list(wanted)}.")
        for path, leaf in wanted.items():
            _compare_leaves(f"{law} ({where}), column {column!r}{path}", leaf, got[path], tolerance)


def _compare_leaves(where: str, expected: Any, found: Any, tolerance: float) -> None:
    expected, found = np.asarray(expected), np.asarray(found)
    if len(expected) == len(found) == 0:
        return
    if expected.shape != found.shape or (expected.size and expected.dtype != found.dtype):
        raise AssertionError(f"{where}: found {describe(found)}, expected {describe(expected)}.")
    same = same_numbers(expected, found, tolerance)
    if not same.all():
        row = int(np.argwhere(~same.reshape(len(same), -1).all(axis=1))[0, 0])
        raise AssertionError(f"{where}, row {row}: found {found[row]}, expected {expected[row]}.")


def same_numbers(expected: np.ndarray, found: np.ndarray, tolerance: float) -> np.ndarray:
    """Return where two arrays of one shape hold the same; NaN is the same as NaN."""
    if expected.dtype.hasobject or found.dtype.hasobject:
        pairs = zip(expected.flat, found.flat, strict=True)
        return np.array([equal(left, right) for left, right in pairs], np.bool_).reshape(expected.shape)
    if tolerance and expected.dtype.kind in "fc":
        return np.asarray(np.isclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True))
    return np.asarray((expected == found) | ((expected != expected) & (found != found)))  # noqa: PLR0124  # NaN
