"""Replay buffers under RLlib's names take RLlib's arguments, and return right items."""

import numpy as np
import pytest

from episodia import SingleAgentEpisode
from episodia.errors import ReplayError, UnknownArgumentError
from episodia.rllib import (
    EpisodeReplayBuffer,
    MultiAgentEpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer,
)
from episodia.testing import MULTI_AGENT_EPISODES


def walk(number, steps=6, **fields):
    return SingleAgentEpisode(
        f"walk-{number}",
        observations=100 * number + np.arange(steps + 1),
        actions=np.arange(steps),
        rewards=np.arange(steps) + 1.0,
        infos=[{"t": t} for t in range(steps + 1)],
        len_lookback_buffer=0,
        **{"terminated": True, **fields},
    )


@pytest.fixture(params=[EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer])
def buffer(request):
    made = request.param(capacity=100, batch_size_B=8, metrics_num_episodes_for_smoothing=7, seed=0)
    made.add([walk(0), walk(1)])
    made.add(walk(2, terminated=False, truncated=True))
    return made


def test_items_are_episodes_of_one_step(buffer):
    sampled = buffer.sample(5, n_step=1, gamma=0.9, beta=0.5, sample_episodes=True, include_infos=True, to_numpy=True)

    assert len(sampled) == 5
    for episode in sampled:
        first, second = episode.get_observations().tolist()
        assert second == first + 1
        assert episode.is_terminated == (first % 100 == 5 and first < 200)
        assert episode.is_truncated == (first == 205)
        assert episode.get_infos(0) == {"t": first % 100}


def test_items_of_several_steps_have_discounted_rewards_and_keep_the_end(buffer):
    for episode in buffer.sample(batch_size_B=40, n_step=3, gamma=0.5, sample_episodes=True):
        first, last = episode.get_observations().tolist()
        t = first % 100

        assert last == first + min(3, 6 - t)
        assert episode.get_rewards(0) == sum(0.5**k * (t + k + 1) for k in range(last - first))
        assert episode.is_terminated == (last % 100 == 6 and last < 200)


def test_a_range_of_steps_is_drawn_from(buffer):
    lengths = {
        int(np.diff(episode.get_observations())[0])
        for _ in range(30)
        for episode in buffer.sample(2, n_step=(1, 3), sample_episodes=True)
    }

    assert lengths == {1, 2, 3}


def test_sequences_have_about_as_many_steps_as_items_were_asked_for(buffer):
    sampled = buffer.sample(12, batch_length_T=4, n_step=1, sample_episodes=True, lookback=1)

    assert len(sampled) == 3
    assert all(0 < length <= 4 for length in sampled.lengths)


def test_counts_are_those_of_rllib(buffer):
    buffer.sample(5)

    assert (len(buffer), buffer.get_num_timesteps(), buffer.get_added_timesteps()) == (18, 18, 18)
    assert (buffer.get_num_episodes(), buffer.get_num_episodes_evicted()) == (3, 0)
    assert buffer.get_sampled_timesteps() == 5
    for number in range(3, 30):
        buffer.add(walk(number))
    assert buffer.get_num_episodes() + buffer.get_num_episodes_evicted() == 30
    assert buffer.get_added_timesteps() == 180
    assert buffer.get_num_timesteps() <= 100 == buffer.capacity


def test_a_buffer_continues_from_its_state(buffer):
    buffer.sample(3)
    other = type(buffer)(capacity=100, seed=9)
    other.set_state(buffer.get_state())

    assert other.get_sampled_timesteps() == 3
    assert other.sample(6).flat("obs").values.tolist() == buffer.sample(6).flat("obs").values.tolist()


def test_priorities_decide_what_is_sampled():
    buffer = PrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0, seed=0)
    buffer.add(walk(0))
    with pytest.raises(ReplayError, match="found no sample"):
        buffer.update_priorities([1.0])
    for _ in range(20):
        seen = buffer.sample(8, beta=1.0).flat("obs").values
        buffer.update_priorities(np.where(seen == 3, 1.0, 0.0))
    sampled = buffer.sample(8, beta=1.0)

    assert sampled.flat("obs").values.tolist() == [3] * 8
    assert sampled.weights.tolist() == [1.0] * 8


def test_beta_changes_the_weights_of_each_sample():
    buffer = PrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0, seed=0)
    buffer.add(walk(0, steps=2))
    keys = buffer.sample(64).flat("obs").values
    buffer.update_priorities(keys * 3.0 + 1.0)
    weights = {beta: buffer.sample(64, beta=beta).weights for beta in (0.0, 1.0)}

    assert set(weights[0.0].tolist()) == {1.0}
    assert sorted(set(np.round(weights[1.0], 5).tolist())) == [0.25, 1.0]


def test_steps_of_each_module_are_sampled():
    buffer = MultiAgentEpisodeReplayBuffer(capacity=100, seed=0)
    buffer.add([MULTI_AGENT_EPISODES["all terminated"]().finalize()])

    assert buffer.get_module_ids() == ["default_policy"]
    assert buffer.get_num_agent_timesteps() == buffer.get_added_agent_timesteps() == 8
    sampled = buffer.sample(4, n_step=1, replay_mode="independent", modules_to_sample=["default_policy"])
    assert len(sampled) == 4
    assert {episode.agent_id for episode in buffer.sample(60)} == {"walker", "flyer"}


def test_synchronized_items_are_the_steps_of_all_agents_at_an_environment_step():
    buffer = MultiAgentEpisodeReplayBuffer(capacity=100, seed=0)
    buffer.add([MULTI_AGENT_EPISODES["all terminated"]().finalize()])

    sampled = buffer.sample(20, replay_mode="synchronized")

    assert sampled.agents == ["walker", "flyer"]
    assert len(sampled) == 40
    with pytest.raises(ReplayError, match=r"replay_mode='synchronized'.*expected single steps"):
        buffer.sample(20, n_step=3, replay_mode="synchronized")
    with pytest.raises(ReplayError, match="replay_mode='together'"):
        buffer.sample(20, replay_mode="together")


def test_an_episode_of_several_agents_is_one_episode():
    buffer = MultiAgentEpisodeReplayBuffer(capacity=100, seed=0)
    buffer.add(MULTI_AGENT_EPISODES["all terminated"]().finalize())
    buffer.sample(5)

    assert (buffer.get_num_episodes(), buffer.get_num_episodes("default_policy")) == (1, 2)
    assert (buffer.get_added_timesteps("default_policy"), buffer.get_added_timesteps("other")) == (8, 0)
    assert (buffer.get_sampled_timesteps("default_policy"), buffer.get_sampled_timesteps("other")) == (5, 0)


def test_steps_are_added_with_a_weight():
    buffer = PrioritizedEpisodeReplayBuffer(capacity=100, alpha=1.0, seed=0)
    buffer.add(walk(0), 1.0)
    buffer.add(walk(1), weight=0.0)

    assert buffer.sample(50).flat("obs").values.max() < 100


def test_other_arguments_are_rejected(buffer):
    with pytest.raises(ReplayError, match="sample_episodes=False"):
        buffer.sample(4, sample_episodes=False)
    with pytest.raises(UnknownArgumentError, match="n_steps"):
        buffer.sample(4, n_steps=3)
    with pytest.raises(UnknownArgumentError, match="capcity"):
        EpisodeReplayBuffer(capcity=3)
    with pytest.raises(ReplayError, match="capacity=0"):
        EpisodeReplayBuffer(capacity=0)
