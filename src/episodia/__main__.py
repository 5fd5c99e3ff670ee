"""`python -m episodia`: the command line."""

import sys

from episodia.cli import main

if __name__ == "__main__":
    sys.exit(main())
