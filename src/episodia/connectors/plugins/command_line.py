"""What the command line does about connectors; `episodia.cli` imports it when one of its verbs is called."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from episodia.connectors.plugins.entry_points import registry
from episodia.connectors.plugins.listing import installed
from episodia.connectors.plugins.new_package import write_package

EXIT_OK = 0
EXIT_PROBLEMS = 1


def list_connectors() -> int:
    """Show the installed connectors; return 1 if a plugin is broken or a name is claimed twice."""
    listing = installed(registry())
    sys.stdout.write(f"{listing}\n")
    return EXIT_PROBLEMS if listing.problems else EXIT_OK


def new_connector(options: Namespace) -> int:
    """Write a package with a connector called `options.name` into `options.out`, and show what to do next."""
    files = write_package(options.name, Path(options.out))
    root = files[0].parent
    sys.stdout.write("".join(f"{path}\n" for path in files))
    sys.stdout.write(f'\nNext:\n  cd {root}\n  python -m pip install -e ".[test]"\n  python -m pytest\n')
    return EXIT_OK
