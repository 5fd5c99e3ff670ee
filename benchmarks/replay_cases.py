"""What `replay.py` measures. Each side samples from, or adds to, its own buffer with the same content.

All columns are gathered: observation, next observation, action, reward and both flags. Sides draw random numbers of their own,
so what they return differs; that it is right is shown by tests, not here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from _case import Case
from _replay_settings import BATCH, ENVS, LENGTH, N_STEP, SEQUENCES, SIZES, STACK

_SIDES = {
    "episodia": "_replay_ours",
    "rllib": "_replay_rllib",
    "sb3": "_replay_sb3",
    "tianshou": "_replay_tianshou",
    "torchrl": "_replay_torchrl",
}
# Functions that return what makes an input, and what is measured with it.
_PREPARED = ("add", "add_to_full_ring")
_DIFFERS = "sides draw random numbers of their own"

#: The function of each row, and its arguments; a side that lacks the function has no such row.
ROWS: dict[str, tuple[str, tuple[Any, ...]]] = {
    **{f"uniform {BATCH} of {size}": ("uniform", (num,)) for size, num in SIZES.items()},
    f"to tensors {BATCH} of 1M": ("tensors", (SIZES["1M"],)),
    f"n-step {N_STEP}, {BATCH} of 1M": ("n_step", (SIZES["1M"],)),
    f"n-step {N_STEP} to tensors, {BATCH} of 1M": ("n_step_tensors", (SIZES["1M"],)),
    f"PER sample and update {BATCH} of 1M": ("prioritized", (SIZES["1M"],)),
    f"sequences {SEQUENCES}x{LENGTH} of 100k": ("sequences", (SIZES["100k"],)),
    f"{BATCH} frames, stack {STACK}, to tensors": ("stacked", ()),
    **{f"add {count} env{'s' * (count > 1)}": ("add", (count,)) for count in ENVS},
    "add 256 envs, full ring": ("add_to_full_ring", (256,)),
    f"HER {BATCH} of 1M": ("hindsight", (SIZES["1M"],)),
}


def cases(side: str) -> list[Case]:
    """Return all rows that `side` has."""
    module = import_module(_SIDES[side])
    return [
        _case(module, name, function, setting)
        for name, (function, setting) in ROWS.items()
        if hasattr(module, function)
    ]


def measured(side: str) -> dict[str, float]:
    """Return what is not a time: see `_replay_ours.measured`."""
    found: dict[str, float] = import_module(_SIDES[side]).measured()
    return found


def _case(module: Any, name: str, function: str, setting: tuple[Any, ...]) -> Case:
    made = _Lazily(partial(getattr(module, function), *setting))
    if function in _PREPARED:
        return Case(name, made.run, prepare=made.prepare, differs=_DIFFERS)
    by_hand = getattr(module, f"{function}_by_hand", None)
    return Case(name, made, differs=_DIFFERS, by_hand=by_hand and _Lazily(partial(by_hand, *setting)))


class _Lazily:
    """Fills a buffer when it is first used, so that rows that are left out cost nothing."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._made = cache(make)

    def __call__(self) -> Any:
        return self._made()()

    def prepare(self) -> Any:
        """Make an input."""
        return self._made()[0]()

    def run(self, prepared: Any) -> Any:
        """Do with an input what is measured."""
        return self._made()[1](prepared)
