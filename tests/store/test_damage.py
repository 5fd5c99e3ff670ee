"""Flipped bits, truncated, swapped and missing files: nothing is silently wrong, and what is whole can be read."""

import random
import shutil
import time
import tracemalloc
import warnings

import pytest

from episodia.episodes import EpisodeStore
from episodia.errors import DamagedStoreError, StoreError, StoreWarning
from episodia.store import RowStore, journal
from episodia.store.row_schema import schema_bytes
from stored_walks import check_noticed_or_same, numbered, read_all

COUNT = 8
FLIPS = 1_000
STRIDES = {".rows": 37, ".json": 5, ".jsonl": 3}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a directory with a store, written in three appends; tests must leave it as it was."""
    path = tmp_path_factory.mktemp("damage") / "store"
    with EpisodeStore(path) as store:
        for numbers in (range(3), range(3, 4), range(4, COUNT)):
            store.append(map(numbered, numbers))
    return path


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "store")


def files_of(path):
    return sorted(file for file in path.iterdir() if file.suffix in (".rows", ".json", ".jsonl"))


def rows_of(path):
    """Return the bytes of all rows that can be read, by position, and whether something was noticed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, noticed, store = {}, False, RowStore(path)
        try:
            store.read_on()
        except StoreError:
            return {}, True
        for position in range(len(store)):
            try:
                found[position] = [(part.dtype.str, part.shape, part.tobytes()) for part in store.rows(position)]
            except StoreError:
                noticed = True
    return found, noticed or bool(caught)


def check_flips(path, count, seed):
    """Flip single bits, one at a time."""
    choices, files, wanted = random.Random(seed), files_of(path), rows_of(path)[0]
    sizes = [file.stat().st_size for file in files]
    for _ in range(count):
        (file,) = choices.choices(files, sizes)
        content = file.read_bytes()
        place = choices.randrange(len(content))
        changed = bytearray(content)
        changed[place] ^= 1 << choices.randrange(8)
        file.write_bytes(changed)
        found, noticed = rows_of(path)
        file.write_bytes(content)
        assert noticed, f"{file.name}: a flip at byte {place} was not noticed"
        assert found == {position: wanted[position] for position in found}, f"{file.name}: a flip at byte {place}"


def test_s1_every_flipped_bit_is_noticed(copied):
    check_flips(copied, FLIPS, seed=0)


@pytest.mark.slow
def test_s1_ten_thousand_flipped_bits_are_noticed(copied):
    check_flips(copied, 10 * FLIPS, seed=1)


def test_s2_each_file_may_be_cut_anywhere(copied):
    wanted = rows_of(copied)[0]
    for file in files_of(copied):
        content = file.read_bytes()
        for size in range(0, len(content), STRIDES[file.suffix]):
            file.write_bytes(content[:size])
            found, noticed = rows_of(copied)
            assert noticed, f"{file.name}: a cut at byte {size} was not noticed"
            assert found == {position: wanted[position] for position in found}
        file.write_bytes(content)


def test_a_journal_that_was_cut_by_whole_lines_is_warned_of(copied):
    file = copied / journal.JOURNAL_NAME
    lines = file.read_bytes().splitlines(keepends=True)
    for count in range(COUNT):
        file.write_bytes(b"".join(lines[:count]))
        with pytest.warns(StoreWarning, match="the journal was cut, and episodes are missing"):
            found = EpisodeStore(copied).episodes()
        assert len(found) == count


@pytest.mark.parametrize("place", range(COUNT))
def test_a_line_that_is_missing_or_twice_costs_only_its_episode(copied, place):
    file = copied / journal.JOURNAL_NAME
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:place], *lines[place + 1 :]]))
    check_noticed_or_same(copied, COUNT)
    assert set(read_all(copied)[0]) == set(range(COUNT)) - {place}
    file.write_bytes(b"".join([*lines[: place + 1], *lines[place:]]))

    assert check_noticed_or_same(copied, COUNT)


@pytest.mark.parametrize("place", range(COUNT))
def test_a_damaged_line_costs_only_its_episode(copied, place):
    file = copied / journal.JOURNAL_NAME
    lines = file.read_bytes().splitlines(keepends=True)
    lines[place] = b"0" * (len(lines[place]) - 1) + b"\n"
    file.write_bytes(b"".join(lines))
    store = EpisodeStore(copied)
    with pytest.warns(StoreWarning, match=rf"damaged lines \[{place + 1}\]"):
        found = store.episodes()
    with pytest.raises(DamagedStoreError, match=rf"expected the one of episode {place} .*\[{place + 1}\]"):
        found[place]

    assert set(read_all(copied)[0]) == set(range(COUNT)) - {place}
    assert [(damage.file, damage.position) for damage in store.check()] == [("journal.jsonl", place)]


