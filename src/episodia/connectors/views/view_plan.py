"""Compiled views: all shifts of all views of a column form one index matrix, so the column is gathered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.pipelines.current_run import mark
from episodia.connectors.views.view import View
from episodia.episodes import Ragged
from episodia.episodes.columns.filling import ZEROS, Fills, item_near_zero
from episodia.episodes.lists.gather import taken
from episodia.episodes.lists.list_columns import FLAGS
from episodia.episodes.lists.origins import IDS, NUMBERS, UNKNOWN
from episodia.episodes.lists.ragged import offsets_of
from episodia.errors import BatchError, EpisodiaError
from episodia.spaces import ById
from episodia.trees import equal, map_batch
from episodia.types import Item


class Reader(Protocol):
    """Source that views read from: each agent's own episode, or the episode of another agent."""

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`; None if it is unknown."""

    def row_counts(self, *, tail: bool = False, every: int = 1) -> np.ndarray:
        """Return how many rows each agent episode has."""

    def windows(
        self, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
    ) -> Ragged | None:
        """Return the items at `shifts` from each row, `[N, K, ...]`; None if the shape of an item is unknown."""


@dataclass(frozen=True)
class Gather:
    """The views of one column that have the same rows.

    Attributes:
        source: The column.
        agent: The agent whose column is read; None for each agent's own column.
        every: The distance between the steps that have rows.
        shifts: The K distances of the one index matrix.
        fills: The fill value of each shift; None for the default of the space.
        picks: For each view, by name, the positions of its shifts among the K.
        shared: The views that share items with another view and therefore get a copy.
    """

    source: str
    agent: Any
    every: int
    shifts: tuple[int, ...]
    fills: tuple[Any, ...]
    picks: Mapping[str, int | slice | tuple[int, ...]]
    shared: frozenset[str]

    def columns(self, reader: Reader, *, tail: bool) -> dict[str, Ragged]:
        """Return the columns of all views; with `tail`, as tracks.

        Raises:
            BatchError: If the shape of an item is unknown.
        """
        try:
            from_space = _default_fill(self.source, reader.space_of(self.source))
            fills = Fills(tuple(from_space if fill is None else fill for fill in self.fills))
            column = reader.windows(self.source, shifts=self.shifts, fills=fills, tail=tail, every=self.every)
            if column is None:
                column = self._of_fills(reader, fills, from_space, int(tail))
        except EpisodiaError as error:
            mark(error, ", ".join(self.picks), None)
            raise
        if self.source == Columns.REWARDS:
            # Some environments return integer rewards; the column is always floating point.
            column = column.map(lambda leaf: leaf if leaf.dtype.kind == "f" else leaf.astype(np.float64))
        return {name: column.map(partial(self._picked, name)) for name in self.picks}

    def _picked(self, name: str, leaf: np.ndarray) -> np.ndarray:
        pick = self.picks[name]
        found = leaf[:, list(pick) if isinstance(pick, tuple) else pick]
        # Writing into one column of a batch must not change another.
        return found.copy() if name in self.shared else found

    def _of_fills(self, reader: Reader, fills: Fills, from_space: Any, tail: int) -> Ragged:
        """Return rows that hold only fill values. Shape and dtype come from the space, or else from the fill values."""
        counts = reader.row_counts(tail=bool(tail), every=self.every)
        offsets = offsets_of(counts)
        shape = (int(offsets[-1]), len(self.shifts))
        like = next((fill for fill in (from_space, *fills.items) if fill is not ZEROS), ZEROS)
        if like is not ZEROS:
            empty = map_batch(partial(_empty, self.source), like)
            values = taken(empty, np.zeros(shape, np.int64), np.ones(shape, np.bool_), fills)
        elif not (counts > tail).any():
            values = np.zeros(shape)
        else:
            raise BatchError(
                f"found no item of the column {self.source!r}{'' if self.agent is None else ' of the other agent'} in any "
                "episode, and no space, expected one of the two. Give the episodes their spaces, or the view a "
                "`fill` of the shape and dtype of an item, such as `fill=np.zeros(4, np.float32)`."
            )
        return Ragged(values, offsets, tail, self.every)


def compiled(views: Mapping[str, View]) -> list[Gather]:
    """Return one gather for each combination of source, agent and `every`.

    >>> views = {"last": View("obs", shift=-1), "frames": View("obs", shift=range(-3, 1))}
    >>> [gather] = compiled(views)
    >>> gather.shifts, gather.picks, gather.shared
    ((-3, -2, -1, 0), {'last': 2, 'frames': slice(0, 4, None)}, frozenset({'last'}))
    """
    groups: dict[tuple[str, Any, int], dict[str, View]] = {}
    for name, view in views.items():
        groups.setdefault((view.source or name, view.agent, view.every), {})[name] = view
    return [_gather_of(source, agent, every, group) for (source, agent, every), group in groups.items()]


def _gather_of(source: str, agent: Any, every: int, views: Mapping[str, View]) -> Gather:
    fills: list[Any] = []
    numbers = {name: _number_of(view.fill, fills) for name, view in views.items()}
    places = sorted({(numbers[name], shift) for name, view in views.items() for shift in view.shifts})
    found = {name: [places.index((numbers[name], shift)) for shift in view.shifts] for name, view in views.items()}
    return Gather(
        source=source,
        agent=agent,
        every=every,
        shifts=tuple(shift for _, shift in places),
        fills=tuple(fills[number] for number, _ in places),
        picks={name: _pick(found[name], views[name].is_window) for name in views},
        shared=_shared(found),
    )


def _number_of(fill: Item, known: list[Any]) -> int:
    for number, other in enumerate(known):
        if other is fill or (type(other) is type(fill) and equal(other, fill)):
            return number
    known.append(fill)
    return len(known) - 1


def _pick(places: list[int], is_window: bool) -> int | slice | tuple[int, ...]:
    if not is_window:
        return places[0]
    is_run = places == list(range(places[0], places[-1] + 1))
    return slice(places[0], places[-1] + 1) if is_run else tuple(places)


def _shared(places: Mapping[str, Iterable[int]]) -> frozenset[str]:
    """Return the views that must be copied because they overlap with a wider view, which keeps the memory."""
    taken_places: set[int] = set()
    shared = set()
    for name, own in sorted(places.items(), key=lambda item: -len(list(item[1]))):
        if taken_places & set(own):
            shared.add(name)
        taken_places |= set(own)
    return frozenset(shared)


def _default_fill(source: str, space: Space[Any] | None) -> Any:
    """Return the default fill value for steps at which an episode has no item of `source`."""
    if space is not None:
        return _near_zero(ById(space))
    if source in FLAGS:
        return False
    if source == Columns.T or source in NUMBERS:
        return UNKNOWN
    if source == Columns.REWARDS:
        return 0.0
    return None if source in IDS or source == Columns.INFOS else ZEROS


@lru_cache(maxsize=64)
def _near_zero(space: ById) -> Any:
    return item_near_zero(space.space)


def _empty(source: str, leaf: Item) -> np.ndarray:
    """Return an empty column with the item shape and dtype of `leaf`."""
    if source in IDS or source == Columns.INFOS:
        return np.empty(0, object)
    item = np.asarray(leaf)
    # Python floats have no dtype of their own; module outputs are float32.
    is_plain = type(leaf) is float and source != Columns.REWARDS
    dtype = np.dtype(np.float32) if is_plain else np.dtype(object) if item.dtype.kind in "USO" else item.dtype
    return np.empty((0, *item.shape), dtype)
