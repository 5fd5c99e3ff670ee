"""No shipped env runner raises a false alarm, and neither does a plain loop that somebody else has written."""

from functools import partial

from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.testing import EnvRunnerSubject, parametrize_with_checks
from list_recorder import ListRecorder
from plain_runner import PlainRunner

SUBJECTS = [
    EnvRunnerSubject(SingleAgentEnvRunner),
    EnvRunnerSubject(partial(SingleAgentEnvRunner, soft_horizon=None, explore=False), label="single, not exploring"),
    EnvRunnerSubject(partial(SingleAgentEnvRunner, recorder=ListRecorder), label="single, with a recorder of lists"),
    EnvRunnerSubject(MultiAgentEnvRunner, multi_agent=True),
    EnvRunnerSubject(PlainRunner),
]


@parametrize_with_checks(SUBJECTS)
def test_env_runners_keep_the_law(check):
    check()
