"""Stacked frames, against a list of the last few observations of each step."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEnvRunner, SingleAgentEpisode
from episodia.connectors import (
    EnvToModulePipeline,
    FlattenObservations,
    MeanStdFilter,
    OneHotObservations,
    PrevActionsPrevRewards,
)
from episodia.connectors.batches.batch_descriptions import rows_of
from episodia.connectors.env_to_module.frame_stacking import FrameStacking
from episodia.errors import BatchError, DroppedHistoryError, PipelineError
from episodia.learners import Learner, PPOConfig, default_pipeline
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_items
from piece_calls import BOX_KINDS, acted, built, called, from_birth, items_of, trained, without_spaces


def stacked(items, num_frames, axis):
    """Return the last of `items` on the ones before it, by NumPy's own functions for single arrays."""
    frames = ([zeros_like(items[0])] * num_frames + items)[-num_frames:]
    return _stacked(frames, axis)


def zeros_like(item):
    if isinstance(item, dict):
        return {key: zeros_like(value) for key, value in item.items()}
    if isinstance(item, tuple):
        return tuple(map(zeros_like, item))
    return np.zeros_like(item)


def _stacked(frames, axis):
    first = frames[0]
    if isinstance(first, dict):
        return {key: _stacked([frame[key] for frame in frames], axis) for key in first}
    if isinstance(first, tuple):
        return tuple(_stacked(list(column), axis) for column in zip(*frames, strict=True))
    has_axis = -first.ndim <= axis < first.ndim and first.shape[axis] == 1
    return np.concatenate(frames, axis) if has_axis else np.stack(frames, axis)


@given(from_birth(kinds=BOX_KINDS), st.integers(1, 4), st.sampled_from([-1, 0]), st.booleans(), st.booleans())
def test_each_observation_stands_on_those_before_it(trajectory, num_frames, axis, finalized, gives_space):
    space = trajectory.observation_space if gives_space else None
    piece = FrameStacking(space, num_frames=num_frames, axis=axis)
    episode = built(without_spaces(trajectory) if gives_space else trajectory, finalized)

    items = trajectory.observations
    expected = [stacked(items[: t + 1], num_frames, axis) for t in range(len(items))]
    assert_same_items(trained(piece, episode), expected)
    assert_same_items(acted(piece, episode), expected[-1:])
    if gives_space:
        assert all(piece.observation_space.contains(row) for row in expected)


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((84, 84, 1), -1, (84, 84, 4)),
        ((84, 84, 3), -1, (84, 84, 3, 4)),
        ((84, 84), -1, (84, 84, 4)),
        ((84, 84), 0, (4, 84, 84)),
        ((1, 84, 84), 0, (4, 84, 84)),
        ((84, 84), -2, (84, 4, 84)),
        ((84, 84), 1, (84, 4, 84)),
        ((84, 84), 2, (84, 84, 4)),
        ((84, 1), -2, (84, 4, 1)),
        ((5,), -1, (5, 4)),
        ((1,), -1, (4,)),
        ((), -1, (4,)),
    ],
)
def test_where_the_axis_of_the_frames_is(shape, axis, expected):
    space = spaces.Box(0, 255, shape, np.uint8)
    piece = FrameStacking(space, num_frames=4, axis=axis)

    (row,) = acted(piece, SingleAgentEpisode(observations=[np.ones(shape, np.uint8)]))

    assert piece.observation_space.shape == row.shape == expected
    assert row.dtype == piece.observation_space.dtype == np.uint8


def test_bounds_of_older_frames_include_the_zeros_before_the_first():
    piece = FrameStacking(spaces.Box(2.0, 5.0, (1,)), num_frames=3)

    assert piece.observation_space.low.tolist() == [0.0, 0.0, 2.0]
    assert piece.observation_space.high.tolist() == [5.0, 5.0, 5.0]


def test_the_lookback_is_what_a_chunk_must_keep():
    piece = FrameStacking(num_frames=3)
    whole = SingleAgentEpisode(
        observations=list(map(float, range(6))), actions=[0] * 5, rewards=[0.0] * 5, len_lookback_buffer=0
    )

    assert piece.lookback == 2
    assert acted(piece, whole.cut(len_lookback_buffer=2))[0].tolist() == [3.0, 4.0, 5.0]
    with pytest.raises(DroppedHistoryError):
        acted(piece, whole.cut(len_lookback_buffer=1))


def test_observations_of_an_earlier_piece_would_be_lost_and_are_an_error():
    with pytest.raises(BatchError, match="Place this piece before all others that write 'obs'"):
        called(FrameStacking(num_frames=2), EpisodeList([SingleAgentEpisode(observations=[1.0])]), {"obs": [2.0]})


