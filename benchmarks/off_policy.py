"""Claim: off-policy algorithms update, and solve games, in less time than elsewhere, with the same networks and settings.

    python benchmarks/off_policy.py [--quick] [--json PATH] [--only TEXT]

Updates sample a buffer of 50,000 steps and take one gradient step each, 16 in a call; the bare loop has the same optimizer.
Whole loops play one environment, with one update for each step. Solved is a mean return of 475 (CartPole) and -200 (Pendulum)
in 20 episodes with the best actions, looked at after every 1,024 and 500 steps; looking does not count. Games are solved by DQN
and SAC with the settings of SB3's zoo, five seeds, in a full run only, which takes half an hour.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from typing import Any

from _harness import OURS, Effort, Row, Side, SideError, installed, measure, note, parse_arguments, report, started
from _off_policy_settings import ENVS, SOLVING

SEEDS = range(5)


def main() -> int:
    """Measure and report; return the exit code."""
    arguments = parse_arguments(__doc__)
    effort = Effort(rounds=3, budget_s=0.06) if arguments.quick else Effort(rounds=12, budget_s=0.2)
    with started(installed(("sb3", "cleanrl", "tianshou", "torchrl"))) as sides:
        rows, problems = measure("off_policy_cases", sides, effort, arguments.only)
        if not arguments.quick:
            solvers = [side for side in sides if side.name in (OURS, "sb3")]
            for algorithm in ENVS:
                if arguments.only in _row_name(algorithm):
                    rows += _solving(algorithm, solvers, problems)
    report(rows, arguments.json)
    for problem in problems:
        note(problem)
    return 1 if problems else 0


def _row_name(algorithm: str) -> str:
    return f"{algorithm} solves {SOLVING[algorithm].env}"


def _solving(algorithm: str, sides: Sequence[Side], problems: list[str]) -> list[Row]:
    """Return the medians of wall time and steps against each side that could be asked."""
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in SEEDS:
        for side in sides if seed % 2 == 0 else reversed(sides):
            try:
                answer = side.ask("call", function="solve", algorithm=algorithm, seed=seed)
            except SideError as error:
                problems.append(f"{_row_name(algorithm)}: {error}")
                continue
            found.setdefault(side.name, []).append(answer)
            note(f"{_row_name(algorithm)}, seed {seed}, {side.name}: {answer}")
    if OURS not in found:
        return []
    medians = {
        name: {what: statistics.median(answer[what] for answer in answers) for what in ("seconds", "steps")}
        for name, answers in found.items()
    }
    return [
        Row(
            name=f"{_row_name(algorithm)}, {named}",
            value=medians[OURS][what],
            unit=unit,
            against=name,
            ratio=medians[name][what] / medians[OURS][what],
        )
        for what, named, unit in (("seconds", "wall time", "s"), ("steps", "environment steps", "steps"))
        for name in medians
        if name != OURS
    ]


if __name__ == "__main__":
    sys.exit(main())
