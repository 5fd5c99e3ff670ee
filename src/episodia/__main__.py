"""`python -m episodia`: the command line."""

import io
import sys

from episodia.cli import main

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files may have characters that the terminal has not; that is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
