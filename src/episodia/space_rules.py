"""Rules of gymnasium spaces for columns: which items may enter, and whether stored items are within bounds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces
from numpy import ndarray

from episodia.errors import SpaceError
from episodia.spaces import (
    ARRAY_SPACES,
    OTHER_SPACE,
    containers_of,
    filled_item,
    have_same_parts,
    object_leaves,
    short_name,
)
from episodia.trees import array_from, describe, frozen, own, private, shortened
from episodia.types import Item

_Admit: TypeAlias = Callable[[Any], Any]
Check: TypeAlias = Callable[[Any], None]


# --- Admission -------------------------------------------------------------------------------------------------


def admission(space: Space[Any]) -> _Admit:
    """Return a function that checks an item against `space` and returns a private copy of it.

    Structure, shape and dtype are checked. Bounds are not (see `bounds_check`), because that costs more than storing.

    >>> admission(spaces.Discrete(3))(0.5)
    Traceback (most recent call last):
    ...
    episodia.errors.SpaceError: found 0.5, expected an integer for Discrete(3). ...
    """
    return _admission(space, "")


def _admission(space: Space[Any], path: str) -> _Admit:
    if isinstance(space, spaces.Dict):
        return _dict_admission(space, path)
    if isinstance(space, spaces.Tuple):
        return _tuple_admission(space, path)
    if isinstance(space, spaces.Box):
        return _array_admission(space, path, lambda dtype: np.can_cast(dtype, space.dtype))
    if isinstance(space, spaces.Discrete):
        return _integer_admission(space, path)
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        # NumPy has no common integer dtype of uint64 and int64.
        return _array_admission(space, path, lambda dtype: dtype.kind in "iub" and dtype != np.uint64)
    if isinstance(space, spaces.Text):
        return _text_admission(space, path)
    # Objects are returned without a copy, so they are read-only from the start.
    return own


def _rejection(path: str, found: Any, expected: str, remedy: str) -> SpaceError:
    where = f"at {path}: " if path else ""
    return SpaceError(f"{where}found {describe(found)}, expected {expected}. {remedy}")


def _dict_admission(space: spaces.Dict, path: str) -> _Admit:
    children = tuple(
        (key, _admission(child, f"{path}[{key!r}]"), _free_types(child), *_rows_of(child))
        for key, child in space.spaces.items()
    )
    keys, count = dict(space.spaces).keys(), len(children)  # a copy, because the space may change

    def admit(item: Any) -> Any:
        if type(item) is dict and len(item) == count:
            try:
                admitted = {}
                for key, child, free_types, dtype, shape, length in children:
                    value = item[key]
                    # A call costs more than a copy of a small array.
                    if (
                        type(value) is ndarray
                        and value.dtype is dtype
                        and (value.shape == shape if length is None else value.ndim == 1 and len(value) == length)
                    ):
                        admitted[key] = value.copy()
                    else:
                        admitted[key] = value if type(value) in free_types else child(value)
                return admitted
            except KeyError:
                pass
        elif isinstance(item, Mapping) and item.keys() == keys:
            return admit({key: item[key] for key in keys})
        raise _rejection(path, item, f"a dict with the keys {list(keys)}", "Give every key of the space, and no other.")

    return admit


def _tuple_admission(space: spaces.Tuple[Any], path: str) -> _Admit:
    children = [_admission(child, f"{path}[{position}]") for position, child in enumerate(space.spaces)]

    def admit(item: Any) -> Any:
        if not isinstance(item, (tuple, list)) or len(item) != len(children):
            raise _rejection(path, item, f"a tuple of {len(children)}", "Give one entry for each part of the space.")
        return tuple(child(entry) for child, entry in zip(children, item, strict=True))

    return admit


def _array_admission(space: Space[Any], path: str, fits: Callable[[np.dtype[Any]], bool]) -> _Admit:
    shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype)

    def admit(item: Any) -> Any:
        if type(item) is np.ndarray and item.dtype == dtype and item.shape == shape:
            return item.copy()
        return admit_unusual(item)

    def admit_unusual(item: Any) -> Any:
        if shape == () and isinstance(item, (int, float, np.generic)):
            array = np.asarray(item)
        else:
            item = array = _as_declared(item, dtype, path, space)
        if array.shape != shape:
            raise _rejection(
                path, item, f"the shape {list(shape)} of {short_name(space)}", "Reshape it, or declare another space."
            )
        # Python numbers have no dtype: a float fits every float dtype.
        weak = type(item) in (int, float, bool) and (
            dtype.kind in "fc" or (dtype.kind in "iu" and array.dtype.kind in "ib")
        )
        if not (weak or fits(array.dtype)):
            raise _rejection(
                path,
                item,
                f"the dtype {dtype} of {short_name(space)}",
                f"Cast it with `.astype(np.{dtype})`, or declare another space.",
            )
        return private(item)

    return admit


def _as_declared(item: Any, dtype: np.dtype[Any], path: str, space: Space[Any]) -> np.ndarray:
    """Return `item` as an array; lists of Python numbers take the dtype of the space if that is exact."""
    if isinstance(item, Mapping) or item is None or isinstance(item, (str, bytes)):
        raise _rejection(path, item, f"an array for {short_name(space)}", "Pass a NumPy array.")
    if not isinstance(item, (list, tuple)):
        return array_from(item)
    try:
        array = np.asarray(item)
    except ValueError:
        raise _rejection(path, item, f"an array for {short_name(space)}", "Make the list rectangular.") from None
    except (RuntimeError, TypeError):  # tensors that cannot be converted
        raise _rejection(path, item, f"an array for {short_name(space)}", "Pass a list of numbers.") from None
    if array.dtype.kind not in "iubf":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    # Floats may be rounded, but not become infinite.
    rounded = array.dtype.kind == dtype.kind == "f" and np.array_equal(np.isfinite(cast), np.isfinite(array))
    return cast if rounded or np.array_equal(cast, array) else array


def _integer_admission(space: spaces.Discrete, path: str) -> _Admit:
    def admit(item: Any) -> Any:
        if type(item) in _INTEGER_TYPES:
            return item
        if isinstance(item, (int, np.integer)):
            # NumPy has no common integer dtype of uint64 and int64.
            return int(item) if type(item) is np.uint64 else item
        if isinstance(item, np.ndarray) and item.shape == () and item.dtype.kind in "iub":
            return int(item) if item.dtype == np.uint64 else private(item)
        raise _rejection(path, item, f"an integer for {short_name(space)}", "Pass `int(value)`.")

    return admit


def _text_admission(space: spaces.Text, path: str) -> _Admit:
    def admit(item: Any) -> Any:
        if isinstance(item, str):
            return item
        raise _rejection(path, item, f"a string for {short_name(space)}", "Pass a `str`.")

    return admit


# --- The cast of observations ------------------------------------------------------------------------------------

_SAID: set[str] = set()


def with_float32(space: Space[Any], item: Item) -> Any:
    """Return `item`, an observation or a batch of observations, with float64 leaves cast where `space` says float32.

    This is the only cast of recorded data, for the many environments that compute in float64. It warns once for each space.
    All other items are returned as they are.

    Raises:
        SpaceError: If a finite number becomes infinite.
    """
    return _with_float32(space, item, "")


def each_with_float32(space: Space[Any], items: list[Any]) -> list[Any]:
    """Return a list of observations, each as `with_float32` returns it."""
    types = {getattr(item, "dtype", None) for item in items}
    if not _has_float32(space) or not any(each is None or (each.kind, each.itemsize) == ("f", 8) for each in types):
        return items
    return [with_float32(space, item) for item in items]


def _has_float32(space: Space[Any]) -> bool:
    if isinstance(space, spaces.Box):
        return space.dtype == np.float32
    parts = space.spaces if isinstance(space, (spaces.Dict, spaces.Tuple)) else ()
    return any(map(_has_float32, parts.values() if isinstance(parts, dict) else parts))


def _with_float32(space: Space[Any], item: Any, path: str) -> Any:
    if isinstance(space, spaces.Dict) and isinstance(item, Mapping):
        parts = space.spaces
        return {
            key: _with_float32(parts[key], part, f"{path}[{key!r}]") if key in parts else part
            for key, part in item.items()
        }
    if isinstance(space, spaces.Tuple) and isinstance(item, (tuple, list)) and len(item) == len(space.spaces):
        pairs = zip(space.spaces, item, strict=True)
        return tuple(_with_float32(child, part, f"{path}[{place}]") for place, (child, part) in enumerate(pairs))
    if (
        not isinstance(space, spaces.Box)
        or space.dtype != np.float32
        or not isinstance(item, (np.ndarray, np.float64))
        or (item.dtype.kind, item.dtype.itemsize) != ("f", 8)
    ):
        return item
    with np.errstate(over="ignore"):
        cast = item.astype(np.float32)
    if not np.array_equal(np.isfinite(cast), np.isfinite(item)):
        raise _rejection(
            path,
            item,
            f"numbers that the dtype float32 of {short_name(space)} can hold, and some become infinite",
            "Scale them, or declare a float64 space.",
        )
    if item.shape[item.ndim - len(space.shape) :] == space.shape:
        # One observation, or rows of them; another shape is rejected by the check that follows.
        _say_cast(space, path)
    return cast


def _say_cast(space: Space[Any], path: str) -> None:
    text = (
        f"observations{f' at {path}' if path else ''}: found float64, expected the dtype float32 of {short_name(space)}. They "
        "are recorded as float32. Cast them in the environment with `.astype(np.float32)`, or declare a float64 space. This is "
        "said once for each space."
    )
    if text not in _SAID:
        _SAID.add(text)
        warnings.warn(text, stacklevel=2)


# --- Bounds -------------------------------------------------------------------------------------------------


def bounds_check(space: Space[Any], path: str = "") -> Check:
    """Return a function that checks all rows of a batch against `space` and its bounds.

    NaN does not violate bounds. The function raises a `SpaceError` that names the first row and leaf outside.
    """
    if isinstance(space, spaces.Dict):
        return _dict_check(space, path)
    if isinstance(space, spaces.Tuple):
        return _tuple_check(space, path)
    if isinstance(space, ARRAY_SPACES):
        return _array_check(space, path)
    return _object_check(space, path)


def _dict_check(space: spaces.Dict, path: str) -> Check:
    children = {key: bounds_check(child, f"{path}[{key!r}]") for key, child in space.spaces.items()}

    def check(batch: Any) -> None:
        if not isinstance(batch, dict) or batch.keys() != children.keys():
            raise _rejection(path, batch, f"a dict with the keys {list(children)}", OTHER_SPACE)
        for key, child in children.items():
            child(batch[key])

    return check


def _tuple_check(space: spaces.Tuple[Any], path: str) -> Check:
    children = [bounds_check(child, f"{path}[{position}]") for position, child in enumerate(space.spaces)]

    def check(batch: Any) -> None:
        if not isinstance(batch, tuple) or len(batch) != len(children):
            raise _rejection(path, batch, f"a tuple of {len(children)}", OTHER_SPACE)
        for child, part in zip(children, batch, strict=True):
            child(part)

    return check


# NumPy reduces the first axis of many short rows ten times slower than the last axis of their transpose.
_SHORT_ROW = 32


def _array_check(space: Space[Any], path: str) -> Check:
    low, high = map(_one_if_alike, _bounds(space))
    # If all bounds are equal, the extremes of the whole batch are compared with one number.
    axis, all_hold = (None, bool) if np.ndim(low) == np.ndim(high) == 0 else (0, np.all)
    shape, dtype = space.shape, np.dtype(space.dtype)
    # Wider floats are accepted (Python floats are float64), floats in an integer space are not.
    kinds = "biuf" if dtype.kind == "f" else "biu"
    lowest, highest = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
    is_float = dtype.kind == "f"
    cannot_be_below, cannot_be_above = bool(np.all(low <= lowest)), bool(np.all(high >= highest))
    is_short = axis == 0 and math.prod(space.shape or ()) <= _SHORT_ROW

    def extreme(of: np.ufunc, batch: np.ndarray) -> Any:
        if is_short:
            return of.reduce(np.ascontiguousarray(batch.reshape(len(batch), -1).T), axis=1).reshape(shape)
        return of.reduce(batch, axis=axis)

    def check(batch: Any) -> None:
        if not isinstance(batch, np.ndarray) or batch.shape[1:] != shape or batch.dtype.kind not in kinds:
            raise _rejection(path, batch[0] if len(batch) else batch, f"items of {short_name(space)}", OTHER_SPACE)
        if not batch.size:
            return
        if is_float and batch.dtype.kind == "f" and batch.dtype.itemsize > dtype.itemsize:
            # 0.7 is above a bound of 0.7 that was rounded to float32.
            with np.errstate(over="ignore"):
                batch = batch.astype(dtype)
        # Two reductions are several times faster than two comparisons. NaN makes them false, so rows are compared then.
        is_own_dtype = batch.dtype == dtype or is_float
        above = (cannot_be_below and is_own_dtype) or all_hold(extreme(np.minimum, batch) >= low)
        below = (cannot_be_above and is_own_dtype) or all_hold(extreme(np.maximum, batch) <= high)
        if not (above and below):
            rows = ((batch < low) | (batch > high)).reshape(len(batch), -1).any(axis=1)
            if rows.any():
                raise _outside(space, batch, np.flatnonzero(rows).tolist(), path)

    return check


def _one_if_alike(bounds: Any) -> Any:
    """Return a single number if all of `bounds` are that number."""
    return bounds.flat[0] if np.size(bounds) and np.ndim(bounds) and (bounds == bounds.flat[0]).all() else bounds


def _object_check(space: Space[Any], path: str) -> Check:
    def check(batch: Any) -> None:
        outside = [row for row, item in enumerate(batch) if not space.contains(item)]
        if outside:
            raise _outside(space, batch, outside, path)

    return check


def _outside(space: Space[Any], batch: Any, rows: list[int], path: str) -> SpaceError:
    where, found = f"at {path}: " if path else "", shortened(str(batch[rows[0]]))
    return SpaceError(
        f"{where}found {found} at item {rows[0]} of {len(batch)}, expected "
        f"items inside of {short_name(space)} ({len(rows)} are outside in all). {OTHER_SPACE}"
    )


def _bounds(space: Space[Any]) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a space of fixed shape."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return 0, 1


# --- Rules ---------------------------------------------------------------------------------------------


class SpaceRules:
    """The rules of a space, computed once for a column and its continuations.

    The parts of a space can change; `are_current` tells whether they did.

    Items of `free_types` are stored without a copy; arrays of `row_dtype` and `row_shape` are copied; all other items go
    through `admit`. Vectors also have a `row_length`, because two numbers are compared faster than two shapes.
    """

    __slots__ = (
        "_containers",
        "_fillings",
        "_space",
        "admit",
        "check_bounds",
        "encoded",
        "free_types",
        "nested",
        "objects",
        "row_dtype",
        "row_length",
        "row_shape",
    )

    def __init__(self, space: Space[Any]) -> None:
        """Compute the rules of `space`."""
        self._space = space
        self._containers = containers_of(space)
        self.encoded: Any = None  # the cache of `encoded_once`
        self._fillings: dict[Any, Any] = {}
        self.admit = admission(space)
        self.check_bounds = bounds_check(space)
        self.objects = object_leaves(space)
        self.nested = not isinstance(space, ARRAY_SPACES)
        self.free_types = _free_types(space)
        self.row_dtype, self.row_shape, self.row_length = _rows_of(space)

    def are_current(self) -> bool:
        """Tell whether the space has the same parts as when the rules were computed."""
        return not self._containers or have_same_parts(self._containers)

    def filling(self, fill: Item) -> Item:
        """Return a new read-only item with `fill` at all leaves."""
        if self.nested or type(fill) not in (int, float):
            return filled_item(self._space, fill)
        key = type(fill), fill
        if key not in self._fillings:
            self._fillings = {key: filled_item(self._space, fill)}
        filling = self._fillings[key]
        # A copy, because torch ignores read-only flags.
        return frozen(filling.copy()) if type(filling) is ndarray else filling


def rules_of(space: Space[Any]) -> SpaceRules:
    """Return the rules of `space`, cached per space object, because many episodes share one space."""
    rules = _KNOWN_RULES.get(id(space))
    if rules is None or not rules.are_current():
        if len(_KNOWN_RULES) >= _MOST_RULES:
            _KNOWN_RULES.pop(next(iter(_KNOWN_RULES)), None)
        rules = _KNOWN_RULES[id(space)] = SpaceRules(space)
    return rules


# By the id of the space; the rules keep the space alive, so the id stays unique.
_KNOWN_RULES: dict[int, SpaceRules] = {}
_MOST_RULES = 256


def _rows_of(space: Space[Any]) -> tuple[np.dtype[Any] | None, tuple[int, ...] | None, int | None]:
    """Return dtype, shape and (for vectors) length of arrays that are only copied; None if items are not arrays."""
    shape = space.shape
    if not (isinstance(space, ARRAY_SPACES) and shape):
        return None, None, None
    # Unpickled spaces have another dtype object than new arrays.
    return np.dtype(np.dtype(space.dtype).type), shape, shape[0] if len(shape) == 1 else None


def _free_types(space: Space[Any]) -> frozenset[type]:
    if isinstance(space, spaces.Discrete):
        return _INTEGER_TYPES
    if isinstance(space, spaces.Box) and space.shape == () and np.dtype(space.dtype).kind == "f":
        return frozenset({float})
    return frozenset()


_INTEGER_TYPES: frozenset[type] = frozenset(
    {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32}
)
