"""Measure the same cases on several sides, alternately and in one run; tell how many times faster ours is.

A benchmark script is one call: `sys.exit(main("episode_cases", __doc__, peers=("rllib",)))`. Each side gets
one lasting process: `_worker.py` under that side's interpreter; ours is the one that runs the script. All
sides are asked in turn, round after round, and the best round of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypedDict, cast

from _peers import is_installed, peer_python

HERE = Path(__file__).resolve().parent
OURS = "episodia"
_SECONDS = {"s": 1.0, "ms": 1e3, "us": 1e6}
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Row(TypedDict):
    """One result: our `value` in `unit`, and how many times faster it is than `against`."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float


class Effort(NamedTuple):
    """How long to measure."""

    rounds: int
    budget_s: float


QUICK, FULL = Effort(rounds=9, budget_s=0.01), Effort(rounds=25, budget_s=0.03)


class SideError(Exception):
    """A side could not do what it was asked; the message names the side and its own error."""


class Side:
    """The lasting process of one side."""

    def __init__(self, name: str, python: str | Path) -> None:
        self.name = name
        environment = dict(os.environ, PYTHONHASHSEED="0", **dict.fromkeys(_ONE_THREAD, "1"))
        # Memory that was freed stays with the process: giving it back to the system is not what is measured. Both are
        # needed: when one is set, the C library no longer learns the other, and maps every large array again.
        environment.update(dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**30)))
        environment.update(RAY_DEDUP_LOGS="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
        if name != OURS:
            environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", str(HERE / "_worker.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("EPISODIA_BENCH_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._requests = cast(IO[str], self._process.stdin)
        self._answers = cast(IO[str], self._process.stdout)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one request and return the answer; raise `SideError` if the side failed."""
        try:
            self._requests.write(json.dumps({"do": do, **arguments}) + "\n")
            self._requests.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SideError(f"{self.name}: its process ended; set EPISODIA_BENCH_VERBOSE=1 to see what it says.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            if os.environ.get("EPISODIA_BENCH_VERBOSE"):
                print(answer["traceback"], file=sys.stderr)
            raise SideError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Let the process end."""
        self._requests.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()


def main(
    cases: str,
    description: str | None,
    *,
    peers: Sequence[str],
    quick_peers: Sequence[str] | None = None,
    efforts: tuple[Effort, Effort] = (QUICK, FULL),
) -> int:
    """Measure the module `cases` against `peers`, report, and return the exit code of the script.

    Args:
        cases: A module with a function `cases`, see `_case.py`.
        description: What the script says of itself.
        peers: The libraries to compare with.
        quick_peers: Those of a quick run; all by default.
        efforts: How long to measure, quickly and in full.
    """
    arguments = parse_arguments(description)
    present = installed(quick_peers if arguments.quick and quick_peers is not None else peers)
    with started(present) as sides:
        # Rows that are asked for by their names are measured in a quick run, too.
        every = not arguments.quick or bool(arguments.only)
        rows, problems = measure(cases, sides, efforts[0 if arguments.quick else 1], arguments.only, every=every)
    report(rows, arguments.json)
    for problem in problems:
        note(problem)
    return 1 if problems else 0


def parse_arguments(description: str | None) -> argparse.Namespace:
    """Parse the options that all benchmark scripts share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, under a minute")
    parser.add_argument("--json", metavar="PATH", help="write the rows there; `-` prints them as one line, last")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the rows whose name contains TEXT")
    return parser.parse_args()


def installed(peers: Iterable[str]) -> list[str]:
    """Return those of `peers` that are installed and name the others on stderr."""
    present = []
    for peer in peers:
        if is_installed(peer):
            present.append(peer)
        else:
            home = peer_python(peer).parents[1]
            note(f"left out: {peer} is not in {home}; run benchmarks/make_peers.py {peer}")
    return present


@contextmanager
def started(peers: Sequence[str]) -> Iterator[list[Side]]:
    """Start our side and those of `peers`, and end them afterwards."""
    sides = [Side(OURS, sys.executable), *(Side(peer, peer_python(peer)) for peer in peers)]
    try:
        yield sides
    finally:
        for side in sides:
            side.close()


def measure(
    cases: str, sides: Sequence[Side], effort: Effort, only: str = "", *, every: bool = True
) -> tuple[list[Row], list[str]]:
    """Return the rows of all cases, and what kept any of them from being measured; ours is the first of `sides`.

    Args:
        cases: The module of the cases.
        sides: Ours, and those to compare with.
        effort: How long to measure.
        only: What the names of the rows have to contain.
        every: Whether to measure also what a quick run leaves out.
    """
    rows: list[Row] = []
    problems: list[str] = []
    listed: dict[str, dict[str, Any]] = {}
    loaded = []
    for side in sides:
        try:
            listed[side.name] = {case["name"]: case for case in side.ask("load", module=cases)["cases"]}
            loaded.append(side)
        except SideError as error:
            problems.append(str(error))
    if OURS not in listed:
        return rows, problems
    theirs = set[str]().union(*(names for side, names in listed.items() if side != OURS))
    compared = [case for name, case in listed[OURS].items() if only in name and (case["beside"] or name in theirs)]
    chosen = [case for case in compared if every or case["is_quick"]]
    for position, case in enumerate(chosen, start=1):
        _progress(position, len(chosen), case["name"])
        asked = [side for side in loaded if case["name"] in listed[side.name]]
        try:
            _same_results(case, asked)
            rows.extend(_rows(case, _alternate(case["name"], asked, effort)))
        except SideError as error:
            problems.append(f"{case['name']}: left out, {error}")
    return rows, problems


def _same_results(case: dict[str, Any], sides: Sequence[Side]) -> None:
    """Raise if a side returns something else than ours does (this also warms all sides up)."""
    ours, *others = [side.ask("check", case=case["name"])["fingerprint"] for side in sides]
    for side, theirs in zip(sides[1:], others, strict=True):
        if theirs != ours and not case["differs"]:
            raise SideError(f"{side.name} returns another result than {OURS}, so the times say nothing.")


def _alternate(case: str, sides: Sequence[Side], effort: Effort) -> dict[str, float]:
    best = dict.fromkeys((side.name for side in sides), float("inf"))
    for turn in range(effort.rounds):
        for side in sides if turn % 2 == 0 else reversed(sides):
            answer = side.ask("time", case=case, budget_s=effort.budget_s)
            best[side.name] = min(best[side.name], answer["seconds"])
            for name, seconds in answer["beside"].items():
                best[name] = min(best.get(name, float("inf")), seconds)
    return best


def _rows(case: dict[str, Any], best: dict[str, float]) -> list[Row]:
    ours, unit = best[OURS], case["unit"]
    return [
        Row(name=case["name"], value=in_unit(ours, unit), unit=unit, against=name, ratio=seconds / ours)
        for name, seconds in best.items()
        if name != OURS
    ]


def in_unit(seconds: float, unit: str) -> float:
    """Express the time of one unit of work in `unit`, which is a time or "<things>/s".

    >>> in_unit(0.002, "ms"), in_unit(0.002, "steps/s")
    (2.0, 500.0)
    """
    return seconds * _SECONDS[unit] if unit in _SECONDS else 1.0 / seconds


def report(rows: Sequence[Row], json_path: str | None, write: Callable[[str], object] = print) -> None:
    """Show `rows` as a table, or as one JSON line if `json_path` is "-"; write other paths as well."""
    rounded = [{**row, "value": _significant(row["value"]), "ratio": _significant(row["ratio"])} for row in rows]
    if json_path == "-":
        write(json.dumps(rounded))
        return
    if json_path:
        Path(json_path).write_text(json.dumps(rounded, indent=1) + "\n")
    if not rows:
        return
    width = max(len(row["name"]) for row in rows)
    write(f"{'name':<{width}}  {'ours':>10} {'unit':<9} {'against':<16} {'theirs':>10}  ratio")
    for row in rows:
        less_is_better = row["unit"] in _SECONDS or row["unit"] == "steps"
        theirs = row["value"] * row["ratio"] if less_is_better else row["value"] / row["ratio"]
        write(
            f"{row['name']:<{width}}  {row['value']:>10,.5g} {row['unit']:<9} {row['against']:<16} "
            f"{theirs:>10,.5g}  {row['ratio']:.2f}x"
        )


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def note(text: str) -> None:
    """Say something that is not a result."""
    print(text, file=sys.stderr, flush=True)


def _progress(position: int, total: int, name: str) -> None:
    if sys.stderr.isatty():
        end = "\n" if position == total else ""
        print(f"\r\x1b[K[{position}/{total}] {name}", end=end, file=sys.stderr, flush=True)
