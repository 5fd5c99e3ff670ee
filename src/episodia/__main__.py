"""`python -m episodia`: the command line."""

import io
import sys

from episodia.cli import main

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The terminal may lack characters of file names; printing them must not fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
