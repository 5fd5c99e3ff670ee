"""The table of docs/reliability.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "reliability.md").read_text()


def test_the_table_names_files_that_exist():
    named = set(re.findall(r"`(tests/[\w/.]+\.py)`", TEXT))

    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def rows():
    """Yield the name of each row that has one, and the files in which the row says that it is tested."""
    files = []
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 6:  # of four columns, between five lines
            files = re.findall(r"`(tests/[\w/.]+\.py)`", cells[3]) + (files if "the same" in cells[3] else [])
            yield from ((name, tuple(files)) for name in re.findall(r"\b[AFHSD]\d+\b", cells[1]))


@pytest.mark.parametrize(("name", "files"), list(rows()))
def test_a_test_is_named_by_its_row(name, files):
    named = re.compile(rf"^(def test_{name.lower()}_|class Test{name}|Test{name})", re.MULTILINE)

    assert any(named.search((ROOT / path).read_text()) for path in files)


def test_each_row_that_a_test_is_named_by_is_in_the_table():
    named = {
        number.upper()
        for path in (ROOT / "tests").rglob("test_*.py")
        for number in re.findall(r"^def test_([fahsd]\d+)_", path.read_text(), re.MULTILINE)
    }

    assert named
    assert [row for row in sorted(named) if not re.search(rf"\b{row}\b", TEXT)] == []
