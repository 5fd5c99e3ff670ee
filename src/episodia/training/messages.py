"""Lines for whoever watches, on stderr. There may be nobody: that is no reason to lose a training."""

from __future__ import annotations

import sys
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> bool:
    r"""Write a line to `stream`, by default to stderr; return whether somebody can have read it.

    >>> import io
    >>> stream = io.StringIO()
    >>> say("saved", stream), stream.getvalue()
    (True, 'saved\n')
    """
    # None where a program has no terminal at all, and nowhere else to write to.
    target: TextIO | None = sys.stderr if stream is None else stream
    if target is None:
        return False
    try:
        target.write(f"{text}\n")
        target.flush()
    except (OSError, ValueError):  # The reader has gone, or somebody has closed it.
        return False
    return True
