"""What `off_policy.py` measures: gradient updates from replay, whole loops with one update for each step, and solving games."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

from _case import Case
from _off_policy_settings import AT_ONCE, BATCHES, ENVS, WIDTHS, solved

_SIDES = {
    "episodia": "_off_policy_ours",
    "sb3": "_off_policy_sb3",
    "cleanrl": "_off_policy_cleanrl",
    "tianshou": "_off_policy_tianshou",
    "torchrl": "_off_policy_torchrl",
}
_DIFFERS = "sides draw random numbers of their own"
# The batch and the width of the networks of whole loops.
_LOOP = (64, 64)


def cases(side: str) -> list[Case]:
    """Return all rows of `side`."""
    module = import_module(_SIDES[side])
    settings = [(algorithm, batch, width) for algorithm in ENVS for width in WIDTHS for batch in BATCHES]
    return [_updates(module, *setting) for setting in settings] + [
        Case(
            f"{algorithm} loop, one update per step",
            _made_once(partial(module.loop, algorithm, *_LOOP)),
            per=None,
            unit="steps/s",
            check=lambda: None,
            differs=_DIFFERS,
        )
        for algorithm in ENVS
    ]


def solve(side: str, algorithm: str, seed: int) -> dict[str, Any]:
    """Train with one seed; see `_off_policy_settings.solved`."""
    return solved(import_module(_SIDES[side]).Training, algorithm, seed)


def _updates(module: Any, algorithm: str, batch: int, width: int) -> Case:
    by_hand = getattr(module, "updates_by_hand", None)
    return Case(
        f"{algorithm} updates, batch {batch}, {width}x{width}",
        _made_once(partial(module.updates, algorithm, batch, width)),
        per=AT_ONCE,
        unit="updates/s",
        check=lambda: None,
        differs=_DIFFERS,
        by_hand=None if by_hand is None else _made_once(partial(by_hand, algorithm, batch, width)),
    )


def _made_once(make: Any) -> Any:
    """Return a function that makes what is measured at its first call, so that rows that are left out cost nothing."""
    made = cache(make)

    def run() -> Any:
        return made()()

    return run
