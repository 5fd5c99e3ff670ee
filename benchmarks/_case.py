"""One measured operation, how it is timed, and a fingerprint of what it returns.

This module runs on all sides, also in the peers' environments: only the standard library and NumPy here.
"""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# On a busy machine, the time that the process itself computes is measured: `EPISODIA_BENCH_CLOCK=cpu`.
CLOCK = time.process_time if os.environ.get("EPISODIA_BENCH_CLOCK") == "cpu" else time.perf_counter

# What an expert writes by hand, and what our library does by default: both are measured in our process.
BARE_LOOP, DEFAULT = "bare loop", "default pipeline"


@dataclass(frozen=True)
class Case:
    """One operation under a name that is the same on all sides.

    Args:
        name: Name of the row, with its setting.
        run: The operation. It gets what `prepare` returned, or nothing.
        prepare: Makes the input of one `run`, outside the timing; needed when `run` changes its input.
        per: How many units of work one `run` does; None if `run` returns that number.
        unit: "us", "ms" or "s" for the time of one unit of work, "<things>/s" for its inverse.
        check: What to compare between the sides after one `run`; by default the result of `run`.
        differs: Why the results of the sides may differ, where they do so on purpose.
        by_hand: The same without any library, as an expert would write it: measured in our process, in turn with `run`.
        by_default: The same with the defaults of our library, where `run` has something added; measured as `by_hand` is.
        is_quick: Whether a quick run has it.
    """

    name: str
    run: Callable[..., Any]
    prepare: Callable[[], Any] | None = None
    per: int | None = 1
    unit: str = "us"
    check: Callable[[], Any] | None = None
    differs: str = ""
    by_hand: Callable[[], Any] | None = None
    by_default: Callable[[], Any] | None = None
    is_quick: bool = True

    @property
    def beside(self) -> dict[str, Callable[[], Any]]:
        """What is measured in the same process, by what rows are then said to be against."""
        both = {BARE_LOOP: self.by_hand, DEFAULT: self.by_default}
        return {name: run for name, run in both.items() if run is not None}


def time_case(case: Case, budget_s: float) -> float:
    """Return the seconds that one unit of work took, as the mean over calls that fill about `budget_s`."""
    gc.disable()
    try:
        return _time_prepared(case, case.prepare, budget_s) if case.prepare else _time_plain(case, budget_s)
    finally:
        gc.enable()


def _time_plain(case: Case, budget_s: float) -> float:
    if case.per is None:
        return _best_call(case.run, budget_s)
    run, clock = case.run, CLOCK
    calls = 1
    while True:
        started = clock()
        for _ in range(calls):
            run()
        elapsed = clock() - started
        if elapsed >= budget_s / 2:
            return elapsed / (calls * case.per)
        calls = max(2 * calls, int(calls * 0.8 * budget_s / max(elapsed, 1e-7)))


def _best_call(run: Callable[[], int], budget_s: float) -> float:
    """Return the seconds per unit of the best call: such calls are long enough to be measured one by one."""
    clock, best, elapsed = CLOCK, float("inf"), 0.0
    while elapsed < budget_s:
        started = clock()
        units = run()
        seconds = clock() - started
        best, elapsed = min(best, seconds / units), elapsed + seconds
    return best


def _time_prepared(case: Case, prepare: Callable[[], Any], budget_s: float) -> float:
    run, clock = case.run, CLOCK
    elapsed, units = 0.0, 0
    give_up = clock() + 4 * budget_s  # Preparing may take longer than running.
    while elapsed < budget_s / 2 and (not units or clock() < give_up):
        prepared = prepare()
        started = clock()
        result = run(prepared)
        elapsed += clock() - started
        units += result if case.per is None else case.per
        # Freeing the input and the result is no part of the operation, as making the input is not.
        del prepared, result
    return elapsed / units


def fingerprint(case: Case) -> str:
    """Run once; return a hash of the values and shapes that came out (dtypes do not count)."""
    result = case.run(case.prepare()) if case.prepare else case.run()
    if case.check:
        result = case.check()
    digest = hashlib.sha256()
    _feed(digest.update, result)
    return digest.hexdigest()


def _feed(write: Callable[[bytes], object], value: Any) -> None:
    if hasattr(value, "agent_episodes"):
        _feed(write, [value.env_t_started, value.env_t, {str(k): v for k, v in value.agent_episodes.items()}])
    elif hasattr(value, "get_observations"):
        columns = (value.get_observations(), value.get_actions(), value.get_rewards())
        _feed(write, [value.t_started, value.t, value.observations.lookback, value.is_done, *columns])
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            write(f"{{{key}".encode())
            _feed(write, value[key])
    elif isinstance(value, list | tuple):
        write(f"[{len(value)}".encode())
        for item in value:
            _feed(write, item)
    elif isinstance(value, set | frozenset):
        _feed(write, sorted(value, key=str))
    elif isinstance(value, bool | int | float | np.number | np.bool_ | np.ndarray) and _is_numeric(value):
        array = np.asarray(value, np.float64)
        write(f"n{array.shape}".encode() + array.tobytes())
    else:
        write(str(value).encode())


def _is_numeric(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "biuf"
