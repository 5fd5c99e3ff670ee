"""Nested Python values as bytes: strict JSON, followed by the content of all arrays.

Dicts with strings as keys, lists, strings, numbers, booleans and None are plain JSON. All other values are dicts whose first
key begins with `$` and names the type; keys of the values that begin with `$` get a second `$`. Lists of numbers of one
type, of arrays of one shape, and of dicts with the same keys are stored as one array for each leaf, because JSON takes many
times as much memory.

Arrays follow at multiples of 16 bytes, so they can be used in place. No value names a class or a function, so reading runs no
code.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from gymnasium.spaces import GraphInstance

from episodia.checkpoints.checkpoint_limits import MAX_AXES, MAX_DEPTH, MAX_INTEGER_BITS, MAX_KEY_LENGTH
from episodia.checkpoints.stored_dtypes import is_stored_dtype, stored_dtype
from episodia.checkpoints.strict_json import has_too_many_parts, strict_json
from episodia.errors import CheckpointError, StoreError
from episodia.store.store_limits import MAX_VALUES_BYTES, MAX_VALUES_PARTS
from episodia.trees import frozen

#: What the bytes of packed values are aligned to.
_ALIGNMENT: Final = 16
_MARK: Final = "$"
# Shorter lists stay lists; of strings or lists, those that take little memory.
_LEAST_PACKED: Final = 4
_LEAST_JOINED: Final = 64
_PLAIN = frozenset((str, int, bool, type(None)))
_INT64 = np.iinfo(np.int64)


@final
class Rows:
    """Stands for an array that is stored elsewhere, by its number among such arrays."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def packed(value: object) -> bytes:
    """Return `value` as bytes.

    Raises:
        StoreError: If it holds a value of another type, or is too large; the message says where.

    >>> unpacked(packed({"goal": (1.5, np.arange(3)), 7: b"seven"}), [])
    {'goal': (1.5, array([0, 1, 2])), 7: b'seven'}
    """
    packer = _Packer()
    try:
        content = json.dumps(
            {"value": packer.value(value, ()), "arrays": packer.forms}, allow_nan=False, separators=(",", ":")
        ).encode("ascii")
    except RecursionError as error:
        raise _unstored((), "values that contain themselves", "a finite nesting") from error
    if len(content) > MAX_VALUES_BYTES or has_too_many_parts(content, MAX_VALUES_PARTS):
        raise _unstored(
            (),
            f"{len(content)} bytes of JSON beside the arrays",
            f"at most {MAX_VALUES_BYTES}, with at most {MAX_VALUES_PARTS} strings, brackets and commas",
        )
    pieces = [len(content).to_bytes(8, "little") + content, *packer.contents]
    return b"".join(piece + bytes(-len(piece) % _ALIGNMENT) for piece in pieces)


def unpacked(content: bytes | memoryview, rows: Sequence[np.ndarray]) -> Any:
    """Return the value that `packed` was given, with read-only arrays that share the memory of `content`.

    Args:
        content: What `packed` returned.
        rows: The arrays that instances of `Rows` stand for.

    Raises:
        StoreError: If `content` is not from `packed`.
    """
    size = int.from_bytes(content[:8], "little")
    if size > min(len(content) - 8, MAX_VALUES_BYTES):
        raise StoreError(f"found {len(content)} bytes, expected packed values")
    try:
        parts = strict_json(bytes(content[8 : 8 + size]), max_parts=MAX_VALUES_PARTS)
        if not isinstance(parts, dict) or list(parts) != ["value", "arrays"] or not isinstance(parts["arrays"], list):
            raise ValueError("other keys than `value` and `arrays`")
        arrays = _arrays(content, 8 + size, parts["arrays"])
        return _Unpacker(arrays, rows).value(parts["value"], 0)
    except (CheckpointError, ValueError, TypeError, LookupError, OverflowError, RecursionError, SystemError) as error:
        raise StoreError(f"found values that cannot be read ({error}), expected packed values") from error


