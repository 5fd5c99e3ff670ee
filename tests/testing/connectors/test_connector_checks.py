"""How checks of connectors report: what failed and on what, what was skipped and why, and each as a test of its own."""

import re
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest

from episodia import Columns
from episodia.connectors import ConnectorV2, FlattenObservations, FrameStacking, GetActions, Standardize
from episodia.errors import SubjectError
from episodia.testing import (
    CONNECTOR_LAWS,
    ENV_RUNNER_LAWS,
    LEARNER_LAWS,
    MODULE_LAWS,
    NotApplicableError,
    Subject,
    check_connector,
    checks_of,
    sample_episodes,
)
from faulty_connectors import (
    AddsX,
    AlwaysFails,
    DropsItsState,
    LeaksTheFuture,
    ReachesBehindTheFork,
    WritesWhatItDoesNotDeclare,
)

NAMES = [law.__name__ for law in CONNECTOR_LAWS]


def outcomes(connector, **options):
    return {result.name: (result.outcome, result.text) for result in check_connector(connector, **options)}


def is_broken(check):
    try:
        check()
    except NotApplicableError:
        return False
    except AssertionError:
        return True
    return False


# --- Failures ---------------------------------------------------------------------------------------------------------


def test_a_failure_names_the_connector_the_law_the_column_and_the_row():
    with pytest.raises(AssertionError) as failure:
        check_connector(LeaksTheFuture())

    assert "LeaksTheFuture breaks the law `cutting_changes_nothing`." in str(failure.value)
    assert "(learner, cut at 1, lookback 0), column 'x', row 0: found [0.], expected [" in str(failure.value)


def test_a_failure_shows_the_smallest_episode_that_it_happens_on():
    check = next(
        check for check in checks_of([Subject.of(LeaksTheFuture())]) if check.name == "cutting_changes_nothing"
    )

    with pytest.raises(AssertionError) as failure:
        check()
    assert re.findall(r"SingleAgentEpisode\(len=(\d)", str(failure.value)) == ["2"]
    assert "rewards [" in str(failure.value)


def test_all_broken_laws_are_reported_together():
    with pytest.raises(AssertionError) as failure:
        check_connector(LeaksTheFuture())
    broken = re.findall("LeaksTheFuture breaks the law `(.*)`", str(failure.value))

    assert str(failure.value).startswith(f"LeaksTheFuture breaks 2 of {len(NAMES)} laws.")
    assert broken == ["cutting_changes_nothing", "acting_sees_what_learning_sees"]


def test_a_connector_that_spoils_episodes_does_not_spoil_those_of_other_checks():
    broken = {check.name for check in checks_of([Subject.of(ReachesBehindTheFork())]) if is_broken(check)}

    assert broken == {"callers_data_stay_as_they_are"}


def test_a_connector_that_does_not_run_fails_once():
    with pytest.raises(AssertionError, match=f"AlwaysFails breaks 1 of {len(NAMES)} laws") as failure:
        check_connector(AlwaysFails())

    assert "pass `rl_module=`" in str(failure.value)


def test_the_connector_and_the_episodes_given_stay_as_they_are():
    piece, episodes = DropsItsState(), sample_episodes()
    with pytest.raises(AssertionError):
        check_connector(piece, episodes=episodes)

    assert piece.calls == 0
    assert [len(episode) for episode in episodes] == [3, 1, 5, 2]
    assert not any(episode.is_finalized for episode in episodes)


# --- What was not checked ---------------------------------------------------------------------------------------------


def test_every_law_has_a_result_in_order():
    assert list(outcomes(FrameStacking())) == NAMES


def test_what_does_not_apply_is_skipped_with_a_reason():
    found = outcomes(Standardize(column="rewards"))

    assert found["cutting_changes_nothing"] == (
        "skipped",
        "it is batch-wide, and the law is about causal pieces",
    )
    assert all(text for outcome, text in found.values() if outcome == "skipped")


def test_without_multi_agent_episodes_their_law_is_skipped():
    found = outcomes(FlattenObservations(), multi_agent_episodes=())

    assert found["agents_have_the_rows_of_their_own_episodes"][0] == "skipped"


def test_a_class_that_no_other_process_could_find_is_not_pickled():
    assert outcomes(type("Unfindable", (LooksTooFarBack,), {})())["it_pickles"][0] == "skipped"


def test_finalized_episodes_cannot_tell_whether_the_form_matters():
    found = outcomes(FlattenObservations(), episodes=[episode.finalize() for episode in sample_episodes()])

    assert found["form_does_not_matter"] == ("skipped", "all episodes are finalized; give growing ones, too")


