"""Views: items of a column that a module sees at fixed distances from each step. Includes RLlib's `ViewRequirement`."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, final

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import is_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.episodes.columns.filling import item_near_zero, spread
from episodia.episodes.lists.origins import AT_STEPS, ORIGINS
from episodia.errors import PipelineError
from episodia.spaces import short_name, structure_of
from episodia.trees import describe, equal, shown
from episodia.types import Item

# Columns whose current item is known when a module acts; items of all other columns arrive with the next step.
_KNOWN_WHEN_ACTING: Final = frozenset({Columns.OBS, Columns.INFOS, Columns.T, *ORIGINS}) - AT_STEPS

_RANGE = re.compile(r"\s*([+-]?\d+)\s*:\s*([+-]?\d+)\s*(?::\s*(\d+)\s*)?")


@names_nearest_argument
@final
@dataclass(frozen=True, eq=False, repr=False)
class View:
    """Items of a column at fixed distances from each step.

    Row t of the view is item `t + shift` of its source. Observations, infos, time steps, ids and indices have one item
    more than there are steps: action t is chosen after `obs[t]` and yields `rewards[t]`. When a module acts, t is the current
    step.

    Args:
        source: The column to read: one of `Columns` (observations, actions, rewards, infos, flags, `T`, `EPS_ID`,
            `AGENT_ID`, `MODULE_ID`, `ENV_INDEX`, `AGENT_INDEX`, `WEIGHTS_VERSION`, `FRAGMENT_ID`), or the name of an extra
            model output. None reads the column with the view's own name.
        shift: A distance in steps, for one item per row, `[B, ...]`; or K distances for K items per row, `[B, K, ...]`: a
            list, a range, or a string such as `"-50:-1"` or `"-50:-1:2"` (both ends included). Negative shifts look back.
        fill: The value where the episode has no such step: one number for whole items, or an item. None takes the item of
            the source's space that is closest to zeros; without a space zeros, for objects and ids None, for `T`, indices and
            versions -1.
        train: Whether learners see the view.
        infer: Whether modules see the view when they act. Such a view must not look into the future.
        every: In training, only the steps 0, n, 2n, ... of each chunk have a row: one row per sequence of n steps that a
            recurrent module learns from. When a module acts, there is always a row.
        agent: Read another agent of the same multi-agent episode: its id, or a function of `(agent_id, episode)` that
            returns the id, or None for no agent. Shifts then count environment steps, see `OtherAgents.windows`.

    Raises:
        PipelineError: If an argument is invalid, or `train` and `infer` are both False.

    >>> View("rewards", shift=-1)
    View('rewards', shift=-1)
    >>> View("obs", shift="-6:-1:2").shifts
    (-6, -4, -2)
    >>> View("obs", shift=range(-3, 1), fill=0.0).shifts
    (-3, -2, -1, 0)
    """

    source: str | None = None
    shift: int | str | Sequence[int] = 0
    fill: Item = None
    train: bool = True
    infer: bool = True
    every: int = 1
    agent: Any | Callable[[Any, Any], Any] = None

    def __post_init__(self) -> None:
        """Check the arguments, and convert integers to Python integers."""
        source: Any = self.source
        if source is not None and (not isinstance(source, str) or not source):
            raise PipelineError(
                f"View: found `source={shown(source)}`, expected the name of a column. Pass a non-empty string."
            )
        object.__setattr__(self, "shift", self._checked_shift())
        for name in ("train", "infer"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise PipelineError(f"{self!r}: found `{name}={getattr(self, name)!r}`, expected True or False.")
        if not (self.train or self.infer):
            raise PipelineError(
                f"{self!r}: found both `train` and `infer` False, expected at least one True. Set one of them."
            )
        if not is_whole(self.every) or self.every < 1:
            raise PipelineError(f"{self!r}: found `every={shown(self.every)}`, expected an integer of at least 1.")
        object.__setattr__(self, "every", int(self.every))
        if not isinstance(self.agent, Hashable):
            raise PipelineError(
                f"{self!r}: found `agent={shown(self.agent)}`, expected an id, or a function that returns one."
            )

    def _checked_shift(self) -> int | tuple[int, ...] | range:
        shift: Any = self.shift
        if isinstance(shift, str):
            return _range_of(self.source, shift)
        if is_whole(shift):
            return int(shift)
        if isinstance(shift, range) and shift:
            return shift
        if isinstance(shift, (list, tuple, np.ndarray)) and len(shift) and all(map(is_whole, shift)):
            return tuple(map(int, shift))
        raise PipelineError(
            f"View of {self.source!r}: found `shift={shown(shift)}`, expected an integer, or a non-empty list or range of "
            "integers. Pass one of these, or a string such as '-50:-1'."
        )

    @property
    def shifts(self) -> tuple[int, ...]:
        """All distances, in order."""
        shift: Any = self.shift
        return (shift,) if isinstance(shift, int) else tuple(shift)

    @property
    def is_window(self) -> bool:
        """Whether each row has an axis of shifts."""
        return not isinstance(self.shift, int)

    @property
    def lookback(self) -> int:
        """The number of steps that the view reads before the first row of a chunk."""
        return max(0, -min(self.shifts))

    @property
    def latest_when_acting(self) -> int:
        """The largest shift whose item is known when a module acts."""
        return 0 if self.source in _KNOWN_WHEN_ACTING else -1

    @property
    def looks_ahead(self) -> bool:
        """Whether the view reads items that are not known yet when a module acts, such as where the fragment will be cut."""
        return max(self.shifts) > self.latest_when_acting or self.source == Columns.FRAGMENT_ID

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        # A range and a list of the same distances are the same view.
        if (self.is_window, self.shifts) != (other.is_window, other.shifts):
            return False
        names = [field.name for field in fields(self) if field.name != "shift"]
        return all(equal(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((self.source, self.shifts, self.train, self.infer, self.every))

    def __repr__(self) -> str:
        parts = [repr(self.source)] if self.source is not None else []
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if not (value is field.default or (field.default is not MISSING and equal(value, field.default))):
                text = repr(list(value)) if isinstance(value, tuple) and field.name == "shift" else describe(value)
                parts.append(f"{field.name}={text}")
        return f"View({', '.join(parts)})"


def _range_of(source: str | None, text: str) -> range:
    """Return the range that a string such as `"-50:-1"` means; both ends are included."""
    match = _RANGE.fullmatch(text)
    if match:
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if first <= last and step > 0:
            return range(first, last + 1, step)
    raise PipelineError(
        f"View of {source!r}: found `shift={shown(text)}`, expected a range 'first:last' or 'first:last:step' whose last "
        "number is not below its first, such as '-50:-1'. Pass such a range, or a list of integers."
    )


def ViewRequirement(  # noqa: N802  # RLlib's name; returns a `View`
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
        space: The space of the items. Missing steps are filled with the item of the space that is closest to zeros.
        shift: An integer, a list of integers, or a range such as `"-50:-1"` (both ends included); `"-50:-1:2"` takes
            every second integer.
        used_for_training: Whether learners see the view.
        used_for_compute_actions: Whether modules see the view when they act.
        batch_repeat_value: See `every` of `View`.

    Raises:
        PipelineError: If `space` is not a space, or `View` rejects an argument.

    >>> ViewRequirement("obs", shift="-3:0")
    View('obs', shift=range(-3, 1))
    >>> ViewRequirement("actions", shift=1, used_for_compute_actions=False)
    View('actions', shift=1, infer=False)
    """
    if space is not None and not isinstance(space, Space):
        raise PipelineError(
            f"ViewRequirement of {data_col!r}: found `space={shown(space)}`, expected a gymnasium space, or None. Pass one of "
            "these."
        )
    return View(
        data_col,
        shift=shift,
        fill=None if space is None else item_near_zero(space),
        train=used_for_training,
        infer=used_for_compute_actions,
        every=batch_repeat_value,
    )


def space_of_view(
    view: View, observation_space: Space[Any] | None, action_space: Space[Any] | None
) -> Space[Any] | None:
    """Return the space of one row of `view`; None if it is unknown.

    Raises:
        PipelineError: If the view is a window, and items of the space cannot be stacked.

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
        f"found a window over {short_name(space)}, expected a space of arrays, or Dicts and Tuples of these. Use a "
        "single shift."
    )


def _integers(space: Any) -> Any:
    return np.dtype(space.dtype).type


def _box(space: spaces.Box, fill: Item, count: int | None) -> spaces.Box:
    low, high = space.low, space.high
    if fill is not None:
        # Rows before the first step hold the fill value, so the bounds must include it.
        low, high = np.minimum(low, fill).astype(low.dtype), np.maximum(high, fill).astype(high.dtype)
    if count is not None:
        low, high = np.stack([low] * count), np.stack([high] * count)
    return spaces.Box(low, high, dtype=space.dtype)
