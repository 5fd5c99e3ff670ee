"""Nested states as strict JSON values, with tensors and arrays stored separately under numbers.

Dicts, lists, strings, numbers, booleans and None are plain JSON. All other values are dicts whose first key begins with `$`
and names the type; keys of the state that begin with `$` get a second `$`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from torch import Tensor

from episodia.checkpoints.checkpoint_limits import (
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    MAX_KEY_LENGTH,
    MAX_TENSORS,
)
from episodia.checkpoints.tensor_file import array_from, array_tensor, scalar_from, tensor_copy, tensor_from
from episodia.errors import CheckpointError

_MARK = "$"
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# Pairs of surrogates: JSON would join each pair into another character.
_JOINED = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def encoded(state: object) -> tuple[Any, dict[str, Tensor]]:
    """Return `state` as JSON values, and its tensors and arrays by the numbers that refer to them.

    Raises:
        CheckpointError: If it is not a dict, or if a value has another type or is too large; the message says where.

    >>> encoded({"weights": np.zeros(2, np.float32), "steps": 3})
    ({'weights': {'$array': '0'}, 'steps': 3}, {'0': tensor([0., 0.])})
    """
    if not isinstance(state, Mapping):
        raise _unsaved((), f"a {type(state).__name__}", "a dict")
    encoder = _Encoder()
    return encoder.value(state, ()), encoder.tensors


def decoded(value: object, tensors: dict[str, Tensor], where: str) -> dict[str, Any]:
    """Return the state that `encoded` turned into `value` and `tensors`; `where` names the file in messages.

    Raises:
        CheckpointError: If they are not from `encoded`.
    """
    decoder = _Decoder(tensors, where)
    state = decoder.value(value, 0)
    if decoder.left:
        raise decoder.error(f"unused tensors {sorted(decoder.left)[:3]}", "each tensor to be used once")
    if not isinstance(state, dict):
        raise decoder.error(f"a {type(state).__name__}", "a dict")
    return state


@final
class _Encoder:
    """Turns a state into JSON values, and collects its tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def value(self, value: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > MAX_DEPTH:
            raise _unsaved(path[:4], f"more than {MAX_DEPTH} levels", "fewer")
        kind = type(value)
        if isinstance(value, (np.ndarray, np.generic, Tensor)):
            return self._leaf(value, path)
        if kind is float and not math.isfinite(value):
            return {"$float": str(value)}
        if kind is int and value.bit_length() > MAX_INTEGER_BITS:
            raise _unsaved(path, f"an integer of {value.bit_length()} bits", f"at most {MAX_INTEGER_BITS}")
        if kind is str and _JOINED.search(value):
            raise _unsaved(path, f"the string {ascii(value)[:40]}", "one without pairs of surrogates")
        if kind in (str, int, float, bool, type(None)):
            return value
        if kind is list:
            return self._all(value, path)
        if kind is tuple:
            return {"$tuple": self._all(value, path)}
        if isinstance(value, Mapping):
            return {self._key(key, path): self.value(child, (*path, key)) for key, child in value.items()}
        raise _unsaved(path, f"a {kind.__name__}", "JSON values, tuples, NumPy arrays and tensors")

    def _all(self, values: Any, path: tuple[Any, ...]) -> list[Any]:
        return [self.value(child, (*path, position)) for position, child in enumerate(values)]

    def _key(self, key: Any, path: tuple[Any, ...]) -> str:
        if type(key) is not str or len(key) > MAX_KEY_LENGTH or _JOINED.search(key):
            wanted = f"strings of at most {MAX_KEY_LENGTH} characters as keys, without pairs of surrogates"
            raise _unsaved(path, f"the key {ascii(key)[:40]}", wanted)
        return _MARK + key if key.startswith(_MARK) else key

    def _leaf(self, value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
        # Keys of the state cannot be names in the file, which does not allow all characters.
        name = str(len(self.tensors))
        if len(self.tensors) >= MAX_TENSORS:
            raise _unsaved(path, f"more than {MAX_TENSORS} tensors and arrays", "fewer")
        try:
            if isinstance(value, Tensor):
                self.tensors[name] = tensor_copy(value)
                return {"$tensor": name}
            self.tensors[name], form = array_tensor(np.asarray(value))
        except CheckpointError as error:
            raise CheckpointError(f"{_place(path)}: {error}") from None
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": name, **form}


@final
class _Decoder:
    """Turns JSON values and tensors back into a state."""

    def __init__(self, tensors: dict[str, Tensor], where: str) -> None:
        self.left = dict(tensors)
        self._where = where

    def value(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} levels", "fewer")
        if isinstance(value, list):
            return [self.value(child, depth + 1) for child in value]
        if not isinstance(value, dict):
            return value
        # One more character than the encoder allows: a mark in front of the key.
        if any(len(key) > MAX_KEY_LENGTH + 1 for key in value):
            raise self.error("a key that is too long", f"keys of at most {MAX_KEY_LENGTH} characters")
        mark = next((key for key in value if key.startswith(_MARK) and not key.startswith(_MARK * 2)), None)
        if mark is not None:
            return self._marked(mark, value, depth)
        return {key[1:] if key.startswith(_MARK) else key: self.value(child, depth + 1) for key, child in value.items()}

    def _marked(self, mark: str, value: dict[str, Any], depth: int) -> Any:
        content = value[mark]
        if mark == "$tuple" and isinstance(content, list) and len(value) == 1:
            return tuple(self.value(child, depth + 1) for child in content)
        if mark == "$float" and isinstance(content, str) and content in _NOT_FINITE and len(value) == 1:
            return _NOT_FINITE[content]
        if mark == "$tensor" and len(value) == 1:
            return self._leaf(content, tensor_from)
        if mark in ("$array", "$scalar"):
            form = {key: child for key, child in value.items() if key != mark}
            made = array_from if mark == "$array" else scalar_from
            return self._leaf(content, lambda tensor: made(tensor, form))
        raise self.error(f"an entry {mark[:40]!r}", "an entry that this version of the library writes")

    def _leaf(self, name: Any, made: Callable[[Tensor], Any]) -> Any:
        if not isinstance(name, str) or name not in self.left:
            raise self.error(f"the tensor {repr(name)[:80]}, which is missing or used twice", "each tensor once")
        try:
            return made(self.left.pop(name))
        except CheckpointError as error:
            raise self.error(f"the tensor {name!r}, which cannot be read ({error})", "a tensor of a state") from None

    def error(self, found: str, expected: str) -> CheckpointError:
        return CheckpointError(
            f"{self._where}: found {found}, expected {expected}. Another program wrote the file; use another checkpoint."
        )


def _place(path: tuple[Any, ...]) -> str:
    return "state" + "".join(f"[{part!r}]" for part in path)


def _unsaved(path: tuple[Any, ...], found: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"{_place(path)}: found {found}, expected {expected}. Convert it before saving; nothing was written."
    )
