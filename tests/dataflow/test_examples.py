"""Every example runs; what they learn is in `tests/learning`."""

from __future__ import annotations

import math

import pytest
import torch

from examples import PATHS, example


@pytest.fixture(autouse=True)
def threads():
    """Examples choose how many threads torch has; others should not notice."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


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
