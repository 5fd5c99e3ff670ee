"""`ReplayReader`: samples from the files of a buffer that another process writes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, final

import numpy as np

from episodia.arguments import checked_path, checked_seed, names_nearest_argument
from episodia.errors import ReplayError, StaleSampleError
from episodia.replay.draws.draw import Draw, DrawByModule
from episodia.replay.draws.transitions import Transitions
from episodia.replay.rows.row_storage import InMemory, MemoryMapped
from episodia.replay.samples.drawing import draw_sample
from episodia.replay.samples.sampled import Sampled
from episodia.replay.samples.sampled_modules import SampledModules
from episodia.replay.selectors.selector import Uniform
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
from episodia.space_codec import decode_space
from episodia.store import unpacked
from episodia.trees import describe
from episodia.types import ModuleID

# How long a reader lets a writer pass that wants to write; a writer that was killed does not come back.
_MOST_PAUSES = 100
_PAUSE_S = 2e-5


@names_nearest_argument
@final
class ReplayReader:
    """Samples, uniformly, from a buffer with `storage=MemoryMapped(path, shared=True)` that another process fills.

    Any number of processes may read. A sample is one of `ReplayBuffer.sample`: it is lazy, and reading rows that were
    overwritten meanwhile raises `StaleSampleError`; `sampled.load()` gathers all columns. Ids of episodes are those of this
    reader. Priorities are known to the writer alone.

    Args:
        path: The path of the buffer's storage.
        seed: The seed of all draws.
    """

    def __init__(self, path: str | Path, *, seed: int | None = None) -> None:
        where = "ReplayReader"
        self.path = checked_path(ReplayError, where, "path", path)
        self._rng = np.random.default_rng(checked_seed(ReplayError, where, seed))
        self._tables: dict[Any, Table] = {}
        self._numbers: dict[Any, np.ndarray] = {}
        self._serials: dict[Any, int] = {}
        self._counters: np.ndarray | None = None
        self._layout = 0
        self._lock = FileLock(self.path / LOCK_NAME)
        self._threads = RLock()
        self._depth = 0
        self._is_closed = False

    def sample(
        self,
        num: int,
        draw: Draw = Transitions(),  # noqa: B008  # frozen
        *,
        lookback: int = 0,
        modules: Collection[ModuleID] | None = None,
    ) -> Sampled | SampledModules:
        """Return `num` stretches of stored episodes for each module; see `ReplayBuffer.sample`.

        Raises:
            ReplayError: If there is no step that can be drawn, no shared buffer, or a change that was not written to its end.
        """
        if not isinstance(draw, DrawByModule):
            raise ReplayError(
                f"ReplayReader.sample: found `draw={describe(draw)}`, expected a draw that takes each module apart, such as "
                "`Transitions()` or `Sequences(20)`. Draw joint steps in the process that writes."
            )
        with self._reading():
            return draw_sample("ReplayReader.sample", self._tables, num, draw, lookback, modules, self._rng)

    @property
    def num_steps(self) -> int:
        """The number of stored steps of all modules together."""
        with self._reading():
            return sum(table.writer.index.num_steps for table in self._tables.values())

    def __len__(self) -> int:
        return self.num_steps

    def close(self) -> None:
        """Close the files; nothing can be read any more but samples that are loaded."""
        with self._threads:
            self._is_closed = True
            self._lock.close()
            self._tables, self._numbers, self._counters = {}, {}, None

    def __enter__(self) -> ReplayReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- Reading while no process writes ----------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Hold the lock until `end`, and see what is stored now; calls may be nested."""
        self._threads.acquire()
        try:
            if not self._depth:
                self._see()
            self._depth += 1
        except BaseException:
            self._threads.release()
            raise

    def end(self) -> None:
        """Let the writer write again."""
        self._depth -= 1
        if not self._depth:
            self._lock.release()
        self._threads.release()

    def _see(self) -> None:
        if self._is_closed:
            raise ReplayError(f"{self.path}: found a closed reader, expected an open one. Make another one.")
        counters = self._opened()
        for _ in range(_MOST_PAUSES):
            if counters[Counter.ASKED] == counters[Counter.COMMITTED]:
                break
            time.sleep(_PAUSE_S)
        self._lock.take(is_shared=True)
        try:
            if counters[Counter.BEGUN] != counters[Counter.COMMITTED]:
                raise ReplayError(
                    f"{self.path}: found a change that was not written to its end, because its process was killed or "
                    "interrupted. Expected whole rows. Let the writer call `clear()`, or load a saved buffer."
                )
            if counters[Counter.LAYOUT] != self._layout:
                self._read_layout()
                self._layout = int(counters[Counter.LAYOUT])
            for module_id, table in self._tables.items():
                numbers, claims = self._numbers[module_id], table.writer.ring
                claims.claimed, claims.used = int(numbers[Number.CLAIMED]), int(numbers[Number.USED])
                table.writer.index.num_steps = int(numbers[Number.STEPS])
        except BaseException:
            self._lock.release()
            raise

    def _opened(self) -> np.ndarray:
        if self._counters is None:
            try:
                self._counters = mapped(self.path / COUNTERS_NAME, np.dtype(np.int64), (len(Counter),), "r")
            except (OSError, ValueError) as error:
                raise ReplayError(
                    f"{self.path}: found no shared buffer ({error}), expected one. Make it with "
                    "`storage=MemoryMapped(path, shared=True)`, and add episodes, before it is read."
                ) from error
        return self._counters

    def _read_layout(self) -> None:
        layout = unpacked((self.path / LAYOUT_NAME).read_bytes(), [])
        tables = {}
        for module_id, part in zip(layout["modules"], layout["tables"], strict=True):
            is_same = self._serials.get(module_id) == part["number"]
            table = self._tables[module_id] if is_same else self._new_table(module_id, part)
            files = {name: (file, size) for name, file, size in part["index"]}
            for name, owner, attribute in index_arrays(table):
                setattr(owner, attribute, self._mapped(*files[name], getattr(owner, attribute).dtype))
            self._numbers[module_id] = self._mapped(*files["numbers"], np.dtype(np.int64))
            table.spaces = {name: decode_space(space) for name, space in part["spaces"].items()}
            for name, titles in part["columns"].items():
                table.columns.arrays[name] = self._column(titles, part["forms"])
            self._serials[module_id] = part["number"]
            tables[module_id] = table
        self._tables = tables

    def _new_table(self, module_id: ModuleID, part: dict[str, Any]) -> Table:
        lock = _TableLock(self, module_id, part["number"])
        table = Table(
            module_id, part["capacity"], evict=part["evict"], salt=0, selector=Uniform(), storage=InMemory(), lock=lock
        )
        table.writer.index.episodes.ids = _Ids(table)
        return table

    def _mapped(self, file: str, size: int, dtype: np.dtype[Any]) -> np.ndarray:
        return mapped(self.path / file, dtype, (size,), "r")

    def _column(self, titles: Any, forms: dict[str, Any]) -> Any:
        if isinstance(titles, dict):
            return {name: self._column(part, forms) for name, part in titles.items()}
        if isinstance(titles, tuple):
            return tuple(self._column(part, forms) for part in titles)
        shape, dtype = forms[titles]
        return mapped(MemoryMapped(self.path).file(titles), np.dtype(dtype), tuple(shape), "r")

    def check_serial(self, module_id: ModuleID, number: int) -> None:
        """Reject samples of a table that the writer has replaced.

        Raises:
            StaleSampleError: If it has.
        """
        if self._serials.get(module_id) != number:
            raise StaleSampleError(
                f"{self.path}: found a sample of a buffer that was loaded again meanwhile. Expected that it is read before. "
                "Draw another one, and call `sampled.load()` at once."
            )

    def __repr__(self) -> str:
        return f"ReplayReader({str(self.path)!r})"


@final
class _TableLock:
    """Held while rows of one table are read; each time, the table is brought up to date."""

    def __init__(self, reader: ReplayReader, module_id: ModuleID, number: int) -> None:
        self._reader, self._module_id, self._number = reader, module_id, number

    def __enter__(self) -> None:
        self._reader.begin()
        try:
            self._reader.check_serial(self._module_id, self._number)
        except BaseException:
            self._reader.end()
            raise

    def __exit__(self, *error: object) -> None:
        self._reader.end()


@final
class _Ids(dict[int, Any]):
    """Ids of episodes by their numbers: the true ids are known to the writer alone."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, episode: int) -> str:
        return f"episode-{int(self._table.writer.index.episodes.number[episode])}"
