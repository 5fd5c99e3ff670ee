"""Vector steps of a recorder: checks before anything is recorded, and the plan that writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from episodia.columns import Columns
from episodia.episodes.columns.rewards import REWARD_SPACE
from episodia.episodes.recorder.blocks import Tape
from episodia.episodes.recorder.recorder_columns import RecorderColumn, RecorderLayout, as_array
from episodia.episodes.single_agent.single_agent_columns import as_extras, names
from episodia.errors import EpisodeError, EpisodeIndexError, ShapeError
from episodia.space_rules import with_float32
from episodia.trees import describe
from episodia.types import Item

_BOOL = np.dtype(np.bool_)


# Observations, actions, rewards, and which lanes are terminated and truncated.
Step: TypeAlias = tuple[Any, Any, Any, Any, Any]


class _Writer(NamedTuple):
    """The destination of one leaf, and its expected form.

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
    """The plan of the next step, made once for a block: where each leaf goes, and its dtype and shape.

    A step that differs from the plan is left to the checks, which say what is wrong or convert it. A step is invisible
    before the cursor moves, so a plan may stop in the middle.
    """

    __slots__ = ("_collectors", "_extras", "_is_plain", "_kinds", "_last_cursor", "_plain_extras", "_rows", "_writers")

    def __init__(self, layout: RecorderLayout, tape: Tape) -> None:
        """Plan for the columns of `layout`, which must be known and without objects, in the current block."""
        columns = layout.columns()
        self._writers = [writer for column in columns for writer in _writers(column, tape)]
        # Of each column, what finds its leaves; None if it has one.
        self._collectors = [None if column.is_leaf else column.collected for column in columns]
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
    def of(cls, layout: RecorderLayout, tape: Tape) -> StepPlan | None:
        """Return a plan; None if columns hold objects."""
        if any(leaf.is_object for column in layout.columns() for leaf in column.leaves):
            return None
        return cls(layout, tape)

    def write(self, tape: Tape, step: Step, extras: Mapping[str, Item] | None) -> bool:
        """Write a step of all lanes, and return whether everything was as planned.

        Every step of every runner runs this code, so the columns that every step has are written without a loop.

        Args:
            tape: Where the lanes stand.
            step: Observations, actions, rewards, and the two flags, which are looked at, but not written.
            extras: The extra model outputs by name.
        """
        cursor, extras = tape.cursor, extras or {}
        if len(extras) != len(self._extras):
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
            found: list[Any] = []
            for collect, batch in zip(self._collectors, values, strict=True):
                found += [batch] if collect is None else collect(batch)
            values = found
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
        for leaf, array in zip(column.leaves, tape.block.leaves[column], strict=True)
    ]


Lanes: TypeAlias = Sequence[int] | np.ndarray | None
Values: TypeAlias = list[tuple[RecorderColumn, list[Any]]]


class StepInput(NamedTuple):
    """The arguments of `Recorder.step`."""

    observations: Any
    actions: Any
    rewards: Any
    terminateds: Any
    truncateds: Any
    infos: Any
    extras: Mapping[str, Any] | None


class Flags(NamedTuple):
    """The flags of the episodes of some lanes: two boolean arrays, one value for each lane."""

    terminateds: np.ndarray
    truncateds: np.ndarray


def chosen_lanes(lanes: Lanes, num_lanes: int) -> tuple[np.ndarray | None, Sequence[int]]:
    """Return `lanes` as an array, None for all of them in order, and as a sequence of numbers.

    Raises:
        EpisodeIndexError: If there is no such lane, or one is named twice.

    >>> chosen_lanes(np.array([False, True]), 2)
    (array([1]), [1])
    """
    if lanes is None:
        return None, range(num_lanes)
    found = np.asarray(lanes)
    if found.dtype == np.bool_ and found.shape == (num_lanes,):
        found = np.flatnonzero(found)
    if not found.size:
        found = np.zeros(0, np.int64)
    is_valid = found.ndim == 1 and found.dtype.kind in "iu" and len(set(found.tolist())) == len(found)
    if not is_valid or (found.size and not 0 <= found.min() <= found.max() < num_lanes):
        raise EpisodeIndexError(
            f"found the lanes {describe(lanes)}, expected different numbers from 0 to {num_lanes - 1}, or a boolean mask of "
            f"{num_lanes}. Nothing was recorded."
        )
    if found.size == num_lanes and (found == np.arange(num_lanes)).all():
        return None, range(num_lanes)
    return found, found.tolist()


