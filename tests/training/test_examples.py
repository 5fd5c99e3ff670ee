"""Every example runs; what they learn is in `tests/learning`."""

from __future__ import annotations

import math

import pytest

from examples import PATHS, example


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_runs_with_few_steps(path, capsys):
    score = example(path.stem).main(["--steps", "600"])

    assert math.isfinite(score)
    assert "evaluation" in capsys.readouterr().out


def test_there_are_examples():
    assert {path.stem for path in PATHS} >= {
        "ppo",
        "recurrent_ppo",
        "multi_agent_ppo",
        "two_networks",
        "rule_based_opponent",
    }
