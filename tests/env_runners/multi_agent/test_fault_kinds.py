"""Whatever an environment of several agents raises and wherever: an error names it, and keeps its traceback."""

import os
import signal
import time
from functools import partial

import pytest

from episodia.env_runners.envs import async_lanes
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import EnvError
from scripted_agents import ScriptedEnv

KINDS = [RuntimeError, SystemExit, GeneratorExit]


class TimeLimitError(BaseException):
    """What a test program or a greenlet raises where code runs too long."""


class Raises(ScriptedEnv):
    """Raises in one of its methods, each time."""

    def __init__(self, place, error):
        super().__init__()
        self.place, self.error = place, error
        self.fail("init")

    def fail(self, place):
        if place == self.place:
            raise self.error("enough")

    def reset(self, **arguments):
        self.fail("reset")
        return super().reset(**arguments)

    def step(self, actions):
        self.fail("step")
        return super().step(actions)


def sample_of(make, **settings):
    with MultiAgentEnvRunner(make, num_envs=1, seed=0, max_restarts=1, **settings) as runner:
        return runner.sample(num_timesteps=4)


@pytest.mark.parametrize("place", ["init", "reset", "step"])
@pytest.mark.parametrize(
    ("error", "vectorization"),
    [*((error, "sync") for error in KINDS), *((error, "async") for error in [*KINDS, TimeLimitError])],
)
def test_f5_what_an_environment_raises_is_an_error_that_names_it_and_has_its_traceback(place, error, vectorization):
    with pytest.raises(EnvError, match=rf"(?s)environment 0\b.*{error.__name__}: enough.*Traceback .*in fail"):
        sample_of(partial(Raises, place, error), vectorization=vectorization)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeLimitError])
def test_f5_what_may_come_from_elsewhere_passes(error):
    with pytest.raises(error, match="enough"):
        sample_of(partial(Raises, "step", error))


class FailsToComeBack(ScriptedEnv):
    """Can be made once; then `trouble` many times not."""

    made = 0

    def __init__(self, trouble):
        super().__init__()
        type(self).made += 1
        if 1 < self.made <= 1 + trouble:
            raise RuntimeError("no licence")

    def step(self, actions):
        if self.made == 1:
            raise RuntimeError("enough")
        return super().step(actions)


@pytest.mark.parametrize("trouble", [1, 5])
def test_f5_an_environment_that_cannot_be_made_again_counts_as_failed_again(trouble, monkeypatch):
    monkeypatch.setattr(FailsToComeBack, "made", 0)
    with MultiAgentEnvRunner(partial(FailsToComeBack, trouble), num_envs=1, seed=0, max_restarts=3) as runner:
        if trouble == 1:
            assert len(runner.sample(num_episodes=2)) == 2
            assert runner.get_metrics().num_env_restarts == 1
        else:
            with pytest.raises(EnvError, match=r"rebuilding: found EnvError.* no licence"):
                runner.sample(num_episodes=2)


class Sleeps(ScriptedEnv):
    def step(self, actions):
        time.sleep(3600)


def test_f3_environments_that_hang_together_are_waited_for_once():
    """Eight limits of two seconds in a row would take longer."""
    with MultiAgentEnvRunner(
        Sleeps, num_envs=8, seed=0, vectorization="async", step_timeout_s=2.0, max_restarts=0
    ) as runner:
        started = time.monotonic()
        with pytest.raises(
            EnvError, match=r"environment 0, episode 1, step: found LostWorkerError: no answer for 2\.0 s"
        ):
            runner.sample(num_timesteps=16)
        elapsed_s = time.monotonic() - started

    assert elapsed_s < 12.0


def test_f3_stopped_processes_are_replaced_at_once_after_the_limit(monkeypatch):
    """Also where their silence is found out by a question for a space; five pauses in a row would take longer."""
    with MultiAgentEnvRunner(
        ScriptedEnv, num_envs=6, seed=0, vectorization="async", step_timeout_s=1.0, max_restarts=5
    ) as runner:
        runner.sample(num_timesteps=12)
        with monkeypatch.context() as patched:
            patched.setattr(async_lanes, "_PATIENCE_S", 20.0)
            for env in runner.envs[:5]:
                os.kill(env.process.processes[0].pid, signal.SIGSTOP)
            started = time.monotonic()
            runner.sample(num_timesteps=60)
            elapsed_s = time.monotonic() - started

        assert runner.get_metrics().num_env_restarts == 5
    assert elapsed_s < 30.0
