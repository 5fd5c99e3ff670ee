"""The rows that a draw has taken, before any column is gathered."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, final

import numpy as np

from episodia.episodes.lists.ragged import even_offsets, offsets_of, rows_of_ranges


@final
class Drawn:
    """B stretches of consecutive steps, with the observation after each.

    Attributes:
        rows: For each stretch, the rows of its lookback, of its steps, and the one after its last step; flat.
        anchors: The row that each stretch was drawn for: of its step, or of the first step of a sequence without its burn-in;
            int64 [B].
        ends: The kind of the last step of each stretch: uint8 [B].
        lengths: The number of steps of each stretch: int64 [B].
        times: The time step of the first step of each stretch: int64 [B]; None if it has not been looked up, which is possible
            where the anchors are the first steps.
        lookbacks: How many rows of the past each part has: int64; None without lookbacks.
        added: Columns that the buffer does not store, such as weights: one row for each step.
        is_macro: Whether each stretch is one step that stands for several. It has two parts with a lookback each: the first
            ends with the observation of the step, the second with the observation after it.
        is_single: Whether each stretch has one step.
        width: The number of steps that each stretch has, if all have as many; else None.
        agents: The agents whose steps follow each other, of joint steps; else None.
        offsets: Where the steps of each stretch begin: int64 [B + 1].
        track_offsets: Where the observations of each stretch begin: int64 [B + 1].
        track_width: The number of observations that each stretch has, if all have as many; else None.
    """

    def __init__(  # noqa: PLR0913  # what is known of all stretches, array by array
        self,
        rows: np.ndarray,
        anchors: np.ndarray,
        ends: np.ndarray,
        lengths: np.ndarray,
        times: np.ndarray | None = None,
        lookbacks: np.ndarray | None = None,
        added: dict[str, np.ndarray] | None = None,
        *,
        is_macro: bool = False,
        is_single: bool = False,
        agents: list[Any] | None = None,
    ) -> None:
        self.rows = rows
        self.anchors = anchors
        self.ends = ends
        self.lengths = lengths
        self.times = times
        self.lookbacks = lookbacks
        self.added = {} if added is None else added
        self.is_macro = is_macro
        self.is_single = is_single
        self.agents = agents
        self.width = 1 if is_single else _width(lengths)
        if is_single and lookbacks is None:
            self.step_rows, self.track_rows = anchors, rows
        if self.width is None:
            self.track_width = None
            self.offsets, self.track_offsets = offsets_of(lengths), offsets_of(lengths + 1)
        else:
            self.track_width = self.width + 1
            self.offsets = even_offsets(len(lengths), self.width)
            self.track_offsets = even_offsets(len(lengths), self.track_width)

    def with_rows(self, rows: np.ndarray, added: dict[str, np.ndarray]) -> Drawn:
        """Return the same stretches with their rows at other places, and other added columns."""
        drawn = copy(self)
        drawn.rows, drawn.added = rows, added
        for name in ("parts", "step_rows", "track_rows"):
            drawn.__dict__.pop(name, None)
        return drawn

    @cached_property
    def parts(self) -> Parts:
        """The parts of the rows that are neighbours in time."""
        return Parts(self)

    @cached_property
    def step_rows(self) -> np.ndarray:
        """The row of each step: int64 [N]."""
        if self.width is not None and self.lookbacks is None:
            return self.rows.reshape(-1, self.width + 1)[:, :-1].reshape(-1)
        return self.parts.rows(is_track=False)

    @cached_property
    def track_rows(self) -> np.ndarray:
        """The row of each observation: int64 [N + B]."""
        return self.rows if self.lookbacks is None else self.parts.rows(is_track=True)


@final
class Parts:
    """The parts of the rows of a draw that are neighbours in time: its stretches, or two for each macro step.

    Attributes:
        lookbacks: The number of rows of the past of each part: int64 [S].
        steps: The number of steps of each part: int64 [S].
        tracks: The number of observations of each part: int64 [S].
    """

    def __init__(self, drawn: Drawn) -> None:
        self._rows = drawn.rows
        if drawn.is_macro:
            self.steps = np.tile(np.array([1, 0], np.int64), len(drawn.lengths))
            self.tracks = np.ones_like(self.steps)
        else:
            self.steps, self.tracks = drawn.lengths, drawn.lengths + 1
        self.lookbacks = np.zeros_like(self.steps) if drawn.lookbacks is None else drawn.lookbacks
        self._begins = offsets_of(self.lookbacks + self.tracks)[:-1]

    def counts(self, *, is_track: bool) -> np.ndarray:
        """Return how many items each part has, without its lookback."""
        return self.tracks if is_track else self.steps

    def rows(self, *, is_track: bool) -> np.ndarray:
        """Return the rows of the items of all parts, without their lookbacks."""
        return self._rows.take(rows_of_ranges(self._begins + self.lookbacks, self.counts(is_track=is_track)))

    def rows_with_past(self, *, is_track: bool) -> np.ndarray:
        """Return the rows of the items of all parts, with their lookbacks."""
        return self._rows.take(rows_of_ranges(self._begins, self.lookbacks + self.counts(is_track=is_track)))


def _width(lengths: np.ndarray) -> int | None:
    """Return the number of steps of all stretches if it is the same, else None."""
    first = int(lengths[0]) if len(lengths) else 0
    return first if first and (lengths == first).all() else None
