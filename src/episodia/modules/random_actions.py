"""Random actions for whole batches: uniform within bounds, and among the allowed actions if there is a mask."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import Error
from episodia.errors import BatchError
from episodia.spaces import short_name
from episodia.trees import describe, shown
from episodia.types import Item

Range = tuple[float, float]


def random_actions(
    space: Space[Any], leading: tuple[int, ...], rng: np.random.Generator, real_range: Range | None, mask: Item = None
) -> np.ndarray:
    """Draw an action for each row.

    Args:
        space: A leaf: Discrete, MultiDiscrete, MultiBinary or Box.
        leading: The axes of the rows, `[B]` or `[B, T]`.
        rng: The source of randomness.
        real_range: For the elements of a `Box` of floats, see `range_of`.
        mask: For Discrete and MultiDiscrete, nonzero where an action is allowed; None allows everything.

    Raises:
        BatchError: For any other space; or if a mask does not fit, or allows nothing.

    >>> random_actions(spaces.Discrete(3, start=5), (2,), np.random.default_rng(0), None, np.array([[0, 0, 1], [1, 0, 0]]))
    array([7, 5])
    """
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        sizes = np.atleast_1d(space.n if isinstance(space, spaces.Discrete) else space.nvec.ravel())
        classes = (
            rng.integers(sizes, size=(*leading, len(sizes))) if mask is None else _allowed(sizes, leading, rng, mask)
        )
        shaped: np.ndarray = classes.reshape(*leading, *(space.shape or ()))
        return shaped + space.start
    if mask is not None:
        raise BatchError(
            f"found an action mask for {short_name(space)}, expected none: only Discrete and MultiDiscrete actions can be "
            "masked. Leave it out, or use another `action_mask_key`."
        )
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, (*leading, *space.shape), np.int8)
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f":
        return random_reals(*range_of(space, real_range), leading, rng)
    if isinstance(space, spaces.Box):
        return rng.integers(space.low, space.high, (*leading, *space.shape), np.dtype(space.dtype).type, endpoint=True)
    raise BatchError(
        f"found actions of {short_name(space)}, which cannot be drawn at random here; expected Discrete, MultiDiscrete, "
        "MultiBinary, Box, or Dict and Tuple of these. Explore inside of the module instead."
    )


def random_reals(low: np.ndarray, high: np.ndarray, leading: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw floats as gymnasium does: uniform between two bounds, exponential beyond one bound, normal without bounds."""
    shape = (*leading, *low.shape)
    below, above = np.isfinite(low), np.isfinite(high)
    both = below & above
    floor, ceiling = np.where(below, low, 0.0), np.where(above, high, 0.0)
    share = rng.random(shape)
    # A weighted mean instead of `floor + share · (ceiling - floor)`: the difference of large bounds may be infinite.
    values = np.where(both, floor * (1.0 - share) + ceiling * share, 0.0)
    if not both.all():
        distance = rng.standard_exponential(shape)
        one_sided = np.where(below, floor + distance, ceiling - distance)
        values = np.where(both, values, np.where(below | above, one_sided, rng.standard_normal(shape)))
    return within(values, low, high)


def range_of(space: spaces.Box, real_range: Range | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds within which a module's actions of `space` lie, as float64.

    Args:
        space: The environment's space.
        real_range: The bounds before actions are unsquashed; they replace the bounds of elements that have two finite ones,
            because only these are unsquashed. None keeps the bounds of the space.

    >>> range_of(spaces.Box(np.array([0.0, 0.0]), np.array([10.0, np.inf]), dtype=np.float64), (-1.0, 1.0))
    (array([-1.,  0.]), array([ 1., inf]))
    """
    low, high = float_bounds(space)
    if real_range is None:
        return low, high
    both = np.isfinite(low) & np.isfinite(high)
    return np.where(both, real_range[0], low), np.where(both, real_range[1], high)


def checked_range(error: Error, where: str, real_range: object) -> Range | None:
    """Return `real_range`, see `range_of`.

    Raises:
        EpisodiaError: The given one, if `real_range` is neither a range nor None.
    """
    if real_range is None:
        return None
    try:
        low, high = map(float, cast("Any", real_range))
    except (TypeError, ValueError, OverflowError):  # not two numbers that floats can hold
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise error(
            f"{where}: found `real_range={shown(real_range)}`, expected two finite numbers, the smaller one first, or None for "
            "the bounds of the action space. Correct it."
        )
    return low, high


def _allowed(sizes: np.ndarray, leading: tuple[int, ...], rng: np.random.Generator, mask: Any) -> np.ndarray:
    """Draw a class for each choice, `[..., K]`, uniformly among those that `mask`, `[..., sum(sizes)]`, allows."""
    mask = np.asarray(mask)
    if mask.shape != (*leading, sizes.sum()):
        raise BatchError(
            f"found the action mask {describe(mask)}, expected an array {[*leading, int(sizes.sum())]}: for each row an entry "
            "for each action, nonzero where it is allowed."
        )
    # The largest of independent uniform numbers is equally often at each allowed place.
    tickets = np.where(mask != 0, rng.random(mask.shape), -1.0)
    choices = np.split(tickets, np.cumsum(sizes)[:-1], axis=-1)
    best = np.stack([choice.max(-1, initial=-1.0) for choice in choices], -1)
    if (best < 0.0).any():
        row = tuple(int(place) for place in np.argwhere(best < 0.0)[0][:-1])
        raise BatchError(
            f"found an action mask that allows nothing in row {row}, expected at least one action in each row. Allow one "
            "there; in rows that do not matter, allow all."
        )
    return np.stack([choice.argmax(-1) for choice in choices], -1)


# --- Bounds ---------------------------------------------------------------------------------------------------------


def within(values: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """Return `values` clipped to both bounds; for small arrays several times faster than `np.clip`."""
    clipped: np.ndarray = np.minimum(np.maximum(values, low), high)
    return clipped


def float_bounds(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return both bounds as float64; missing bounds are infinite, also for integers."""
    low = np.where(space.bounded_below, space.low, -np.inf)
    high = np.where(space.bounded_above, space.high, np.inf)
    return low.astype(np.float64), high.astype(np.float64)
