"""What a training has saved acts: `Policy.load(run)(observation)`, as the runner of the training would."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.connectors import ConnectorV2, FlattenObservations, FrameStacking, MeanStdFilter, PrevActionsPrevRewards
from episodia.errors import CheckpointError, PolicyError, TrainingError
from episodia.policies import Policy
from episodia.training import Setup, Training, load_training, save_training, train

SMALL = {"num_envs": 2, "num_timesteps": 60, "num_epochs": 2, "hidden": (8,), "progress": False}


def played(policy, env_id, *, steps=150, seed=0):
    """Return the actions of `policy` in an environment, episode after episode."""
    env, actions = gym.make(env_id), []
    observation, _ = env.reset(seed=seed)
    policy.reset()
    for _ in range(steps):
        actions.append(policy(observation))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        policy.observe(float(reward))
        if terminated or truncated:
            observation, _ = env.reset()
            policy.reset()
    env.close()
    return actions


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
@pytest.mark.parametrize("place", ["run", "run/checkpoint"])
def test_the_policy_of_a_run_acts_like_the_trained_one(place, recurrent, tmp_path):
    with train("ppo", "CartPole-v1", steps=200, out=tmp_path / "run", recurrent=recurrent, **SMALL) as training:
        trained = training.policy()

    loaded = Policy.load(tmp_path / place)

    assert played(loaded, "CartPole-v1") == played(trained, "CartPole-v1")


def test_the_policy_of_a_run_with_real_valued_actions_acts_like_the_trained_one(tmp_path):
    with train("ppo", "Pendulum-v1", steps=200, out=tmp_path / "run", squashed=True, **SMALL) as training:
        expected = played(training.policy(), "Pendulum-v1")

    assert np.array_equal(played(Policy.load(tmp_path / "run"), "Pendulum-v1"), expected)


def test_the_policy_of_a_run_does_in_an_episode_what_the_runner_does(tmp_path):
    """Observation by observation, against the episodes that `evaluate` has played with many at once."""
    with train("ppo", "CartPole-v1", steps=300, out=tmp_path / "run", recurrent="gru", **SMALL) as training:
        episodes = training.runner.evaluate(5)
    policy = Policy.load(tmp_path / "run")

    for episode in episodes:
        policy.reset()
        found = [policy(episode.get_observations(t)) for t in range(len(episode))]
        assert found == episode.get_actions().tolist()


PIECES = {
    "stacked frames": lambda: [FrameStacking(num_frames=3), FlattenObservations()],
    "previous rewards": lambda: [PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=2), FlattenObservations()],
    "a filter": lambda: [MeanStdFilter()],
}


def training_with(pieces):
    options = {name: value for name, value in SMALL.items() if name != "progress"}
    return Training.of(Setup.of("ppo", "CartPole-v1", connectors=pieces(), learning_rate=0.01, **options))


@pytest.mark.parametrize("name", PIECES)
def test_pieces_and_their_states_belong_to_the_policy(name, tmp_path):
    with training_with(PIECES[name]) as training:
        training.run(steps=200)
        save_training(tmp_path / "saved", training)
        episodes = training.runner.evaluate(3)
    policy = Policy.load(tmp_path / "saved")

    for episode in episodes:
        policy.reset()
        for t in range(len(episode)):
            assert policy(episode.get_observations(t)) == episode.get_actions(t)
            policy.observe(episode.get_rewards(t))


def test_a_policy_that_looks_at_rewards_asks_for_them(tmp_path):
    with training_with(PIECES["previous rewards"]) as training:
        save_training(tmp_path / "saved", training)
    policy = Policy.load(tmp_path / "saved")
    observation = np.zeros(4, np.float32)
    policy(observation)

    with pytest.raises(PolicyError, match=r"observe\(reward\)"):
        policy(observation)
    policy.reset()
    policy(observation)


def test_a_policy_is_a_snapshot_of_the_training():
    with train("ppo", "CartPole-v1", steps=120, learning_rate=0.1, **SMALL) as training:
        policy, observation = training.policy(), np.full(4, 0.1, np.float32)
        before = policy.get_state()["module"]["state"]
        training.run(steps=400)

        after = policy.get_state()["module"]["state"]
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert policy(observation) in (0, 1)


class Unregistered(ConnectorV2):
    """Does nothing, and is not registered."""

    reads, writes, lookback = frozenset(), frozenset(), 0

    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_run_with_a_piece_that_is_not_registered_goes_on_but_says_why_it_has_no_policy(tmp_path):
    with training_with(lambda: [Unregistered()]) as training:
        training.step()
        save_training(tmp_path / "saved", training)

    with pytest.raises(CheckpointError, match=r"'policy'.*Unregistered.*register_connector"):
        Policy.load(tmp_path / "saved")
    with pytest.raises(TrainingError, match="`setup=`"):
        load_training(tmp_path / "saved")
    with load_training(tmp_path / "saved", setup=training.setup) as again:
        assert again.steps == training.steps
