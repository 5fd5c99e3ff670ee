"""Priorities are computed where the runners are, and are those of a learner with the same weights."""

import numpy as np
import pytest
import torch

from episodia.dataflow import LocalEngine, PrioritiesThere, RunnerGroup, store
from episodia.errors import ReplayError
from episodia.learners import DQNConfig
from episodia.modules import QNetwork
from episodia.replay import Proportional, ReplayBuffer
from small_learners import make_runner, new_learner


def new_dqn():
    return new_learner(DQNConfig(gamma=0.5), QNetwork)


@pytest.mark.parametrize("capacity", [500, 60])
def test_priorities_are_the_errors_of_the_steps(capacity):
    buffer = ReplayBuffer(capacity, selector=Proportional(alpha=1.0, epsilon=0.0), seed=0)
    then, errors = PrioritiesThere(new_dqn), {}
    with RunnerGroup(lambda seed: make_runner(seed, QNetwork), 1, engine=LocalEngine, then=then) as group:
        for _ in range(3):
            (delivery,) = group.sample_round(num_timesteps=30)
            store(buffer)(delivery)
            # By hand: reward + 0.5 * the largest value of the next observation, if the episode goes on.
            network = group.module
            for episode, part in zip(delivery.episodes, split(delivery), strict=True):
                for step, error in enumerate(part):
                    observations = episode.get_observations()
                    target = episode.get_rewards(step)
                    if step < len(episode) - 1 or not episode.is_terminated:
                        target += 0.5 * values(network, observations[step + 1]).max()
                    found = values(network, observations[step])[episode.get_actions(step)]
                    errors[observations[step].tobytes()] = abs(target - found)
                    assert error == pytest.approx(abs(target - found), abs=1e-5)

    (table,) = buffer._tables.values()
    priorities = table.selector.priorities
    assert np.count_nonzero(priorities) == buffer.num_steps
    assert set(np.round(priorities[priorities > 0], 4)) <= set(np.round(list(errors.values()), 4))


def values(network, observation):
    batch = {"obs": torch.tensor(np.array(observation))[None]}
    return network.get_q_values(batch).detach().numpy()[0]


def split(delivery):
    (errors,) = delivery.made.values()
    return np.split(errors, np.cumsum(delivery.episodes.lengths)[:-1])


def test_values_that_do_not_fit_the_newest_steps_are_rejected():
    buffer = ReplayBuffer(100, selector=Proportional(), seed=0)
    with RunnerGroup(lambda seed: make_runner(seed, QNetwork), 1) as group:
        buffer.add(group.sample(num_timesteps=10))

    for values_ in (np.ones(9), np.full(10, np.nan), {"unknown": np.ones(10)}):
        with pytest.raises(ReplayError, match="update_newest"):
            buffer.update_newest(values_)
    buffer.update_newest(np.ones(10))
