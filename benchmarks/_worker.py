"""The lasting process of one side: reads one JSON request per line, answers with one JSON line.

Started by `_harness.py` as `<interpreter of the side> _worker.py <side>`. Whatever libraries print goes to
stderr, so stdout carries answers only.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from _case import Case, fingerprint, time_case


class Worker:
    """Answers requests about the cases of one module."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.module: Any = None
        self.cases: dict[str, Case] = {}

    def load(self, module: str) -> dict[str, Any]:
        """Import `module` and list the cases that it has for this side."""
        self.module = importlib.import_module(module)
        cases = self.module.cases(self.side)
        self.cases = {case.name: case for case in cases}
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        gc.collect()
        gc.freeze()
        return {"cases": [_described(case) for case in cases]}

    def check(self, case: str) -> dict[str, Any]:
        """Run `case` once and describe its result."""
        return {"fingerprint": fingerprint(self.cases[case])}

    def time(self, case: str, budget_s: float) -> dict[str, Any]:
        """Return the seconds per unit of work of `case`, and of what is measured beside it."""
        measured = self.cases[case]
        seconds = time_case(measured, budget_s)
        beside = {name: time_case(_beside(measured, run), budget_s) for name, run in measured.beside.items()}
        return {"seconds": seconds, "beside": beside}

    def call(self, function: str, **arguments: Any) -> dict[str, Any]:
        """Return what a function of the module returns, for what is no case."""
        answer: dict[str, Any] = getattr(self.module, function)(self.side, **arguments)
        return answer


def _described(case: Case) -> dict[str, Any]:
    told = {"name": case.name, "unit": case.unit, "differs": case.differs, "is_quick": case.is_quick}
    return {**told, "beside": list(case.beside)}


def _beside(case: Case, run: Callable[[], Any]) -> Case:
    """Return the case of doing `run` instead, timed alike: as many calls between preparations, caches as cold."""
    return replace(case, run=run if case.prepare is None else lambda _: run())


def main() -> None:
    """Serve requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # noqa: BLE001 -- whatever a case raises is the answer
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
