"""What was recorded before a change of the structure is played again: episodes, batches and weights stay the same."""

import json
from pathlib import Path

import pytest

from traces.figures import differences, figures_of
from traces.scenarios import SCENARIOS, play

RECORDED = json.loads((Path(__file__).parent / "support" / "traces" / "recorded.json").read_text())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_gives_what_was_recorded(name):
    found = json.loads(json.dumps(figures_of(play(name))))

    different = differences(RECORDED[name], found)
    assert not different, f"{name}: {len(different)} columns differ\n" + "\n".join(different)


def test_every_recorded_scenario_is_played():
    assert set(RECORDED) == set(SCENARIOS)
