"""Environments that fail: they alone are rebuilt, and nothing that was finished is lost."""

import numpy as np
import pytest

from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import EnvError, EnvRunnerError, EpisodeError
from scripted_agents import KINDS, Echo, ScriptedEnv


class Failing(ScriptedEnv):
    """Calls `fault` in the steps (of its own life) that are in `at`."""

    def __init__(self, *args, at=(), fault=None, in_reset=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.at, self.fault, self.in_reset, self.steps = set(at), fault, in_reset, 0

    def reset(self, *, seed=None, options=None):
        if self.in_reset:
            raise OSError("cannot begin")
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        self.steps += 1
        if self.steps in self.at:
            return self.fault(super().step(actions))
        return super().step(actions)


def crash(_):
    raise ZeroDivisionError("oh no")


def interrupt(_):
    raise KeyboardInterrupt


def runner_with(*faulty, **options):
    """Return a runner whose environments are made with the given options, one after another, then with none."""
    waiting, made = list(faulty), []

    def make():
        made.append(Failing(len(made), kind="simultaneous", longest=6, **(waiting.pop(0) if waiting else {})))
        return made[-1]

    return MultiAgentEnvRunner(make, Echo(), seed=0, **options), made


def test_an_environment_that_raises_is_rebuilt_and_others_are_not_affected():
    runner, made = runner_with({"at": [3], "fault": crash}, {}, num_envs=2)
    calm = MultiAgentEnvRunner(runner._source.env, Echo(), seed=0, num_envs=2)
    found, expected = runner.sample(num_timesteps=40), calm.sample(num_timesteps=40)

    assert len(made) == 3 + 2
    assert made[0].closed == 1
    metrics = runner.get_metrics()
    assert (metrics.num_env_restarts, metrics.num_episodes_dropped) == (1, 1)
    others = [
        [(chunk.id_, len(chunk), chunk.get_return()) for chunk in sample if chunk.id_.startswith("0-1-")]
        for sample in (found, expected)
    ]
    shared = min(map(len, others)) - 1
    assert others[0][:shared] == others[1][:shared]
    assert shared > 2


def test_a_dropped_episode_leaves_no_step_behind():
    runner, made = runner_with({"at": [5], "fault": crash})
    samples = runner.sample(num_timesteps=30)
    ids = [chunk.id_ for chunk in samples]

    assert sum(map(len, samples)) == 30
    assert len(set(ids)) == len(ids)
    dropped = runner.get_metrics()
    assert dropped.num_env_steps_dropped == made[0].t - 1


def test_an_episode_can_be_returned_as_truncated_instead():
    runner, made = runner_with({"at": [2], "fault": crash}, on_env_error="truncate")
    made[0].longest = 10**6
    samples = runner.sample(num_timesteps=30)

    assert (samples[0].id_, samples[0].is_truncated) == ("0-0-0", True)
    for single in samples[0].agent_episodes.values():
        assert single.is_truncated
        assert len(single) == 1


def test_in_whole_episodes_a_dropped_one_is_replaced():
    runner, _ = runner_with({"at": [2], "fault": crash}, num_envs=2)

    assert len(runner.sample(num_episodes=5)) == 5


@pytest.mark.parametrize("in_reset", [False, True])
def test_an_environment_that_fails_again_and_again_is_an_error_with_its_cause(in_reset):
    always = {"in_reset": True} if in_reset else {"at": range(1, 99), "fault": crash}
    runner, made = runner_with(*[always] * 9, max_restarts=4)

    with pytest.raises(EnvError, match=r"environment 0.*4 failures") as caught:
        runner.sample(num_timesteps=10)
    assert isinstance(caught.value.__cause__, OSError if in_reset else ZeroDivisionError)
    assert len(made) == 5


def test_a_ready_environment_cannot_be_rebuilt():
    runner = MultiAgentEnvRunner(Failing(at=[1], fault=crash), Echo())

    with pytest.raises(EnvError, match="Pass a callable"):
        runner.sample(num_timesteps=10)


def test_finished_episodes_wait_for_the_next_call_if_sampling_fails():
    faults = [{}, *[{"at": range(20, 999), "fault": crash}] * 1]
    runner, _ = runner_with(*faults, num_envs=2, max_restarts=0)
    with pytest.raises(EnvError):
        runner.sample(num_timesteps=1000)
    runner._lanes[1].env = ScriptedEnv(7, kind="simultaneous")
    samples = runner.sample(num_timesteps=1)
    finished = {chunk.id_ for chunk in samples if chunk.is_done}

    assert {"0-0-0", "0-0-1", "0-1-0", "0-1-1"} <= finished
    assert sum(len(chunk) for chunk in samples) > 30


@pytest.mark.parametrize("on_env_error", ["drop", "truncate"])
def test_an_interrupt_loses_at_most_the_episode_of_the_environment_it_hit(on_env_error):
    runner, made = runner_with({}, {"at": [9], "fault": interrupt}, num_envs=2, on_env_error=on_env_error)
    with pytest.raises(KeyboardInterrupt):
        runner.sample(num_timesteps=100)
    samples = runner.sample(num_timesteps=60)
    steps = {chunk.id_: chunk for chunk in samples}

    assert sum(len(chunk) for chunk in samples) >= 60
    assert len(made) == 2
    for env in made:
        for number, log in enumerate(env.log[:-1]):
            chunk = steps.get(f"0-{env.index}-{number}")
            assert chunk is None or len(chunk) == len(log) - 1
    missing = [number for number in range(len(made[1].log)) if f"0-1-{number}" not in steps]
    assert len(missing) == (1 if on_env_error == "drop" else 0)


def wrong_shape(result):
    return {agent: np.zeros(9, np.int64) for agent in result[0]}, *result[1:]


def wrong_dtype(result):
    return dict.fromkeys(result[0], "text"), *result[1:]


def no_number(result):
    return result[0], dict.fromkeys(result[1], "much"), *result[2:]


@pytest.mark.parametrize("fault", [wrong_shape, wrong_dtype, no_number])
def test_what_does_not_fit_is_an_error_that_names_environment_and_episode_and_the_runner_goes_on(fault):
    runner, _ = runner_with({}, {"at": [3], "fault": fault}, num_envs=2)

    with pytest.raises(EpisodeError, match=r"environment 1: episode '0-1-\d'"):
        runner.sample(num_timesteps=100)
    samples = runner.sample(num_timesteps=40)
    assert runner.get_metrics().num_episodes_dropped == 1
    assert all(chunk.env_t_started == 0 for chunk in samples)
    for chunk in samples:
        chunk.validate()


def outside(result):
    return {agent: np.full(4, -5) for agent in result[0]}, *result[1:]


def test_observations_outside_of_their_space_are_recorded_with_a_warning_that_loses_nothing():
    runner, _ = runner_with({"at": [3], "fault": outside})
    with pytest.raises(UserWarning, match="0-0-"):  # warnings are errors here
        runner.sample(num_timesteps=100)
    games = runner.sample(num_timesteps=100)

    with pytest.raises(EpisodeError, match="expected items inside"):
        games[0].validate()
    assert sum(map(len, games)) >= 100
    assert runner.get_metrics().num_episodes_dropped == 0


def not_five(result):
    return result[:4]


def test_a_step_that_does_not_return_five_things_is_a_failure():
    runner, _ = runner_with({"at": [3], "fault": not_five})

    assert sum(map(len, runner.sample(num_timesteps=30))) == 30
    assert runner.get_metrics().num_env_restarts == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_that_ends_with_its_first_step(kind):
    runner = MultiAgentEnvRunner(lambda: ScriptedEnv(kind=kind, longest=1), Echo(), num_envs=2, seed=0)

    assert [len(episode) for episode in runner.sample(num_episodes=6)] == [1] * 6


def test_closing_twice_is_fine():
    runner, made = runner_with()
    with runner:
        runner.sample(num_timesteps=3)
    runner.close()

    assert made[0].closed >= 1


def not_a_number(result):
    return result[0], dict.fromkeys(result[1], float("nan")), *result[2:]


@pytest.mark.parametrize("check_finite", [True, False])
def test_nan_is_rejected_where_it_comes_from_unless_it_is_allowed(check_finite):
    runner, _ = runner_with({}, {"at": [3], "fault": not_a_number}, num_envs=2, check_finite=check_finite)
    if check_finite:
        with pytest.raises(EnvError, match=r"environment 1, episode '0-1-\d', agent 'agent 0', t=\d"):
            runner.sample(num_timesteps=40)
    samples = runner.sample(num_timesteps=40)

    assert runner.get_metrics().num_episodes_dropped == check_finite
    returns = [chunk.get_return() for chunk in samples]
    assert np.isnan(returns).any() == (not check_finite)


def test_an_episode_that_was_truncated_because_of_a_failure_says_why():
    runner, made = runner_with({"at": [2], "fault": crash}, on_env_error="truncate")
    made[0].longest = 10**6

    assert runner.sample(num_timesteps=30)[0].custom_data["env_error"] == "ZeroDivisionError: oh no"


def test_a_closed_runner_does_not_sample():
    runner, _ = runner_with()
    runner.close()

    with pytest.raises(EnvRunnerError, match="closed"):
        runner.sample(num_timesteps=3)
