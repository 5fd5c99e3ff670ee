"""Rewards in a learner's batch, against plain lists."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.learner.reward_transforms import ClipRewards, ScaleRewards, SignRewards
from episodia.errors import BatchError, PipelineError
from episodia.testing import episodes, multi_agent_episodes
from piece_calls import called

WALKS = episodes(observation_space=spaces.Discrete(3), action_space=spaces.Discrete(2), fields=())
PIECES = {
    "clip": (ClipRewards(low=-0.5, high=1.5), lambda reward: min(max(reward, -0.5), 1.5)),
    "sign": (SignRewards(), lambda reward: (reward > 0) - (reward < 0)),
    "scale": (ScaleRewards(factor=0.25), lambda reward: reward * 0.25),
}


@pytest.mark.parametrize("name", PIECES)
@given(found=st.lists(WALKS, min_size=1, max_size=3))
def test_each_reward_is_changed_and_episodes_keep_theirs(name, found):
    piece, change = PIECES[name]
    listed = EpisodeList(found)
    expected = [[float(reward) for reward in episode.get_rewards()] for episode in found]

    column = called(piece, listed, called(AddColumnsFromEpisodesToTrainBatch(), listed))["rewards"]

    expected_flat = [change(reward) for rewards in expected for reward in rewards]
    np.testing.assert_allclose(column.values, expected_flat, rtol=1e-6, atol=1e-44)  # float32 has subnormals
    assert column.lengths.tolist() == [len(rewards) for rewards in expected]
    assert [[float(reward) for reward in episode.get_rewards()] for episode in found] == expected


@pytest.mark.parametrize("name", PIECES)
@given(episode=multi_agent_episodes())
def test_it_works_on_either_side_of_the_mapping_to_modules(name, episode):
    piece, change = PIECES[name]
    listed, add, mapping = EpisodeList([episode, episode]), AddColumnsFromEpisodesToTrainBatch(), AgentToModuleMapping()

    before = called(mapping, listed, called(piece, listed, called(add, listed)))
    after = called(piece, listed, called(mapping, listed, called(add, listed)))

    for module, group in listed.groups().items():
        expected = [change(float(reward)) for single in group for reward in single.get_rewards()]
        np.testing.assert_allclose(before[module]["rewards"].values, expected, rtol=1e-6)
        np.testing.assert_allclose(after[module]["rewards"].values, expected, rtol=1e-6)


@pytest.mark.parametrize("name", PIECES)
def test_a_batch_without_rewards_is_rejected(name):
    with pytest.raises(BatchError, match=r"column 'rewards': found no such column.*AddColumnsFromEpisodesToTrainBatch"):
        called(PIECES[name][0], EpisodeList([SingleAgentEpisode(observations=[0])]))


def test_numbers_that_make_no_sense_are_rejected():
    with pytest.raises(PipelineError, match="low=1` and `high=-1`"):
        ClipRewards(low=1, high=-1)
    with pytest.raises(PipelineError, match="factor=inf"):
        ScaleRewards(factor=float("inf"))
    with pytest.raises(TypeError):
        ClipRewards(-1, 1)  # spaces come first, as in all pieces
