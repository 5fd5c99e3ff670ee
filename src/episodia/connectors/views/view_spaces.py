"""The space of what a view shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors.views.view import View
from episodia.episodes.columns.filling import spread
from episodia.errors import PipelineError
from episodia.spaces import short_name, structure_of
from episodia.types import Item


def space_of_view(
    view: View, observation_space: Space[Any] | None, action_space: Space[Any] | None
) -> Space[Any] | None:
    """Return the space of one row of `view`, None if it is not known.

    Raises:
        PipelineError: If rows are windows of what cannot be stacked.

    >>> space_of_view(View("obs", shift=range(-3, 1)), spaces.Discrete(5), None)
    MultiDiscrete([5 5 5 5])
    """
    known = {Columns.OBS: observation_space, Columns.ACTIONS: action_space}
    space = None if view.agent is not None else known.get(str(view.source))
    if space is None:
        return None
    fill = None if view.fill is None else spread(structure_of(space), view.fill)
    return _mapped(space, fill, len(view.shifts) if view.is_window else None)


def _mapped(space: Space[Any], fill: Item, count: int | None) -> Space[Any]:
    if isinstance(space, spaces.Dict):
        return spaces.Dict(
            {key: _mapped(child, None if fill is None else fill[key], count) for key, child in space.spaces.items()}
        )
    if isinstance(space, spaces.Tuple):
        fills = (None,) * len(space.spaces) if fill is None else fill
        return spaces.Tuple([_mapped(child, part, count) for child, part in zip(space.spaces, fills, strict=True)])
    if isinstance(space, spaces.Box):
        return _box(space, fill, count)
    if count is None:
        return space
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n] * count, dtype=_integers(space), start=[space.start] * count)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(
            np.stack([space.nvec] * count), dtype=_integers(space), start=np.stack([space.start] * count)
        )
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary([count, *(space.shape or ())])
    raise PipelineError(
        f"found a window over {short_name(space)}, expected a space of arrays, or Dicts and Tuples of these. Show one step "
        "only."
    )


def _integers(space: Any) -> Any:
    return np.dtype(space.dtype).type


def _box(space: spaces.Box, fill: Item, count: int | None) -> spaces.Box:
    low, high = space.low, space.high
    if fill is not None:
        # Rows before the first step are filled with it.
        low, high = np.minimum(low, fill).astype(low.dtype), np.maximum(high, fill).astype(high.dtype)
    if count is not None:
        low, high = np.stack([low] * count), np.stack([high] * count)
    return spaces.Box(low, high, dtype=space.dtype)
