"""`BatchView`: a batch whose columns are attributes, and whose rows are indexed, joined and split together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, final

import numpy as np
import torch

from episodia.arguments import checked_each, checked_whole
from episodia.columns import Columns
from episodia.episodes import EpisodeList
from episodia.errors import BatchError
from episodia.trees import describe, leaves, map_batch, rebuild_tuple, shortened


@final
class BatchView:
    """A read-only view of a batch: nested dicts of arrays or tensors that have one row for each step.

    Memory is shared. A column that has the name of a method, such as `keys`, is read with brackets.

    Args:
        batch: A batch that a pipeline has returned, or one module's part of it.

    >>> view = BatchView({"obs": {"x": np.arange(4), "y": np.zeros((4, 2))}, "rewards": np.ones(4)})
    >>> view.obs.x, len(view), view[1:3].obs.y.shape
    (array([0, 1, 2, 3]), 4, (2, 2))
    >>> [len(part) for part in view.split(3)], BatchView.cat([view, view[:1]]).obs.x
    ([3, 1], array([0, 1, 2, 3, 0]))
    """

    __slots__ = ("_columns",)

    def __init__(self, batch: Mapping[str, Any]) -> None:
        given: object = batch
        if not isinstance(given, Mapping) or not any(leaves(dict(given))):
            raise BatchError(
                f"BatchView: found {describe(batch)}, expected a dict of columns. Pass a batch of a pipeline."
            )
        columns = map_batch(_alias, {key: _plain(value) for key, value in batch.items()})
        lengths = {path: len(leaf) if leaf.ndim else None for path, leaf in leaves(columns)}
        if len(set(lengths.values())) > 1 or None in lengths.values():
            raise BatchError(
                f"BatchView: found columns of the lengths {shortened(str(lengths))}, expected one length. Columns that were "
                "padded and columns that were not cannot be viewed together; leave some out."
            )
        object.__setattr__(self, "_columns", columns)

    @classmethod
    def of(cls, episodes: EpisodeList[Any]) -> BatchView:
        """Return the steps of all episodes, or of a sample, one after another, with next observations and flags.

        >>> from episodia import SingleAgentEpisode
        >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], len_lookback_buffer=0)
        >>> view = BatchView.of(EpisodeList([walk]))
        >>> view.new_obs, view.actions
        (array([1, 2]), array([5, 6]))
        """
        given: object = episodes
        if isinstance(given, Mapping):
            raise BatchError("BatchView.of: found a dict, expected episodes. Pass a batch to `BatchView(batch)`.")
        episodes = EpisodeList.of(episodes)
        track = episodes.flat(Columns.OBS, tail=True)
        names = (Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS, *episodes.extra_columns())
        return cls(
            {
                Columns.OBS: track.take(track.step_rows()),
                Columns.NEXT_OBS: track.following().values,
                **{name: episodes.flat(name).values for name in names},
            }
        )

    @classmethod
    def cat(cls, views: Sequence[BatchView]) -> BatchView:
        """Return the rows of all `views`, one after another.

        Raises:
            BatchError: If their columns or the dtypes of these differ.
        """
        views = checked_each(BatchError, "BatchView.cat", "views", views, lambda view: isinstance(view, cls), "views")
        if not views:
            raise BatchError("BatchView.cat: found no views, expected at least one. Pass a list of them.")
        kinds = [[(path, leaf.dtype, leaf.shape[1:]) for path, leaf in leaves(view.to_dict())] for view in views]
        different = next((kind for kind in kinds if kind != kinds[0]), None)
        if different is not None:
            raise BatchError(
                f"BatchView.cat: found columns {shortened(str(different))}, expected {shortened(str(kinds[0]))}, those of "
                "the first view. Convert them first: nothing is cast."
            )
        return cls(map_batch(_joined, *(view.to_dict() for view in views)))

    def split(self, size: int, *, rng: np.random.Generator | None = None) -> Iterator[BatchView]:
        """Yield parts of `size` rows; the last one may be smaller.

        Args:
            size: The number of rows.
            rng: Shuffles the rows; by default they stay in order.
        """
        size = checked_whole(BatchError, "BatchView.split", "size", size, 1)
        if not isinstance(rng, (np.random.Generator, type(None))):
            raise BatchError(
                f"BatchView.split: found `rng={describe(rng)}`, expected a generator of NumPy. Pass one, or None."
            )
        order = np.arange(len(self)) if rng is None else rng.permutation(len(self))
        return (self[order[start : start + size]] for start in range(0, len(self), size))

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as nested dicts, which share the memory."""
        found: dict[str, Any] = map_batch(_same, self._columns)
        return found

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(leaves(self._columns))[1])

    def __getitem__(self, index: Any) -> Any:
        """Return a column by its name; or rows, by an index, a slice, an array of indices or of flags."""
        if isinstance(index, str):
            if index not in self._columns:
                raise BatchError(f"found the name {index!r}, expected one of {self.keys()}. Correct it.")
            return _viewed(self._columns[index])
        if isinstance(index, (int, np.integer)):
            # One row stays a batch, so that code for batches works on it.
            index = slice(int(index), int(index) + 1 or None)
            if not 0 <= (index.start + len(self) if index.start < 0 else index.start) < len(self):
                raise BatchError(f"found the row {index.start}, expected one within the {len(self)} rows. Correct it.")
        try:
            return BatchView(map_batch(_rows_at(index), self._columns))
        except (IndexError, TypeError, ValueError) as error:
            raise BatchError(
                f"found the index {describe(index)}, expected a name, an integer, a slice, or an array of indices within the "
                f"{len(self)} rows or of flags. Correct it."
            ) from error

    def __iter__(self) -> Iterator[BatchView]:
        """Iterate over the rows, each of them a view."""
        return (self[row] for row in range(len(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"found the name {name!r}, expected one of {self.keys()}.")
        return _viewed(self._columns[name])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise BatchError(
            f"found a new value for {name!r}, expected none: a view is read-only. Change `view.to_dict()`."
        )

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *filter(str.isidentifier, self._columns)})

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchView, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"BatchView({describe(self.to_dict())})"


def _plain(value: Any) -> Any:
    if isinstance(value, BatchView):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, tuple):
        return rebuild_tuple(value, map(_plain, value))
    return value if isinstance(value, torch.Tensor) else np.asarray(value)


def _alias(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf = leaf[...]
        leaf.setflags(write=False)
    return leaf


def _viewed(column: Any) -> Any:
    return BatchView(column) if isinstance(column, dict) else column


def _same(leaf: Any) -> Any:
    return leaf


def _rows_at(index: Any) -> Callable[[Any], Any]:
    def taken(leaf: Any) -> Any:
        is_plain = isinstance(leaf, np.ndarray) or (isinstance(index, slice) and (index.step or 1) > 0)
        # Tensors have no negative steps, and take no arrays of NumPy.
        return leaf[index] if is_plain else leaf[torch.from_numpy(np.arange(len(leaf))[index].copy())]

    return taken


def _joined(*parts: Any) -> Any:
    return torch.cat(parts) if isinstance(parts[0], torch.Tensor) else np.concatenate(parts)
