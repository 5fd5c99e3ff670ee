"""What is checked of a training's state before any of it is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.errors import TrainingError

COUNTERS = ("iteration", "steps", "episodes")

_PARTS = ("runner", "learner", "progress")


def check_state(state: Mapping[str, Any]) -> None:
    """Check that `state` has all parts of a training's state, and that what it says about the progress makes sense.

    Raises:
        TrainingError: If not.
    """
    parts: object = state
    missing = [part for part in _PARTS if not (isinstance(parts, Mapping) and isinstance(parts.get(part), Mapping))]
    if missing:
        raise TrainingError(
            f"state of a training: found no dict for {missing}, expected what `get_state` returned. Pass that."
        )
    progress = state["progress"]
    counts, time_s, returns = (
        [progress.get(name) for name in COUNTERS],
        progress.get("time_s"),
        progress.get("recent_returns"),
    )
    if (
        not all(type(count) is int and count >= 0 for count in counts)
        or not isinstance(time_s, (int, float))
        or not isinstance(returns, (list, tuple))
        or not all(isinstance(each, (int, float)) for each in returns)
    ):
        raise TrainingError(
            f"state of a training: found {dict(progress)} as `progress`, expected the counts {list(COUNTERS)}, `time_s` and a "
            "list of `recent_returns`. Pass what `get_state` returned."
        )