def mask_of(name: str, flags: object, count: int) -> np.ndarray:
    """Return `flags` as a boolean array.

    Raises:
        ShapeError: If they are something else than `count` booleans.
    """
    array = flags if type(flags) is np.ndarray else as_array(flags, name)
    if array.shape != (count,) or (array.dtype != np.bool_ and count):
        raise ShapeError(
            f"{name}: found {describe(array)}, expected bool[{count}], one flag for each lane. Pass what `env.step` returned; "
            "nothing was recorded."
        )
    return array if array.dtype == np.bool_ else array.astype(np.bool_)


def flags_of(step: StepInput, count: int) -> Flags:
    """Return the flags of the end."""
    return Flags(
        mask_of(Columns.TERMINATEDS, step.terminateds, count), mask_of(Columns.TRUNCATEDS, step.truncateds, count)
    )


def lanes_that_begin(resets: object, lanes: Lanes, idle: set[int], num_lanes: int) -> list[int]:
    """Return the lanes that begin an episode with a step of `lanes`: all that are idle must, and no other.

    Raises:
        EpisodeError: If `resets` is another mask.

    >>> lanes_that_begin([False, True, False], None, {1}, 3)
    [1]
    """
    numbers: Sequence[int] = range(num_lanes) if lanes is None else chosen_lanes(lanes, num_lanes)[1]
    began: list[int] = [] if resets is None else mask_of("resets", resets, len(numbers)).nonzero()[0].tolist()
    needed = idle
    if lanes is not None:
        began, needed = [numbers[row] for row in began], idle.intersection(numbers)
    if len(began) != len(needed) or not needed.issuperset(began):
        raise EpisodeError(
            f"recorder: found a step with the resets of {began}, expected those of the lanes {sorted(needed)}, whose episodes "
            "have ended or not begun. Call `reset(..., lanes=...)` first, or pass `resets=` for environments that reset "
            "themselves at the next step; nothing was recorded."
        )
    return began


def observed(layout: RecorderLayout, observations: Item, count: int) -> tuple[RecorderLayout, list[Any]]:
    """Return the leaves of `observations`, and the layout, in which the first of them fix the column.

    Numbers in float64 are cast if the space says float32.
    """
    column, space = layout.observations, layout.observation_space
    if column is None:
        observations = observations if space is None else with_float32(space, observations)
        column = RecorderColumn.from_first(Columns.OBS, space, observations, is_track=True)
        layout = replace(layout, observations=column)
    try:
        return layout, column.flat(observations, count)
    except ShapeError:
        if space is None:
            raise
        return layout, column.flat(with_float32(space, observations), count)


def stepped(layout: RecorderLayout, step: StepInput, count: int, *, is_first: bool) -> tuple[RecorderLayout, Values]:
    """Return the leaves of a step by column, and the layout, in which the first data fixes a column.

    Args:
        layout: The columns so far.
        step: The arguments.
        count: How many lanes step.
        is_first: Whether this is the first step since the last `take`, at which extra columns may change.

    Raises:
        EpisodeError: If something does not fit.
    """
    layout, observations = observed(layout, step.observations, count)
    if layout.actions is None:
        layout = replace(
            layout,
            actions=RecorderColumn.from_first(Columns.ACTIONS, layout.action_space, step.actions),
            rewards=RecorderColumn.from_first(Columns.REWARDS, REWARD_SPACE, step.rewards),
        )
    extras = as_extras(step.extras)
    if extras.keys() != layout.extras.keys():
        layout = replace(layout, extras=_extra_columns(layout, extras, is_first=is_first))
    values: Values = [
        (layout.known_observations, observations),
        (layout.known_actions, layout.known_actions.flat(step.actions, count)),
        (layout.known_rewards, layout.known_rewards.flat(step.rewards, count)),
    ]
    return layout, values + [(column, column.flat(extras[name], count)) for name, column in layout.extras.items()]


def _extra_columns(layout: RecorderLayout, extras: Mapping[str, Any], *, is_first: bool) -> dict[str, RecorderColumn]:
    known = layout.extras
    if not is_first:
        raise EpisodeError(
            f"found the extra model outputs {names(extras)}, expected {names(known)} as in the steps before. Give the same "
            "names at each step, or `take()` the episodes first: new chunks may have other columns. Nothing was recorded."
        )
    return {
        name: known[name] if name in known else RecorderColumn.from_first(name, None, batch)
        for name, batch in extras.items()
    }
