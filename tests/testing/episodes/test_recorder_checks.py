"""Shipped recorders keep the laws of recorders, and every faulty one is found out."""

import pytest

from episodia import Recorder
from episodia.errors import SubjectError
from episodia.testing import RECORDER_LAWS, RecorderSubject, check_recorder, parametrize_with_checks
from faulty_recorders import FAULTY, DropsExtraOutputs
from found_out import assert_found_out
from list_recorder import ListRecorder


@parametrize_with_checks([RecorderSubject(Recorder), RecorderSubject(ListRecorder)])
def test_recorders_keep_the_law(check):
    check()


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_recorder_breaks_its_law(name):
    subject, law, message = FAULTY[name]

    assert_found_out(name, subject, law, message)


def test_there_is_one_for_every_law():
    assert {law for _, law, _ in FAULTY.values()} == {law.__name__ for law in RECORDER_LAWS}


def test_a_failure_shows_the_fewest_steps_that_it_happens_on():
    with pytest.raises(AssertionError, match=r"breaks 2 of 13 laws(?s:.*)truncates: \S{3}\n"):
        check_recorder(DropsExtraOutputs)


def test_something_that_makes_no_recorder_is_rejected():
    with pytest.raises(AssertionError, match="expected a subclass of `EpisodeRecorder`"):
        check_recorder(lambda *_, **__: [], label="lists")
    with pytest.raises(SubjectError, match="expected a class or a function"):
        check_recorder(3)
