"""Every step of every environment is recorded exactly once, whatever resets itself when, and whatever is asked for."""

from functools import partial
from types import FunctionType

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.async_vector_env import _async_worker
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from scripted_envs import ScriptedEnv, assert_every_step_once, places

KINDS = ("ours", *AutoresetMode)


def runner_of(kind, num_envs, longest, *, seed=0, env=ScriptedEnv, **kwargs):
    make = partial(env, longest, **kwargs.pop("env_settings", {}))
    if kind == "ours":
        return SingleAgentEnvRunner(make, num_envs=num_envs, seed=seed, **kwargs)
    ready = gym.vector.SyncVectorEnv([make] * num_envs, autoreset_mode=kind)
    return SingleAgentEnvRunner(ready, seed=seed, **kwargs)


SIZES = {"num_envs": st.integers(1, 4), "longest": st.integers(1, 7)}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(sizes=st.fixed_dictionaries(SIZES), asked=st.lists(st.integers(1, 25), min_size=1, max_size=6))
def test_a7_fragments_of_any_length_have_every_step_once(kind, sizes, asked):
    with runner_of(kind, **sizes) as runner:
        samples = [runner.sample(num_timesteps=steps) for steps in asked]

    for steps, chunks in zip(asked, samples, strict=True):
        assert steps <= sum(map(len, chunks)) < steps + sizes["num_envs"]
        assert all(len(chunk) for chunk in chunks)
    assert_every_step_once([chunk for chunks in samples for chunk in chunks], longest=sizes["longest"])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(sizes=st.fixed_dictionaries(SIZES), asked=st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_whole_episodes_come_in_exact_numbers_and_all_are_returned(kind, sizes, asked):
    with runner_of(kind, **sizes) as runner:
        samples = [runner.sample(num_episodes=count) for count in asked]
        rest = runner.sample(num_timesteps=1)

    assert [len(episodes) for episodes in samples] == asked
    assert all(episode.is_done and episode.t_started == 0 for episodes in samples for episode in episodes)
    assert_every_step_once([chunk for chunks in [*samples, rest] for chunk in chunks], longest=sizes["longest"])


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(["steps", "episodes"]), st.integers(1, 9), st.booleans()), max_size=6),
    st.sampled_from(KINDS),
)
def test_steps_and_episodes_in_turns_give_nothing_twice(asked, kind):
    with runner_of(kind, 3, 4) as runner:
        chunks = []
        for what, number, force in asked:
            kwargs = {"num_timesteps" if what == "steps" else "num_episodes": number}
            chunks += runner.sample(**kwargs, force_reset=force)

    ids = [(chunk.id_, chunk.t_started) for chunk in chunks]
    assert len(ids) == len(set(ids))
    for chunk in chunks:
        rows = places(chunk)
        assert rows[:, 2].tolist() == list(range(chunk.t_started, chunk.t + 1))


def check_reused(runner):
    """Check what `runner` records of environments that use the arrays of their observations and infos again."""
    with runner:
        chunks = [chunk for _ in range(5) for chunk in runner.sample(num_timesteps=13)]

    assert_every_step_once(chunks, longest=4)
    assert any(chunk.is_done for chunk in chunks)
    for chunk in chunks:
        assert [int(info["steps"][0]) for info in chunk.get_infos()] == places(chunk)[:, 2].tolist()


@pytest.mark.parametrize("space", ["box", "dict", "tuple"])
@pytest.mark.parametrize("kind", KINDS)
def test_a1_an_environment_that_reuses_its_arrays_is_recorded_as_it_was(kind, space):
    settings_ = {"reuses_buffer": True, "kind": space, "infos": True}

    check_reused(runner_of(kind, 3, 4, env_settings=settings_))


def ready_async(mode, space, num_envs=2, **kwargs):
    make = partial(ScriptedEnv, 4, reuses_buffer=True, kind=space, infos=True)
    return gym.vector.AsyncVectorEnv([make] * num_envs, autoreset_mode=mode, **kwargs)


@pytest.mark.parametrize("space", ["box", "dict", "tuple"])
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("shared_memory", [True, False])
def test_a1_an_asynchronous_environment_that_reuses_its_arrays_is_recorded_as_it_was(mode, space, shared_memory):
    check_reused(SingleAgentEnvRunner(ready_async(mode, space, shared_memory=shared_memory), seed=0))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_reset_in_the_middle_begins_episodes_in_asynchronous_environments(mode, shared_memory):
    with SingleAgentEnvRunner(ready_async(mode, "box", shared_memory=shared_memory), seed=0) as runner:
        samples = [runner.sample(num_timesteps=7, force_reset=True) for _ in range(8)]

    for chunks in samples:
        for chunk in chunks:
            rows = places(chunk)
            assert rows[:, 2].tolist() == list(range(chunk.t + 1))
            assert chunk.get_rewards().tolist() == (1000 * rows[1:, 1] + rows[1:, 2]).tolist()


