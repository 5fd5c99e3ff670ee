"""What all verbs share: how a verb is added, the numbers it reads, and the exit codes."""

from __future__ import annotations

import argparse
from typing import TypeAlias

# What `ArgumentParser.add_subparsers` returns; argparse gives its type no public name.
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

# Exit codes that the command line returns to the shell.
OK = 0
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells count it
BROKEN_PIPE = 141  # 128 + SIGPIPE


def add_verb(verbs: Verbs, name: str, description: str) -> argparse.ArgumentParser:
    """Add a verb to `verbs`, and return its parser."""
    return verbs.add_parser(
        name,
        help=description,
        description=f"{description[0].upper()}{description[1:]}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def positive(text: str) -> int:
    """Return a whole number of 1 or more."""
    return _whole_number(text, 1)


def natural(text: str) -> int:
    """Return a whole number of 0 or more."""
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if text.lstrip("-").isdecimal() and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got {text!r}")
