"""Rewards that are set some ticks after their step: nothing is returned before it is settled, and nothing is lost."""

from functools import partial

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.connectors import RewardShaper
from episodia.env_runners import Callbacks, SingleAgentEnvRunner
from episodia.errors import EnvRunnerError, PipelineError
from scripted_envs import FaultyEnv, ScriptedEnv, lengths_of, places

KINDS = ("ours", *AutoresetMode)


class Ahead(RewardShaper):
    """Pays `1000 * how far ahead it sees + the step`, which tells when it was asked for which step."""

    def reward(self, episode, age):
        then, now = episode.get_observations(-age - 1), episode.get_observations(-1)
        assert then[3] == -1 or then[2] > 0
        assert episode.get_actions(-age) == episode.get_observations(-age)[3]
        return 1000.0 * (now[2] - then[2]) + then[2]


def runner_of(kind, num_envs, longest, *, seed=0, env=ScriptedEnv, **kwargs):
    make = partial(env, longest)
    if kind == "ours":
        return SingleAgentEnvRunner(make, num_envs=num_envs, seed=seed, **kwargs)
    ready = gym.vector.SyncVectorEnv([make] * num_envs, autoreset_mode=kind)
    return SingleAgentEnvRunner(ready, seed=seed, **kwargs)


def assert_settled(chunks, delay, longest, *, left=()):
    """Check that every step is there once, with the reward that it had when its turn came."""
    steps = {}
    for chunk in chunks:
        rows = places(chunk)
        seed, number = int(rows[0, 0]), int(rows[0, 1])
        length = left[chunk.id_] if chunk.id_ in left else lengths_of(seed, longest)[number]
        start = steps.get((seed, number), 0)
        assert chunk.t_started == start
        assert rows[:, 2].tolist() == list(range(start, start + len(chunk) + 1))
        expected = [1000.0 * (min(t + delay + 1, length) - t) + t for t in range(start, start + len(chunk))]
        assert chunk.get_rewards().tolist() == expected
        steps[seed, number] = start + len(chunk)
    return steps


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(
    num_envs=st.integers(1, 3),
    longest=st.integers(1, 9),
    delay=st.integers(0, 5),
    asked=st.lists(st.tuples(st.booleans(), st.integers(1, 20)), min_size=1, max_size=6),
)
def test_every_step_comes_once_with_its_delayed_reward(kind, num_envs, longest, delay, asked):
    with runner_of(kind, num_envs, longest, env_to_module=[Ahead(delay=delay)]) as runner:
        samples = []
        for is_random, steps in asked:
            samples.append(runner.sample(num_timesteps=steps, random_actions=is_random))
            assert sum(map(len, samples[-1])) >= steps

    assert_settled([chunk for chunks in samples for chunk in chunks], delay, longest)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_episodes_come_with_their_delayed_rewards(kind):
    with runner_of(kind, 3, 9, env_to_module=[Ahead(delay=4)]) as runner:
        episodes = [episode for count in (2, 5, 1) for episode in runner.sample(num_episodes=count)]

    assert_settled(episodes, 4, 9)
    assert all(episode.is_done for episode in episodes)


def test_fragments_are_no_longer_and_no_shorter_than_without_a_delay():
    with runner_of("ours", 2, 10_000, env_to_module=[Ahead(delay=3)]) as runner:
        lengths = [[len(chunk) for chunk in runner.sample(num_timesteps=20)] for _ in range(4)]

    assert lengths == [[10, 10]] * 4


def test_an_episode_that_is_left_is_settled_as_if_it_had_ended_there():
    with runner_of("ours", 1, 10_000, env_to_module=[Ahead(delay=3)]) as runner:
        (first,) = runner.sample(num_timesteps=6)
        rest, begun = runner.sample(num_timesteps=5, force_reset=True)

    assert_settled([first, rest], 3, 10_000, left={first.id_: 9})
    assert (rest.id_, len(rest), rest.is_done) == (first.id_, 3, False)
    assert begun.t_started == 0


