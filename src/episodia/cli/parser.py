"""The parser of the command line, and `main`, which runs a verb."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from episodia.cli import collect_verb as collecting
from episodia.cli import train_verbs as training
from episodia.cli.verbs import BROKEN_PIPE, INTERRUPTED, OK, USAGE, add_verb
from episodia.errors import EpisodiaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: The words after `python -m episodia`; None reads them from `sys.argv`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.verb is None:
        parser.print_help()
        return OK
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except EpisodiaError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # The reader (`head`, a pager) is gone. Python's own flush at exit must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _parser() -> argparse.ArgumentParser:
    # The console command has a file of its own name; `python -m` runs `__main__.py`.
    prog = "episodia" if Path(sys.argv[0]).stem == "episodia" else "python -m episodia"
    parser = argparse.ArgumentParser(prog=prog, description="Episode-centric data for reinforcement learning.")
    parser.add_argument("--version", action="version", version=importlib.metadata.version("episodia"))
    verbs = parser.add_subparsers(dest="verb", metavar="verb")
    training.add_verbs_to(verbs)
    collecting.add_verb_to(verbs)
    connectors = add_verb(verbs, "connectors", "list the installed connectors, with what each reads and writes")
    connectors.set_defaults(run=_connectors)
    plugin = add_verb(verbs, "new-connector", "write a small package with your own connector")
    plugin.add_argument("name", help="name of the class, such as AddWind")
    plugin.add_argument("--out", default=".", metavar="DIR", help="folder in which the package is created")
    plugin.set_defaults(run=_connectors)
    return parser


def _connectors(options: argparse.Namespace) -> int:
    from episodia.connectors.plugins import listing as command_line  # noqa: PLC0415  # imports torch

    return command_line.list_connectors() if options.verb == "connectors" else command_line.new_connector(options)
