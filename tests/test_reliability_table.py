"""The table of docs/reliability.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "reliability.md").read_text()


def test_the_table_names_files_that_exist():
    named = set(re.findall(r"`(tests/[\w/.]+\.py)`", TEXT))

    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_each_row_that_a_test_is_named_by_is_in_the_table():
    named = {
        number.upper()
        for path in (ROOT / "tests").rglob("test_*.py")
        for number in re.findall(r"^def test_([fahsd]\d+)_", path.read_text(), re.MULTILINE)
    }

    assert named
    assert [row for row in sorted(named) if not re.search(rf"\b{row}\b", TEXT)] == []
