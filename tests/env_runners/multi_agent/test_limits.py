"""Soft horizons, which cut an episode and let its environment go on, and terminations that are ignored."""

from types import MappingProxyType

import pytest
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.env_runners import MultiAgentEnv
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from scripted_agents import KINDS, Echo, makers


def observed(episodes):
    """Return all observations of all agents, in the order of (environment, episode, agent, step)."""
    rows = [
        tuple(row) for episode in episodes for one in episode.agent_episodes.values() for row in one.get_observations()
    ]
    return sorted(rows)


def acted(episodes):
    """Return how many steps were completed, and the sum of the rewards."""
    singles = [one for episode in episodes for one in episode.agent_episodes.values()]
    return sum(map(len, singles)), sum(one.get_return() for one in singles)


@settings(max_examples=40)
@given(kind=st.sampled_from(KINDS), soft=st.integers(1, 5), num_envs=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_a_soft_horizon_loses_no_observation_and_the_environment_goes_on(kind, soft, num_envs, seed):
    make, envs = makers(kind=kind, longest=12)
    with MultiAgentEnvRunner(make, Echo(), num_envs=num_envs, seed=seed, soft_horizon=soft) as runner:
        chunks = list(runner.sample(num_timesteps=60))

    shown = {
        tuple(observation)
        for env in envs
        for log in env.log
        if len(log) > 1  # one that has just been reset is returned with its first step
        for entry in log
        for observation in (entry[0] if entry is log[0] else entry[1][0]).values()
    }
    assert set(observed(chunks)) == shown
    assert sum(map(len, chunks)) == sum(len(log) - 1 for env in envs for log in env.log)
    if kind != "random":  # agents may get no observation for a while there, and the cut waits
        assert all(len(chunk) <= soft for chunk in chunks)
    # Reset only where an episode has really ended.
    ends = [entry[1] for env in envs for log in env.log[:-1] for entry in log[-1:]]
    assert all("__all__" in {**end[2], **end[3]} or not end[0] or end[2] or end[3] for end in ends)


def test_a_soft_horizon_truncates_all_agents_and_begins_with_what_they_see():
    make, envs = makers(kind="simultaneous", longest=1)
    with MultiAgentEnvRunner(make, Echo(), num_envs=1, seed=3, soft_horizon=4) as runner:
        envs[0].longest = 10_000
        first, second = runner.sample(num_episodes=2)

    assert first.is_truncated
    assert all(single.is_truncated for single in first.agent_episodes.values())
    assert len(envs[0].log) == 1
    for agent in first.agent_episodes:
        last, begin = first.agent_episodes[agent], second.agent_episodes[agent]
        assert begin.t_started == 0
        assert begin.get_observations(0).tolist() == last.get_observations(-1).tolist()
    assert first.id_ != second.id_


def test_a_horizon_counts_from_the_reset_of_the_environment_through_soft_ones():
    make, envs = makers(kind="simultaneous", longest=1)
    with MultiAgentEnvRunner(make, Echo(), num_envs=1, seed=3, soft_horizon=4, horizon=10) as runner:
        envs[0].longest = 10_000
        lengths = [len(episode) for episode in runner.sample(num_episodes=6)]

    assert lengths == [4, 4, 2, 4, 4, 2]
    assert len(envs[0].log) == 2


def test_a_forced_reset_does_not_go_on_after_a_soft_horizon():
    make, envs = makers(kind="simultaneous", longest=1)
    with MultiAgentEnvRunner(make, Echo(), num_envs=1, seed=3, soft_horizon=4) as runner:
        envs[0].longest = 10_000
        runner.sample(num_timesteps=4)
        (chunk,) = runner.sample(num_timesteps=2, force_reset=True)

    assert len(envs[0].log) == 2
    assert chunk.agent_episodes["agent 0"].get_observations(0)[3] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_ignored_terminations_are_truncations_and_all_else_stays(kind):
    played = []
    for ignored in (False, True):
        make, _ = makers(kind=kind)
        with MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=8, ignore_terminations=ignored) as runner:
            played.append(runner.sample(num_episodes=12))
    plain, ignoring = played

    assert any(episode.is_terminated for episode in plain)
    assert observed(plain) == observed(ignoring)
    assert acted(plain) == acted(ignoring)
    for mine, other in zip(plain, ignoring, strict=True):
        assert other.is_truncated
        assert not other.is_terminated
        for agent, single in other.agent_episodes.items():
            assert not single.is_terminated
            assert single.is_truncated == mine.agent_episodes[agent].is_done


class Own(MultiAgentEnv):
    """Truncates after 4 steps, in its own code."""

    possible_agents = agents = ("one",)
    observation_spaces = action_spaces = MappingProxyType({"one": Discrete(2)})

    def reset(self, *, seed=None, options=None):
        self.left = 4
        return {"one": 0}, {}

    def step(self, actions):
        self.left -= 1
        return {"one": 0}, {"one": 0.0}, {"__all__": False}, {"__all__": self.left == 0}, {}


def test_a_limit_in_the_code_of_an_environment_is_told_once():
    with (
        MultiAgentEnvRunner(Own, seed=0, horizon=9) as runner,
        pytest.warns(UserWarning, match=r"truncated an episode after 4 steps, before `horizon=9`") as told,
    ):
        lengths = list(map(len, runner.sample(num_episodes=3)))

    assert lengths == [4, 4, 4]
    assert len(told) == 1


@pytest.mark.parametrize("limit", [{"horizon": 3}, {"horizon": 4}, {"soft_horizon": 3, "horizon": 4}, {}])
def test_a_limit_that_is_no_lower_than_the_horizon_is_not_told(limit):
    with MultiAgentEnvRunner(Own, seed=0, **limit) as runner:
        assert max(map(len, runner.sample(num_episodes=3))) <= 4
