"""Hindsight: new goals were achieved in the same episode, and rewards are those of the new goals."""

import numpy as np
import pytest

from episodia import SingleAgentEpisode
from episodia.connectors import AddNextObservationsFromEpisodesToTrainBatch, HindsightGoals, NStepReturns, defaults
from episodia.errors import ConnectorError, PipelineError
from episodia.replay import ReplayBuffer, Sequences, Transitions

SET = 999_999.0


def walk(number, length, truncated=True, t_started=0):
    """A walk that achieves `1000 * number + t` at time step t; its goal is far away."""
    achieved = 1000.0 * number + t_started + np.arange(length + 1.0)[:, None]
    return SingleAgentEpisode(
        id_=f"walk {number}",
        observations={"achieved_goal": achieved, "desired_goal": np.full_like(achieved, SET)},
        actions=np.zeros(length, np.int64),
        rewards=np.full(length, -1.0),
        truncated=truncated,
        t_started=t_started,
        len_lookback_buffer=0,
    )


def reached(achieved, desired, info):
    assert info == {}
    return (achieved == desired).all(axis=-1).astype(np.float64)


def filled():
    buffer = ReplayBuffer(500, seed=0)
    buffer.add([walk(0, 20), walk(1, 30), walk(2, 10, truncated=False)])
    return buffer


def batch_of(episodes, *pieces, **settings):
    hindsight = HindsightGoals(compute_reward=reached, seed=0, **settings)
    pipeline = defaults.learner(targets=[hindsight, *(pieces or (AddNextObservationsFromEpisodesToTrainBatch(),))])
    batch = pipeline(rl_module=None, episodes=episodes)["default_policy"]
    columns = {"reward": batch["rewards"].double().numpy()}
    for name, column in (("obs", "obs"), ("next", "new_obs")):
        for part in ("achieved_goal", "desired_goal"):
            columns[f"{name} {part}"] = batch[column][part].double().numpy()[:, 0]
    return columns


LENGTHS = {0: 20, 1: 30, 2: 10}


def located(batch):
    """Walk, time, and the time at which the new goal is achieved, None for the old goal."""
    achieved, desired = batch["obs achieved_goal"], batch["obs desired_goal"]
    return [
        (int(a // 1000), int(a % 1000), None if d == SET else int(d - 1000 * (a // 1000)))
        for a, d in zip(achieved.tolist(), desired.tolist(), strict=True)
    ]


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_new_goals_are_those_that_the_stored_episode_achieves(strategy):
    found = located(batch_of(filled().sample(400), strategy=strategy, ratio=1.0))

    if strategy == "final":
        assert all(goal == LENGTHS[walk] for walk, _, goal in found)
    else:
        earliest = {goal - t for _, t, goal in found}
        assert all(0 <= goal <= LENGTHS[walk] for walk, _, goal in found)
        assert (min(earliest) >= 1) == (strategy == "future")
        assert any(goal - t > 5 for _, t, goal in found)


def test_rewards_are_those_of_the_new_goals_and_the_next_observation_has_them_too():
    batch = batch_of(filled().sample(400), ratio=0.5)

    is_new = batch["obs desired_goal"] != SET
    assert (batch["next desired_goal"] == batch["obs desired_goal"]).all()
    assert (batch["reward"][~is_new] == -1.0).all()
    assert (batch["reward"][is_new] == (batch["next achieved_goal"] == batch["next desired_goal"])[is_new]).all()
    assert 0.4 < is_new.mean() < 0.6
    assert batch["reward"][is_new].sum() > 0


def test_all_steps_of_a_sequence_get_the_same_goal_and_n_step_returns_use_the_new_rewards():
    batch = batch_of(filled().sample(50, Sequences(3, end="full")), NStepReturns(n=3, gamma=0.5), ratio=1.0)

    goals = batch["obs desired_goal"].reshape(50, 3)
    assert (goals == goals[:, :1]).all()
    times = batch["obs achieved_goal"].reshape(50, 3)
    first = sum(0.5**i * (times[:, 0] + i + 1 == goals[:, 0]) for i in range(3))
    np.testing.assert_allclose(batch["reward"].reshape(50, 3)[:, 0], first)


def test_lists_of_episodes_are_relabelled_from_themselves():
    episodes = [walk(0, 20)]

    batch = batch_of(episodes, strategy="final", ratio=1.0)

    assert set(batch["obs desired_goal"].tolist()) == {20.0}
    assert episodes[0].get_observations(0)["desired_goal"].tolist() == [SET]


def test_goals_of_a_growing_episode_go_as_far_as_it_has_gone():
    buffer = ReplayBuffer(500, seed=0)
    buffer.add([walk(0, 5, truncated=False)])
    sampled = buffer.sample(20)
    buffer.add([walk(0, 5, truncated=False, t_started=5)])

    assert {goal for _, _, goal in located(batch_of(sampled, strategy="final", ratio=1.0))} == {10}


def test_n_step_transitions_are_rejected():
    with pytest.raises(ConnectorError, match="Draw `Sequences"):
        batch_of(filled().sample(8, Transitions(3)))


def test_the_state_of_the_piece_is_its_generator():
    first, second = (HindsightGoals(compute_reward=reached, seed=seed) for seed in (0, 1))
    second.set_state(first.get_state())

    drawn = []
    for piece in (first, second):
        pipeline = defaults.learner(targets=[piece])
        batch = pipeline(rl_module=None, episodes=[walk(number, 9) for number in range(20)])
        drawn.append(batch["default_policy"]["obs"]["desired_goal"].tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("wrong", [{"ratio": 1.5}, {"strategy": "past"}, {"compute_reward": 3}])
def test_wrong_arguments_are_rejected(wrong):
    with pytest.raises(PipelineError, match="expected"):
        HindsightGoals(**{"compute_reward": reached, **wrong})