def test_nothing_is_appended_to_a_damaged_journal(copied):
    file = copied / journal.JOURNAL_NAME
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([b"damaged\n", *lines[1:]]))
    before = {file: file.read_bytes() for file in files_of(copied)}
    with pytest.warns(StoreWarning), pytest.raises(DamagedStoreError, match="to a new store"):
        EpisodeStore(copied).append([numbered(0)])

    assert {file: file.read_bytes() for file in files_of(copied)} == before


def test_s2_garbage_at_the_end_is_warned_of(copied):
    for file in files_of(copied):
        content = file.read_bytes()
        file.write_bytes(content + b"garbage")
        assert check_noticed_or_same(copied, COUNT), f"{file.name}: garbage was not noticed"
        file.write_bytes(content)


def test_s2_swapped_files_are_noticed(copied):
    rows = [file for file in files_of(copied) if file.suffix == ".rows"]
    contents = {file: file.read_bytes() for file in rows}
    for first in rows:
        for second in rows:
            if first < second:
                first.write_bytes(contents[second])
                second.write_bytes(contents[first])
                assert check_noticed_or_same(copied, COUNT), f"{first.name}, {second.name}"
                first.write_bytes(contents[first])
                second.write_bytes(contents[second])


def test_files_of_another_store_are_noticed(copied, tmp_path):
    with EpisodeStore(tmp_path / "other") as store:
        store.append(map(numbered, range(COUNT, 2 * COUNT)))
    for file in files_of(copied):
        content = file.read_bytes()
        file.write_bytes((tmp_path / "other" / file.name).read_bytes())
        # The schemas are the same.
        if file.suffix != ".json":
            assert check_noticed_or_same(copied, COUNT), f"{file.name} of another store was not noticed"
        file.write_bytes(content)


def test_s2_missing_files_are_noticed(copied):
    for file in files_of(copied):
        content = file.read_bytes()
        file.unlink()
        assert check_noticed_or_same(copied, COUNT), f"{file.name} is missing, and that was not noticed"
        file.write_bytes(content)


def test_an_older_schema_with_a_newer_journal_is_damage(copied):
    store = EpisodeStore(copied)
    store.episodes()
    (copied / "schema.json").write_bytes(schema_bytes(store._rows.columns[:2]))
    with pytest.raises(DamagedStoreError, match="schema is older"):
        EpisodeStore(copied).episodes()[0]


def test_a_link_in_place_of_a_file_is_not_followed(copied, tmp_path):
    for file in files_of(copied):
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        assert read_all(copied)[1]
        file.unlink()
        (tmp_path / "elsewhere").rename(file)


def test_a_journal_that_becomes_shorter_is_an_error(copied):
    store = EpisodeStore(copied)
    store.episodes()
    (copied / journal.JOURNAL_NAME).write_bytes(b"")
    with pytest.raises(DamagedStoreError, match="lines are only added"):
        store.episodes()


def test_a_store_of_a_later_version_is_rejected(copied):
    file = copied / "schema.json"
    file.write_bytes(file.read_bytes().replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(StoreError, match="found version 2 of the format"):
        EpisodeStore(copied).episodes()


def line(text):
    """Return a line of a journal with this text, and the right checksum."""
    return b"%08x %s\n" % (journal.zlib.crc32(text), text)


BOMBS = {
    "a nested line": line(b'{"seq":0,"meta":' + b"[" * 100_000 + b"]" * 100_000 + b',"parts":[]}'),
    "many rows": line(b'{"seq":0,"meta":{},"parts":[[0,0,281474976710655,0]]}'),
    "a far start": line(b'{"seq":0,"meta":{},"parts":[[0,281474976710655,1,0]]}'),
    "negative rows": line(b'{"seq":0,"meta":{},"parts":[[0,0,-1,0]]}'),
    "a far number": line(b'{"seq":1000000000000,"meta":{},"parts":[]}'),
    "a far column": line(b'{"seq":0,"meta":{},"parts":[[10000000,0,1,0]]}'),
    "half a part": line(b'{"seq":0,"meta":{},"parts":[[0,0]]}'),
    "no parts": line(b'{"seq":0,"meta":{"multi":false,"steps":1},"parts":[]}'),
    "many empty lines": b"\n" * 1_000_000,
    "some empty lines": b"\n" * 5_000,
    "zeros": bytes(1_000_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_s7_a_journal_from_elsewhere_is_rejected_quickly_and_with_little_memory(copied, name):
    (copied / journal.JOURNAL_NAME).write_bytes(BOMBS[name])
    begin = time.perf_counter()
    tracemalloc.start()
    found, noticed = read_all(copied)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert noticed
    assert not found
    assert peak < 100e6
    assert time.perf_counter() - begin < 30  # the machine may be busy
