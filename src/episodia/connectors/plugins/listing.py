"""Installed connectors as text, and the commands of the command line that list and create connectors."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.plugins.connector_registry import CONNECTORS
from episodia.connectors.plugins.new_package import write_package
from episodia.errors import PluginError

_HEADERS = ("connector", "from", "reads", "writes", "lookback")


class Listing(NamedTuple):
    """The installed connectors.

    Attributes:
        rows: For each working connector: its name, its package, the columns it reads and writes, and its lookback.
        problems: One sentence for each broken plugin and for each name that several connectors have.
    """

    rows: list[tuple[str, ...]]
    problems: list[str]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(_HEADERS, *self.rows, strict=True)]
        lines = [_line(row, widths) for row in (_HEADERS, *self.rows)]
        return "\n".join(
            [*lines, *(["", "Problems:"] if self.problems else []), *(f"- {one}" for one in self.problems)]
        )


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def installed() -> Listing:
    """Return the installed connectors. A plugin that cannot be imported is listed as a problem; the others stay listed.

    >>> [row for row in installed().rows if row[0] == "ClipRewards"]
    [('ClipRewards', 'episodia', 'rewards', 'rewards', '0')]
    """
    rows = [_row(name, "episodia", found) for name, found in sorted(CONNECTORS.shipped.items())]
    problems = {plugin.name: CONNECTORS.clash_of(plugin.name) for plugin in CONNECTORS.plugins}
    texts = [f"connector {name!r}: {clash}." for name, clash in problems.items() if clash]
    for plugin in CONNECTORS.plugins:
        try:
            found = CONNECTORS.load(plugin)
        except PluginError as error:
            texts.append(str(error))
        else:
            rows.append(_row(plugin.name, plugin.package, found))
    return Listing(rows, texts)


def _row(name: str, package: str, found: type[ConnectorV2]) -> tuple[str, ...]:
    reads, writes, lookback = (getattr(found, attribute) for attribute in ("reads", "writes", "lookback"))
    return name, package, _columns(reads), _columns(writes), _steps(lookback)


def _columns(declared: Any) -> str:
    if declared is None:
        return "not declared"
    if not isinstance(declared, Collection):
        return "by its arguments"
    return ", ".join(sorted(map(str, declared))) or "-"


def _steps(declared: Any) -> str:
    return str(declared) if isinstance(declared, int) else "by its arguments"


_EXIT_OK = 0
_EXIT_PROBLEMS = 1


def list_connectors() -> int:
    """Print the installed connectors; return 1 if a plugin is broken or several connectors have one name."""
    listing = installed()
    sys.stdout.write(f"{listing}\n")
    return _EXIT_PROBLEMS if listing.problems else _EXIT_OK


def new_connector(options: Namespace) -> int:
    """Write a package with a connector called `options.name` into `options.out`, and print the next commands."""
    files = write_package(options.name, Path(options.out))
    root = files[0].parent
    sys.stdout.write("".join(f"{path}\n" for path in files))
    sys.stdout.write(f'\nNext:\n  cd {root}\n  python -m pip install -e ".[test]"\n  python -m pytest\n')
    return _EXIT_OK