def test_a2_a_runner_after_another_copies_a_last_observation_once():
    ready = gym.vector.SyncVectorEnv([partial(ScriptedEnv, 4)], autoreset_mode=AutoresetMode.SAME_STEP)
    steps = []
    for _ in range(2):
        SingleAgentEnvRunner(ready, seed=0)
        steps.append(ready.envs[0].step)

    assert steps[0] is steps[1]


def test_a2_a_worker_that_cannot_be_told_to_copy_is_rejected():
    # A function of its own, as a user with more commands might have.
    worker = FunctionType(_async_worker.__code__.replace(co_name="mine"), _async_worker.__globals__)
    make = partial(ScriptedEnv, 4)
    ready = gym.vector.AsyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP, worker=worker, context="fork")
    try:
        with pytest.raises(EnvRunnerError, match="SAME_STEP with a `worker` of its own"):
            SingleAgentEnvRunner(ready, seed=0)
    finally:
        ready.close()


@pytest.mark.parametrize("kind", KINDS)
def test_nested_observations_have_every_step_once(kind):
    with runner_of(kind, 3, 4, env_settings={"kind": "dict"}) as runner:
        chunks = [chunk for _ in range(5) for chunk in runner.sample(num_timesteps=13)]

    assert_every_step_once(chunks, longest=4)
    for chunk in chunks:
        assert (chunk.get_observations()["odd"] == places(chunk)[:, 2] % 2).all()


@pytest.mark.parametrize("kind", KINDS)
def test_infos_belong_to_their_observations(kind):
    with runner_of(kind, 3, 4, env_settings={"infos": True}) as runner:
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=13)]

    for chunk in chunks:
        assert [info["step"] for info in chunk.get_infos()] == places(chunk)[:, 2].tolist()


def test_a8_infos_of_environments_that_we_build_are_not_cut():
    with runner_of("ours", 2, 4, env_settings={"infos": True}) as runner:
        chunks = runner.sample(num_timesteps=20)

    for chunk in chunks:
        for info, step in zip(chunk.get_infos(), places(chunk)[:, 2], strict=True):
            assert info["half"] == (step / 2 if step % 2 else step)


def test_episodes_come_in_the_order_in_which_they_began():
    with runner_of("ours", 2, 6) as runner:
        episodes = runner.sample(num_episodes=7)
        more = runner.sample(num_episodes=5)

    # Both environments begin together, and again at the step after their last one.
    begins = {0: 0, 1: 0}
    expected = []
    lengths = {}
    for episode in [*episodes, *more]:
        lane, number = map(int, episode.id_.split("-")[1:])
        lengths[lane, number] = len(episode)
    while len(expected) < 12:
        lane = min(begins, key=lambda lane: (begins[lane], lane))
        number = sum(other == lane for other, _ in expected)
        expected.append((lane, number))
        begins[lane] += lengths.get((lane, number), 99) + 1
    assert [tuple(map(int, episode.id_.split("-")[1:])) for episode in [*episodes, *more]] == expected


def test_the_number_of_episodes_does_not_prefer_short_ones():
    # Half of the episodes have 1 step, half have 50: a runner that takes those that end first gets hardly any long one.
    class TwoLengths(ScriptedEnv):
        def reset(self, *, seed=None, options=None):
            made = super().reset(seed=seed, options=options)
            if seed is not None:
                self._lengths = np.random.default_rng(seed).choice([1, 50], 500)
            return made

    with runner_of("ours", 16, 1, env=TwoLengths, seed=3) as runner:
        lengths = [len(episode) for _ in range(20) for episode in runner.sample(num_episodes=16)]

    assert 0.4 < np.mean(np.array(lengths) == 50) < 0.6


def test_a3_what_was_returned_never_changes():
    with runner_of("ours", 3, 4) as runner:
        first = list(runner.sample(num_timesteps=10))
        before = [places(chunk).copy() for chunk in first]
        for _ in range(10):
            runner.sample(num_timesteps=10)

    for chunk, rows in zip(first, before, strict=True):
        np.testing.assert_array_equal(places(chunk), rows)


def test_a_fragment_ends_right_after_a_reset_and_loses_nothing():
    with runner_of("ours", 1, 1) as runner:
        samples = [runner.sample(num_timesteps=1) for _ in range(6)]

    assert [len(chunks) for chunks in samples] == [1] * 6
    assert_every_step_once([chunk for chunks in samples for chunk in chunks], longest=1)
