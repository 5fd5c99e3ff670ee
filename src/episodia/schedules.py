"""Schedules: numbers that are pure functions of the step, such as a decaying exploration rate; and their plain-data form."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np

from episodia.arguments import is_number, names_nearest_argument
from episodia.errors import PipelineError
from episodia.trees import shown


class Schedule(ABC):
    """A number per step. Schedules have no state: the same step always gives the same number."""

    @abstractmethod
    def at(self, t: int) -> float:
        """Return the number for step `t`, counted from 0."""

    @property
    @abstractmethod
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest number of the schedule."""


@final
class ConstantSchedule(Schedule):
    """The same number at each step.

    >>> ConstantSchedule(0.1).at(1_000)
    0.1
    """

    def __init__(self, value: float) -> None:
        self.value = _finite("value", value)

    def at(self, t: int) -> float:
        """Return the number."""
        return self.value

    @property
    def extremes(self) -> tuple[float, float]:
        """The number, twice."""
        return self.value, self.value

    def __repr__(self) -> str:
        return f"ConstantSchedule({self.value})"


@final
class PiecewiseLinearSchedule(Schedule):
    """Straight lines between points; constant before the first and after the last point.

    Args:
        points: Pairs of a step and the number at that step, in ascending order of steps.

    Raises:
        PipelineError: If there is no point, or if the steps are not ascending.

    >>> epsilon = PiecewiseLinearSchedule([(0, 1.0), (100, 0.5)])
    >>> epsilon.at(0), epsilon.at(50), epsilon.at(1_000)
    (1.0, 0.75, 0.5)
    """

    def __init__(self, points: Sequence[tuple[int, float]]) -> None:
        pairs = points if isinstance(points, (list, tuple)) and all(map(_is_pair, points)) else ()
        self.points = tuple((_finite("points", t), _finite("points", value)) for t, value in pairs)
        times = [t for t, _ in self.points]
        if not times or any(late <= early for early, late in pairwise(times)):
            raise PipelineError(
                f"PiecewiseLinearSchedule: found `points={shown(points)}`, expected at least one pair of a step and a number, "
                "with steps in ascending order. Sort the points, and give each step one number."
            )
        self._times, self._values = np.array(self.points).T

    def at(self, t: int) -> float:
        """Return the number on the line between the points around `t`."""
        return float(np.interp(t, self._times, self._values))

    @property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest number of all points."""
        return float(self._values.min()), float(self._values.max())

    def __repr__(self) -> str:
        return f"PiecewiseLinearSchedule({list(self.points)})"


@names_nearest_argument
@final
class ExponentialSchedule(Schedule):
    """Exponential decay from `start` to `end`.

    Args:
        start: The number at step 0.
        end: The limit.
        half_life: The number of steps after which the distance to `end` is halved.

    Raises:
        PipelineError: If `half_life` is not positive.

    >>> epsilon = ExponentialSchedule(1.0, 0.0, half_life=100)
    >>> epsilon.at(0), epsilon.at(100), epsilon.at(200)
    (1.0, 0.5, 0.25)
    """

    def __init__(self, start: float, end: float, *, half_life: float) -> None:
        self.start, self.end = _finite("start", start), _finite("end", end)
        self.half_life = _finite("half_life", half_life)
        if self.half_life <= 0.0:
            raise PipelineError(
                f"ExponentialSchedule: found `half_life={half_life}`, expected a positive number of steps. Correct it."
            )

    def at(self, t: int) -> float:
        """Return the number at step `t`."""
        return self.end + (self.start - self.end) * math.pow(0.5, t / self.half_life)

    @property
    def extremes(self) -> tuple[float, float]:
        """Start and end, in ascending order."""
        return min(self.start, self.end), max(self.start, self.end)

    def __repr__(self) -> str:
        return f"ExponentialSchedule({self.start}, {self.end}, half_life={self.half_life})"


def _is_pair(point: object) -> bool:
    return isinstance(point, (list, tuple)) and len(point) == 2


def as_schedule(value: float | Schedule) -> Schedule:
    """Return `value` if it is a schedule, else a `ConstantSchedule` of this number.

    >>> as_schedule(0.1)
    ConstantSchedule(0.1)
    """
    return value if isinstance(value, Schedule) else ConstantSchedule(value)


def schedule_within(name: str, value: float | Schedule, low: float, high: float) -> Schedule:
    """Return `value` as a schedule, after checking that its numbers lie between `low` and `high`.

    Raises:
        PipelineError: If they do not.
    """
    schedule = as_schedule(value)
    smallest, largest = schedule.extremes
    if not low <= smallest <= largest <= high:
        wanted = f"numbers from {low:g} to {high:g}" if math.isfinite(high) else f"numbers of at least {low:g}"
        raise PipelineError(f"found `{name}={shown(value)}`, expected {wanted} at each step. Correct the schedule.")
    return schedule


def _finite(name: str, value: Any) -> float:
    if not is_number(value) or math.isinf(value):
        raise PipelineError(f"found {value!r} in `{name}` of a schedule, expected finite numbers. Correct it.")
    return float(value)


# Marks a dict as a schedule.
SCHEDULE_KEY = "schedule"

_SCHEDULES: dict[str, tuple[type[Schedule], tuple[str, ...]]] = {
    "ConstantSchedule": (ConstantSchedule, ("value",)),
    "ExponentialSchedule": (ExponentialSchedule, ("start", "end", "half_life")),
    "PiecewiseLinearSchedule": (PiecewiseLinearSchedule, ("points",)),
}


def encoded_schedule(schedule: Schedule) -> dict[str, Any] | None:
    """Return `schedule` as JSON values, which `decoded_schedule` reads; None for a class outside of the library.

    >>> encoded_schedule(ExponentialSchedule(1.0, 0.0, half_life=10))
    {'schedule': 'ExponentialSchedule', 'start': 1.0, 'end': 0.0, 'half_life': 10.0}
    """
    name = type(schedule).__name__
    made, arguments = _SCHEDULES.get(name, (None, ()))
    if made is not type(schedule):
        return None
    return {SCHEDULE_KEY: name, **{argument: _listed(getattr(schedule, argument)) for argument in arguments}}


def _listed(value: Any) -> Any:
    return [list(pair) for pair in value] if isinstance(value, tuple) else value


def decoded_schedule(data: dict[str, Any]) -> Schedule:
    """Return the schedule that `encoded_schedule` turned into `data`.

    Raises:
        PipelineError: If `data` is not from `encoded_schedule`.

    >>> decoded_schedule({"schedule": "ConstantSchedule", "value": 0.5})
    ConstantSchedule(0.5)
    """
    name = data.get(SCHEDULE_KEY)
    made, arguments = _SCHEDULES.get(name, (None, ())) if isinstance(name, str) else (None, ())
    if made is None or set(data) != {SCHEDULE_KEY, *arguments}:
        raise PipelineError(
            f"schedule: found {repr(data)[:80]}, expected one of {sorted(_SCHEDULES)} with its arguments, such as "
            f"{{'schedule': 'PiecewiseLinearSchedule', 'points': [[0, 1.0], [1000, 0.1]]}}. Correct it."
        )
    return made(**{argument: data[argument] for argument in arguments})
