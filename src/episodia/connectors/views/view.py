"""A view: the steps of a column that a module sees beside each step; also in RLlib's spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, final

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import is_whole
from episodia.columns import Columns
from episodia.episodes.columns.filling import item_near_zero, spread
from episodia.episodes.lists.list_columns import IDS
from episodia.errors import PipelineError
from episodia.spaces import short_name, structure_of
from episodia.trees import describe, equal
from episodia.types import Item

# What a module knows at the moment of acting; everything else comes with the step that it is about to take.
KNOWN_WHEN_ACTING: Final = frozenset({Columns.OBS, Columns.INFOS, Columns.T, *IDS})

_RANGE = re.compile(r"\s*([+-]?\d+)\s*:\s*([+-]?\d+)\s*(?::\s*(\d+)\s*)?")


@final
@dataclass(frozen=True, eq=False, repr=False)
class View:
    """Items of a column at fixed distances from each step.

    Row t of the view is the item `t + shift` of its source: of observations, infos, time steps and ids there is one more
    than of steps, `obs[t]` is what the action `t` answers, `rewards[t]` what it brought. At the moment of acting, t is now.

    Args:
        source: The column that is seen: one of `Columns` (observations, actions, rewards, infos, flags, `T`, `EPS_ID`,
            `AGENT_ID`, `MODULE_ID`), or the name of an extra model output. None is the column of the view's own name.
        shift: A distance in steps, for one item in each row, `[B, ...]`; or K of them in a list, a range, or a string such as
            `"-50:-1"` or `"-50:-1:2"`, whose ends both count, for K items in each row, `[B, K, ...]`. Negative ones look back.
        fill: What stands where the episode has no such step: one value for whole items, or an item. None takes the item of
            the source's space that is closest to zeros; zeros where there is no space, None for objects, -1 for `T`.
        train: Whether learners see it.
        infer: Whether it is seen at the moment of acting, when nothing of the future is known.
        every: In training, only the steps 0, n, 2n, ... of each chunk have a row: one for each sequence of n steps that a
            recurrent module learns from. At the moment of acting there is a row always.
        agent: See another agent of the same multi-agent episode: its id, or a function of `(agent_id, episode)` that
            returns it, or None for nobody. Shifts count environment steps then, see `OtherAgents.windows`.

    Raises:
        PipelineError: If an argument is not like that, or nobody sees the view.

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
        """Check all of it, and keep integers as Python's."""
        source: Any = self.source
        if source is not None and (not isinstance(source, str) or not source):
            raise PipelineError(f"View: found `source={source!r}`, expected the name of a column. Pass such a name.")
        object.__setattr__(self, "shift", self._checked_shift())
        for name in ("train", "infer"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise PipelineError(f"{self!r}: found `{name}={getattr(self, name)!r}`, expected True or False.")
        if not (self.train or self.infer):
            raise PipelineError(
                f"{self!r}: found both `train` and `infer` False, expected that somebody sees the view."
            )
        if not is_whole(self.every) or self.every < 1:
            raise PipelineError(f"{self!r}: found `every={self.every!r}`, expected an integer of at least 1.")
        object.__setattr__(self, "every", int(self.every))
        if not isinstance(self.agent, Hashable):
            raise PipelineError(
                f"{self!r}: found `agent={self.agent!r}`, expected an id, or a function that returns one."
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
            f"View of {self.source!r}: found `shift={shift!r}`, expected an integer, or a list or range of at least one. Pass "
            "such a number, or a string like '-50:-1'."
        )

    @property
    def shifts(self) -> tuple[int, ...]:
        """All distances, in order."""
        shift: Any = self.shift
        return (shift,) if isinstance(shift, int) else tuple(shift)

    @property
    def is_window(self) -> bool:
        """Whether rows have an axis of shifts."""
        return not isinstance(self.shift, int)

    @property
    def lookback(self) -> int:
        """How many steps before the first row of a chunk it reaches."""
        return max(0, -min(self.shifts))

    @property
    def latest_when_acting(self) -> int:
        """The largest shift whose item is known when a module acts."""
        return 0 if self.source in KNOWN_WHEN_ACTING else -1

    @property
    def looks_ahead(self) -> bool:
        """Whether it sees what is not known yet when a module acts."""
        return max(self.shifts) > self.latest_when_acting

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
    """Return the range that a string such as `"-50:-1"` means; both ends count."""
    match = _RANGE.fullmatch(text)
    if match:
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if first <= last and step > 0:
            return range(first, last + 1, step)
    raise PipelineError(
        f"View of {source!r}: found `shift={text!r}`, expected a range 'first:last' or 'first:last:step' whose last number is "
        "not below its first, such as '-50:-1'. Write it like that, or pass a list of integers."
    )


def ViewRequirement(  # noqa: N802  # the name that RLlib's users know; it makes a `View`
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
        space: What items look like. Steps that are not there are filled with its item that is closest to zeros.
        shift: An integer, a list of integers, or a range such as `"-50:-1"`, whose ends both count; `"-50:-1:2"` takes every
            second one of it.
        used_for_training: Whether learners see it.
        used_for_compute_actions: Whether it is seen at the moment of acting.
        batch_repeat_value: See `every` of `View`.

    Raises:
        PipelineError: If `space` is none, or an argument is not what `View` expects.

    >>> ViewRequirement("obs", shift="-3:0")
    View('obs', shift=range(-3, 1))
    >>> ViewRequirement("actions", shift=1, used_for_compute_actions=False)
    View('actions', shift=1, infer=False)
    """
    if space is not None and not isinstance(space, Space):
        raise PipelineError(
            f"ViewRequirement of {data_col!r}: found `space={space!r}`, expected a space of gymnasium, or None. Pass such "
            "a space."
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
