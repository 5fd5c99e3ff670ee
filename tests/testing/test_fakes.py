"""Fakes verify what they are given, and take note of it."""

import numpy as np
import pytest

from episodia import EpisodeList
from episodia.connectors import defaults
from episodia.testing import (
    FakeConnector,
    FakeEnv,
    FakeEnvs,
    FakeModule,
    FakeMultiAgentEnv,
    fake_action,
    sample_episodes,
)


def played(env, seed=0):
    """Return the environment after one episode, in which actions follow from observations."""
    observation, _ = env.reset(seed=seed)
    is_over = False
    while not is_over:
        observation, _, terminated, truncated, _ = env.step(fake_action(observation))
        is_over = terminated or truncated
    return env


@pytest.mark.parametrize(
    ("misuse", "problem"),
    [
        (lambda env: env.step(0), "a step before a reset"),
        (lambda env: env.reset(), "the first reset without a seed"),
        (lambda env: played(env).step(0), "a step after the end of an episode"),
        (lambda env: (env.close(), env.reset(seed=0)), "a reset after `close`"),
        (lambda env: (env.reset(seed=0), env.step(7)), "the action 7"),
        (lambda env: (env.reset(seed=0), env.step(np.float32(0.5))), "the action"),
    ],
)
def test_an_environment_rejects_and_notes_what_is_wrong(misuse, problem):
    problems = []

    with pytest.raises(AssertionError, match=problem):
        misuse(FakeEnv(problems=problems))
    assert problem in problems[0]


def test_an_environment_of_several_agents_rejects_actions_of_others():
    env = FakeMultiAgentEnv()
    env.reset(seed=0)

    with pytest.raises(AssertionError, match=r"actions of \['always'\], where \['always', 'sometimes'\]"):
        env.step({"always": 0})


def test_every_observation_tells_where_and_when_it_was():
    env = played(played(FakeEnv(7)), seed=3)

    for episode, steps in enumerate(env.log):
        places = [observation[:4] for observation, *_ in steps]
        assert places == [[7, 0, episode, step] for step in range(len(steps))]
    assert [steps[-1][3:] for steps in env.log] == [(True, False), (False, True)]


def test_the_same_seed_gives_the_same_lengths_and_another_one_others():
    lengths = [[len(played(FakeEnv(longest=50), seed).log[0]) for seed in range(8)] for _ in range(2)]

    assert lengths[0] == lengths[1]
    assert len(set(lengths[0])) > 1


def test_environments_of_one_maker_share_their_problems():
    make = FakeEnvs(FakeEnv)
    make()

    with pytest.raises(AssertionError):
        make().step(0)
    assert make.problems == ["environment 1: found a step before a reset, expected none."]


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        ({"rewards": np.zeros(2)}, "expected `obs`"),
        ({"obs": np.zeros((2, 3), np.float32)}, r"float32\[2, 3\]"),
        ({"obs": np.full((1, 5), 0.5, np.float32)}, "rows of integers"),
        ({"obs": np.zeros((2, 5), np.float32)}, "same environment"),
    ],
)
def test_a_module_rejects_batches_of_other_things(batch, problem):
    with pytest.raises(AssertionError, match=problem):
        FakeModule().forward_exploration(batch)


def test_a_module_fails_once_if_it_is_asked_to():
    module, batch = FakeModule(fails_at=0), {"obs": np.zeros((1, 5), np.float32)}

    with pytest.raises(RuntimeError, match="asked for"):
        module.forward_exploration(batch)
    assert module.forward_exploration(batch)["actions"].tolist() == [0]


def test_a_connector_takes_note_of_every_call():
    spy = FakeConnector()
    pipeline = defaults.env_to_module(custom=[spy])
    for explore in (True, False):
        pipeline(rl_module=None, episodes=EpisodeList(sample_episodes()), explore=explore)

    assert [call["explore"] for call in spy.calls] == [True, False]
    assert spy.calls[0]["lengths"] == [3, 1, 5, 2]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"batch": [], "episodes": []}, "list as `batch`"),
        ({"batch": {}, "episodes": iter(())}, "expected a sequence"),
        ({"batch": {}, "episodes": [3]}, "found 3 among"),
        ({"batch": {}, "episodes": [], "shared_data": 3}, "`shared_data`"),
    ],
)
def test_a_connector_rejects_to_be_called_in_another_way(arguments, problem):
    with pytest.raises(AssertionError, match=problem):
        FakeConnector()(rl_module=None, **arguments)
