# ruff: noqa: D102  # What a storage method promises stands once, in the abstract class.
"""Infos in the vector form of gymnasium, `{key: array, _key: mask}`, taken apart only when one is read.

A block keeps one entry for each vector step that had infos, and for each lane and slot the number of its entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from episodia.episodes.columns.storage import ObjectStorage, compact
from episodia.episodes.single_agent.single_agent_columns import as_infos
from episodia.errors import EpisodeError
from episodia.stacking import object_array
from episodia.trees import describe, own, own_info
from episodia.types import Item

# A dict in the vector form of gymnasium, or one dict for each lane.
VectorInfos: TypeAlias = Mapping[Any, Any] | Sequence[Mapping[Any, Any]] | np.ndarray | None


@final
class InfoEntry:
    """The infos of one vector step, in a private copy.

    >>> entry = InfoEntry.of({"lives": np.array([3, 0]), "_lives": np.array([True, False])}, [0, 1])
    >>> entry.info(0), entry.info(1)
    ({'lives': np.int64(3)}, {})
    """

    __slots__ = ("_infos", "_lanes")

    def __init__(self, infos: dict[Any, Any] | list[dict[Any, Any]], lanes: Sequence[int]) -> None:
        """Adopt `infos`, a dict in vector form or a list of dicts, whose rows belong to `lanes`."""
        self._infos = infos
        self._lanes = lanes

    @classmethod
    def of(cls, infos: VectorInfos, lanes: Sequence[int]) -> InfoEntry | None:
        """Return a private copy of `infos`; None if there is nothing in them.

        Raises:
            EpisodeError: If `infos` is neither a dict in vector form nor one dict for each lane.
        """
        if infos is None or (isinstance(infos, Mapping) and not infos):
            return None
        if isinstance(infos, Mapping):
            return cls({key: _private(value) for key, value in infos.items()}, lanes)
        if not isinstance(infos, (list, tuple, np.ndarray)) or len(infos) != len(lanes):
            raise EpisodeError(
                f"infos: found {describe(infos)}, expected a dict in the vector form of gymnasium or {len(lanes)} dicts, one "
                "for each lane. Pass what `env.step` returned."
            )
        ready = [as_infos(info) for info in infos]
        return cls(ready, lanes) if any(ready) else None

    def info(self, lane: int) -> dict[Any, Any]:
        """Return the info of one lane, in a dict of its own."""
        row = self._lanes.index(lane)
        if isinstance(self._infos, list):
            return dict(self._infos[row])
        return _row_of(self._infos, row, len(self._lanes))


def _private(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.ndim == 1:
        # Unlike in an observation, a list in an info stays a list.
        return object_array([own_info(entry) for entry in value])
    if isinstance(value, dict):
        return {key: _private(entry) for key, entry in value.items()}
    return own(value) if isinstance(value, np.ndarray) else own_info(value)


def _row_of(infos: Mapping[Any, Any], row: int, count: int) -> dict[Any, Any]:
    info = {}
    for key, value in infos.items():
        if isinstance(key, str):
            if key.startswith("_") and key[1:] in infos:
                continue  # the mask of another key
            mask = infos.get(f"_{key}")
            if mask is not None and not mask[row]:
                continue
        if isinstance(value, dict):
            info[key] = _row_of(value, row, count)
        elif isinstance(value, np.ndarray) and value.ndim and len(value) == count:
            info[key] = value[row]
        else:
            info[key] = value  # the same for all lanes
    return info


# Held while infos are made, so that several threads read the same ones. Making some may make others.
_MAKING = threading.RLock()


@final
class LazyInfos(ObjectStorage):
    """Infos that are made when they are first read; from then on an ordinary list. Several threads may read them.

    The slot `_items` of the base is left empty until then: Python calls `__getattr__` only for what is missing.
    """

    __slots__ = ("_length", "_make")

    def __init__(self, make: Callable[[], list[dict[Any, Any]]], length: int) -> None:
        """Keep `make`, which returns the `length` infos when they are first read."""
        self._make = make
        self._length = length
        self._num_empty = 0

    @property
    def is_made(self) -> bool:
        """Whether the infos have been read."""
        try:
            object.__getattribute__(self, "_items")
        except AttributeError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        if name != "_items":
            raise AttributeError(name)
        with _MAKING:
            if not self.is_made:
                self._items = compact(self._make())
                # Dropped, because it may keep a whole block alive.
                self._make = list
        return self._items

    def push(self, item: Item) -> None:
        self._list().append(item)

    def __len__(self) -> int:
        return len(self._items) if self.is_made else self._length

    def share(self, positions: slice) -> ObjectStorage:
        make = self._make
        if self.is_made:
            return super().share(positions)
        # Recorded infos do not change, so each list may make its own later.
        return LazyInfos(lambda: make()[positions], len(range(len(self))[positions]))
