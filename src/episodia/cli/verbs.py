"""Helpers of all verbs: adding a verb, reading numbers, exit codes."""

from __future__ import annotations

import argparse
from typing import TypeAlias

# What `ArgumentParser.add_subparsers` returns; argparse gives its type no public name.
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

# Exit codes that the command line returns to the shell.
OK = 0
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, the convention of shells
BROKEN_PIPE = 141  # 128 + SIGPIPE


def add_verb(verbs: Verbs, name: str, description: str) -> argparse.ArgumentParser:
    """Add a verb to `verbs`, and return its parser."""
    return verbs.add_parser(
        name,
        help=description,
        description=f"{description[0].upper()}{description[1:]}.",
        formatter_class=_Help,
    )


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows default values, except None and empty lists, which say nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default == []:
            return action.help
        return super()._get_help_string(action)


def positive(text: str) -> int:
    """Return `text` as an integer of at least 1."""
    return _whole_number(text, 1)


def natural(text: str) -> int:
    """Return `text` as an integer of at least 0."""
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if text.lstrip("-").isdecimal() and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
