"""Views in RLlib's spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gymnasium import Space

from episodia.connectors.view import View
from episodia.episodes.filling import item_near_zero
from episodia.errors import PipelineError

_RANGE = re.compile(r"\s*([+-]?\d+)\s*:\s*([+-]?\d+)\s*(?::\s*(\d+)\s*)?")


def ViewRequirement(  # noqa: N802  # the name that RLlib's users know; it makes a `View`
    data_col: str | None = None,
    space: Space[Any] | None = None,
    shift: int | str | Sequence[int] = 0,
    used_for_training: bool = True,
    used_for_compute_actions: bool = True,
    batch_repeat_value: int = 1,
) -> View:
    """Return the `View` that RLlib's class of this name describes.

    Args:
        data_col: The source; by default the column of the view's own name.
        space: What items look like. Steps that are not there are filled with its item that is closest to zeros.
        shift: An integer, a list of integers, or a range such as `"-50:-1"`, whose ends both count; `"-50:-1:2"` takes every
            second one of it.
        used_for_training: Whether learners see it.
        used_for_compute_actions: Whether it is seen at the moment of acting.
        batch_repeat_value: See `every` of `View`.

    Raises:
        PipelineError: If a string is no range, or an argument is not what `View` expects.

    >>> ViewRequirement("obs", shift="-3:0")
    View('obs', shift=range(-3, 1))
    >>> ViewRequirement("actions", shift=1, used_for_compute_actions=False)
    View('actions', shift=1, infer=False)
    """
    return View(
        data_col,
        shift=range_of(shift) if isinstance(shift, str) else shift,
        fill=None if space is None else item_near_zero(space),
        train=used_for_training,
        infer=used_for_compute_actions,
        every=batch_repeat_value,
    )


def range_of(text: str) -> range:
    """Return the range that a string such as `"-50:-1"` means; both ends count.

    Raises:
        PipelineError: If it is no such string, or if nothing is in the range.

    >>> list(range_of("0:3")), list(range_of("-6:-1:2"))
    ([0, 1, 2, 3], [-6, -4, -2])
    """
    match = _RANGE.fullmatch(text)
    if match:
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if first <= last and step > 0:
            return range(first, last + 1, step)
    raise PipelineError(
        f"found `shift={text!r}`, expected a range 'first:last' or 'first:last:step' whose last number is not below its first, "
        "such as '-50:-1'. Write it like that, or pass a list of integers."
    )