def _arrays(content: bytes | memoryview, start: int, forms: list[Any]) -> list[np.ndarray]:
    arrays = []
    for name, shape in forms:
        kind = _checked_dtype(name, shape)
        size, start = kind.itemsize * math.prod(shape), start + -start % _ALIGNMENT
        if size > len(content) - start:
            raise ValueError("an array beyond the end")
        arrays.append(array_in(content[start : start + size], kind, tuple(shape)))
        start += size
    return arrays


def array_in(content: bytes | memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of which `content` has the bytes, read-only, without a copy."""
    # NumPy cannot view nothing as a larger dtype.
    array = np.frombuffer(content, np.uint8).view(dtype).reshape(shape) if len(content) else np.empty(shape, dtype)
    return frozen(array)


def _checked_dtype(name: Any, shape: Any) -> np.dtype[Any]:
    if not is_stored_dtype(name) or not isinstance(shape, list) or len(shape) > MAX_AXES:
        raise ValueError(f"an array of {repr(name)[:40]}, {repr(shape)[:40]}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"the shape {repr(shape)[:40]}")
    return stored_dtype(name)


@final
class _Packer:
    """Turns values into JSON values, and collects the contents of arrays."""

    def __init__(self) -> None:
        self.forms: list[Any] = []
        self.contents: list[bytes] = []

    def value(self, value: Any, path: tuple[Any, ...]) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return self._plain(value, path)
        if kind is float:
            return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
        if len(path) > MAX_DEPTH:
            raise _unstored(path[:4], f"more than {MAX_DEPTH} levels", "fewer")
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.generic):
            return {"$scalar": self.add(np.asarray(value), path)}
        if kind is list:
            return self._list(value, path)
        if isinstance(value, Mapping):
            return self._dict(value, path)
        return self._other(value, path)

    def _plain(self, value: Any, path: tuple[Any, ...]) -> Any:
        if type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
            raise _unstored(path, f"an integer of {value.bit_length()} bits", f"at most {MAX_INTEGER_BITS}")
        # JSON would join a pair of surrogates into another character.
        if type(value) is str and any("\ud800" <= letter <= "\udfff" for letter in value):
            return {"$letters": self.add(np.array(list(map(ord, value)), np.uint32), path)}
        return value

    def _other(self, value: Any, path: tuple[Any, ...]) -> Any:
        kind = type(value)
        if kind is Rows:
            return {"$rows": value.number}
        if kind is tuple:
            return {"$tuple": self._all(value, path)}
        if kind is complex:
            return {"$complex": self.add(np.array(value), path)}
        if kind is bytes:
            return {"$bytes": self.add(np.frombuffer(value, np.uint8), path)}
        if kind is GraphInstance:
            return {"$graph": self._all(value, path)}
        raise _unstored(path, f"a {kind.__name__}", "numbers, strings, arrays, and dicts, lists and tuples of them")

    def _all(self, values: Any, path: tuple[Any, ...]) -> list[Any]:
        return [self.value(child, (*path, position)) for position, child in enumerate(values)]

    def _dict(self, values: Mapping[Any, Any], path: tuple[Any, ...]) -> Any:
        if not all(type(key) is str and len(key) <= MAX_KEY_LENGTH and key.isprintable() for key in values):
            pairs = [(self.value(key, path), self.value(value, (*path, key))) for key, value in values.items()]
            return {"$dict": pairs}
        return {_MARK * key.startswith(_MARK) + key: self.value(value, (*path, key)) for key, value in values.items()}

    def _list(self, values: list[Any], path: tuple[Any, ...]) -> Any:
        if len(values) >= _LEAST_PACKED and len(kinds := set(map(type, values))) == 1:
            kind = kinds.pop()
            if kind in _NUMBERS and (kind is not int or _INT64.min <= min(values) <= max(values) <= _INT64.max):
                return {f"${kind.__name__}s": self.add(np.array(values, _NUMBERS[kind]), path)}
            if (kind is np.ndarray and _are_alike(values)) or (issubclass(kind, np.generic) and kind is not np.void):
                return self._rows(values, path)
            if kind is dict and values[0] and all(list(value) == list(values[0]) for value in values):
                columns = [(self.value(key, path), [value[key] for value in values]) for key in values[0]]
                return {"$dicts": [(key, self.value(column, (*path, 0, key))) for key, column in columns]}
            if kind in (str, list) and len(values) >= _LEAST_JOINED:
                return self._joined(values, kind, path)
        return self._all(values, path)

    def _joined(self, values: list[Any], kind: type, path: tuple[Any, ...]) -> Any:
        """Return a long list of strings as their bytes and lengths, one of lists of one length as columns."""
        if kind is str:
            contents = [value.encode("utf-8", "surrogatepass") for value in values]
            joined = np.frombuffer(b"".join(contents), np.uint8)
            return {"$strs": [self.add(joined, path), self.add(np.array(list(map(len, contents))), path)]}
        if not values[0] or len(set(map(len, values))) > 1:
            return self._all(values, path)
        columns = zip(*values, strict=True)
        return {"$lists": [self._list(list(column), (*path, 0, place)) for place, column in enumerate(columns)]}

    def _rows(self, values: list[Any], path: tuple[Any, ...]) -> Any:
        # Strings and times of one type may have different dtypes.
        if len({value.dtype for value in values}) > 1:
            return self._all(values, path)
        if not values[0].nbytes and len(values) > MAX_VALUES_PARTS:
            return self._all(values, path)
        mark = "$arrays" if isinstance(values[0], np.ndarray) else "$scalars"
        # `np.stack` would turn foreign byte orders into the native one.
        rows = np.empty((len(values), *values[0].shape), values[0].dtype)
        for place, value in enumerate(values):
            rows[place] = value
        return {mark: self.add(rows, path)}

    def _array(self, array: np.ndarray, path: tuple[Any, ...]) -> Any:
        if array.dtype == object:
            return {"$objects": [list(array.shape), self._list(list(array.flat), path)]}
        return {"$array": self.add(array, path)}

    def add(self, array: np.ndarray, path: tuple[Any, ...]) -> int:
        """Store the content of `array`, and return its number."""
        if not is_stored_dtype(array.dtype.str) or array.ndim > MAX_AXES:
            found = f"an array of {array.dtype} with {array.ndim} axes"
            raise _unstored(path, found, f"numbers, strings or times, with at most {MAX_AXES} axes")
        self.forms.append([array.dtype.str, list(array.shape)])
        self.contents.append(array.tobytes())
        return len(self.forms) - 1


_NUMBERS: dict[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_}


def _are_alike(arrays: list[np.ndarray]) -> bool:
    first = arrays[0]
    # Rows of an array with one axis are scalars.
    return first.ndim > 0 and not first.dtype.hasobject and len({(array.dtype, array.shape) for array in arrays}) == 1


@final
class _Unpacker:
    """Turns JSON values and arrays back into values."""

    def __init__(self, arrays: list[np.ndarray], rows: Sequence[np.ndarray]) -> None:
        self._arrays: list[np.ndarray | None] = list(arrays)
        self._elsewhere: list[np.ndarray | None] = list(rows)

    def value(self, value: Any, depth: int) -> Any:
        # Two levels of JSON for a level of the values.
        if depth > 2 * MAX_DEPTH + 2:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        if isinstance(value, list):
            return [self.value(child, depth + 1) for child in value]
        if not isinstance(value, dict):
            return value
        mark = next(iter(value), "")
        if mark.startswith(_MARK) and not mark.startswith(_MARK * 2):
            if len(value) > 1 or mark not in _READERS:
                raise ValueError(f"an entry {mark[:40]!r}")
            return _READERS[mark](self, value[mark], depth + 1)
        return {key[1:] if key.startswith(_MARK) else key: self.value(child, depth + 1) for key, child in value.items()}

    def array(self, number: Any) -> np.ndarray:
        return _taken(self._arrays, number)

    def rows(self, number: Any) -> np.ndarray:
        return _taken(self._elsewhere, number)

    def items(self, number: Any) -> list[Any]:
        """Return a list of the rows of an array."""
        array = self.array(number)
        if not array.nbytes and len(array) > MAX_VALUES_PARTS:
            raise ValueError(f"{len(array)} rows without content")
        return list(array)

    def numbers(self, number: Any) -> list[Any]:
        """Return a list of the numbers of an array."""
        array = self.array(number)
        if array.ndim != 1:
            raise ValueError(f"an array with {array.ndim} axes in place of a list")
        return array.tolist()  # type: ignore[no-any-return]  # a list, as it has one axis

    def pairs(self, content: Any, depth: int) -> list[tuple[Any, Any]]:
        return [(self.value(key, depth), self.value(value, depth)) for key, value in _checked_list(content)]

    def all(self, content: Any, depth: int) -> list[Any]:
        return [self.value(child, depth) for child in _checked_list(content)]

    def dicts(self, content: Any, depth: int) -> list[dict[Any, Any]]:
        keys, columns = zip(*self.pairs(content, depth), strict=True)
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def strings(self, content: Any) -> list[str]:
        joined, lengths = (self.array(number) for number in content)
        stops = np.cumsum(lengths).tolist()
        if joined.dtype != np.uint8 or (lengths < 0).any() or stops[-1:] != [len(joined)]:
            raise ValueError("strings of other lengths")
        letters = joined.tobytes()
        starts = [0, *stops[:-1]]
        return [letters[start:stop].decode("utf-8", "surrogatepass") for start, stop in zip(starts, stops, strict=True)]

    def objects(self, content: Any, depth: int) -> np.ndarray:
        shape, values = content
        values = _checked_list(self.value(values, depth))
        made = np.empty(len(values), object)
        for place, value in enumerate(values):
            made[place] = value
        return made.reshape(shape)


def _checked_list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError(f"{repr(content)[:40]} in place of a list")
    return content


def _taken(arrays: list[np.ndarray | None], number: Any) -> np.ndarray:
    """Return an array by its number, once: lists of one array, many times, would take any memory."""
    if type(number) is not int or number < 0:
        raise ValueError(f"{repr(number)[:40]} in place of a number")
    array, arrays[number] = arrays[number], None
    if array is None:
        raise ValueError(f"the array {number} in two places")
    return array


def _float(text: Any) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(text))
    return float(number)


_READERS: dict[str, Callable[[_Unpacker, Any, int], Any]] = {
    "$float": lambda _, text, __: _float(text),
    "$letters": lambda unpacker, number, _: "".join(map(chr, unpacker.numbers(number))),
    "$array": lambda unpacker, number, _: unpacker.array(number),
    "$scalar": lambda unpacker, number, _: unpacker.array(number)[()],
    "$rows": lambda unpacker, number, _: unpacker.rows(number),
    "$complex": lambda unpacker, number, _: complex(unpacker.array(number)[()]),
    "$bytes": lambda unpacker, number, _: unpacker.array(number).tobytes(),
    "$arrays": lambda unpacker, number, _: unpacker.items(number),
    "$scalars": lambda unpacker, number, _: unpacker.items(number),
    "$floats": lambda unpacker, number, _: unpacker.numbers(number),
    "$ints": lambda unpacker, number, _: unpacker.numbers(number),
    "$bools": lambda unpacker, number, _: unpacker.numbers(number),
    "$tuple": lambda unpacker, content, depth: tuple(unpacker.all(content, depth)),
    "$graph": lambda unpacker, content, depth: GraphInstance(*unpacker.all(content, depth)),
    "$dict": lambda unpacker, content, depth: dict(unpacker.pairs(content, depth)),
    "$dicts": lambda unpacker, content, depth: unpacker.dicts(content, depth),
    "$strs": lambda unpacker, content, _: unpacker.strings(content),
    "$lists": lambda unpacker, content, depth: [list(row) for row in zip(*unpacker.all(content, depth), strict=True)],
    "$objects": lambda unpacker, content, depth: unpacker.objects(content, depth),
}


def _unstored(path: tuple[Any, ...], found: str, expected: str) -> StoreError:
    place = "".join(f"[{part!r}]" for part in path)
    return StoreError(
        f"{place or 'values'}: found {found}, expected {expected}. Convert the value before it is stored; nothing was written."
    )
