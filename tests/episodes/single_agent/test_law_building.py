"""Law 4: whichever way an episode is built, it is the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.testing import EPISODES, SPACES, Trajectory, assert_same_episode, trajectories
from plain_column import plain, rows

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])


@given(trajectory=trajectories())
def test_built_by_the_constructor_equals_built_step_by_step(trajectory):
    assert_same_episode(trajectory.built(), trajectory.stepped(), ignore=["times"])


@given(trajectory=trajectories())
def test_built_by_the_constructor_equals_built_step_by_step_when_finalized(trajectory):
    assert_same_episode(trajectory.built().finalize(), trajectory.stepped().finalize(), ignore=["times"])


@FORMS
@pytest.mark.parametrize("name", SPACES)
def test_built_by_the_constructor_equals_built_step_by_step_in_every_space(name, finalized):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 4, lookback=1, truncated=True)
    built, stepped = trajectory.built(), trajectory.stepped()
    if finalized:
        built, stepped = built.finalize(), stepped.finalize()

    assert_same_episode(built, stepped, ignore=["times"])


@given(trajectory=trajectories(lengths=st.integers(1, 6)), data=st.data())
def test_finalizing_early_and_stepping_on_equals_finalizing_at_the_end(trajectory, data):
    early = data.draw(st.integers(0, len(trajectory) - 1))
    episode = trajectory.chunk(0, early, lookback=trajectory.lookback).built().finalize()
    rest = trajectory.chunk(early, len(trajectory))
    for step in range(len(rest)):
        is_last = step == len(rest) - 1
        episode.add_env_step(
            rest.observations[step + 1],
            rest.actions[step],
            rest.rewards[step],
            rest.infos[step + 1] if rest.infos else None,
            terminated=rest.terminated and is_last,
            truncated=rest.truncated and is_last,
            extra_model_outputs={name: items[step] for name, items in rest.extra_model_outputs.items()},
        )

    assert_same_episode(episode, trajectory.built().finalize(), ignore=["times", "weights_version"])


@given(trajectory=trajectories(lookbacks=st.just(0), fields=["infos", "extra_model_outputs"]), finalized=st.booleans())
def test_an_episode_survives_the_way_through_plain_arrays(trajectory, finalized):
    episode = trajectory.built().finalize() if finalized else trajectory.built()

    restored = SingleAgentEpisode.from_arrays(
        episode.to_arrays(),
        id_=trajectory.id_,
        observation_space=trajectory.observation_space,
        action_space=trajectory.action_space,
        t_started=trajectory.t_started,
    )

    assert_same_episode(restored, trajectory.built().finalize())


@pytest.mark.parametrize("name", EPISODES)
def test_plain_arrays_hold_the_steps_of_every_named_episode(name):
    episode = EPISODES[name]()

    arrays = episode.to_arrays()

    assert rows(arrays["obs"]) == rows(episode.get_observations())
    assert rows(arrays["actions"]) == rows(episode.get_actions())
    assert rows(arrays["rewards"]) == rows(episode.get_rewards())
    assert arrays["terminateds"].tolist() == [False] * (len(episode) - 1) + [episode.is_terminated] * bool(len(episode))
    assert all(rows(arrays[key]) == rows(column.get()) for key, column in episode.extra_model_outputs.items())


@given(trajectory=trajectories(fields=["infos", "extra_model_outputs"]))
def test_built_from_arrays_or_from_buffers_equals_built_from_lists(trajectory):
    expected = trajectory.built().finalize()
    columns = {"observations": expected.observations, "actions": expected.actions, "rewards": expected.rewards}
    others = {
        "infos": trajectory.infos,
        "observation_space": trajectory.observation_space,
        "action_space": trajectory.action_space,
        "terminated": trajectory.terminated,
        "truncated": trajectory.truncated,
        "t_started": trajectory.t_started,
        "len_lookback_buffer": trajectory.lookback,
    }
    extras = expected.extra_model_outputs

    by_buffers = SingleAgentEpisode(trajectory.id_, **columns, **others, extra_model_outputs=extras)
    by_arrays = SingleAgentEpisode(
        trajectory.id_,
        **{name: column.data for name, column in columns.items()},
        **others,
        extra_model_outputs={name: column.data for name, column in extras.items()},
    )

    assert_same_episode(by_buffers, expected)
    assert_same_episode(by_arrays, expected)


@pytest.mark.parametrize("reward", [0.5, np.float32(0.5), np.float64(0.5), 1, np.int64(1), True], ids=repr)
def test_a_reward_comes_back_as_it_was_given(reward):
    episode = SingleAgentEpisode()
    episode.add_env_reset(0)
    episode.add_env_step(1, 0, reward)

    assert type(episode.get_rewards(-1)) is type(reward)
    assert plain(episode.get_rewards()) == [plain(reward)]


@given(count=st.integers(0, 5), lookback=st.integers(0, 6))
def test_a_buffer_built_from_an_array_equals_a_finalized_one(count, lookback):
    from_list = LookbackBuffer(list(range(count)), lookback)
    from_array = LookbackBuffer(np.arange(count), lookback)

    from_list.finalize()

    assert from_list == from_array
