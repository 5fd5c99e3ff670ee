"""Action masks in the infos of environments: read, compared with the action space, and completed."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.env_runners.envs.vector_batches import Infos, masks_by_lane
from episodia.trees import describe


@final
class MaskReader:
    """Reads the masks of all lanes. Once a mask was seen, lanes without one allow everything, also where no lane has one.

    Args:
        key: Under which infos have masks; None if they do not.
        space: The action space of one lane.
        num_lanes: The number of lanes.

    Attributes:
        rejected: By lane, what is wrong with its mask; the lane cannot go on.
        are_new: Whether the last call of `read` has seen the first mask.

    >>> reader = MaskReader("action_mask", spaces.Discrete(2), 2)
    >>> reader.read({0: {"action_mask": np.array([1, 0])}}), reader.read({})
    (array([[1, 0],
           [1, 1]]), array([[1, 1],
           [1, 1]]))
    """

    def __init__(self, key: str | None, space: Space[Any], num_lanes: int) -> None:
        self._key = key
        self._width = _width_of(space)
        self._num_lanes = num_lanes
        self._row: np.ndarray | None = None  # that allows everything, in the dtype of the first mask
        self.rejected: dict[int, str] = {}
        self.are_new = False

    def read(self, infos: Infos) -> np.ndarray | None:
        """Return the masks of all lanes, `[lanes, actions]`; None before the first mask."""
        if not infos and self._row is None:
            self.are_new = False
            return None
        knew = self._row is not None
        found = masks_by_lane(infos, self._key, self._num_lanes) if infos and self._key is not None else {}
        fitting = {lane: mask for lane, mask in found.items() if self._fits(lane, mask)}
        self.are_new = not knew and self._row is not None
        if self._row is None:
            return None
        rows = np.repeat(self._row[None], self._num_lanes, 0)
        for lane, mask in fitting.items():
            rows[lane] = np.asarray(mask) != 0 if np.asarray(mask).dtype != rows.dtype else mask
        return rows

    def _fits(self, lane: int, mask: Any) -> bool:
        """Tell whether `mask` is one, and let the first one say how they look."""
        if mask is None:
            return False  # as no mask
        try:
            array = np.asarray(mask)
        except ValueError:
            array = np.empty(0, np.object_)
        width = self._width if self._row is None else len(self._row)
        is_mask = array.ndim == 1 and array.dtype.kind in "biuf" and (width is None or len(array) == width)
        if not is_mask or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            shape = "one number for each action" if width is None else f"{width} numbers, one for each action"
            self.rejected[lane] = (
                f"environment {lane}: found the action mask {describe(mask)} in an info, expected an array of {shape}. Correct "
                "the environment."
            )
            return False
        if self._row is None:
            self._row = np.ones(len(array), array.dtype)
        return True


def _width_of(space: Space[Any]) -> int | None:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else None


def lanes_without_action(space: Space[Any], masks: Any, num_lanes: int) -> list[int]:
    """Return the lanes whose row of `masks` allows no action; masks are nested as `space` is.

    >>> lanes_without_action(spaces.MultiDiscrete([2, 1]), np.array([[1, 0, 1], [1, 1, 0]]), 2)
    [1]
    """
    if isinstance(space, spaces.Dict):
        parts = [(child, masks.get(key)) for key, child in space.spaces.items()] if isinstance(masks, dict) else []
    elif isinstance(space, spaces.Tuple):
        parts = list(zip(space.spaces, masks, strict=False)) if isinstance(masks, tuple) else []
    else:
        return _rows_without_action(space, masks, num_lanes)
    return sorted({lane for child, part in parts for lane in lanes_without_action(child, part, num_lanes)})


def _rows_without_action(space: Space[Any], masks: Any, num_lanes: int) -> list[int]:
    width = _width_of(space)
    if width is None or masks is None or np.size(masks) != width * num_lanes:
        return []
    sizes = space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else [width]
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    is_allowed = np.asarray(masks).reshape(num_lanes, width) != 0
    return [int(lane) for lane in np.flatnonzero(~np.logical_or.reduceat(is_allowed, begins, axis=1).all(1))]