def test_who_sets_rewards_in_callbacks_says_how_late():
    class Late(Callbacks):
        def on_episode_step(self, *, episode, **kwargs):
            if episode.t > 2:
                episode.set_rewards(new_data=float(episode.t), at_indices=-3)

    with runner_of("ours", 1, 10_000, callbacks=[Late()], reward_delay=2) as runner:
        rewards = [
            reward for _ in range(4) for chunk in runner.sample(num_timesteps=3) for reward in chunk.get_rewards()
        ]

    assert rewards == [t + 3.0 for t in range(12)]


def test_a_delay_beyond_the_end_waits_for_the_end_only():
    with runner_of("ours", 2, 9, reward_delay=10**9) as runner:
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=4)]

    assert sum(map(len, chunks)) < 4 * (4 + 2 * 10)


def test_callbacks_see_whole_episodes_with_all_delayed_rewards():
    seen = []
    settings = {"callbacks": [{"on_episode_end": lambda *, episode, **_: seen.append(episode)}]}
    with runner_of("ours", 2, 9, env_to_module=[Ahead(delay=4)], **settings) as runner:
        for _ in range(6):
            runner.sample(num_timesteps=5)

    assert seen
    for episode in seen:
        length = len(episode)
        rewards = [float(reward) for reward in episode.get_rewards()]
        assert rewards == [1000.0 * (min(t + 5, length) - t) + t for t in range(length)]


def test_callbacks_see_whole_episodes_also_if_the_way_of_acting_changed_in_between():
    seen = []
    listener = {"on_episode_end": lambda *, episode, **_: seen.append(len(episode))}
    with runner_of("ours", 1, 9, callbacks=[listener]) as runner:
        for number in range(10):
            runner.sample(num_timesteps=4, explore=bool(number % 2))

    assert seen == lengths_of(runner._loop.seeds._numbers(2, 1, 1)[0], 9)[: len(seen)].tolist()


def test_metrics_count_delayed_rewards():
    with runner_of("ours", 2, 6, env_to_module=[Ahead(delay=2)]) as runner:
        chunks = [chunk for _ in range(6) for chunk in runner.sample(num_timesteps=9)]
        metrics = runner.get_metrics()

    totals = {}
    for chunk in chunks:
        totals[chunk.id_] = totals.get(chunk.id_, 0.0) + chunk.get_return()
    done = [chunk.id_ for chunk in chunks if chunk.is_done]
    assert metrics.episode_returns == [totals[id_] for id_ in done]


@pytest.mark.parametrize("on_env_error", ["drop", "truncate"])
def test_a_fault_leaves_no_open_reward_behind(on_env_error):
    def make():
        return FaultyEnv(ScriptedEnv(10_000), lambda *place: place[-1] == 11)

    with SingleAgentEnvRunner(
        make, seed=0, env_to_module=[Ahead(delay=3)], on_env_error=on_env_error, max_restarts=None
    ) as runner:
        chunks = [chunk for _ in range(6) for chunk in runner.sample(num_timesteps=4)]

    by_id = {}
    for chunk in chunks:
        by_id.setdefault(chunk.id_, []).extend(chunk.get_rewards().tolist())
    ended = list(by_id.values())[:-1]
    assert ended
    for rewards in ended:
        length = len(rewards)
        # Nothing says 0 steps ahead: each was asked for, with as much of the future as there was.
        assert all(1 <= (reward - t) / 1000 <= 4 for t, reward in enumerate(rewards))
        assert rewards[: length - 3] == [4000.0 + t for t in range(length - 3)]


def test_nan_from_who_sets_rewards_is_rejected():
    class Broken(RewardShaper):
        def reward(self, episode, age):
            return float("nan")

    with runner_of("ours", 1, 5, env_to_module=[Broken()]) as runner, pytest.raises(Exception, match="finite"):
        runner.sample(num_timesteps=5)


def test_senseless_delays_are_rejected():
    with pytest.raises(PipelineError, match="expected an integer of at least 0"):
        Ahead(delay=-1)
    with pytest.raises(EnvRunnerError, match="expected an integer of at least 0"):
        SingleAgentEnvRunner("CartPole-v1", reward_delay=1.5)


def test_a_learner_pipeline_is_no_place_to_set_rewards():
    with runner_of("ours", 1, 5) as runner:
        episodes = runner.sample(num_episodes=1)

    with pytest.raises(PipelineError, match="env-to-module"):
        Ahead()(rl_module=None, batch={}, episodes=episodes)
