"""The short way of a vector step into a block, for all lanes at once."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from episodia.episodes.recorder.recorded_episode import Layout
from episodia.episodes.recorder.recorder_columns import RecorderColumn
from episodia.episodes.recorder.tape import Tape

_BOOL = np.dtype(np.bool_)


# Observations, actions, rewards, and which lanes are terminated and truncated.
Step: TypeAlias = tuple[Any, Any, Any, Any, Any]


class _Writer(NamedTuple):
    """Where one leaf goes, and what it has to look like.

    `rows[cursor]` is where all lanes are written that stand at `cursor`. `flat[places + ahead]` is where they are written
    if each stands at a place of its own.
    """

    rows: list[np.ndarray]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    flat: np.ndarray
    ahead: int


@final
class StepPlan:
    """All that is known of the next step, worked out once for a block.

    What does not look exactly as planned is left to the careful way, which says what is wrong or converts it. Nothing is
    visible of a step before the cursor moves, so a plan may stop in the middle.
    """

    __slots__ = ("_collectors", "_extras", "_is_plain", "_kinds", "_last_cursor", "_plain_extras", "_rows", "_writers")

    def __init__(self, layout: Layout, tape: Tape) -> None:
        """Plan for the columns of `layout`, which must be known and without objects, in the current block."""
        columns = layout.columns()
        self._writers = [writer for column in columns for writer in _writers(column, tape)]
        self._collectors = [column.collected for column in columns]
        self._extras = tuple(layout.extras)
        self._is_plain = all(column.is_plain for column in columns)
        self._last_cursor = tape.block.slots - 2
        flags = (tape.block.num_lanes,)
        first = self._writers[:3] if self._is_plain else []
        # What the dtypes and shapes of observations, actions, rewards and the two flags have to be.
        self._kinds = (*(writer.dtype for writer in first), _BOOL, _BOOL), (*(w.shape for w in first), flags, flags)
        # Plain tuples, because Python unpacks them several times faster than named ones.
        self._plain_extras = [
            (name, writer.rows, writer.dtype, writer.shape)
            for name, writer in zip(layout.extras, self._writers[3:] if self._is_plain else (), strict=False)
        ]
        # For each cursor, where observations, actions and rewards go.
        self._rows = list(zip(*(writer.rows for writer in first), strict=False))

    @classmethod
    def of(cls, layout: Layout, tape: Tape) -> StepPlan | None:
        """Return a plan; None if columns hold objects."""
        if any(leaf.is_object for column in layout.columns() for leaf in column.leaves):
            return None
        return cls(layout, tape)

    def write(self, tape: Tape, step: Step, extras: Any) -> bool:
        """Write a step of all lanes, and return whether everything was as planned.

        Every step of every runner comes by here, so what every step has is not left to a loop.

        Args:
            tape: Where the lanes stand.
            step: Observations, actions, rewards, and the two flags, which are looked at, but not written.
            extras: The extra model outputs by name.
        """
        cursor = tape.cursor
        if len(extras or ()) != len(self._extras):
            return False
        try:
            if cursor is None or not self._is_plain:
                return self._write_any(tape, step, extras)
            observations, actions, rewards, terminateds, truncateds = step
            dtypes, shapes = self._kinds
            if (
                cursor > self._last_cursor
                or (observations.dtype, actions.dtype, rewards.dtype, terminateds.dtype, truncateds.dtype) != dtypes
                or (observations.shape, actions.shape, rewards.shape, terminateds.shape, truncateds.shape) != shapes
            ):
                return False
            for_observations, for_actions, for_rewards = self._rows[cursor]
            for_observations[...] = observations
            for_actions[...] = actions
            for_rewards[...] = rewards
            for name, rows, dtype, shape in self._plain_extras:
                value = extras[name]
                if value.dtype != dtype or value.shape != shape:
                    return False
                rows[cursor][...] = value
        except (AttributeError, KeyError, TypeError):  # not an array, another name, not a dict
            return False
        return True

    def _write_any(self, tape: Tape, step: Step, extras: Any) -> bool:
        """Write nested columns, or lanes that stand at different slots."""
        flags = (tape.block.num_lanes,)
        if not tape.has_room() or any(flag.dtype != _BOOL or flag.shape != flags for flag in step[3:]):
            return False
        values = [*step[:3], *(extras[name] for name in self._extras)]
        if not self._is_plain:
            values = [leaf for collect, batch in zip(self._collectors, values, strict=True) for leaf in collect(batch)]
        cursor = tape.cursor
        places, next_places = (tape.places, tape.places + 1) if cursor is None else (None, None)
        for writer, value in zip(self._writers, values, strict=True):
            if value.dtype != writer.dtype or value.shape != writer.shape:
                return False
            if cursor is None:
                writer.flat[next_places if writer.ahead else places] = value
            else:
                writer.rows[cursor][...] = value
        return True


def _writers(column: RecorderColumn, tape: Tape) -> list[_Writer]:
    lanes, ahead = tape.block.num_lanes, 1 if column.is_track else 0
    return [
        _Writer(array.rows[ahead:], leaf.dtype, (lanes, *leaf.shape), array.flat, ahead)
        for leaf, array in zip(column.leaves, tape.block.leaves(column), strict=True)
    ]
