"""Rewards of many agents that are set some ticks after their step."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.connectors import RewardShaper
from episodia.env_runners import Callbacks
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from scripted_agents import KINDS, Echo, assert_recorded_as_by_a_plain_loop, by_episode, makers


class Ahead(RewardShaper):
    """Pays `1000 * the environment step of the newest observation + that of the one acted on`."""

    def reward(self, episode, age):
        return float(1000 * episode.get_observations(-1)[3] + episode.get_observations(-age - 1)[3])


def expected_rewards(ticks, delay):
    """Return what `Ahead` pays an agent that has seen something at `ticks`."""
    rewards = []
    for then, after in pairwise(ticks):
        due = max(then + delay + 1, after)
        rewards.append(1000.0 * max(tick for tick in ticks if tick <= due) + then)
    return rewards


def assert_settled(chunks, delay):
    """Check all rewards of an episode that is given from its begin to its end."""
    ticks, rewards = {}, {}
    for chunk in chunks:
        for agent, single in chunk.agent_episodes.items():
            seen = single.get_observations()[:, 3].tolist()
            ticks[agent] = [*ticks.get(agent, [])[:-1], *seen] if agent in ticks else seen
            rewards.setdefault(agent, []).extend(single.get_rewards().tolist())
    for agent, seen in ticks.items():
        assert rewards[agent] == expected_rewards(seen, delay)


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    delay=st.integers(0, 4),
    num_envs=st.integers(1, 3),
    fragments=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    at_random=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_every_step_comes_once_with_its_delayed_reward(kind, delay, num_envs, fragments, at_random, seed):
    make, _ = makers(kind=kind)
    module = None if at_random else Echo()
    with MultiAgentEnvRunner(make, module, num_envs=num_envs, seed=seed, env_to_module=[Ahead(delay=delay)]) as runner:
        samples = [runner.sample(num_timesteps=steps) for steps in fragments]

    assert all(sum(map(len, chunks)) >= steps for chunks, steps in zip(samples, fragments, strict=True))
    for chunks in by_episode([chunk for sample in samples for chunk in sample]).values():
        assert [chunk.env_t_started for chunk in chunks] == [0, *(chunk.env_t for chunk in chunks[:-1])]
        if chunks[-1].is_done:
            assert_settled(chunks, delay)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_episodes_come_with_their_delayed_rewards(kind):
    make, _ = makers(kind=kind)
    with MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=4, env_to_module=[Ahead(delay=3)]) as runner:
        episodes = runner.sample(num_episodes=12)

    for episode in episodes:
        assert_settled([episode], 3)


def test_a_delay_alone_changes_nothing_of_what_is_recorded():
    make, envs = makers(kind="random")
    with MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=4, reward_delay=3) as runner:
        samples = [chunk for _ in range(5) for chunk in runner.sample(num_timesteps=7)]

    ended = {chunk.id_ for chunk in samples if chunk.is_done}
    assert_recorded_as_by_a_plain_loop([chunk for chunk in samples if chunk.id_ in ended], envs)


def test_a_delay_beyond_the_end_waits_for_the_end_only():
    make, envs = makers(kind="simultaneous", longest=9)
    with MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=4, reward_delay=10**9) as runner:
        for _ in range(4):
            runner.sample(num_timesteps=4)

    assert sum(len(episode) for env in envs for episode in env.log) < 4 * (4 + 2 * 10)


def test_who_sets_rewards_in_callbacks_says_how_late():
    class Late(Callbacks):
        def on_episode_step(self, *, episode, **kwargs):
            if episode.env_t > 2:
                new = dict.fromkeys(episode.agent_episodes, float(episode.env_t))
                episode.set_rewards(new_data=new, at_indices=-3)

    make, envs = makers(kind="simultaneous", longest=1)
    with MultiAgentEnvRunner(make, Echo(), num_envs=1, seed=3, reward_delay=2, callbacks=[Late()]) as runner:
        envs[0].longest = 10_000
        chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=3)]

    rewards = [reward for chunk in chunks for reward in chunk.agent_episodes["agent 1"].get_rewards().tolist()]
    assert rewards == [t + 3.0 for t in range(12)]


def test_metrics_and_callbacks_hear_of_delayed_rewards():
    seen = []
    make, _ = makers(kind="simultaneous")
    listener = {"on_episode_end": lambda *, episode, **_: seen.append(episode.get_return())}
    with MultiAgentEnvRunner(
        make, Echo(), num_envs=2, seed=3, env_to_module=[Ahead(delay=4)], callbacks=[listener]
    ) as runner:
        chunks = [chunk for _ in range(8) for chunk in runner.sample(num_timesteps=5)]
        metrics = runner.get_metrics()

    totals = {}
    for chunk in chunks:
        totals[chunk.id_] = totals.get(chunk.id_, 0.0) + chunk.get_return()
    done = [totals[chunk.id_] for chunk in chunks if chunk.is_done]
    assert metrics.episode_returns == done
    assert set(done) <= set(seen)


def test_an_episode_that_is_left_is_settled_as_if_it_had_ended_there():
    make, envs = makers(kind="simultaneous", longest=1)
    with MultiAgentEnvRunner(make, Echo(), num_envs=1, seed=3, env_to_module=[Ahead(delay=3)]) as runner:
        envs[0].longest = 10_000
        first = runner.sample(num_timesteps=6)
        rest = runner.sample(num_timesteps=5, force_reset=True)

    assert_settled([first[0], rest[0]], 3)
    assert rest[0].env_t == 9
    assert not rest[0].is_done
