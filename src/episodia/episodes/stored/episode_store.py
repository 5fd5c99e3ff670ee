"""`EpisodeStore`: episodes on disk."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, final

from episodia.arguments import checked_path
from episodia.display.notebook_html import block, bytes_text, row, table
from episodia.episodes.lists.episode_list import Episode, EpisodeList, are_multi_agent, listed
from episodia.episodes.stored.stored_episodes import record_of
from episodia.episodes.stored.stored_list import StoredList
from episodia.errors import StoreError
from episodia.store import Damage, RowStore


@final
class EpisodeStore:
    """A directory to which episodes are appended as they come, all single-agent or all multi-agent.

    When `append` returns, the episodes are on the disk; a crash at any moment loses nothing that was appended before. Reading
    runs no code, checks every episode, and copies nothing: the arrays of an episode are the mapped files. One process may
    append at a time, and any number of processes may read in the meantime.

    Functions cannot be stored: an episode's `agent_to_module_mapping_fn` is the default one when it is read; the modules that
    its agents have been mapped to are stored.

    Args:
        path: The directory; it is made when episodes are first appended.

    >>> import tempfile
    >>> from episodia.episodes import SingleAgentEpisode
    >>> walk = SingleAgentEpisode("walk", observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> with EpisodeStore(f"{folder.name}/walks") as store:
    ...     store.append([walk])
    >>> EpisodeStore(f"{folder.name}/walks").episodes()[0]
    SingleAgentEpisode(len=2, return=1, id_='walk')
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        self._rows = RowStore(checked_path(StoreError, "EpisodeStore", "path", path))
        # Files are closed and the lock is released when the store is no longer used.
        self._closing = weakref.finalize(self, self._rows.close)

    def __reduce__(self) -> Any:
        # A copy, in another process as well, reads the same directory; files and locks stay here.
        return EpisodeStore, (self.path,)

    @property
    def path(self) -> Path:
        """The directory."""
        return self._rows.directory

    def append(self, episodes: Iterable[Episode]) -> None:
        """Store `episodes`; they are on the disk when this returns. Many at once are faster than one by one.

        Episodes are stored as they are, chunks and growing ones too; two chunks of one episode stay two.

        Raises:
            EpisodeError: If something else than episodes of one kind is among them.
            StoreError: If one holds a value that cannot be stored, if the store has episodes of the other kind, if another
                process is writing, or if the disk is full; nothing was stored then.
        """
        found = listed(episodes)
        is_multi_agent = are_multi_agent(found)
        writer = self._rows.open_writer()
        if found and len(self._rows) and self._is_multi_agent() != is_multi_agent:
            kind = "single-agent" if is_multi_agent else "multi-agent"
            raise StoreError(
                f"{self.path}: found episodes of the other kind to append, expected {kind} ones, because those are in the "
                "store. Store the others in a directory of their own."
            )
        self._rows.append([record_of(episode, writer) for episode in found])

    def episodes(self) -> EpisodeList[Any]:
        """Return all episodes that are stored now, also by other processes; an episode is read when it is asked for.

        Reading a damaged episode raises `DamagedStoreError`; the others can be read.

        Raises:
            StoreError: If there is no store in the directory, or if its schema or journal cannot be read.
        """
        self._rows.read_on()
        return StoredList(self._rows, range(len(self._rows)), is_multi_agent=self._is_multi_agent())

    def check(self) -> list[Damage]:
        """Read everything, and return what is damaged: nothing, if all is well.

        Raises:
            StoreError: If there is no store in the directory, or if its schema or journal cannot be read.
        """
        self._rows.read_on()
        return self._rows.check()

    def close(self) -> None:
        """Let other processes append; reading goes on, and so does appending, if no other process appends."""
        self._rows.close()

    @property
    def num_steps(self) -> int:
        """The number of steps of all episodes."""
        self._read_on()
        return sum(int((self._rows.meta(position) or {}).get("steps", 0)) for position in range(len(self._rows)))

    def __len__(self) -> int:
        self._read_on()
        return len(self._rows)

    def _read_on(self) -> None:
        if self._rows.exists:
            self._rows.read_on()

    def _is_multi_agent(self) -> bool:
        metas = map(self._rows.meta, range(len(self._rows)))
        return bool(next((meta.get("multi") for meta in metas if meta is not None), False))

    def __enter__(self) -> EpisodeStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EpisodeStore({str(self.path)!r})"

    def _repr_html_(self) -> str:
        facts = f"{len(self)} episodes, {self.num_steps} steps, {bytes_text(self._rows.num_bytes)}"
        rows = [
            row((column.path, column.dtype, str(list(column.shape)), bytes_text(column.row_bytes)))
            for column in self._rows.columns
        ]
        return block(f"{self!r}: {facts}", table(("column", "dtype", "shape of a row", "bytes of a row"), rows))
