"""The writer's side of a shared buffer: each change is made while no process reads, and readers see it afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

from episodia.replay.rows.row_storage import MemoryMapped, RowStorage
from episodia.replay.sharing.file_lock import FileLock
from episodia.replay.sharing.shared_files import (
    COUNTERS_NAME,
    LAYOUT_NAME,
    LOCK_NAME,
    Counter,
    Number,
    index_arrays,
    mapped,
)
from episodia.replay.table import Table
from episodia.space_codec import encode_space
from episodia.store import packed
from episodia.trees import map_batch
from episodia.types import ModuleID

Tables = Callable[[], Mapping[ModuleID, Table]]


class Changes(Protocol):
    """The frame around each change of the tables of a buffer."""

    def changing(self, tables: Tables) -> AbstractContextManager[None]:
        """Return a context in which tables change."""


_NOTHING = nullcontext()


@final
class Unshared:
    """Changes of a buffer without readers."""

    def changing(self, tables: Tables) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return _NOTHING


def changes_for(storage: RowStorage) -> Changes:
    """Return what to do around changes of a buffer with this storage."""
    if isinstance(storage, MemoryMapped) and storage.is_shared:
        return Publisher(storage)
    return Unshared()


@final
class Publisher:
    """Keeps the files of a shared buffer as its tables are."""

    def __init__(self, storage: MemoryMapped) -> None:
        self._storage = storage
        self._lock = FileLock(storage.path / LOCK_NAME)
        self._counters: np.ndarray | None = None
        self._num_files = 0
        # The present array of each name of each table, with its file, and what the layout says of each table.
        self._files: dict[tuple[ModuleID, str], tuple[np.ndarray, Path]] = {}
        self._known: dict[ModuleID, tuple[Table, int, list[str]]] = {}
        self._numbers: dict[ModuleID, np.ndarray] = {}
        self._num_tables = 0

    @contextmanager
    def changing(self, tables: Tables) -> Iterator[None]:
        """Let tables change while no reader reads. If they are torn afterwards, readers see that."""
        counters = self._begun()
        counters[Counter.ASKED] += 1
        self._lock.take(is_shared=False)
        counters[Counter.BEGUN] = counters[Counter.ASKED]
        try:
            yield
        finally:
            if not any(table.is_torn for table in tables().values()):
                self._publish(tables())
                counters[Counter.COMMITTED] = counters[Counter.BEGUN]
            self._lock.release()

    def _begun(self) -> np.ndarray:
        if self._counters is None:
            path = self._storage.path
            path.mkdir(parents=True, exist_ok=True)
            for name in (COUNTERS_NAME, LAYOUT_NAME):
                (path / name).unlink(
                    missing_ok=True
                )  # those of an earlier buffer; its readers keep what they have mapped
            self._counters = mapped(path / COUNTERS_NAME, np.dtype(np.int64), (len(Counter),), "w+")
        return self._counters

    def _publish(self, tables: Mapping[ModuleID, Table]) -> None:
        is_new = self._known.keys() != tables.keys()
        for module_id, table in tables.items():
            is_new |= self._put_in_files(module_id, table)
            claims = table.writer.ring
            self._numbers[module_id][:] = claims.claimed, claims.used, table.writer.index.num_steps
        if is_new:
            self._write_layout(tables)

    def _put_in_files(self, module_id: ModuleID, table: Table) -> bool:
        """Move arrays of the index that are not in files into files; tell whether readers need a new layout."""
        known, number, columns = self._known.get(module_id, (None, 0, []))
        is_new = known is not table or columns != list(table.columns)
        if known is not table:
            self._num_tables += 1
            number = self._num_tables
            self._numbers[module_id] = self._filed(module_id, "numbers", np.zeros(len(Number), np.int64))
        self._known[module_id] = (table, number, list(table.columns))
        for name, owner, attribute in index_arrays(table):
            array = getattr(owner, attribute)
            present = self._files.get((module_id, name))
            if present is None or present[0] is not array:
                setattr(owner, attribute, self._filed(module_id, name, array))
                is_new = True
        return is_new

    def _filed(self, module_id: ModuleID, name: str, array: np.ndarray) -> np.ndarray:
        """Return a copy of `array` that is mapped from a new file."""
        if (module_id, name) in self._files:
            self._files[module_id, name][1].unlink(missing_ok=True)
        self._num_files += 1
        path = self._storage.path / f"shared-{self._num_files}.{name}"
        made = mapped(path, array.dtype, array.shape, "w+")
        made[:] = array
        self._files[module_id, name] = (made, path)
        return made

    def _write_layout(self, tables: Mapping[ModuleID, Table]) -> None:
        parts = [self._layout_of(module_id, table) for module_id, table in tables.items()]
        target = self._storage.path / LAYOUT_NAME
        beside = target.with_suffix(".new")
        beside.write_bytes(packed({"modules": list(tables), "tables": parts}))
        os.replace(beside, target)  # noqa: PTH105  # `Path.replace` says less of what it is
        self._begun()[Counter.LAYOUT] += 1

    def _layout_of(self, module_id: ModuleID, table: Table) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        forms: dict[str, Any] = {}
        for name in table.columns:
            found = table.columns.titled_leaves(name, table.columns[name])
            forms.update({title: (list(leaf.shape), leaf.dtype.str) for title, leaf in found})
            titles = iter([title for title, _ in found])
            columns[name] = map_batch(lambda _, titles=titles: next(titles), table.columns[name])
        index = [
            [name, path.name, len(array)]
            for (module, name), (array, path) in self._files.items()
            if module == module_id
        ]
        return {
            "number": self._known[module_id][1],
            "capacity": table.capacity,
            "evict": table.writer.evict,
            "index": index,
            "columns": columns,
            "forms": forms,
            "spaces": {name: encode_space(space) for name, space in table.spaces.items()},
        }
