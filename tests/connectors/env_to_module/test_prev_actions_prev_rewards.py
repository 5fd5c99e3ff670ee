"""Previous actions and rewards, against slices of plain lists."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors.env_to_module.prev_actions_prev_rewards import PrevActionsPrevRewards
from episodia.errors import PipelineError
from episodia.stacking import stack
from episodia.testing import assert_same_items
from piece_calls import acted, as_arrays, built, called, from_birth, trained, without_spaces


def with_past(trajectory, t, n_actions, n_rewards):
    """Return the observation at step t with what was before it."""
    space = trajectory.action_space
    size = spaces.flatdim(space)
    actions = [np.asarray(spaces.flatten(space, action)) for action in trajectory.actions[:t]]
    vectors = ([np.zeros(size)] * n_actions + actions)[len(actions) :] if n_actions else []
    rewards = ([0.0] * n_rewards + trajectory.rewards[:t])[t:] if n_rewards else []
    parts = {
        "_orig_obs": trajectory.observations[t],
        "prev_n_actions": np.concatenate(vectors).astype(np.float32) if vectors else None,
        "prev_n_rewards": np.array(rewards, np.float32) if n_rewards else None,
    }
    return {key: part for key, part in parts.items() if part is not None}


@given(from_birth(), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_what_was_before_stands_beside_each_observation(trajectory, n_actions, n_rewards, finalized, gives_space):
    given_spaces = (trajectory.observation_space, trajectory.action_space) if gives_space else ()
    piece = PrevActionsPrevRewards(*given_spaces, n_prev_actions=n_actions, n_prev_rewards=n_rewards)
    episode = built(without_spaces(trajectory) if gives_space else trajectory, finalized)

    steps = range(len(trajectory.observations))
    expected = [with_past(trajectory, t, n_actions, n_rewards) for t in steps]
    assert_same_items(stack(trained(piece, episode)), stack(expected))
    assert_same_items(stack(acted(piece, episode)), stack(expected[-1:]))
    assert piece.lookback == max(n_actions, n_rewards)
    if gives_space:
        assert all(piece.observation_space.contains(row) for row in map(as_arrays, trained(piece, episode)))


def test_names_and_sizes_are_those_of_rllib():
    piece = PrevActionsPrevRewards(spaces.Box(0, 1, (2,)), spaces.Discrete(4), n_prev_actions=3, n_prev_rewards=2)

    assert (piece.ORIG_OBS_KEY, piece.PREV_ACTIONS_KEY, piece.PREV_REWARDS_KEY) == (
        "_orig_obs",
        "prev_n_actions",
        "prev_n_rewards",
    )
    assert piece.observation_space == spaces.Dict(
        {
            "_orig_obs": spaces.Box(0, 1, (2,)),
            "prev_n_actions": spaces.Box(0.0, 1.0, (12,), np.float32),
            "prev_n_rewards": spaces.Box(-np.inf, np.inf, (2,), np.float32),
        }
    )


def test_no_action_is_not_the_first_action():
    walk = SingleAgentEpisode(
        observations=[0, 1], actions=[5], rewards=[1.0], len_lookback_buffer=0, action_space=spaces.Discrete(2, start=5)
    )

    assert [row["prev_n_actions"].tolist() for row in trained(PrevActionsPrevRewards(), walk)] == [[0, 0], [1, 0]]


def test_steps_in_the_lookback_of_an_episode_from_nowhere_count():
    """RLlib's constructor puts all data into the lookback, at time step 0."""
    walk = SingleAgentEpisode(
        observations=[0, 1, 2], actions=[1, 0], rewards=[0.0, 1.0], action_space=spaces.Discrete(2)
    )

    (row,) = acted(PrevActionsPrevRewards(n_prev_actions=3, n_prev_rewards=3), walk)

    assert row["prev_n_actions"].tolist() == [0, 0, 0, 1, 1, 0]
    assert row["prev_n_rewards"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("rewards", [[0, 1], [1, 0], [True, False], [np.nan, 0.0], [np.inf, 1.0]])
def test_rewards_of_any_value_are_told_from_fillings(rewards):
    walk = SingleAgentEpisode(
        observations=[0, 1, 2], actions=[1, 1], rewards=rewards, len_lookback_buffer=0, action_space=spaces.Discrete(2)
    )

    rows = trained(PrevActionsPrevRewards(n_prev_actions=2), walk)

    assert [row["prev_n_actions"].tolist() for row in rows] == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 1]]


def test_no_action_space_is_an_error_with_and_without_an_observation_space():
    with pytest.raises(PipelineError, match="found no action space"):
        PrevActionsPrevRewards(spaces.Discrete(2))
    with pytest.raises(PipelineError, match="found no space of the actions"):
        called(PrevActionsPrevRewards(), EpisodeList([SingleAgentEpisode(observations=[0])]))


def test_actions_of_no_fixed_size_are_rejected():
    with pytest.raises(PipelineError, match="found Text"):
        PrevActionsPrevRewards(spaces.Discrete(2), spaces.Text(5))
    with pytest.raises(PipelineError, match="n_prev_actions=-1"):
        PrevActionsPrevRewards(n_prev_actions=-1)


def test_rewards_alone_need_no_action_space():
    walk = SingleAgentEpisode(observations=[0, 1], actions=["left"], rewards=[1.0], len_lookback_buffer=0)

    (row,) = acted(PrevActionsPrevRewards(n_prev_actions=0), walk)

    assert row.keys() == {"_orig_obs", "prev_n_rewards"}


def test_observations_without_tails_get_no_past_for_a_tail():
    walk = SingleAgentEpisode(
        observations=[0, 1, 2],
        actions=[1, 0],
        rewards=[3.0, 4.0],
        len_lookback_buffer=0,
        action_space=spaces.Discrete(2),
    )

    rows = trained(PrevActionsPrevRewards(), walk, batch={"obs": [7, 8]})

    assert [(row["_orig_obs"], row["prev_n_rewards"].tolist()) for row in rows] == [(7, [0.0]), (8, [3.0])]


def test_agents_have_their_own_past_and_spaces():
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, _: agent)
    episode.add_env_reset(observations={"a": 1.0, "b": 2.0})
    episode.add_env_step({"a": 3.0, "b": 4.0}, {"a": 1, "b": np.array([0.5, 0.25])}, {"a": 5.0, "b": 6.0})
    observations = spaces.Dict({"a": spaces.Box(0, 9, ()), "b": spaces.Box(0, 9, ())})
    actions = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,))})
    piece = PrevActionsPrevRewards(observations, actions, multi_agent=True)

    batch = called(piece, EpisodeList([episode]).current())["obs"]

    assert {agent: column.values["prev_n_actions"].tolist() for agent, column in batch.items()} == {
        "a": [[0.0, 1.0]],
        "b": [[0.5, 0.25]],
    }
    assert {agent: column.values["prev_n_rewards"].tolist() for agent, column in batch.items()} == {
        "a": [[5.0]],
        "b": [[6.0]],
    }
    assert piece.observation_space["b"]["prev_n_actions"].shape == (2,)
