"""Every faulty env runner is found out, by the law that it breaks."""

import pytest

from episodia.testing import ENV_RUNNER_LAWS, check_env_runner
from faulty_env_runners import FAULTY, PROCESSES, AlwaysExplores, LosesShortChunks
from found_out import assert_found_out
from plain_runner import PlainRunner


@pytest.fixture(autouse=True, scope="module")
def no_processes_left():
    yield
    for process in PROCESSES:
        process.kill()
        process.join()


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_env_runner_breaks_its_law(name):
    subject, law, message = FAULTY[name]

    assert_found_out(name, subject, law, message)


def test_there_is_one_for_every_law():
    assert {law for _, law, _ in FAULTY.values()} == {law.__name__ for law in ENV_RUNNER_LAWS}


def test_a_failure_shows_the_fewest_calls_that_it_happens_on():
    with pytest.raises(AssertionError, match="AlwaysExplores breaks 1 of 14 laws") as failure:
        check_env_runner(AlwaysExplores)
    assert "with 3 fake environments: sample(num_timesteps=1)" in str(failure.value)

    with pytest.raises(AssertionError, match="LosesShortChunks breaks"):
        check_env_runner(LosesShortChunks)


def test_a_runner_without_evaluation_and_state_is_told_what_was_not_checked():
    class Simple(PlainRunner):
        evaluate = get_state = property()

    results = {result.name: result for result in check_env_runner(Simple)}

    assert results["evaluation_leaves_sampling_alone"].text == "it has no `evaluate`"
    assert results["restored_runners_go_on_alike"].text == "it has no `get_state`"