CLASSES = {
    "Discrete": spaces.Discrete(3),
    "Discrete from 2": spaces.Discrete(3, start=2),
    "Discrete below 0": spaces.Discrete(2, start=-5),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[4, -1]),
    "MultiBinary": spaces.MultiBinary([2, 2]),
    "Dict": spaces.Dict(
        {"kind": spaces.Discrete(3), "speed": spaces.Box(-1.0, 1.0, (2,)), "on": spaces.MultiBinary(1)}
    ),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("axis", [0, -1])
def test_classes_are_stacked_too_and_fit_the_space(name, axis):
    space = CLASSES[name]
    space.seed(0)
    items = [space.sample() for _ in range(5)]
    episode = SingleAgentEpisode(
        observations=items, actions=[0] * 4, rewards=[0.0] * 4, observation_space=space, len_lookback_buffer=0
    )
    piece = FrameStacking(space, num_frames=3, axis=axis)

    rows = rows_of(trained(piece, episode))
    expected = [stacked(list(map(as_arrays, items[: t + 1])), 3, axis) for t in range(5)]
    assert_same_items(rows, expected)
    assert all(row in piece.observation_space for row in rows)


def as_arrays(item):
    return {key: np.asarray(leaf) for key, leaf in item.items()} if isinstance(item, dict) else np.asarray(item)


def test_stacked_classes_become_vectors():
    space = CLASSES["Dict"]
    pipeline = EnvToModulePipeline(
        space, spaces.Discrete(2), connectors=[FrameStacking(num_frames=2), FlattenObservations()]
    )
    episode = SingleAgentEpisode(observations=[space.sample()], observation_space=space)

    assert pipeline.observation_space.shape == (6 + 4 + 2,)
    assert pipeline(episodes=[episode])["obs"][0] in pipeline.observation_space


@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))})])
def test_what_has_no_shape_is_rejected(space):
    with pytest.raises(PipelineError, match="expected Box, Discrete, MultiDiscrete or MultiBinary"):
        FrameStacking(space, num_frames=2)


@pytest.mark.parametrize("num_frames", [0, -1, 2.5, "2"])
def test_an_invalid_number_of_frames_is_rejected(num_frames):
    with pytest.raises(PipelineError, match="num_frames="):
        FrameStacking(num_frames=num_frames)


def test_an_axis_that_the_frames_cannot_have_is_rejected():
    with pytest.raises(PipelineError, match=r"float32\[2\].*`axis=2`"):
        FrameStacking(spaces.Box(0, 1, (2,)), num_frames=2, axis=2)


def test_each_agent_stacks_its_own_frames():
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda *_: "m")
    episode.add_env_reset(observations={"a": 1.0, "b": 10.0})
    episode.add_env_step({"b": 20.0}, {"a": 0, "b": 0}, {"b": 0.0})
    episode.add_env_step({"a": 2.0, "b": 30.0}, {"b": 0}, {"a": 0.0, "b": 0.0})
    space = spaces.Dict({"a": spaces.Box(0, 99, ()), "b": spaces.Box(0, 99, ())})
    piece = FrameStacking(space, num_frames=2, multi_agent=True)

    assert called(piece, EpisodeList([episode]).current())["obs"]["m"].values.tolist() == [[1.0, 2.0], [20.0, 30.0]]
    assert called(piece, EpisodeList([episode]))["obs"]["m"].values.tolist() == [
        [0.0, 1.0],
        [1.0, 2.0],
        [0.0, 10.0],
        [10.0, 20.0],
        [20.0, 30.0],
    ]
    assert piece.observation_space["a"].shape == (2,)


# --- Behind pieces that change each observation -----------------------------------------------------------------------


def in_front(pieces, space):
    return EnvToModulePipeline(space, spaces.Discrete(2), connectors=pieces)


def one_by_one(pipeline, episodes):
    """Return the observations that the pieces make one after another, as items, with the last one of each episode."""
    batch = {}
    for piece in pipeline:
        batch = called(piece, episodes, batch)
    return items_of(batch["obs"])


def flat_stacks(space, observations, num_frames, axis):
    flat = [spaces.flatten(space, observation).astype(np.float32) for observation in observations]
    return [stacked(flat[: t + 1], num_frames, axis) for t in range(len(flat))]


@given(from_birth(), st.integers(1, 4), st.sampled_from([-1, 0]), st.booleans())
def test_flattened_observations_are_stacked(trajectory, num_frames, axis, finalized):
    space = trajectory.observation_space
    pipeline = in_front([FlattenObservations(), FrameStacking(num_frames=num_frames, axis=axis)], space)
    episode = built(trajectory, finalized)

    expected = flat_stacks(space, trajectory.observations, num_frames, axis)
    assert_same_items(one_by_one(pipeline, EpisodeList([episode])), expected)
    assert_same_items(one_by_one(pipeline, EpisodeList([episode]).current()), expected[-1:])
    assert all(pipeline.observation_space.contains(row) for row in expected)


