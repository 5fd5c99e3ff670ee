"""The columns of many agent episodes: found by name, joined into one batch, and errors for those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import add, attrgetter, eq
from typing import Any, SupportsIndex, cast

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.indexing import as_flag, as_int, as_list
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage
from episodia.episodes.lists.origins import ORIGINS
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import (
    DroppedHistoryError,
    EpisodeError,
    EpisodeIndexError,
    EpisodeKeyError,
    IndexTypeError,
    NotYetError,
    ShapeError,
)
from episodia.spaces import empty_batch
from episodia.stacking import joined_rows, object_array, stack
from episodia.trees import describe, fresh, map_batch
from episodia.types import Item

Rows = list[SingleAgentEpisode]

# The columns that every episode stores, and how to get them.
STORED: dict[str, Callable[[SingleAgentEpisode], LookbackBuffer]] = {
    Columns.OBS: attrgetter("observations"),
    Columns.INFOS: attrgetter("infos"),
    Columns.ACTIONS: attrgetter("actions"),
    Columns.REWARDS: attrgetter("rewards"),
}

# Columns that `flat` computes.
DERIVED = (Columns.TERMINATEDS, Columns.TRUNCATEDS, Columns.T)

_NOTHING = LookbackBuffer()


def columns_of(rows: Rows, column: str) -> list[LookbackBuffer]:
    """Return a stored column, or an extra model output, of each episode.

    Raises:
        EpisodeKeyError: If an episode with steps does not have it, or no episode has it.
    """
    if type(column) is not str:
        check_name(column)
    if column in STORED:
        return list(map(STORED[column], rows))
    try:
        return [row.extra_model_outputs[column] for row in rows]
    except KeyError:
        missing = next((row for row in rows if column not in row.extra_model_outputs and not _is_new(row)), None)
        if missing is None and any(column in row.extra_model_outputs for row in rows):
            # Episodes without a step have no extra columns yet, and nothing in them.
            return [row.extra_model_outputs.get(column, _NOTHING) for row in rows]
        missing = missing or rows[0]
        raise EpisodeKeyError(
            f"episode {missing.id_!r}: found no column {column!r}, expected it in all {len(rows)} episodes. It has "
            f"{sorted([*STORED, *DERIVED, *missing.extra_model_outputs], key=str)}."
        ) from None


def _is_new(row: SingleAgentEpisode) -> bool:
    return not row.rewards.len_incl_lookback()


def latest(rows: Rows, column: str) -> Any:
    """Return the last item of a column of each episode, as a batch.

    Raises:
        EpisodeIndexError: If an episode has no item in it.
    """
    columns = columns_of(rows, column)
    try:
        return _joined_latest(columns)
    except IndexError:
        check_started(rows, column, columns)
        raise


def extra_columns(rows: Rows) -> list[str]:
    """Return the names of the extra model outputs, those of all episodes together."""
    distinct = dict.fromkeys(tuple(row.extra_model_outputs) for row in rows)
    return list(dict.fromkeys(name for names in distinct for name in names))


def not_yet(column: str) -> NotYetError:
    """Return the error to raise if a column is asked for that the next step will add."""
    return NotYetError(
        f"found the column {column!r} asked for at the present moment, expected a column of observations or infos: what a step "
        "adds is not there yet. Ask for `windows` with negative shifts to see the past."
    )


def check_track(column: str) -> None:
    """Reject a column without an item after the last step.

    Raises:
        EpisodeError: If it is no column of observations or infos.
    """
    if column not in (Columns.OBS, Columns.INFOS):
        raise EpisodeError(
            f"flat: found `tail=True` for the column {column!r}, expected it for observations and infos only: other columns "
            "have no item after the last step. Leave it out."
        ) from None


def check_started(rows: Rows, column: str, columns: list[LookbackBuffer]) -> None:
    """Reject episodes without an item in a column of observations or infos.

    Raises:
        EpisodeIndexError: If there is such an episode.
    """
    for row, buffer in zip(rows, columns, strict=True):
        if not buffer.len_incl_lookback():
            problem = f"episode {row.id_!r}: found no item in the column {column!r}, expected one."
            raise EpisodeIndexError(f"{problem} Start the episode with `add_env_reset`.") from None


def space_of(rows: Rows, column: str) -> Space[Any] | None:
    """Return the space of the items of a column in the first episode, None if it is not known."""
    check_name(column)
    row = next(iter(rows), None)
    spaces = {} if row is None else {Columns.OBS: row.observation_space, Columns.ACTIONS: row.action_space}
    return spaces.get(column)


def preceding(columns: list[LookbackBuffer], counts: list[int], t_started: np.ndarray, first: Item) -> Any:
    """Return the item before each of `counts` steps of each column, one after another; `first` before an episode's first.

    Raises:
        DroppedHistoryError: If a chunk does not have the step before its first one any more.
    """
    lookbacks = [buffer.lookback for buffer in columns]
    check_kept(np.array(lookbacks, np.int64), t_started)
    starts = [lookback - 1 for lookback in lookbacks]
    return _joined_with_first(columns, starts, list(map(add, starts, counts)), first)


def with_item_at(places: np.ndarray, item: Item, values: Item) -> Any:
    """Write `item` into the rows of `values` at `places`, in place, and return the parts of `values` that `item` has."""

    def written(part: Any, leaf: np.ndarray) -> np.ndarray:
        leaf[places] = part
        return leaf

    return map_batch(written, item, values)


def check_kept(lookbacks: np.ndarray, t_started: np.ndarray) -> None:
    """Reject chunks that begin in the middle of an episode and do not have the step before.

    Raises:
        DroppedHistoryError: If there is such a chunk.
    """
    dropped = np.flatnonzero((lookbacks == 0) & (t_started > 0))
    if len(dropped):
        raise DroppedHistoryError(int(dropped[0]), 1, 0, int(t_started[dropped[0]]))


def values_and_places(
    columns: list[LookbackBuffer], shifts: Sequence[int], *, at_end: bool
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the items of all columns that windows can reach, one after another, and where they lie.

    Args:
        columns: One of each episode.
        shifts: How far windows reach.
        at_end: Whether there are windows at the end of each column only.

    Returns:
        The items; and for each column, how many of them are its past, and how many follow: two arrays int64 [B].
    """
    lookbacks = np.array([buffer.lookback for buffer in columns], np.int64)
    sizes = [buffer.len_incl_lookback() for buffer in columns]
    starts = _first_needed(shifts, sizes) if at_end else [0] * len(sizes)
    # An empty list would be taken for floats.
    past = lookbacks - np.array(starts, np.int64)
    return joined(columns, starts, sizes), past, np.array(sizes, np.int64) - lookbacks


