"""Claim: PPO updates and solves CartPole in less time than with SB3 or RLlib, with the same network and settings.

    python benchmarks/learning.py [--quick] [--json PATH] [--only TEXT]

Solved is a mean return of 475 in 20 episodes with the most probable actions, looked at after every 8 iterations; looking does
not count. Each seed is trained on all sides, one after another; medians over the seeds are compared. A side that has not
solved it within the limit is named, and counts with the limit. A full run takes two minutes.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from _harness import OURS, Effort, Row, Side, SideError, installed, measure, note, parse_arguments, report, started
from _learning_settings import SETTINGS

PEERS = ("sb3", "rllib")


class Extent(NamedTuple):
    """How much is measured."""

    update: Effort
    seeds: int
    settings: Sequence[str]
    limit_s: float


QUICK = Extent(Effort(rounds=3, budget_s=0.01), 1, ["zoo"], 15.0)
FULL = Extent(Effort(rounds=15, budget_s=0.01), 5, list(SETTINGS), 150.0)


def main() -> int:
    """Measure and report; return the exit code."""
    arguments = parse_arguments(__doc__)
    extent = QUICK if arguments.quick else FULL
    present = installed(PEERS)
    names = [setting for setting in extent.settings if arguments.only in _row_name(setting)]
    with started(present) as sides:
        rows, problems = measure("learning_cases", sides, extent.update, arguments.only)
        for setting in names:
            rows += _solving(setting, sides, extent, problems)
    report(rows, arguments.json)
    for problem in problems:
        note(problem)
    return 1 if problems else 0


def _row_name(setting: str) -> str:
    return f"ppo solves CartPole, {setting} settings"


def _solving(setting: str, sides: Sequence[Side], extent: Extent, problems: list[str]) -> list[Row]:
    """Return wall time and steps against each side that could be asked."""
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(extent.seeds):
        for side in sides if seed % 2 == 0 else reversed(sides):
            try:
                answer = side.ask("call", function="solve", setting=setting, seed=seed, limit_s=extent.limit_s)
            except SideError as error:
                problems.append(f"{_row_name(setting)}: {error}")
                continue
            found.setdefault(side.name, []).append(answer)
            if not answer["is_solved"]:
                note(f"{_row_name(setting)}: {side.name} has not solved it with seed {seed} in {extent.limit_s:g} s")
    if OURS not in found:
        return []
    medians = {
        name: {what: statistics.median(answer[what] for answer in answers) for what in ("seconds", "steps")}
        for name, answers in found.items()
    }
    return [
        Row(
            name=f"{_row_name(setting)}, {'wall time' if what == 'seconds' else 'environment steps'}",
            value=medians[OURS][what],
            unit="s" if what == "seconds" else "steps",
            against=name,
            ratio=theirs[what] / medians[OURS][what],
        )
        for what in ("seconds", "steps")
        for name, theirs in medians.items()
        if name != OURS
    ]


if __name__ == "__main__":
    sys.exit(main())