def test_a_piece_without_what_feeds_it_is_told_what_to_pass():
    with pytest.raises(AssertionError, match=r"(?s)'advantages'.*`before=`"):
        check_connector(Standardize())
    with pytest.raises(AssertionError, match=r"(?s)'action_dist_inputs'.*`outputs=`"):
        check_connector(GetActions())


def test_test_runners_take_what_does_not_apply_for_skipped():
    assert issubclass(NotApplicableError, SkipTest)


# --- Remarks and expected failures ------------------------------------------------------------------------------------


class LooksTooFarBack(ConnectorV2):
    """Declares two steps and needs none."""

    reads, writes, lookback = frozenset(), frozenset(), 2

    def __call__(self, *, batch, episodes, **kwargs):
        return batch


def test_a_lookback_that_is_larger_than_needed_is_a_remark():
    assert outcomes(LooksTooFarBack())["lookback_is_as_small_as_declared"] == (
        "passed",
        "it declares a lookback of 2; on these episodes 1 was enough",
    )


def test_a_lookback_that_is_needed_is_no_remark():
    assert outcomes(FrameStacking(num_frames=3))["lookback_is_as_small_as_declared"] == ("passed", "")


def test_a_failure_can_be_expected():
    found = outcomes(WritesWhatItDoesNotDeclare(), expected_failures={"columns_are_those_declared": "see issue 3"})

    assert found["columns_are_those_declared"] == ("failed as expected", "see issue 3")


def test_a_failure_that_is_expected_and_does_not_come_is_one():
    with pytest.raises(AssertionError, match=r"`it_pickles` was expected to fail \(see issue 3\), and did not"):
        check_connector(FlattenObservations(), expected_failures={"it_pickles": "see issue 3"})


# --- With pytest ------------------------------------------------------------------------------------------------------

SUITE = """
from episodia.connectors import ComputeReturnsToGo, ConnectorV2
from episodia.testing import Subject, parametrize_with_checks

class Quiet(ConnectorV2):
    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __call__(self, *, batch, **kwargs):
        return batch

@parametrize_with_checks([ComputeReturnsToGo(), Subject.of(Quiet(), expected_failures={"it_pickles": "soon"})])
def test_mine(check):
    check()
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Return what pytest says about a suite with a right and a wrong connector."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_mine.py").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-q", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    "line",
    [
        "PASSED test_mine.py::test_mine[ComputeReturnsToGo-episodes_do_not_depend_on_each_other]",
        "FAILED test_mine.py::test_mine[Quiet-columns_are_those_declared]",
        "FAILED test_mine.py::test_mine[Quiet-it_pickles] - [XPASS(strict)] soon",
        "it is forward-looking, and the law is about causal pieces",
    ],
)
def test_each_check_is_a_test_of_its_own(suite, line):
    assert line in suite


@pytest.mark.parametrize("junk", [3, None, FlattenObservations, "FlattenObservations"])
def test_what_is_no_connector_is_rejected(junk):
    with pytest.raises(SubjectError, match="expected an object derived from `ConnectorV2`"):
        check_connector(junk)


def test_a_failure_that_is_expected_of_no_law_is_rejected_in_test_suites_too():
    with pytest.raises(SubjectError, match="it_swims"):
        checks_of([Subject.of(FlattenObservations(), expected_failures={"it_swims": "it is a stone"})])


def test_the_guide_has_every_law():
    guide = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")
    laws = [law.__name__ for laws in (CONNECTOR_LAWS, MODULE_LAWS, LEARNER_LAWS, ENV_RUNNER_LAWS) for law in laws]

    assert [law for law in laws if f"`{law}`" not in guide] == []


def test_the_report_begins_with_the_law_that_explains_the_others():
    class DrawsFromTheGlobalGenerator(AddsX):
        def value(self, rows):
            noise = np.random.normal()  # noqa: NPY002  # that is its fault
            return rows.flat(Columns.OBS).map(lambda leaf: leaf + noise)

    with pytest.raises(AssertionError) as failure:
        check_connector(DrawsFromTheGlobalGenerator())
    broken = re.findall("breaks the law `(.*?)`", str(failure.value))

    assert broken[0] == "global_random_generators_stay_as_they_are"
    assert len(broken) > 1
    assert "Correct this one first" in str(failure.value).splitlines()[0]
    assert str(failure.value).index("np.random.default_rng") < str(failure.value).index(broken[1])
