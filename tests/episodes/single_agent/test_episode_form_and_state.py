"""The two forms of an episode, its spaces, its state and its pickle."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.errors import EpisodeError
from walks import stepped, walk


def test_finalizing_works_in_place_and_under_both_names():
    for method in (SingleAgentEpisode.finalize, SingleAgentEpisode.to_numpy):
        episode = walk()
        assert (episode.is_finalized, episode.is_numpy) == (False, False)

        assert method(episode) is episode

        assert (episode.is_finalized, episode.is_numpy) == (True, True)
        assert method(episode).get_rewards().dtype == np.float64


def test_finalizing_nested_observations_gives_nested_arrays():
    episode = SingleAgentEpisode(observations=[{"a": np.zeros(2), "b": (1, 2.5)}])

    observations = episode.finalize().get_observations(slice(-2, None), fill=0)

    assert observations["a"].shape == (2, 2)
    assert [part.dtype.kind for part in observations["b"]] == ["i", "f"]


def test_validating_a_good_episode_says_nothing():
    for episode in (SingleAgentEpisode(), walk(), walk().finalize(), walk().cut(2), walk()[1:1]):
        assert episode.validate() is None


def test_spaces_can_be_set_later():
    episode = walk()
    assert (episode.observation_space, episode.action_space) == (None, None)

    episode.observation_space = spaces.Discrete(5)
    episode.action_space = spaces.Discrete(4, start=10)

    assert episode._observation_space is episode.observations.space is episode.observation_space
    assert episode._action_space is episode.actions.space is episode.action_space
    assert episode.get_actions(0, one_hot_discrete=True).tolist() == [1, 0, 0, 0]
    episode.validate()


@pytest.mark.parametrize("finalize", [False, True])
def test_a_state_and_a_pickle_hold_everything(finalize):
    episode = stepped(3, observation_space=spaces.Discrete(9), agent_id="a", module_id="m").cut(2)
    episode.custom_data["x"] = {"y": np.ones(2)}
    episode.weights_version = 4
    if finalize:
        episode.finalize()

    for same in (
        SingleAgentEpisode.from_state(episode.get_state()),
        pickle.loads(pickle.dumps(episode, protocol=5)),
        copy.deepcopy(episode),
    ):
        assert repr(same) == repr(episode)
        assert same.observations == episode.observations
        assert same.extra_model_outputs == episode.extra_model_outputs
        assert same.get_infos(slice(-3, None)) == episode.get_infos(slice(-3, None))
        assert (same.observation_space, same.weights_version) == (spaces.Discrete(9), 4)
        assert same.custom_data["x"]["y"].tolist() == [1, 1]


def test_subclasses_stay_what_they_are():
    class Walk(SingleAgentEpisode):
        pass

    episode = Walk("walk", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)

    parts = [episode.cut(), episode[0:1], copy.copy(episode), Walk.from_state(episode.get_state())]
    assert [type(part) for part in parts] == [Walk] * 4


@pytest.mark.parametrize(("space", "nothing"), [(spaces.Dict({}), {}), (spaces.Tuple(()), ())], ids=["dict", "tuple"])
def test_observations_without_content_cannot_become_arrays_and_the_message_says_so(space, nothing):
    episode = SingleAgentEpisode("void", observation_space=space)
    episode.add_env_reset(nothing)

    with pytest.raises(EpisodeError, match=r"'void'.*observations: found items without content.*Discrete\(1\)"):
        episode.finalize()
    assert episode.get_observations() == [nothing]
