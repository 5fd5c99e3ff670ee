"""Every faulty loss and every faulty learner is found out, by the law that it breaks."""

import re

import pytest

from episodia.testing import LEARNER_LAWS, check_learner
from faulty_learners import FAULTY, Right, SumsOverSteps, Wrapped
from found_out import assert_found_out


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_learner_breaks_its_law(name):
    make, law, message = FAULTY[name]

    assert_found_out(name, make(), law, message)


def test_there_is_one_for_every_law():
    assert {law for _, law, _ in FAULTY.values()} == {law.__name__ for law in LEARNER_LAWS}


def test_what_the_faulty_ones_are_made_of_is_right():
    outcomes = {result.outcome for result in check_learner(Right())}

    assert outcomes <= {"passed", "skipped"}


def test_a_failure_shows_the_smallest_episodes_that_it_happens_on():
    with pytest.raises(AssertionError, match="breaks the law `parts_average_to_the_whole`") as failure:
        check_learner(SumsOverSteps())

    lengths = re.findall(r"SingleAgentEpisode\(len=(\d)", str(failure.value))
    assert sum(map(int, lengths)) <= 2


def test_a_learner_that_only_updates_is_told_what_was_not_checked():
    class Simple(Wrapped):
        compute_gradients = get_state = property()

        def __getattr__(self, name):
            if name in ("compute_gradients", "get_state"):
                raise AttributeError(name)
            return super().__getattr__(name)

    found = check_learner(Right(), make=lambda modules, *, seed: Simple(modules, Right(), seed))
    results = {result.name: result for result in found}

    assert results["parts_average_to_the_whole"].text == "it has no `compute_gradients`"
    assert results["restored_learners_go_on_alike"].text == "it has no `get_state`"
