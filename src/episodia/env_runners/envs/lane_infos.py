"""Infos of all lanes in the forms in which they come: `{lane: info}`, or gymnasium's vector form."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.episodes.recorder.vector_infos import InfoEntry

Infos = dict[Any, Any]


def is_by_lane(infos: Infos) -> bool:
    """Tell whether `infos` are `{lane: info}`, as environments that we built return them."""
    return type(next(iter(infos), None)) is int


def recorded_infos(infos: Infos, num_lanes: int) -> Any:
    """Return `infos` as a recorder takes them.

    >>> recorded_infos({1: {"lives": 3}}, 2)
    [{}, {'lives': 3}]
    """
    return [infos.get(lane, {}) for lane in range(num_lanes)] if is_by_lane(infos) else infos


def infos_by_lane(infos: Infos, num_lanes: int) -> list[Infos]:
    """Return the info of each lane.

    >>> infos_by_lane({"lives": np.array([3, 0]), "_lives": np.array([True, False])}, 2)
    [{'lives': np.int64(3)}, {}]
    """
    if is_by_lane(infos):
        return [infos.get(lane, {}) for lane in range(num_lanes)]
    entry = InfoEntry.of(infos, range(num_lanes))
    return [{} if entry is None else entry.info(lane) for lane in range(num_lanes)]


def masks_of(infos: Infos, key: str, num_lanes: int) -> np.ndarray | None:
    """Return the action masks in `infos`, `[lanes, actions]`, or None if there are none.

    A lane without one allows everything.

    >>> masks_of({1: {"action_mask": np.array([0, 1])}}, "action_mask", 2)
    array([[1, 1],
           [0, 1]])
    """
    if not is_by_lane(infos):
        masks = infos.get(key)
        if not isinstance(masks, np.ndarray) or masks.dtype.hasobject:
            return None
        return np.where(_has(infos, key, num_lanes)[:, None], masks, 1)
    found = {lane: info[key] for lane, info in infos.items() if key in info}
    if not found:
        return None
    if len(found) == num_lanes:
        return np.stack([found[lane] for lane in range(num_lanes)])
    first = np.asarray(next(iter(found.values())))
    masks = np.ones((num_lanes, *first.shape), first.dtype)
    for lane, mask in found.items():
        masks[lane] = mask
    return masks


def _has(infos: Infos, key: str, num_lanes: int) -> np.ndarray:
    return np.asarray(infos.get(f"_{key}", np.ones(num_lanes, np.bool_)))
