"""Views in RLlib's spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space

from episodia.connectors.views.view import View
from episodia.episodes.columns.filling import item_near_zero
from episodia.errors import PipelineError


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
        PipelineError: If `space` is none, or an argument is not what `View` expects.

    >>> ViewRequirement("obs", shift="-3:0")
    View('obs', shift=range(-3, 1))
    >>> ViewRequirement("actions", shift=1, used_for_compute_actions=False)
    View('actions', shift=1, infer=False)
    """
    if space is not None and not isinstance(space, Space):
        raise PipelineError(
            f"ViewRequirement of {data_col!r}: found `space={space!r}`, expected a space of gymnasium, or None. Pass such "
            "a space."
        )
    return View(
        data_col,
        shift=shift,
        fill=None if space is None else item_near_zero(space),
        train=used_for_training,
        infer=used_for_compute_actions,
        every=batch_repeat_value,
    )
