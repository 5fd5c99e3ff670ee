"""Lists that are joined answer as one list of all episodes, and make no episode for it."""

import gymnasium as gym
import numpy as np
import pytest

from episodia import Columns, EpisodeList
from episodia.connectors import defaults
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes.lists.joined_rows import joined_lists
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_episode, assert_same_items
from list_questions import assert_answers_alike, even_or_odd, sent
from scripted_agents import Echo, makers


def samples_of(steps, lookback=0, count=3):
    """Return what several runners have played."""
    found = []
    for seed in range(count):
        with SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=seed, lookback=lookback) as runner:
            runner.sample(num_timesteps=steps)  # a sample that grows is in several blocks, and is made at once
            found.append(runner.sample(num_timesteps=steps))
    return found


@pytest.mark.parametrize("steps", [30, 200])
@pytest.mark.parametrize("lookback", [0, 3])
@pytest.mark.parametrize("way", [list, lambda lists: [lists[0], *map(sent, lists[1:])]])
def test_recorded_and_packed_lists_that_are_joined_answer_as_one(steps, lookback, way):
    samples = samples_of(steps, lookback)
    expected = EpisodeList([episode for sample in map(sent, samples) for episode in sample])

    assert_answers_alike(lambda: joined_lists(way(list(map(sent, samples)))), expected)
    assert_answers_alike(lambda: sent(joined_lists(samples)), expected)


def test_agents_of_joined_lists_keep_their_modules():
    make, _ = makers(kind="simultaneous", tells_infos=False)
    modules = {"even": Echo(), "odd": Echo()}
    samples = []
    for seed in range(2):
        with MultiAgentEnvRunner(
            make, modules, num_envs=2, seed=seed, agent_to_module_mapping_fn=even_or_odd
        ) as runner:
            samples.append(runner.sample(num_timesteps=40))
    expected = EpisodeList([episode for sample in samples for episode in sample])

    assert_answers_alike(lambda: joined_lists(map(sent, samples)), expected)


def test_a_learner_makes_no_episode_of_joined_lists():
    env = gym.make("CartPole-v1")
    spaces = env.observation_space, env.action_space
    module, samples = MLPActorCritic(*spaces), samples_of(50)
    joined = joined_lists(samples)
    found = defaults.learner(*spaces)(rl_module=module, episodes=joined)["default_policy"]
    made = EpisodeList([episode for sample in map(sent, samples) for episode in sample])
    expected = defaults.learner(*spaces)(rl_module=module, episodes=made)["default_policy"]

    assert joined.is_untouched
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        assert_same_items(np.asarray(found[name]), np.asarray(column))


def test_an_episode_that_is_changed_in_its_list_is_changed_in_the_joined_one():
    samples = samples_of(20)
    joined = joined_lists(samples)
    samples[1][0].set_rewards(new_data=5.0, at_indices=0)

    assert joined.flat(Columns.REWARDS).split()[len(samples[0])][0] == 5.0
    assert joined[len(samples[0])] is samples[1][0]


def test_lists_of_which_one_was_read_are_joined_as_episodes():
    samples = samples_of(20)
    first = samples[0][0]
    joined = joined_lists([*samples, EpisodeList([])])

    assert_same_episode(joined[0], first)
    assert_same_items(joined.lengths.sum(), sum(sample.lengths.sum() for sample in samples))
