"""Every faulty module is found out, by the law that it breaks."""

import re

import pytest

from episodia.testing import MODULE_LAWS, ModuleSubject, check_module
from faulty_modules import BOX, CHOICES, FAULTY, RIGHT, CentersTheBatch, LearnsWithoutGradients, Net
from found_out import assert_found_out


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_module_breaks_its_law(name):
    make, law, message = FAULTY[name]

    assert_found_out(name, make(), law, message)


def test_there_is_one_for_every_law():
    assert {law for _, law, _ in FAULTY.values()} == {law.__name__ for law in MODULE_LAWS}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_the_faulty_ones_are_made_of_is_right(kind):
    outcomes = {result.outcome for result in check_module(kind(BOX, CHOICES))}

    assert outcomes <= {"passed", "skipped"}


def test_a_failure_shows_the_smallest_episodes_that_it_happens_on():
    with pytest.raises(AssertionError, match="breaks the law `rows_do_not_depend_on_each_other`") as failure:
        check_module(CentersTheBatch(BOX, CHOICES))

    assert re.findall(r"SingleAgentEpisode\(len=(\d)", str(failure.value).split("`rows_do_not")[1])[0] == "1"


def test_the_module_given_stays_as_it_is():
    module = Net(BOX, CHOICES)
    before = {name: value.clone() for name, value in module.state_dict().items()}

    check_module(module)

    assert all(value.equal(before[name]) for name, value in module.state_dict().items())


def test_weights_that_no_output_depends_on_are_a_remark():
    class Spare(Net):
        def __init__(self, *spaces):
            super().__init__(*spaces)
            self.spare = LearnsWithoutGradients(*spaces).policy

    results = {result.name: result for result in check_module(Spare(BOX, CHOICES))}

    assert results["learning_reaches_the_weights"].outcome == "passed"
    assert "['spare.weight', 'spare.bias']" in results["learning_reaches_the_weights"].text


def test_spaces_have_to_be_known():
    with pytest.raises(ValueError, match="Pass `observation_space=`"):
        ModuleSubject.of(Net(None, CHOICES))


def test_a_name_among_expected_failures_that_is_not_law_is_rejected():
    with pytest.raises(ValueError, match="it_swims"):
        check_module(Net(BOX, CHOICES), expected_failures={"it_swims": "never"})
