"""Schedules as plain data, so that what follows them can be saved; only those of the library are made again."""

from __future__ import annotations

from typing import Any

from episodia.errors import PipelineError
from episodia.schedules import ConstantSchedule, ExponentialSchedule, PiecewiseLinearSchedule, Schedule

KEY = "schedule"

_SCHEDULES: dict[str, tuple[type[Schedule], tuple[str, ...]]] = {
    "ConstantSchedule": (ConstantSchedule, ("value",)),
    "ExponentialSchedule": (ExponentialSchedule, ("start", "end", "half_life")),
    "PiecewiseLinearSchedule": (PiecewiseLinearSchedule, ("points",)),
}


def encoded_schedule(schedule: Schedule) -> dict[str, Any] | None:
    """Return JSON values that `decoded_schedule` understands; None if the schedule is not one of the library.

    >>> encoded_schedule(ExponentialSchedule(1.0, 0.0, half_life=10))
    {'schedule': 'ExponentialSchedule', 'start': 1.0, 'end': 0.0, 'half_life': 10.0}
    """
    name = type(schedule).__name__
    made, arguments = _SCHEDULES.get(name, (None, ()))
    if made is not type(schedule):
        return None
    return {KEY: name, **{argument: _listed(getattr(schedule, argument)) for argument in arguments}}


def _listed(value: Any) -> Any:
    return [list(pair) for pair in value] if isinstance(value, tuple) else value


def decoded_schedule(data: dict[str, Any]) -> Schedule:
    """Return the schedule that `encoded_schedule` turned into `data`.

    Raises:
        PipelineError: If it is something else.

    >>> decoded_schedule({"schedule": "ConstantSchedule", "value": 0.5})
    ConstantSchedule(0.5)
    """
    name = data.get(KEY)
    made, arguments = _SCHEDULES.get(name, (None, ())) if isinstance(name, str) else (None, ())
    if made is None or set(data) != {KEY, *arguments}:
        raise PipelineError(
            f"schedule: found {repr(data)[:80]}, expected one of {sorted(_SCHEDULES)} with its arguments, such as "
            f"{{'schedule': 'PiecewiseLinearSchedule', 'points': [[0, 1.0], [1000, 0.1]]}}. Correct it."
        )
    return made(**{argument: data[argument] for argument in arguments})