def _first_needed(shifts: Sequence[int], sizes: list[int]) -> list[int]:
    """Return the position in each column before which a window at its end does not reach.

    >>> _first_needed([-2, 0], [10, 2])
    [7, 0]
    """
    # One more than the farthest shift: columns of steps end one earlier than those of observations.
    reach = 1 - min([0, *shifts])
    return [max(0, size - reach) for size in sizes]


def at_ends(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return False for each row, but the flag of its stretch for the last one.

    >>> at_ends(np.array([True, False, True]), np.array([0, 2, 3, 3]))
    array([False,  True, False])
    """
    flat = np.zeros(offsets[-1], np.bool_)
    ended = flags & (offsets[1:] > offsets[:-1])
    flat[offsets[1:][ended] - 1] = True
    return flat


def joined(columns: Sequence[LookbackBuffer], starts: Sequence[int], stops: Sequence[int]) -> Any:
    """Return the items of each column from its start to its stop, positions with the lookback counted, as one batch."""
    parts = _parts(columns, starts, stops)
    if not parts:
        return np.empty(0)
    kinds = set(map(type, parts))
    if kinds == {list}:
        return _from_items([item for part in parts for item in part], columns[0])
    if list in kinds:
        parts = [_from_items(part, columns[0]) if type(part) is list else part for part in parts]
    if list(starts) == list(stops):
        return parts[0]
    if any(map(eq, starts, stops)):
        # Columns without items need not know of what kind they would be.
        parts = [part for part, start, stop in zip(parts, starts, stops, strict=True) if start < stop]
    return concatenated(parts)


def joined_steps(rows: Rows, column: str, counts: list[int], *, tail: bool) -> Any:
    """Return the first `counts` items of a column of each episode after its lookback, as one batch.

    Raises:
        EpisodeError: If a column has not as many items as its episode has steps, because a user wrote into it.
    """
    columns = columns_of(rows, column)
    storages: list[Any] = [buffer.storage for buffer in columns]
    arrays: list[Any] = []
    if set(map(type, storages)) == {ArrayStorage}:
        arrays = [storage.alias for storage in storages]
        if set(map(type, arrays)) != {np.ndarray}:
            arrays = []
    sizes = list(map(len, arrays or storages))
    starts = [buffer.lookback for buffer in columns]
    stops = list(map(add, starts, counts))
    has_more = column in (Columns.OBS, Columns.INFOS) and not tail
    if sizes != ([stop + 1 for stop in stops] if has_more else stops):
        if tail:
            check_track(column)
            check_started(rows, column, columns)
        check_sizes(rows, column, columns)
    # Most columns are whole arrays without a lookback.
    if arrays and sizes == counts and 0 not in counts:
        return concatenated(arrays)
    return joined(columns, starts, stops)


def check_sizes(rows: Rows, column: str, columns: list[LookbackBuffer]) -> None:
    """Reject a column that has not as many items as its episode has steps.

    Raises:
        EpisodeError: With the episode and both lengths.
    """
    is_track = column in (Columns.OBS, Columns.INFOS)
    for row, buffer in zip(rows, columns, strict=True):
        steps = row.t - row.t_started
        expected = steps + is_track if steps or buffer.len_incl_lookback() else 0
        if len(buffer) != expected:
            raise EpisodeError(
                f"episode {row.id_!r}: found {len(buffer)} items in the column {column!r} after its lookback, expected "
                f"{expected} for {steps} steps. Write data of the same length with `data = ...`, or make a new episode."
            )


def _joined_with_first(columns: Sequence[LookbackBuffer], starts: list[int], stops: list[int], first: Item) -> Any:
    """Return what `joined` does, with the item `first` in front of each column whose start is -1."""
    parts = _parts(columns, [max(start, 0) for start in starts], stops)
    parts = [_from_items(part, columns[0]) if type(part) is list and part else part for part in parts]
    batches = [part for part in parts if type(part) is not list]

    def joined_leaves(item: Any, *leaves: np.ndarray) -> np.ndarray:
        row = np.asarray(item, leaves[0].dtype)[None] if leaves else np.asarray(item)[None]
        found = iter(leaves)
        pieces = [
            piece
            for part, start in zip(parts, starts, strict=True)
            for piece in (
                *((row,) if start < 0 else ()),
                *(() if type(part) is list else (next(found),)),
            )
        ]
        return np.concatenate(pieces) if pieces else np.empty((0, *row.shape[1:]), row.dtype)

    return map_batch(joined_leaves, first, *batches)


def _parts(columns: Sequence[LookbackBuffer], starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
    """Return the stored items of each column themselves, lists or batches."""
    # Straight from the storages: this is done for each column of each episode of each batch.
    storages = [column.storage for column in columns]
    if set(map(type, storages)) == {ArrayStorage}:
        arrays = [storage.alias for storage in cast(list[ArrayStorage], storages)]
        if set(map(type, arrays)) == {np.ndarray}:
            return [array[start:stop] for array, start, stop in zip(arrays, starts, stops, strict=True)]
    return [storage.lend(slice(start, stop)) for storage, start, stop in zip(storages, starts, stops, strict=True)]


def _joined_latest(columns: Sequence[LookbackBuffer]) -> Any:
    """Return the last item of each column, as one batch."""
    if not columns:
        return np.empty(0)
    rows = _latest_rows(columns)
    return _from_items(_latest_items(columns), columns[0]) if rows is None else rows


def _latest_rows(columns: Sequence[LookbackBuffer]) -> Any:
    """Return the last items if they are plain arrays, as they are while episodes run; else None.

    A module acts on them at every step, so each column is checked once, and items are checked only where columns differ.
    """
    space, items, alike = columns[0].space, [], True
    if columns[0].row_shape is None and space is not None:
        return None
    for column in columns:
        storage = column.storage
        if type(storage) is not ListStorage:
            return None
        alike = alike and storage.alike and column.space is space
        items.append(storage.values[-1])
    return joined_rows(items, alike=alike and space is not None)


def _latest_items(columns: Sequence[LookbackBuffer]) -> list[Any]:
    storages = [column.storage for column in columns]
    if set(map(type, storages)) == {ListStorage}:
        lists = cast(list[ListStorage], storages)
        if {storage.nested for storage in lists} == {False}:
            # As they are stored: a batch is made of copies.
            return [storage.values[-1] for storage in lists]
    return [column.get(-1) for column in columns]


def _from_items(items: list[Any], like: LookbackBuffer) -> Any:
    if like.holds_objects:
        return object_array([fresh(item) for item in items])
    if not items:
        return np.empty(0) if like.space is None else empty_batch(like.space)
    return stack(items, like.object_leaves)


def concatenated(parts: list[Any]) -> Any:
    """Return the rows of several batches as one batch.

    Raises:
        ShapeError: If they do not fit together.
    """
    if len(parts) == 1:
        return parts[0]
    try:
        if type(parts[0]) is np.ndarray:
            return np.concatenate(parts)
        return map_batch(lambda *leaves: np.concatenate(leaves), *parts)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        unlike = next((part for part in parts if describe_row(part) != describe_row(parts[0])), parts[-1])
        raise ShapeError(
            f"found episodes whose items do not fit together: rows of {describe_row(parts[0])} and of {describe_row(unlike)}. "
            "Expected one nesting and one shape in all episodes of a list. List them apart, or map them to other modules."
        ) from error


def describe_row(part: Item) -> str:
    """Return what one row of a batch looks like."""
    return describe(map_batch(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), part))


FLAGS = frozenset({Columns.TERMINATEDS, Columns.TRUNCATEDS})

# Columns that episodes do not store, because they follow from origins, flags and time steps.
COMPUTED = frozenset({Columns.T, *FLAGS, *ORIGINS})


_FARTHEST = 2**31


def check_name(column: Hashable) -> None:
    """Reject an object that cannot be the name of a column.

    Raises:
        EpisodeKeyError: If it cannot be looked up.
    """
    if type(column) is str:
        return
    # A tuple is hashable only if all its entries are.
    given: Any = column
    if not isinstance(given, Hashable) or isinstance(given, (tuple, frozenset)):
        raise EpisodeKeyError(
            f"found {describe(column)} as the name of a column, expected a string. Pass one of `Columns`, or the name of an "
            "extra model output."
        )


def position_in(count: int, index: SupportsIndex) -> int:
    """Return the position of the episode at `index` in a list of `count`.

    Raises:
        EpisodeIndexError: If it is out of range.
    """
    try:
        return range(count)[index]
    except IndexError:
        raise EpisodeIndexError(
            f"found the index {index}, expected one within the {count} episodes of this list."
        ) from None
    except TypeError:
        raise IndexTypeError(f"found the index {describe(index)}, expected an int or a slice.") from None


def check_asked(column: Hashable, tail: object) -> None:
    """Reject a wrong name or flag.

    Raises:
        EpisodeKeyError: If `column` is not a name.
        EpisodeError: If `tail` is not a flag.
    """
    check_name(column)
    if tail is not False and tail is not True:
        as_flag(tail, "tail")


def check_windows(column: Hashable, shifts: object, tail: object, every: object) -> None:
    """Reject wrong arguments of windows.

    Raises:
        EpisodeKeyError: If `column` is not a name.
        EpisodeError: If `tail` is not a flag, or `every` is not a number of steps.
        IndexTypeError: If `shifts` is not a list of integers.
    """
    check_asked(column, tail)
    if type(every) is not int or not 1 <= every < _FARTHEST:
        _check_every(every)
    if type(shifts) is not range:
        _check_shifts(shifts)


def _check_every(every: Any) -> None:
    is_whole = isinstance(every, (int, np.integer)) and not isinstance(every, bool)
    if not is_whole or not 1 <= every < _FARTHEST:
        raise EpisodeError(f"found `every={describe(every)}`, expected a number of steps from 1 up. Pass an int.")


def _check_shifts(shifts: Any) -> None:
    """Reject shifts that are not integers, or longer than any episode."""
    try:
        given: Any = shifts if type(shifts) is list else as_list(shifts)
        far = [shift for shift in given if not -_FARTHEST < as_int(shift) < _FARTHEST]
    except IndexTypeError as error:
        raise IndexTypeError(
            f"found `shifts={describe(shifts)}`, expected a list of integers, such as [-1, 0]: how many steps from each row. "
            f"({error})"
        ) from None
    if far:
        raise EpisodeError(f"found the shift {far[0]}, expected one within the length of an episode.")
