"""Every Python block of the README and of the guides in `docs/` is a test; one document shares its names."""

import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# Plots in documents and tests need no display. Set before anything imports matplotlib.
os.environ.setdefault("MPLBACKEND", "Agg")
# Small networks are fastest on one thread: several of them only wait for each other. Set before anything imports torch.
os.environ["OMP_NUM_THREADS"] = "1"

pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    excludes=["docs/decisions/*.md"],
).pytest()
