"""Episodes from and to plain dictionaries of arrays."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import SingleAgentEpisode
from walks import walk


@pytest.mark.parametrize("finalize", [False, True])
def test_an_episode_as_arrays_has_one_observation_more_than_steps(finalize):
    episode = walk(terminated=True)
    if finalize:
        episode.finalize()

    arrays = episode.to_arrays()

    assert arrays["obs"].tolist() == [0, 1, 2, 3, 4]
    assert arrays["actions"].tolist() == [10, 11, 12, 13]
    assert arrays["rewards"].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert arrays["terminateds"].tolist() == [False, False, False, True]
    assert arrays["truncateds"].tolist() == [False] * 4
    assert arrays["logp"].tolist() == [-0.1, -0.2, -0.3, -0.4]
    assert arrays["infos"] == [{"t": t} for t in range(5)]
    assert episode.is_finalized is finalize


def test_arrays_leave_the_lookback_and_empty_infos_out():
    arrays = walk(len_lookback_buffer=2, infos=None).to_arrays()

    assert arrays["obs"].tolist() == [2, 3, 4]
    assert arrays["logp"].tolist() == [-0.3, -0.4]
    assert "infos" not in arrays


def test_an_episode_goes_to_arrays_and_back():
    episode = walk(truncated=True)

    again = SingleAgentEpisode.from_arrays(episode.to_arrays(), id_="walk")

    assert again.is_finalized
    assert again.get_observations().tolist() == episode.get_observations()
    assert again.get_infos() == episode.get_infos()
    assert again.get_extra_model_outputs("logp").tolist() == episode.get_extra_model_outputs("logp")
    assert (len(again), again.id_, again.is_truncated, again.is_terminated) == (4, "walk", True, False)


def test_transitions_with_next_observations_become_one_track():
    logged = {
        "obs": np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]),
        "new_obs": np.array([[1.0, 2.0], [2.0, 3.0], [3.0, np.nan]]),
        "actions": [0, 1, 0],
        "rewards": [1, 1, 1],
        "terminateds": [False, False, True],
    }

    episode = SingleAgentEpisode.from_arrays(logged, action_space=spaces.Discrete(2), t_started=5)

    assert episode.get_observations()[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (len(episode), episode.t, episode.is_terminated) == (3, 8, True)
    assert episode.get_actions(-1, one_hot_discrete=True).tolist() == [1, 0]


def test_nested_and_listed_columns_are_stacked():
    episode = SingleAgentEpisode.from_arrays(
        {
            "obs": [{"x": 0.0, "y": (1, "a")}, {"x": 0.5, "y": (2, "bc")}],
            "actions": {"left": np.array([3])},
            "rewards": [1.0],
        }
    )

    assert episode.get_observations()["x"].tolist() == [0.0, 0.5]
    assert episode.get_observations(-1)["y"] == (2, "bc")
    assert episode.get_actions(0) == {"left": 3}


@pytest.mark.parametrize("observations", [[], [7]], ids=["before the reset", "after the reset"])
def test_episodes_without_steps_survive_the_round_trip(observations):
    episode = SingleAgentEpisode(observations=observations)

    again = SingleAgentEpisode.from_arrays(episode.to_arrays())

    assert (len(again), again.is_reset) == (0, bool(observations))
    assert again.get_observations().tolist() == observations
    assert len(again.get_actions()) == len(again.get_rewards()) == 0


def test_the_given_arrays_and_the_exported_ones_cannot_change_the_episode():
    rewards = np.ones(2)
    episode = SingleAgentEpisode.from_arrays({"obs": np.zeros(3), "actions": np.zeros(2), "rewards": rewards})
    rewards[:] = 9.0

    assert episode.get_return() == 2.0
    with pytest.raises(ValueError, match="read-only"):
        episode.to_arrays()["rewards"][0] = 9.0
