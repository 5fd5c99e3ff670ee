"""Properties of gymnasium spaces: nesting, fill items, one-hot forms.

All spaces except `Dict` and `Tuple` are leaves. Leaves of fixed shape (Box, Discrete, MultiDiscrete, MultiBinary) become
arrays; all others (Text, Sequence, Graph, OneOf, custom spaces) stay objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces

from episodia.errors import EpisodeError, SpaceError
from episodia.stacking import object_array
from episodia.trees import describe, frozen, shortened, shown
from episodia.types import Item

# The remedy in errors about data outside of its space.
OTHER_SPACE = "Correct the data, or declare another space."

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class ById:
    """A space as a dict key that equals only the same object; it keeps the space alive, so its id stays unique."""

    __slots__ = ("space",)

    def __init__(self, space: Space[Any]) -> None:
        """Wrap `space`."""
        self.space = space

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.space is other.space

    def __hash__(self) -> int:
        return id(self.space)


def as_space(space: object, name: str) -> Space[Any] | None:
    """Return `space`, the argument `name`, if it is a space or None.

    Raises:
        SpaceError: If it is another object.
    """
    if space is None or isinstance(space, Space):
        return space
    raise SpaceError(
        f"found `{name}={describe(space)}`, expected a gymnasium space or None. "
        "Pass an object such as `gymnasium.spaces.Discrete(2)`, not its class, its size or its shape."
    )


def short_name(space: Space[Any]) -> str:
    """Return `space` as text that is short enough for messages."""
    return shortened(str(space), 80)


def structure_of(space: Space[Any]) -> Any:
    """Return the leaf spaces of `space` in its nesting of dicts and tuples."""
    return map_space(lambda leaf: leaf, space)


def object_leaves(space: Space[Any]) -> Any:
    """Return the nesting of `space` with True at leaves that stay objects."""
    return map_space(lambda leaf: not isinstance(leaf, ARRAY_SPACES), space)


def map_space(function: Callable[[Space[Any]], Any], space: Space[Any]) -> Any:
    """Apply `function` to the leaf spaces, keeping the nesting."""
    if isinstance(space, spaces.Dict):
        return {key: map_space(function, child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map_space(function, child) for child in space.spaces)
    return function(space)


# The Dict and Tuple spaces in a space, each with its parts at that time.
Containers: TypeAlias = tuple[tuple[Any, Any], ...]


def containers_of(space: Space[Any]) -> Containers:
    """Return the Dict and Tuple spaces in `space` with their parts, for `have_same_parts`."""
    if isinstance(space, spaces.Dict):
        parts: Any = dict(space.spaces)
        children = parts.values()
    elif isinstance(space, spaces.Tuple):
        parts = children = space.spaces
    else:
        return ()
    return ((space, parts), *(inner for child in children for inner in containers_of(child)))


def have_same_parts(containers: Containers) -> bool:
    """Tell whether each space in `containers` still has its parts; those of Dict spaces can be replaced."""
    # Identical objects are equal without a comparison.
    return all(space.spaces == parts for space, parts in containers)


def empty_batch(space: Space[Any]) -> Any:
    """Return a batch with no rows."""
    return map_space(
        lambda leaf: np.empty((0, *leaf.shape), leaf.dtype) if isinstance(leaf, ARRAY_SPACES) else object_array([]),  # type: ignore[misc]  # of fixed shape
        space,
    )


# --- Filling -----------------------------------------------------------------------------------------------


def filled_item(space: Space[Any], fill: Item) -> Any:
    """Return an item of `space` with `fill` at all leaves; NumPy scalars for `Discrete`.

    >>> filled_item(spaces.Discrete(3), 0)
    np.int64(0)
    """
    return map_space(lambda leaf: _filled_leaf(leaf, fill), space)


def _filled_leaf(space: Space[Any], fill: Item) -> Any:
    if isinstance(space, ARRAY_SPACES):
        return filled_array(space.shape, np.dtype(space.dtype), fill)  # type: ignore[arg-type]  # of fixed shape
    return fill


def filled_array(shape: tuple[int, ...], dtype: np.dtype[Any], fill: Item) -> Any:
    """Return a read-only array of `fill`, which `dtype` must be able to hold; a scalar if `shape` is empty."""
    array = np.empty(shape, dtype)
    array.fill(fitting(fill, dtype))
    if not shape:
        return array[()]  # like the rows of a column without further axes
    array.setflags(write=False)
    return array


def fitting(fill: Item, dtype: np.dtype[Any]) -> Any:
    """Return `fill` if `dtype` can hold it, floats up to rounding.

    Raises:
        EpisodeError: If it cannot, such as 0.5 in an integer column or -1 in an unsigned one.
    """
    kind = dtype.kind
    if kind != "O":
        check_one_value(fill)
    if kind == "O" or (kind == "f" and type(fill) is float and -6e4 < fill < 6e4) or (fill == 0 and type(fill) is int):
        return fill
    given = np.asarray(fill)
    # NumPy would read numbers from strings and dates, and drop imaginary parts.
    is_number = given.dtype.kind in "biufO" or given.dtype.kind == kind
    with np.errstate(all="ignore"):
        try:
            value = given.astype(dtype) if is_number else None
        except (TypeError, ValueError, OverflowError):
            value = None
    if value is None or value.ndim or not (_same_number(value, fill) or (kind in "fc" and np.isfinite(value))):
        raise EpisodeError(
            f"found `fill={shown(fill)}`, expected a value that {dtype}, the dtype of this column, can hold. Correct it."
        )
    return value[()]


def check_one_value(fill: Item) -> None:
    """Check that `fill` is one value for all leaves of an item.

    Raises:
        EpisodeError: If it is an array, a list, or an item of its own.
    """
    try:
        is_one = not isinstance(fill, Mapping) and not np.ndim(fill)
    except (TypeError, ValueError):  # values that cannot become an array, such as a ragged list
        is_one = False
    if not is_one:
        raise EpisodeError(
            f"found `fill={describe(fill)}`, expected one value, which fills a whole item. Pass a number."
        )


def _same_number(value: np.ndarray, fill: Item) -> bool:
    return bool(value == fill or (value != value and fill != fill))  # noqa: PLR0124  # true for NaN only


# --- One-hot --------------------------------------------------------------------------------------------------------


def one_hot_space(space: Space[Any]) -> Space[Any]:
    """Return the space of the items that `one_hot` returns for `space`."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: one_hot_space(child) for key, child in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([one_hot_space(child) for child in space.spaces])
    if isinstance(space, spaces.Discrete):
        return spaces.Box(0.0, 1.0, (int(space.n),), np.float32)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Box(0.0, 1.0, (int(space.nvec.sum()),), np.float32)
    return space