def test_several_pieces_may_change_each_frame():
    space = spaces.Dict({"kind": spaces.Discrete(3, start=1), "speed": spaces.Box(1.0, 5.0, (2,))})
    observations = [{"kind": kind, "speed": np.full(2, kind, np.float32)} for kind in (1, 2, 3)]
    episode = SingleAgentEpisode(
        observations=observations, actions=[0, 1], rewards=[0.0, 0.0], observation_space=space, len_lookback_buffer=0
    )
    pipeline = in_front([OneHotObservations(), FlattenObservations(), FrameStacking(num_frames=2)], space)

    assert_same_items(one_by_one(pipeline, EpisodeList([episode])), flat_stacks(space, observations, 2, -1))


def test_frames_before_a_chunk_are_flattened_too():
    space = spaces.Discrete(4)
    episode = SingleAgentEpisode(
        observations=[0, 1, 2, 3], actions=[0, 0, 1], rewards=[0.0] * 3, observation_space=space, len_lookback_buffer=0
    )
    pipeline = in_front([FlattenObservations(), FrameStacking(num_frames=2)], space)
    whole = one_by_one(pipeline, EpisodeList([episode]))

    assert pipeline.lookback == 1
    assert_same_items(one_by_one(pipeline, EpisodeList([episode.slice(slice(2, 3), len_lookback_buffer=1)])), whole[2:])


def test_frames_in_the_lookback_of_an_episode_from_nowhere_are_flattened_too():
    """RLlib's constructor puts all data into the lookback, at time step 0."""
    episode = SingleAgentEpisode(observations=[0, 1, 2], actions=[0, 0], rewards=[0.0, 0.0])
    pipeline = in_front([FlattenObservations(), FrameStacking(num_frames=3, axis=0)], spaces.Discrete(3))

    (frames,) = one_by_one(pipeline, EpisodeList([episode]))

    np.testing.assert_array_equal(frames, np.eye(3))


def test_agents_with_spaces_of_their_own_are_flattened_and_stacked():
    of_agents = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1.0, 1.0, (3,))})
    seen = {"a": [0, 2], "b": [np.full(3, 0.5, np.float32), np.full(3, -0.5, np.float32)]}
    game = MultiAgentEpisode(observation_space=of_agents)
    game.add_env_reset(observations={agent: items[0] for agent, items in seen.items()})
    game.add_env_step({agent: items[1] for agent, items in seen.items()}, {"a": 0, "b": 0}, {"a": 0.0, "b": 0.0})
    pieces = [FlattenObservations(multi_agent=True), FrameStacking(num_frames=2, multi_agent=True)]
    pipeline = EnvToModulePipeline(of_agents, None, connectors=pieces)

    rows = rows_of(pipeline(episodes=[game])["obs"]["default_policy"])
    assert_same_items(rows, [flat_stacks(of_agents[agent], seen[agent], 2, -1)[-1] for agent in seen])


def test_a_runner_and_a_learner_see_the_same_flattened_stacks():
    env = gym.make("Taxi-v4")
    pieces = lambda: [FlattenObservations(), FrameStacking(num_frames=3)]  # noqa: E731
    module = MLPActorCritic(spaces.Box(0.0, 1.0, (500, 3)), env.action_space)
    learner = Learner(
        module,
        PPOConfig(),
        learner_pipeline=default_pipeline(PPOConfig(), env.observation_space, env.action_space, custom=pieces()),
    )
    with SingleAgentEnvRunner("Taxi-v4", module, num_envs=2, seed=0, env_to_module=pieces()) as runner:
        for _ in range(2):
            episodes = runner.sample(num_timesteps=30)
            batch = learner.batch_of(episodes)["default_policy"]
            with torch.no_grad():
                again = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]

            np.testing.assert_allclose(again, batch[Columns.ACTION_DIST_INPUTS], atol=1e-6)


@pytest.mark.parametrize("other", [MeanStdFilter, PrevActionsPrevRewards])
def test_frames_cannot_follow_pieces_that_look_at_more_than_one_observation(other):
    with pytest.raises(PipelineError, match="Move 'FrameStacking' before"):
        in_front([FlattenObservations(), other(), FrameStacking(num_frames=2)], spaces.Box(-1.0, 1.0, (2,)))


def test_one_piece_cannot_stack_frames_of_two_kinds():
    piece = FrameStacking(num_frames=2)
    first = in_front([FlattenObservations(), piece], spaces.Discrete(2))
    with pytest.raises(PipelineError, match="Make a second FrameStacking"):
        in_front([FlattenObservations(), piece], spaces.Discrete(2))

    assert first.observation_space.shape == (2, 2)


def test_alone_again_the_piece_stacks_what_the_episodes_have():
    piece = FrameStacking(num_frames=2)
    in_front([FlattenObservations(), piece], spaces.Discrete(2)).remove(piece.name)
    episode = SingleAgentEpisode(observations=[1.0, 2.0], actions=[0], rewards=[0.0], len_lookback_buffer=0)

    assert_same_items(trained(piece, episode), [np.array([0.0, 1.0]), np.array([1.0, 2.0])])
