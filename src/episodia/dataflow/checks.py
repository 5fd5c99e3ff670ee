"""When a training may stop; that is checked before anything is built, played or written."""

from __future__ import annotations

from episodia.arguments import checked_whole, is_number
from episodia.errors import TrainingError


def check_limits(where: str, steps: object, target: object) -> None:
    """Check when a training stops.

    Raises:
        TrainingError: If `steps` is no whole number, or if `target` is neither a number nor None.

    >>> check_limits("train", steps=100, target=None)
    """
    checked_whole(TrainingError, where, "steps", steps, 0)
    if target is not None and not is_number(target):
        raise TrainingError(
            f"{where}: found `target={target!r}`, expected a mean return to stop at, or None. Pass one of these."
        )
