"""Spaces as plain data (JSON values and arrays), compact for constant bounds; reading them runs no code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.errors import EpisodeError, EpisodiaError
from episodia.space_rules import rules_of
from episodia.spaces import Containers, containers_of, have_same_parts
from episodia.trees import frozen


def encode_space(space: Space[Any] | None) -> Any:
    """Return `space` as plain data; a space of a class outside of gymnasium is returned unchanged.

    The random state of the space is dropped.

    >>> encode_space(spaces.Box(0, 255, (84, 84, 4), np.uint8))
    {'space': 'Box', 'low': 0, 'high': 255, 'shape': [84, 84, 4], 'dtype': 'uint8'}
    """
    encoder = _ENCODERS.get(type(space))
    if encoder is None:
        return space
    return {"space": type(space).__name__, **encoder(space)}


def encoded_once(space: Space[Any] | None) -> Any:
    """Return the result of `encode_space`, computed once per space object; callers must not change it."""
    if space is None or type(space) not in _ENCODERS:
        return space
    rules = rules_of(space)
    if rules.encoded is None:
        rules.encoded = encode_space(space)
    return rules.encoded


def decode_space(data: object) -> Space[Any] | None:
    """Return the space that `encode_space` turned into `data`; its bounds are read-only.

    Equal data gives the same object, because episodes of one environment share its spaces, unless its parts were changed.
    """
    return None if data is None else _decode_any(data)


def _decode_any(data: Any) -> Space[Any]:
    if isinstance(data, Space):
        return data
    try:
        space, containers = _decode_cached(_hashable(data))
    except TypeError:  # arrays of bounds
        return _decode(data)
    return space if have_same_parts(containers) else _decode(data)


def _hashable(data: Any) -> Any:
    if isinstance(data, dict):
        return _Encoded((key, _hashable(value)) for key, value in data.items())
    return tuple(map(_hashable, data)) if isinstance(data, (list, tuple)) else data


class _Encoded(tuple[Any, ...]):
    """The entries of an encoded space as a cache key, because making a space costs more than reading it."""


@lru_cache(maxsize=256)
def _decode_cached(data: Any) -> tuple[Space[Any], Containers]:
    space = _decode(_thawed(data))
    return space, containers_of(space)


def _thawed(data: Any) -> Any:
    if isinstance(data, _Encoded):
        return {key: _thawed(value) for key, value in data}
    return list(map(_thawed, data)) if isinstance(data, tuple) else data


def _decode(data: Any) -> Space[Any]:
    decoder = _DECODERS.get(data.get("space")) if isinstance(data, dict) else None
    if decoder is None:
        raise EpisodeError(
            f"found {data!r}, expected a space made by `encode_space`, one of {sorted(_DECODERS)}. "
            "The state is damaged, or another program wrote it."
        )
    try:
        return decoder(data)  # type: ignore[no-any-return]  # a space
    except EpisodiaError:
        raise
    except Exception as error:  # gymnasium may raise anything
        raise EpisodeError(
            f"found {data!r}, expected a space made by `encode_space` ({type(error).__name__}: {error}). "
            "The state is damaged, or another program wrote it."
        ) from error


def _constant(array: np.ndarray) -> Any:
    """Return the one value of a constant array, or the array itself."""
    if array.size and (array == array.flat[0]).all():
        return array.flat[0].item()
    return array.copy()


def _constant_or_list(array: np.ndarray) -> Any:
    constant = _constant(array)
    return constant.tolist() if isinstance(constant, np.ndarray) else constant


_ENCODERS: dict[type, Any] = {
    spaces.Box: lambda s: {
        "low": _constant(s.low),
        "high": _constant(s.high),
        "shape": list(s.shape),
        "dtype": s.dtype.name,
    },
    spaces.Discrete: lambda s: {"n": int(s.n), "start": int(s.start), "dtype": s.dtype.name},
    spaces.MultiDiscrete: lambda s: {
        "nvec": _constant_or_list(s.nvec),
        "start": _constant_or_list(s.start),
        "shape": list(s.shape),
        "dtype": s.dtype.name,
    },
    spaces.MultiBinary: lambda s: {"n": s.n if isinstance(s.n, int) else list(map(int, s.n))},
    spaces.Text: lambda s: {
        "min_length": s.min_length,
        "max_length": s.max_length,
        "charset": "".join(s.character_list),
    },
    spaces.Dict: lambda s: {"spaces": [[key, encode_space(child)] for key, child in s.spaces.items()]},
    spaces.Tuple: lambda s: {"spaces": [encode_space(child) for child in s.spaces]},
    spaces.OneOf: lambda s: {"spaces": [encode_space(child) for child in s.spaces]},
    spaces.Sequence: lambda s: {"feature_space": encode_space(s.feature_space), "stack": s.stack},
    spaces.Graph: lambda s: {"node_space": encode_space(s.node_space), "edge_space": encode_space(s.edge_space)},
}


def _decode_box(data: dict[str, Any]) -> spaces.Box:
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    # gymnasium moves infinite bounds of integer boxes to the limits of the dtype; it keeps arrays unchanged.
    low, high = (
        np.full(shape, data[side], dtype) if np.ndim(data[side]) == 0 else np.asarray(data[side], dtype)
        for side in ("low", "high")
    )
    box = spaces.Box(low, high, shape, dtype.type)
    frozen(box.low)
    frozen(box.high)
    return box


def _decode_multi_discrete(data: dict[str, Any]) -> spaces.MultiDiscrete:
    # States of earlier versions have no shape, but complete lists.
    nvec, start = (
        np.full(data["shape"], data[name]) if "shape" in data and np.ndim(data[name]) == 0 else np.array(data[name])
        for name in ("nvec", "start")
    )
    space = spaces.MultiDiscrete(nvec, start=start, dtype=np.dtype(data["dtype"]).type)
    frozen(space.nvec)
    frozen(space.start)
    return space


_DECODERS: dict[Any, Any] = {
    "Box": _decode_box,
    "Discrete": lambda d: spaces.Discrete(d["n"], start=d["start"], **_integer_dtype(d["dtype"])),
    "MultiDiscrete": _decode_multi_discrete,
    "MultiBinary": lambda d: spaces.MultiBinary(d["n"]),
    "Text": lambda d: spaces.Text(d["max_length"], min_length=d["min_length"], charset=d["charset"]),
    "Dict": lambda d: spaces.Dict([(key, _decode_any(child)) for key, child in d["spaces"]]),
    "Tuple": lambda d: spaces.Tuple([_decode_any(child) for child in d["spaces"]]),
    "OneOf": lambda d: spaces.OneOf([_decode_any(child) for child in d["spaces"]]),
    "Sequence": lambda d: spaces.Sequence(_decode_any(d["feature_space"]), stack=d["stack"]),
    "Graph": lambda d: spaces.Graph(_decode_any(d["node_space"]), decode_space(d["edge_space"])),
}


def _integer_dtype(name: str) -> dict[str, Any]:
    # `Discrete` takes a dtype only in newer versions of gymnasium, where it may differ from the default.
    return {} if name == "int64" else {"dtype": np.dtype(name).type}
