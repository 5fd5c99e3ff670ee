"""Goal: sampling from a replay buffer is faster than in every other library, with each observation stored once.

    python benchmarks/replay.py [--quick] [--json PATH] [--only TEXT]

All columns are gathered in all rows: observation, next observation, action, reward and both flags. Rows "to tensors" run the
learner pipeline. The last rows are not times: how many rows the buffer needs for each row of an episode (256 environments in a
full ring), how many frames it stores for each transition of an episode with frames, and by which factor a sample takes longer
from 1M steps than from 100k, against that factor of bare NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from _harness import OURS, Effort, Row, Side, SideError, installed, measure, note, parse_arguments, report, started

_CASES = "replay_cases"
_GROWTH = ("uniform 256 of 100k", "uniform 256 of 1M")


def main() -> int:
    """Measure all rows, and return the exit code of the script."""
    arguments = parse_arguments(__doc__)
    effort = Effort(rounds=5, budget_s=0.015) if arguments.quick else Effort(rounds=15, budget_s=0.05)
    with started(installed(("rllib", "sb3", "tianshou", "torchrl"))) as sides:
        rows, problems = measure(_CASES, sides, effort, arguments.only)
        rows += _growth(rows)
        if not arguments.only:
            try:
                rows += _not_times(sides)
            except SideError as error:
                problems.append(str(error))
    report(rows, arguments.json)
    for problem in problems:
        note(problem)
    return 1 if problems else 0


def _growth(rows: Sequence[Row]) -> list[Row]:
    """Return by which factor samples of a larger buffer take longer, ours and by hand."""
    found = {row["name"]: row for row in rows if row["against"] == "bare loop" and row["name"] in _GROWTH}
    if len(found) < len(_GROWTH):
        return []
    small, large = (found[name] for name in _GROWTH)
    ours = large["value"] / small["value"]
    theirs = ours * large["ratio"] / small["ratio"]
    return [
        Row(name="uniform 256: 1M for each of 100k", value=ours, unit="times", against="bare loop", ratio=theirs / ours)
    ]


def _not_times(sides: Sequence[Side]) -> list[Row]:
    """Return how many rows and frames are stored, against one for each."""
    ours = next(side for side in sides if side.name == OURS)
    found = ours.ask("call", function="measured")
    names = {"rows used": "rows used per step and episode", "frames": "frames stored per transition"}
    return [
        Row(name=name, value=found[key], unit="times", against="one each", ratio=1 / found[key])
        for key, name in names.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
