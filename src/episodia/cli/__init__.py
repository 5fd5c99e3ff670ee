"""The command line, `python -m episodia`: training, evaluating, and a first look at episodes."""

from episodia.cli.parser import main

__all__ = ["main"]
