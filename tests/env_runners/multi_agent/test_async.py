"""Environments with several agents in processes of their own."""

import contextlib
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pettingzoo
import pytest

from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import EnvError, EnvRunnerError
from episodia.testing import assert_same_multi_agent_episode
from scripted_agents import KINDS, Echo, ScriptedEnv

STARTED = {"vectorization": "async"}


def one_for_all(*_):
    return "default_policy"


class Moody(ScriptedEnv):
    """Misbehaves at the third step of an episode whose seed is divisible by three."""

    what = "raise"

    def step(self, actions):
        result = super().step(actions)
        if self.t == 3 and self.seeds[-1] % 3 == 0:
            if self.what == "raise":
                raise RuntimeError("not today")
            if self.what == "die":
                os._exit(1)
            time.sleep(3600)
        return result


class Mortal(Moody):
    what = "die"


class Sleepy(Moody):
    what = "sleep"


def runner_of(env=ScriptedEnv, num_envs=2, module=None, kind="simultaneous", **settings):
    made = partial(env, kind=kind, longest=9)
    module = Echo() if module is None else module
    return MultiAgentEnvRunner(
        made, module, num_envs=num_envs, seed=5, agent_to_module_mapping_fn=one_for_all, **settings
    )


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids_of(runner):
    return [process.pid for env in runner.envs for process in env._process.processes]


def assert_same(left, right):
    assert [episode.id_ for episode in left] == [episode.id_ for episode in right]
    for mine, other in zip(left, right, strict=True):
        assert_same_multi_agent_episode(mine, other, ignore=["times"])


@pytest.mark.parametrize("kind", KINDS)
def test_d1_the_same_seed_gives_the_same_episodes_in_one_process_and_in_several(kind):
    played = []
    for vectorization in ("sync", "async"):
        with runner_of(kind=kind, vectorization=vectorization) as runner:
            played.append([*runner.sample(num_timesteps=25), *runner.sample(num_episodes=5)])

    assert_same(*played)


@pytest.mark.parametrize("make", [partial(pettingzoo.make, "aec", "classic/tictactoe-v3")])
def test_games_of_pettingzoo_are_the_same_in_several_processes(make):
    played = []
    for vectorization in ("sync", "async"):
        with MultiAgentEnvRunner(make, num_envs=2, seed=1, vectorization=vectorization) as runner:
            played.append(runner.sample(num_episodes=4))

    assert [game.id_ for game in played[0]] == [game.id_ for game in played[1]]
    for mine, other in zip(*played, strict=True):
        assert mine.get_return() == other.get_return()
        for agent, single in mine.agent_episodes.items():
            assert np.array_equal(single.get_actions(), other.agent_episodes[agent].get_actions())


@pytest.mark.parametrize(("env", "timeout_s"), [(Moody, None), (Mortal, None), (Sleepy, 2.0)])
def test_a_failure_costs_the_running_episode_of_that_environment_alone(env, timeout_s):
    """One raises, one dies, one hangs: each is rebuilt, and no late answer is taken for another."""
    with runner_of(env, step_timeout_s=timeout_s, max_restarts=20, **STARTED) as runner:
        episodes = runner.sample(num_episodes=4)
        metrics = runner.get_metrics()
        pids = pids_of(runner)

    assert len(episodes) == 4
    assert metrics.num_env_restarts == metrics.num_episodes_dropped > 0
    for episode in episodes:
        for single in episode.agent_episodes.values():
            assert single.get_observations()[:, 3].tolist() == list(range(len(single) + 1))
    assert not any(map(is_running, pids))


def test_environments_are_reset_at_the_same_time(tmp_path):
    class Sociable(ScriptedEnv):
        """Begins when all three are about to."""

        def reset(self, *, seed=None, options=None):
            (tmp_path / f"{len(self.log)}-{os.getpid()}").touch()
            deadline = time.monotonic() + 10.0
            while len(list(tmp_path.glob(f"{len(self.log)}-*"))) < 3:
                if time.monotonic() > deadline:
                    raise TimeoutError("left alone")
                time.sleep(0.01)
            return super().reset(seed=seed, options=options)

    with runner_of(Sociable, num_envs=3, max_restarts=0, **STARTED) as runner:
        first, second = runner.sample(num_episodes=3), runner.sample(num_timesteps=3)

    assert len(first) == len(second) == 3


@pytest.mark.parametrize("how", ["die", "hang", "raise"])
def test_an_environment_that_fails_at_its_reset_does_not_keep_the_others_from_beginning(how, tmp_path):
    class Shy(ScriptedEnv):
        """One of those that are reset first does not begin."""

        def reset(self, *, seed=None, options=None):
            with contextlib.suppress(FileExistsError):
                (tmp_path / "failed").touch(exist_ok=False)
                if how == "die":
                    os._exit(1)
                if how == "raise":
                    raise RuntimeError("not yet")
                time.sleep(3600)
            return super().reset(seed=seed, options=options)

    with runner_of(Shy, num_envs=3, step_timeout_s=2.0, **STARTED) as runner:
        episodes = runner.sample(num_episodes=6)
        restarts = runner.get_metrics().num_env_restarts
    with runner_of(num_envs=3) as calm:
        expected = calm.sample(num_episodes=6)

    assert restarts == 1
    assert [(episode.id_, episode.get_return()) for episode in episodes] == [
        (episode.id_, episode.get_return()) for episode in expected
    ]


def test_too_many_failures_are_an_error_and_no_process_is_left():
    class Broken(ScriptedEnv):
        def step(self, actions):
            raise RuntimeError("never")

    runner = runner_of(Broken, max_restarts=2, **STARTED)
    with pytest.raises(EnvError, match="never"):
        runner.sample(num_timesteps=10)
    pids = pids_of(runner)
    runner.close()
    runner.close()

    assert not any(map(is_running, pids))


def test_no_process_is_left_if_a_runner_cannot_be_made(tmp_path):
    class Reported(ScriptedEnv):
        def __init__(self):
            super().__init__()
            (tmp_path / str(os.getpid())).touch()

    def fail(**_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        MultiAgentEnvRunner(Reported, Echo(), num_envs=2, callbacks=[{"on_environment_created": fail}], **STARTED)

    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert pids
    assert not any(map(is_running, pids))


def test_f7_after_an_interrupt_no_late_answer_is_mixed_in_and_nothing_is_left_behind():
    class Slow(ScriptedEnv):
        def step(self, actions):
            time.sleep(0.05)
            return super().step(actions)

    with runner_of(Slow, **STARTED) as runner:
        runner.sample(num_timesteps=4)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            runner.sample(num_timesteps=100_000)
        chunks = runner.sample(num_timesteps=40)
        pids = pids_of(runner)

    for chunk in chunks:
        for single in chunk.agent_episodes.values():
            steps = single.get_observations()[:, 3].tolist()
            assert steps == list(range(steps[0], steps[0] + len(steps)))
    assert not any(map(is_running, pids))


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (ScriptedEnv(), {"vectorization": "async"}),
        (ScriptedEnv, {"vectorization": "threads"}),
        (ScriptedEnv, {"step_timeout_s": 1.0}),
        (ScriptedEnv, {"step_timeout_s": 0.0, "vectorization": "async"}),
    ],
)
def test_senseless_ways_to_run_environments_are_rejected(env, settings):
    with pytest.raises(EnvRunnerError, match="expected"):
        MultiAgentEnvRunner(env, Echo(), **settings)
