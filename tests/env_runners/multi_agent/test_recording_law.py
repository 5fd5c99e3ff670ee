"""What a runner records is what a plain loop over the environments would have recorded, whatever the agents do."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from scripted_agents import KINDS, Echo, assert_recorded_as_by_a_plain_loop, by_episode, makers, replayed


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    num_envs=st.integers(1, 3),
    fragments=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    lookback=st.integers(0, 3),
    seed=st.integers(0, 2**32),
    reuses_buffers=st.booleans(),
)
@example(
    kind="random", num_envs=1, fragments=[6], lookback=0, seed=211, reuses_buffers=False
)  # one dies, another goes on
def test_a10_fragments_are_what_a_plain_loop_would_have_recorded(
    kind, num_envs, fragments, lookback, seed, reuses_buffers
):
    make, envs = makers(kind=kind, reuses_buffers=reuses_buffers)
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=num_envs, seed=seed, lookback=lookback)
    samples = [chunk for steps in fragments for chunk in runner.sample(num_timesteps=steps)]

    assert_recorded_as_by_a_plain_loop(samples, envs)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(KINDS),
    num_envs=st.integers(1, 3),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_whole_episodes_are_what_a_plain_loop_would_have_recorded(kind, num_envs, counts, seed):
    make, envs = makers(kind=kind)
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=num_envs, seed=seed)
    samples = [runner.sample(num_episodes=count) for count in counts]

    assert list(map(len, samples)) == counts
    assert all(episode.is_done and episode.env_t_started == 0 for sample in samples for episode in sample)
    assert_recorded_as_by_a_plain_loop([episode for sample in samples for episode in sample], envs)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(KINDS),
    at_random=st.lists(st.booleans(), min_size=2, max_size=6),
    steps=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
@example(kind="random", at_random=[False, True], steps=5, seed=0)  # an agent waits at the switch, and then again
def test_switching_to_random_actions_and_back_loses_no_step(kind, at_random, steps, seed):
    make, envs = makers(kind=kind, longest=30)
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=seed)
    samples = [chunk for flag in at_random for chunk in runner.sample(num_timesteps=steps, random_actions=flag)]

    for (env, number), chunks in by_episode(samples).items():
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole.concat_episode(chunk)
        expected = replayed(envs[env].log[number], whole, with_tags=False)[0]
        assert whole.env_t == expected.env_t
        for agent, single in whole.agent_episodes.items():
            assert single.get_observations().tolist() == [
                observation.tolist() for observation in expected.agent_episodes[agent].get_observations()
            ]
            assert single.get_actions().tolist() == expected.agent_episodes[agent].get_actions()
            assert single.get_rewards().tolist() == expected.agent_episodes[agent].get_rewards()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lookback", [1, 2, 4])
def test_each_agent_can_look_back_as_many_of_its_own_steps_as_asked_for(kind, lookback):
    make, _ = makers(kind=kind, longest=40)
    runner = MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=3, lookback=lookback)
    looked = [
        (single.observations.lookback, min(lookback, single.t_started))
        for _ in range(20)
        for chunk in runner.sample(num_timesteps=4)
        for single in chunk.agent_episodes.values()
    ]

    assert all(found >= wanted for found, wanted in looked)
    assert any(wanted == lookback for _, wanted in looked)