def one_hot(space: Space[Any], batch: Item) -> Item:
    """Return `batch` (or one item) with Discrete leaves one-hot and MultiDiscrete leaves as joined one-hots.

    >>> one_hot(spaces.Discrete(3, start=1), np.array([1, 3]))
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if isinstance(space, spaces.Dict):
        return {key: one_hot(child, batch[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one_hot(child, part) for child, part in zip(space.spaces, batch, strict=True))
    if isinstance(space, spaces.Discrete):
        if type(batch) is int and 0 <= batch - space.start < space.n:
            # A copy, because torch ignores read-only flags.
            return frozen(_identity(int(space.n))[batch - space.start].copy())
        return frozen(_one_hot_leaf(np.asarray(batch) - space.start, int(space.n), space))
    if isinstance(space, spaces.MultiDiscrete):
        return frozen(_one_hot_parts(np.asarray(batch) - space.start, space))
    return batch


def _one_hot_parts(classes: np.ndarray, space: spaces.MultiDiscrete) -> np.ndarray:
    sizes = space.nvec.reshape(-1)
    flat = classes.reshape(*classes.shape[: classes.ndim - space.nvec.ndim], sizes.size)
    parts = [_one_hot_leaf(flat[..., position], int(size), space) for position, size in enumerate(sizes)]
    return np.concatenate(parts, axis=-1)


def _one_hot_leaf(classes: np.ndarray, size: int, space: Space[Any]) -> np.ndarray:
    if classes.dtype.kind not in "iu" or (classes.size and (classes.min() < 0 or classes.max() >= size)):
        raise SpaceError(
            f"found values outside of {short_name(space)}, expected classes for one-hot vectors. {OTHER_SPACE}"
        )
    return _identity(size).take(classes, axis=0)  # several times faster than an index


@lru_cache(maxsize=64)
def _identity(size: int) -> np.ndarray:
    return frozen(np.eye(size, dtype=np.float32))
