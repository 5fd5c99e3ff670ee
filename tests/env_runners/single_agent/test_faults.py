"""When environments misbehave: what is lost, what is not, and what is said."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvError, EnvRunnerError
from episodia.modules import LSTMActorCritic
from scripted_envs import FaultyEnv, ScriptedEnv, assert_every_step_once, lengths_of, places

LONGEST = 6


def faulty(at, what="raise", **kwargs):
    return FaultyEnv(ScriptedEnv(LONGEST, **kwargs), at, what)


def lane_seeds(runner):
    return type(runner._seeds)(runner.seed).next_lanes(runner.num_envs)


def runner_with(at, what="raise", num_envs=3, **kwargs):
    """Return a runner in which `at(lane, episode, step)` says when something happens."""
    seeds = SingleAgentEnvRunner(partial(ScriptedEnv, LONGEST), num_envs=num_envs, seed=1)
    lanes = {seed: lane for lane, seed in enumerate(lane_seeds(seeds))}
    where = partial(_at_lane, at, lanes)
    return SingleAgentEnvRunner(partial(faulty, where, what), num_envs=num_envs, seed=1, **kwargs)


def _at_lane(at, lanes, seed, episode, step):
    return seed in lanes and at(lanes[seed], episode, step)


def second_lane_early(lane, _, step):
    # Its seed is another one after it was rebuilt, so it fails once.
    return lane == 1 and step == 2


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_episode_of_an_environment_that_raises_is_dropped_and_the_others_do_not_notice(vectorization):
    with runner_with(second_lane_early, vectorization=vectorization) as runner:
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=30)]
        metrics = runner.get_metrics()
        seeds = lane_seeds(runner)

    others = [chunk for chunk in chunks if places(chunk)[0, 0] in (seeds[0], seeds[2])]
    assert_every_step_once(others, longest=LONGEST)
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)
    assert metrics.num_env_restarts == metrics.num_episodes_dropped == 1
    assert metrics.num_env_steps_dropped == 1


def test_an_episode_of_an_environment_that_raises_can_be_kept_as_truncated():
    with runner_with(second_lane_early, on_env_error="truncate") as runner:
        chunks = runner.sample(num_timesteps=30)

    seed = lane_seeds(runner)[1]
    first = next(chunk for chunk in chunks if places(chunk)[0, 0] == seed and places(chunk)[0, 1] == _first(seed))
    assert first.is_truncated
    assert not first.is_terminated
    assert places(first)[:, 2].tolist() == [0, 1]
    assert "the scripted fault" in first.custom_data["env_error"]


def _first(seed):
    """Return the first episode that is long enough to fail."""
    return int(np.flatnonzero(lengths_of(seed, LONGEST) >= 2)[0])


def test_the_next_episode_tells_that_its_environment_is_new():
    with runner_with(second_lane_early) as runner:
        chunks = runner.sample(num_timesteps=40)

    told = [chunk for chunk in chunks if "env_restarted_after" in chunk.get_infos(0)]
    assert len(told) == 1
    assert told[0].get_infos(0)["env_restarted_after"] == "RuntimeError: the scripted fault"


class BrokenReset(ScriptedEnv):
    def reset(self, **kwargs):
        raise OSError("no such map")


class AlwaysBroken(ScriptedEnv):
    def step(self, action):
        raise OSError("no such map")


@pytest.mark.parametrize("kind", [BrokenReset, AlwaysBroken])
def test_an_environment_that_cannot_be_helped_is_an_error_that_says_so(kind):
    with (
        SingleAgentEnvRunner(partial(kind, 3), num_envs=2, seed=0, max_restarts=3) as runner,
        pytest.raises(
            EnvError, match=r"environment 0: found OSError: no such map, after .* 3 times in a row"
        ) as caught,
    ):
        runner.sample(num_timesteps=5)

    assert "Traceback" in str(caught.value)


def test_an_environment_that_cannot_be_made_closes_those_that_were():
    made, closed = [], []

    class Counted(ScriptedEnv):
        def __init__(self):
            super().__init__(3)
            if len(made) == 3:
                raise OSError("out of memory")
            made.append(self)

        def close(self):
            closed.append(self)

    with pytest.raises(EnvError, match=r"environment 3: found OSError: out of memory when it was made"):
        SingleAgentEnvRunner(Counted, num_envs=5, seed=0)

    assert len({id(env) for env in closed}) == 3


# --- What is no step --------------------------------------------------------------------------------------------------


def third_episode(lane, episode, _):
    return lane == 1 and episode == 3


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("shape", r"environment 1.*the shape \[4\]"),
        ("dtype", r"environment 1.*float64"),
        (
            "text reward",
            r"environment 1: found \(float64\[4\], 'much', .* as a step .*expected an observation, a number",
        ),
        ("huge reward", r"environment 1: found \(.*\) as a step \(int too large"),
        ("text flag", r"environment 1: found \(.*\) as a step \('no' is not a flag"),
        ("two flags", r"environment 1: found \(.*bool\[2\].*\) as a step"),
        ("list info", r"environment 1: found \(.*\) as a step \(\[1\] is not an info"),
        ("four parts", r"environment 1: found \(.*\) as a step \(not enough values"),
    ],
)
def test_a5_what_is_no_step_is_rejected_and_the_others_do_not_notice(vectorization, what, message):
    with runner_with(third_episode, what, vectorization=vectorization) as runner:
        with pytest.raises(EnvError, match=message):
            runner.sample(num_timesteps=200)
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=20)]
        metrics = runner.get_metrics()
        seeds = lane_seeds(runner)

    assert_every_step_once([chunk for chunk in chunks if places(chunk)[0, 0] != seeds[1]], longest=LONGEST)
    steps = assert_every_step_once(chunks, longest=LONGEST, gaps=True)
    assert (seeds[1], 2) in steps
    assert (seeds[1], 3) not in steps
    assert metrics.num_episodes_dropped == metrics.num_env_restarts == 1
    assert metrics.num_env_steps_dropped == 0  # it was the first one of that episode


def test_a_module_goes_on_from_its_states_after_a_step_that_was_rejected():
    space = ScriptedEnv().observation_space
    module = LSTMActorCritic(space, ScriptedEnv().action_space, generator=torch.Generator().manual_seed(0))
    with runner_with(third_episode, "shape", module=module) as runner:
        with pytest.raises(EnvError, match="the shape"):
            runner.sample(num_timesteps=200, explore=False)
        chunks = list(runner.sample(num_timesteps=40, explore=False))
        seeds = lane_seeds(runner)
    with SingleAgentEnvRunner(partial(ScriptedEnv, LONGEST), module, num_envs=3, seed=1) as calm:
        expected = {(chunk.id_, chunk.t_started): chunk for chunk in calm.sample(num_timesteps=200, explore=False)}

    same = [chunk for chunk in chunks if places(chunk)[0, 0] == seeds[0] and chunk.is_done]
    assert same
    for chunk in same:
        np.testing.assert_array_equal(chunk.get_actions(), expected[chunk.id_, 0].get_actions())


@pytest.mark.parametrize("what", ["nan", "nan reward"])
def test_non_finite_numbers_are_rejected_and_only_their_chunk_is_lost(what):
    with runner_with(third_episode, what) as runner:
        with pytest.raises(EnvError, match=r"environment 1, episode '1-1-3', t=\d: found nan in its (obs|rew)"):
            runner.sample(num_timesteps=60)
        chunks = runner.sample(num_timesteps=1)
        metrics = runner.get_metrics()
        length = lengths_of(lane_seeds(runner)[1], LONGEST)[3]

    ids = {chunk.id_ for chunk in chunks}
    assert "1-1-2" in ids
    assert "1-1-3" not in ids
    assert (metrics.num_episodes_dropped, metrics.num_env_steps_dropped) == (1, length)


def test_non_finite_numbers_can_be_allowed():
    with runner_with(third_episode, "nan", check_finite=False) as runner:
        chunks = runner.sample(num_timesteps=60)

    assert any(np.isnan(places(chunk)).any() for chunk in chunks)


def test_nothing_is_lost_when_a_callback_raises():
    def fail(**_):
        raise KeyError("mine")

    calls = []
    with SingleAgentEnvRunner(
        partial(ScriptedEnv, LONGEST), num_envs=2, seed=0, callbacks=[{"on_episode_end": lambda **k: calls.append(k)}]
    ) as runner:
        runner._watcher._listeners.on_episode_end = (fail,)
        with pytest.raises(KeyError, match="mine"):
            runner.sample(num_timesteps=50)
        runner._watcher._listeners.on_episode_end = ()
        chunks = runner.sample(num_timesteps=60)

    assert_every_step_once(chunks, longest=LONGEST)


# --- Interrupts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(8))
def test_an_interrupt_loses_nothing_that_was_recorded(number):
    class Interrupted(ScriptedEnv):
        def step(self, action):
            if pending and self._episode == 2 and self._step == 1:
                pending.pop()
                raise KeyboardInterrupt
            return super().step(action)

    pending = [number]
    with SingleAgentEnvRunner(partial(Interrupted, LONGEST), num_envs=1 + number % 3, seed=number) as runner:
        with contextlib.suppress(KeyboardInterrupt):
            runner.sample(num_timesteps=100)
        assert not pending
        first = runner.sample(num_timesteps=1)
        second = runner.sample(num_timesteps=10)

    steps = assert_every_step_once([*first, *second], longest=LONGEST, gaps=True)
    assert sum(count for (_, episode), count in steps.items() if episode < 2) >= 2


# --- Processes --------------------------------------------------------------------------------------------------------


def workers_of(runner):
    return [process.pid for process in runner.env.processes]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # a zombie is not running
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_worker_that_was_killed_is_replaced_and_what_had_ended_is_kept():
    with SingleAgentEnvRunner(partial(ScriptedEnv, LONGEST), num_envs=3, seed=0, vectorization="async") as runner:
        first = runner.sample(num_timesteps=30)
        before = workers_of(runner)
        os.kill(before[1], signal.SIGKILL)
        second = runner.sample(num_timesteps=30)
        metrics = runner.get_metrics()
        after = workers_of(runner)

    assert_every_step_once([*first, *second], longest=LONGEST, gaps=True)
    assert sum(map(len, second)) >= 30
    assert metrics.num_env_restarts == 1
    assert [pid for pid in before if pid in after] == [before[0], before[2]]
    assert not any(map(is_running, [*before, *after]))


def hangs_early(lane, episode, step):
    return lane == 1 and episode == 1 and step == 1


def test_f7_a_worker_that_hangs_is_replaced_after_the_timeout_and_no_late_answer_is_taken():
    with runner_with(hangs_early, "hang", vectorization="async", step_timeout_s=0.5) as runner:
        before = workers_of(runner)
        started = time.monotonic()
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=20)]
        metrics = runner.get_metrics()

    assert time.monotonic() - started < 20
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)
    assert metrics.num_env_restarts == metrics.num_episodes_dropped == 1
    assert not any(map(is_running, before))


class Exits(ScriptedEnv):
    def step(self, action):
        os._exit(3)


def test_workers_that_die_again_and_again_are_an_error():
    with SingleAgentEnvRunner(
        partial(Exits, LONGEST), num_envs=2, seed=0, vectorization="async", max_restarts=1
    ) as runner:
        with pytest.raises(EnvError, match=r"environment [01]: found its process gone \(EOFError"):
            runner.sample(num_timesteps=10)
        workers = workers_of(runner)

    assert not any(map(is_running, workers))


class HangsAtTheEnd(ScriptedEnv):
    def close(self):
        if multiprocessing.parent_process() is not None:
            time.sleep(3600)


def test_f6_closing_ends_workers_that_do_not_want_to():
    runner = SingleAgentEnvRunner(partial(HangsAtTheEnd, LONGEST), num_envs=2, seed=0, vectorization="async")
    runner.evaluate(num_episodes=1)
    runner.sample(num_timesteps=4)
    workers, started = workers_of(runner), time.monotonic()
    runner.close()

    assert time.monotonic() - started < 5
    assert not any(map(is_running, workers))


def test_an_interrupt_of_asynchronous_environments_takes_no_late_answer():
    with SingleAgentEnvRunner(partial(ScriptedEnv, LONGEST), num_envs=3, seed=0, vectorization="async") as runner:
        chunks = []
        for _ in range(3):
            timer = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGINT))
            timer.start()
            with contextlib.suppress(KeyboardInterrupt):
                runner.sample(num_timesteps=10**6)
            timer.join()
            chunks += runner.sample(num_timesteps=5)

    assert_every_step_once(chunks, longest=LONGEST, gaps=True)


class Sleepy(ScriptedEnv):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_evaluation_after_one_that_was_interrupted_works(vectorization):
    with SingleAgentEnvRunner(partial(Sleepy, LONGEST), num_envs=2, seed=0, vectorization=vectorization) as runner:
        runner.evaluate(num_episodes=2)
        timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with contextlib.suppress(KeyboardInterrupt):
            runner.evaluate(num_episodes=10**6)
        timer.join()
        episodes = runner.evaluate(num_episodes=4)

    assert len(assert_every_step_once(episodes, longest=LONGEST, gaps=True)) == 4


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_runner_can_be_closed_twice_and_then_does_not_sample(vectorization):
    runner = SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0, vectorization=vectorization)
    runner.sample(num_timesteps=4)
    runner.close()
    runner.close()

    with pytest.raises(EnvRunnerError, match="closed"):
        runner.sample(num_timesteps=4)


# --- Settings that do not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_envs": 0}, "num_envs=0"),
        ({"horizon": 0}, "horizon=0"),
        ({"step_timeout_s": 1.0}, "cannot be interrupted"),
        ({"vectorization": "threads"}, "threads"),
        ({"on_env_error": "ignore"}, "ignore"),
        ({"batch_mode": "half"}, "half"),
        ({"rollout_fragment_length": 0}, "rollout_fragment_length=0"),
        ({"seed": -1}, "seed=-1"),
        ({"callbacks": [object()]}, "without a method of any event"),
        ({"callbacks": [{"on_tea_time": print}]}, "on_tea_time"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(settings, message):
    with pytest.raises(EnvRunnerError, match=message):
        SingleAgentEnvRunner("CartPole-v1", **settings)


def test_a_ready_environment_is_no_way_to_make_one():
    with pytest.raises(EnvRunnerError, match="pass the function that made it"):
        SingleAgentEnvRunner(gym.make("CartPole-v1").unwrapped)


def test_one_environment_for_several_lanes_is_rejected():
    env = ScriptedEnv(3)

    with pytest.raises(EnvRunnerError, match="one environment for several lanes"):
        SingleAgentEnvRunner(lambda: env, num_envs=2)


@pytest.mark.parametrize("asked", [{"num_timesteps": -1}, {"num_episodes": 0}, {"num_timesteps": 1, "num_episodes": 1}])
def test_asking_for_less_than_nothing_no_episodes_or_both_is_rejected(asked):
    with SingleAgentEnvRunner("CartPole-v1") as runner, pytest.raises(EnvRunnerError, match="sample: found"):
        runner.sample(**asked)


def test_a_process_that_cannot_be_started_says_why(monkeypatch):
    """As in a script without the guard around its main part, where processes begin by running the script again."""

    def refuse(_):
        raise RuntimeError("no more processes today")

    monkeypatch.setattr(multiprocessing.get_context("forkserver").Process, "start", refuse)

    with pytest.raises(RuntimeError, match="no more processes today"):
        SingleAgentEnvRunner("CartPole-v1", num_envs=2, vectorization="async")


# --- Places and policies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a5_an_observation_of_another_shape_is_an_error_that_names_environment_episode_and_time_step(vectorization):
    with runner_with(second_lane_early, "shape", vectorization=vectorization) as runner:
        first = _first(lane_seeds(runner)[1])
        with pytest.raises(EnvError, match=rf"environment 1: .*It was t=2 of episode '1-1-{first}'\."):
            runner.sample(num_timesteps=60)

        assert sum(map(len, runner.sample(num_timesteps=60))) >= 60


@pytest.mark.parametrize("policy", [True, "warn", False])
def test_a6_nan_is_an_error_a_warning_or_allowed(policy):
    with runner_with(second_lane_early, "nan reward", check_finite=policy) as runner:
        place = rf"environment 1, episode '1-1-{_first(lane_seeds(runner)[1])}', t=1: found nan in its reward"
        expected = {
            True: pytest.raises(EnvError, match=place),
            "warn": pytest.warns(UserWarning, match=place),
            False: contextlib.nullcontext(),
        }
        rewards = np.zeros(1)
        with expected[policy]:
            rewards = np.concatenate([chunk.get_rewards() for chunk in runner.sample(num_timesteps=60)])

    assert np.isnan(rewards).any() == (policy is not True)
