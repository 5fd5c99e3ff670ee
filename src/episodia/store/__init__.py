"""Rows on disk: column files, a journal with checksums, one writer and any number of readers, and no pickle."""

from episodia.store.journal import Record
from episodia.store.packed_values import Rows, packed, unpacked
from episodia.store.record_writer import NewRecord
from episodia.store.row_store import Damage, RowStore
from episodia.store.snapshots import load_snapshot, save_snapshot

__all__ = ["Damage", "NewRecord", "Record", "RowStore", "Rows", "load_snapshot", "packed", "save_snapshot", "unpacked"]


def __dir__() -> list[str]:
    return sorted(__all__)
