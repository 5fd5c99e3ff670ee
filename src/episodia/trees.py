"""Nested items: dicts and tuples of any depth, with arrays or scalars at the leaves.

An *item* is the content of one time step (an observation, an action). A *batch* has the same nesting, with arrays at the
leaves whose first axis is time. Plain recursion is used instead of dm-tree: it is several times faster here, and it accepts
dict keys of mixed types (see `docs/decisions/0002-nested-items.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from episodia.errors import EpisodeError, ShapeError
from episodia.types import Item

# Immutable leaves, which need no copy.
SCALAR_TYPES = frozenset(
    {int, float, bool, complex, str, bytes, type(None)}
    | {np.bool_, np.float16, np.float32, np.float64, np.complex64, np.complex128}
    | {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}
)


# Dtypes of native byte order without references: a copy of the memory is a copy of the values.
PLAIN_DTYPES = frozenset(np.dtype(kind) for kind in SCALAR_TYPES if issubclass(kind, np.generic))


def own(item: Item) -> Item:
    """Return a private, read-only copy of `item`; lists become arrays.

    >>> array = np.zeros(2)
    >>> mine = own({"position": array})
    >>> array[0] = 7.0
    >>> mine
    {'position': array([0., 0.])}
    """
    if type(item) is np.ndarray and item.dtype in PLAIN_DTYPES:
        return frozen(item.copy())
    return freeze(private(item))


def private(item: Item) -> Item:
    """Return a private copy of `item`, like `own`, but writable; the caller makes it read-only before returning it."""
    kind = type(item)
    if kind is np.ndarray and item.dtype in PLAIN_DTYPES:
        return item.copy()
    if kind in SCALAR_TYPES:
        return item
    if kind is dict:
        mine = {}
        for key, value in item.items():
            # A call costs more than a copy of a small array.
            kind = type(value)
            if kind is np.ndarray and value.dtype in PLAIN_DTYPES:
                mine[key] = value.copy()
            elif kind in SCALAR_TYPES:
                mine[key] = value
            else:
                mine[key] = private(value)
        return mine
    if isinstance(item, tuple):
        return rebuild_tuple(item, map(private, item))
    return _private_unusual(item)


def own_all(items: Sequence[Item]) -> list[Item]:
    """Return private, read-only copies of all `items`."""
    return freeze(private_all(items))  # type: ignore[no-any-return]  # the list


def private_all(items: Sequence[Item]) -> list[Item]:
    """Return private copies of all `items`."""
    if SCALAR_TYPES.issuperset(map(type, items)):
        return list(items)
    return [private(item) for item in items]


def _private_unusual(item: Item) -> Item:
    if isinstance(item, Mapping):
        return {key: private(value) for key, value in item.items()}
    if isinstance(item, list):
        item = _array_from_list(item)
    elif not isinstance(item, np.ndarray):
        if not hasattr(item, "__array__") or isinstance(item, np.generic):
            return item  # an opaque object is a leaf
        item = array_from(item)  # a tensor, for example
    if item.dtype.hasobject:
        copy = np.empty(item.shape, object)
        for position in np.ndindex(item.shape):
            copy[position] = private(item[position])
    else:
        # torch rejects foreign byte orders.
        copy = np.array(item, dtype=item.dtype.newbyteorder("="), subok=False)
    return copy


def array_from(item: object) -> np.ndarray:
    """Return `item`, a tensor for example, as an array.

    Raises:
        EpisodeError: If it cannot be converted.
    """
    try:
        return np.asarray(item)
    except (RuntimeError, TypeError, ValueError) as error:
        raise EpisodeError(
            f"found {describe(item)}, which cannot be converted to an array ({error}); expected a NumPy array. "
            "For a tensor, pass `tensor.detach().cpu().float().numpy()`."
        ) from error


def _array_from_list(items: list[Any]) -> np.ndarray:
    try:
        array = np.array(items)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(
            f"found a list that is not rectangular ({error}), expected one that is, because lists become arrays. "
            "Pass a tuple or a dict for nested items."
        ) from error
    return array.astype(object) if array.dtype.kind in "US" else array


def as_rows(column: object) -> np.ndarray:
    """Return `column`, an array or a value that can be converted, as an array.

    Raises:
        ShapeError: If its rows have different shapes.
    """
    if hasattr(column, "__array__"):
        return array_from(column)
    try:
        return np.asarray(column)
    except ValueError as error:
        raise ShapeError(
            f"found {describe(column)}, which is not rectangular, expected rows of one shape. Pad the rows, or pass a list "
            "of items."
        ) from error


def own_info(value: Item) -> Item:
    """Return a private copy of an info: containers are rebuilt, arrays copied and read-only, other objects shared.

    Unlike `own`, it keeps lists, because infos are never stacked.
    """
    if isinstance(value, np.ndarray):
        return own(value)
    if isinstance(value, dict):
        return {key: own_info(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [own_info(entry) for entry in value]
    if isinstance(value, tuple):
        return rebuild_tuple(value, map(own_info, value))
    return value


def fresh(item: Item) -> Item:
    """Return `item` in new containers and views, so that callers cannot change the original; memory is shared."""
    if type(item) is np.ndarray and not item.dtype.hasobject:
        return item[...]
    if isinstance(item, dict):
        return {key: fresh(value) for key, value in item.items()}
    if isinstance(item, tuple):
        return rebuild_tuple(item, map(fresh, item))
    if isinstance(item, list):
        return [fresh(value) for value in item]
    if isinstance(item, np.ndarray):
        return _fresh_objects(item) if item.dtype.hasobject else item[...]
    return item


def _fresh_objects(array: np.ndarray) -> np.ndarray:
    """Return an object array with new containers in place of its own."""
    if SCALAR_TYPES.issuperset(map(type, array.flat)):
        return array[...]
    copy = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        copy[place] = fresh(array[place])
    return frozen(copy)


def frozen(array: np.ndarray) -> np.ndarray:
    """Make `array` read-only, and return it."""
    array.setflags(write=False)
    return array


def freeze(item: Item) -> Item:
    """Make the arrays of a private item read-only, and return it."""
    if isinstance(item, np.ndarray):
        if item.dtype.hasobject:
            freeze(item.ravel().tolist())
        item.setflags(write=False)
    elif isinstance(item, dict):
        freeze(list(item.values()))
    elif isinstance(item, (list, tuple)) and not SCALAR_TYPES.issuperset(map(type, item)):
        for entry in item:
            freeze(entry)
    return item


def is_nested(item: object) -> bool:
    """Tell whether `item`, a private copy, is a container rather than a leaf."""
    return isinstance(item, (dict, tuple))


def rebuild_tuple(like: tuple[Any, ...], values: Iterator[Any]) -> tuple[Any, ...]:
    """Return a tuple of `values` with the type of `like`, which may be a named tuple."""
    if hasattr(like, "_fields"):
        return type(like)(*values)
    return tuple(values)


def map_batch(function: Callable[..., Any], batch: Item, *others: Item) -> Item:
    """Apply `function` to the leaves of `batch` and to the leaves of `others` at the same places."""
    if isinstance(batch, dict):
        if not others:  # as nearly always, and a generator for each key takes longer than the rest
            return {key: map_batch(function, value) for key, value in batch.items()}
        return {key: map_batch(function, value, *(other[key] for other in others)) for key, value in batch.items()}
    if isinstance(batch, tuple):
        columns = zip(batch, *others, strict=True)
        return rebuild_tuple(batch, (map_batch(function, *column) for column in columns))
    return function(batch, *others)


def leaves(batch: Item, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `(path, leaf)` for every leaf, with paths such as `['camera'][0]`.

    >>> list(leaves({"a": (1, 2)}))
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    if isinstance(batch, dict):
        for key, value in batch.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(batch, tuple):
        for position, value in enumerate(batch):
            yield from leaves(value, f"{path}[{position}]")
    else:
        yield path, batch


def flat(batch: Item) -> list[Any]:
    """Return every leaf, without its path: for callers at each update, which need the paths only in errors.

    >>> flat({"a": (1, 2), "b": 3})
    [1, 2, 3]
    """
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    elif not isinstance(batch, tuple):
        return [batch]
    found: list[Any] = []
    for value in batch:
        if isinstance(value, (dict, tuple)):
            found += flat(value)
        else:
            found.append(value)
    return found


def batch_length(batch: Item) -> int:
    """Return the length of the time axis, after checking that all leaves agree on it."""
    if type(batch) is np.ndarray and batch.ndim:
        return len(batch)
    lengths = {path: len(leaf) for path, leaf in leaves(batch) if np.ndim(leaf)}
    if not any(leaves(batch)):
        raise EpisodeError(
            f"found items without content ({describe(batch)}), expected at least one array or number in each, because "
            "arrays of them have no length otherwise. Do not finalize the episode, or use `Discrete(1)` for empty "
            "observations."
        )
    if len(set(lengths.values())) != 1 or len(lengths) != sum(1 for _ in leaves(batch)):
        raise EpisodeError(
            f"found {describe(batch)}, expected arrays with one common first axis (time). "
            "Pass a list for a list of items, or arrays whose rows are the items."
        )
    return next(iter(lengths.values()))


def equal(left: object, right: object) -> bool:
    """Compare two nested items or batches by value; NaN equals NaN, dtypes may differ."""
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        if not (isinstance(left, Mapping) and isinstance(right, Mapping)) or left.keys() != right.keys():
            return False
        return all(equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    return _equal_leaves(left, right)


def _equal_leaves(left: Item, right: Item) -> bool:
    if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        # The second comparison is true for NaN only.
        return bool(left == right or (left != left and right != right))  # noqa: PLR0124  # NaN
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        return False
    if left.dtype.hasobject or right.dtype.hasobject:
        return all(equal(left[i], right[i]) for i in np.ndindex(left.shape))
    if left.dtype.kind in "fc" and right.dtype.kind in "fc":
        return bool(np.array_equal(left, right, equal_nan=True))
    return bool(np.array_equal(left, right))


def describe(item: object) -> str:
    """Return a short description of `item` for messages.

    >>> describe({"camera": np.zeros((2, 2), np.uint8), "speed": 1.5})
    "{'camera': uint8[2, 2], 'speed': 1.5}"
    """
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key!r}: {describe(value)}" for key, value in item.items()) + "}"
    if isinstance(item, tuple):
        return "(" + ", ".join(map(describe, item)) + ("," if len(item) == 1 else "") + ")"
    if isinstance(item, np.ndarray):
        return f"{item.dtype}{list(item.shape)}"
    return shown(item, 60)


def shown(value: object, longest: int = 120) -> str:
    """Return `repr(value)` for messages, cut to `longest` characters; a value that has none is shown by its type.

    >>> shown([1, 2]), shown(10**5000)
    ('[1, 2]', '<int>')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # of foreign code, or of an integer with thousands of digits
        text = f"<{type(value).__name__}>"
    return shortened(text, longest)


def shortened(text: str, longest: int = 120) -> str:
    """Return `text`, cut to `longest` characters; three dots mark a cut.

    >>> shortened("a long story", 8)
    'a lon...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
