"""Numbers and items drawn as short lines of text."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from episodia.types import Item

SPARK_WIDTH = 32
SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_ASCII = "_.-=+*#@"


def first_number(item: Item) -> float:
    """Return the first number in a nested item, or NaN if it has no number.

    >>> first_number({"position": np.array([0.5, 2.0]), "speed": 3})
    0.5
    >>> first_number("text")
    nan
    """
    while isinstance(item, dict | tuple | list) and item:
        item = next(iter(item.values())) if isinstance(item, dict) else item[0]
    if not isinstance(item, np.ndarray | np.generic | int | float):
        return float("nan")
    array = np.asarray(item)
    return float(array.flat[0]) if array.size and array.dtype.kind in "biuf" else float("nan")


def sparkline(values: Sequence[float], *, width: int = SPARK_WIDTH) -> str:
    """Draw `values` as one line of at most `width` characters, scaled from the lowest to the highest value.

    >>> sparkline([0, 1, 2, 3, 2, 1, 0]).translate(str.maketrans(SPARKS_ASCII, SPARKS))
    '▁▃▆█▆▃▁'
    >>> sparkline([float("nan")])
    ''
    """
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return ""
    if numbers.size > width:
        numbers = numbers[np.linspace(0, numbers.size - 1, width).round().astype(int)]
    low, high = float(numbers.min()), float(numbers.max())
    sparks = _printable_sparks()
    if low == high:
        return sparks[0] * len(numbers)
    heights = ((numbers - low) / (high - low) * (len(sparks) - 1)).round().astype(int)
    return "".join(sparks[height] for height in heights)


def _printable_sparks() -> str:
    try:
        SPARKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return SPARKS_ASCII
    return SPARKS


def describe(item: Item) -> str:
    """Describe an item in one short line: up to six numbers, or dtype and shape.

    >>> describe(np.array([0.25, -1.0]))
    '[0.25, -1]'
    >>> describe({"image": np.zeros((84, 84), np.uint8), "speed": [1.0, 2.0]})
    '{image: uint8 array of shape (84, 84), speed: [1, 2]}'
    """
    if isinstance(item, dict):
        return "{" + ", ".join(f"{key}: {describe(value)}" for key, value in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(describe(value) for value in item) + "]"
    if isinstance(item, tuple):
        return "(" + ", ".join(describe(value) for value in item) + ")"
    if isinstance(item, np.ndarray):
        return describe(item.tolist()) if item.size <= 6 else f"{item.dtype} array of shape {item.shape}"
    if isinstance(item, float | np.floating):
        return f"{item:.4g}"
    return str(item)
