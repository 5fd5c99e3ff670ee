"""The command line: `python -m episodia`, and the command `episodia`."""

import io
import sys

from episodia.cli import main


def run() -> int:
    """Run the command line with the words of the shell, and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The terminal may lack characters of file names; printing them must not fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    return main()


if __name__ == "__main__":
    sys.exit(run())
