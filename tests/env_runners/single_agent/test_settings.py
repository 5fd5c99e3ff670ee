"""Invalid settings of runners are rejected before anything is built."""

import subprocess
import sys

import gymnasium as gym
import pytest

from episodia.connectors import MeanStdFilter
from episodia.env_runners import Callbacks, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import EnvError, EnvRunnerError
from episodia.testing import assert_same_multi_agent_episode
from scripted_agents import ScriptedEnv

JUNK = {
    "num_envs": ["2", 0, 1.5, True],
    "seed": ["a", -1, 1.5],
    "horizon": ["a", 0],
    "soft_horizon": ["a", 0],
    "lookback": ["a", -1, None],
    "reward_delay": [-1, None],
    "max_restarts": ["a", -1],
    "rollout_fragment_length": ["a", 0],
    "callbacks": [3, Callbacks(), [Callbacks], {"on_sample_end": print}],
    "env_to_module": [3, MeanStdFilter()],
    "module_to_env": [3],
    "async_context": ["tea", None],
    "step_timeout_s": ["a", 0, float("nan")],
    "explore": ["no", 1, None],
    "ignore_terminations": ["no", 0],
    "check_finite": [3],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in JUNK.items() for value in values])
def test_junk_is_rejected_by_both_runners(name, value):
    settings = {name: value} | ({"vectorization": "async"} if name == "step_timeout_s" else {})
    for runner, env in ((SingleAgentEnvRunner, "CartPole-v1"), (MultiAgentEnvRunner, ScriptedEnv)):
        with pytest.raises(EnvRunnerError, match="expected"):
            runner(env, **settings)


@pytest.mark.parametrize("junk", [{"explore": "yes"}, {"random_actions": 2}, {"force_reset": "no"}], ids=str)
def test_invalid_flags_are_rejected_when_sampling(junk):
    for kind, env in ((SingleAgentEnvRunner, "CartPole-v1"), (MultiAgentEnvRunner, ScriptedEnv)):
        with kind(env, seed=0) as runner, pytest.raises(EnvRunnerError, match="expected True or False"):
            runner.sample(num_timesteps=1, **junk)


@pytest.mark.parametrize("module", [3, "random", Callbacks()])
def test_what_cannot_act_is_no_module(module):
    with pytest.raises(EnvRunnerError, match=r"as the module, without \['forward_inference'"):
        SingleAgentEnvRunner("CartPole-v1", module)


@pytest.mark.parametrize("env", ["Nope-v1", "no_such_package:Nope-v1", "CartPole-v99"])
def test_an_environment_that_gymnasium_does_not_know_is_an_error_of_ours(env):
    with pytest.raises(EnvRunnerError, match="which gymnasium cannot make"):
        SingleAgentEnvRunner(env)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("error", [ImportError("no game"), gym.error.DependencyNotInstalled("no game")])
def test_f5_a_function_whose_environment_lacks_a_package_is_an_error_that_names_the_environment(error, vectorization):
    def make():
        raise error

    with pytest.raises(EnvError, match=rf"environment 0: found {type(error).__name__}: no game when it was made"):
        SingleAgentEnvRunner(make, num_envs=2, vectorization=vectorization)


@pytest.mark.parametrize(
    "junk",
    [
        None,
        3,
        {},
        {"rng": None},
        {"generator": "tea"},
        {"weights": {"nobody": {}}},
        {"num_resets": "tea"},
        {"env_to_module": 3},
    ],
)
def test_an_invalid_state_changes_nothing(junk):
    with (
        MultiAgentEnvRunner(ScriptedEnv, num_envs=2, seed=0) as runner,
        MultiAgentEnvRunner(ScriptedEnv, num_envs=2, seed=0) as twin,
    ):
        for each in (runner, twin):
            each.sample(num_timesteps=7)
        with pytest.raises(EnvRunnerError, match="set_state: found"):
            runner.set_state({**runner.get_state(), **junk} if junk and junk != 3 else junk)

        for left, right in zip(runner.sample(num_timesteps=20), twin.sample(num_timesteps=20), strict=True):
            assert_same_multi_agent_episode(left, right, ignore=["times"])


@pytest.mark.parametrize("junk", [None, 3, {}])
def test_what_is_no_state_is_rejected_for_one_agent_too(junk):
    with SingleAgentEnvRunner("CartPole-v1") as runner, pytest.raises(EnvRunnerError, match="set_state: found"):
        runner.set_state(junk)


@pytest.mark.parametrize(("runner", "env"), [(SingleAgentEnvRunner, "CartPole-v1"), (MultiAgentEnvRunner, ScriptedEnv)])
def test_evaluations_are_counted_in_episodes_and_end_with_their_runner(runner, env):
    with runner(env, seed=0) as open_runner:
        for junk in ("a", 0, 1.5, None):
            with pytest.raises(EnvRunnerError, match="found `num_episodes="):
                open_runner.evaluate(num_episodes=junk)
        assert open_runner.get_state()["num_evaluations"] == 0

    with pytest.raises(EnvRunnerError, match="evaluate: found a runner that is closed"):
        open_runner.evaluate(num_episodes=1)


def test_a_script_that_starts_processes_when_it_is_imported_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import episodia\nepisodia.collect('CartPole-v1', episodes=1, vectorization='async')\n")

    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert run.returncode == 1
    assert "asynchronous environments: found a process that ended" in run.stderr.splitlines()[-1]
    assert 'if __name__ == "__main__":' in run.stderr.splitlines()[-1]
