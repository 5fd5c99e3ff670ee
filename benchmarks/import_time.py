"""Claim: `import episodia` takes no longer than 0.4 s (on two slow cores), most of it gymnasium's.

    python benchmarks/import_time.py [--quick] [--json PATH]

Each import runs in a fresh process, the sides in turn; the fastest of each counts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from _harness import OURS, Row, installed, note, parse_arguments, report
from _peers import PEERS, peer_python

AIM_S = 0.4
_TIMED = "import time; started = time.perf_counter(); {statement}; print('seconds', time.perf_counter() - started)"


class Import(NamedTuple):
    """An import statement and the interpreter that runs it."""

    python: str | Path
    statement: str


def main() -> int:
    """Measure and report; return the exit code."""
    arguments = parse_arguments(__doc__)
    sides = {
        OURS: Import(sys.executable, "import episodia"),
        "gymnasium": Import(sys.executable, "import gymnasium"),
        **{peer: Import(peer_python(peer), PEERS[peer].probe) for peer in installed(["rllib"])},
    }
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(4 if arguments.quick else 12):
        for name, side in sides.items():
            try:
                best[name] = min(best[name], _seconds(side))
            except RuntimeError as error:
                note(f"{name}: {error}")
                return 1
    rows = [
        Row(name="import", value=best[OURS], unit="s", against=name, ratio=seconds / best[OURS])
        for name, seconds in best.items()
        if name != OURS
    ]
    report(rows, arguments.json)
    note(f"import episodia: {best[OURS]:.3f} s; the aim is {AIM_S} s")
    return 0


def _seconds(side: Import) -> float:
    command = [str(side.python), "-W", "ignore", "-c", _TIMED.format(statement=side.statement)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parent)
    if done.returncode:
        raise RuntimeError(f"`{side.statement}` failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split("seconds")[-1])


if __name__ == "__main__":
    sys.exit(main())
