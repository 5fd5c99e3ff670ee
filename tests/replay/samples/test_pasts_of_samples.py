"""Pieces that read the past of each observation, on samples and on what a runner has recorded, against plain lists."""

import gymnasium as gym
import pytest
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEnvRunner, SingleAgentEpisode
from episodia.connectors import EnvToModulePipeline, FlattenObservations, FrameStacking, PrevActionsPrevRewards
from episodia.replay import MixedReplay, ReplayBuffer, Sequences, Transitions, WholeEpisodes
from episodia.replay.samples import sampled as sampled_module

MOST = 9
OBS, ACTIONS = spaces.Discrete(MOST + 1), spaces.Discrete(MOST)
DRAWS = st.sampled_from([Transitions(), Transitions(n_step=3), Sequences(4), Sequences(3, burn_in=1), WholeEpisodes()])


class Count(gym.Env):
    """Shows the number of steps; the reward is a half more."""

    observation_space, action_space = OBS, ACTIONS

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return self.t, self.t - 0.5, False, self.t == MOST, {}


class Repeat:
    """Takes the action that is the number of steps."""

    observation_space, action_space = None, ACTIONS

    def forward_inference(self, batch):
        return {"actions": batch["obs"]["_orig_obs"]}

    forward_exploration = forward_train = forward_inference

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


def walk(length, start=0):
    """Return the steps from `start` on: the observation and the action at step t are t, its reward is t + 0.5."""
    times = range(length)
    whole = SingleAgentEpisode(
        observations=[*times, length],
        actions=[*times],
        rewards=[t + 0.5 for t in times],
        truncated=True,
        len_lookback_buffer=0,
        observation_space=OBS,
        action_space=ACTIONS,
    )
    return whole.slice(slice(start, None), len_lookback_buffer=2)


def one_hot(t, size):
    return [float(t == place) for place in range(size)]


def assert_past(rows):
    """Check what the pieces make of the two steps before each observation."""
    previous = PrevActionsPrevRewards(OBS, ACTIONS, n_prev_actions=2, n_prev_rewards=2)
    _, stacking = EnvToModulePipeline(
        OBS, ACTIONS, connectors=[FlattenObservations(), FrameStacking(num_frames=3, axis=0)]
    )

    found, frames = (piece(rl_module=None, batch={}, episodes=rows)["obs"].values for piece in (previous, stacking))

    times = found["_orig_obs"].tolist()
    pasts = [(t - 2, t - 1) for t in times]
    assert found["prev_n_actions"].tolist() == [one_hot(a, MOST) + one_hot(b, MOST) for a, b in pasts]
    assert found["prev_n_rewards"].tolist() == [[t + 0.5 if t >= 0 else 0.0 for t in past] for past in pasts]
    assert frames.tolist() == [[one_hot(shown, MOST + 1) for shown in (t - 2, t - 1, t)] for t in times]


@settings(max_examples=25)
@given(st.lists(st.integers(1, MOST), min_size=1, max_size=4), DRAWS, st.integers(20, 40))
@example([9], Transitions(n_step=3), 40)
def test_samples_have_the_past_of_their_observations(lengths, draw, capacity):
    buffer = ReplayBuffer(capacity, seed=0)
    buffer.add(map(walk, lengths))

    assert_past(buffer.sample(8, draw, lookback=2))


@pytest.mark.parametrize("draw", [Transitions(), Transitions(n_step=3), Sequences(4)])
def test_no_episodes_are_made_for_the_past(draw, monkeypatch):
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([walk(MOST)])
    sampled = buffer.sample(8, draw, lookback=2)
    monkeypatch.setattr(sampled_module, "packed_sample", None)

    assert_past(sampled)


def test_samples_of_several_buffers_have_the_past_of_their_observations():
    buffers = [ReplayBuffer(100, seed=seed) for seed in (0, 1)]
    for buffer in buffers:
        buffer.add([walk(MOST)])
    mixed = MixedReplay(buffers, [0.5, 0.5])

    assert_past(mixed.sample(8, Transitions(3), lookback=2))


@pytest.mark.parametrize("is_current", [False, True])
def test_hand_built_chunks_have_the_past_of_their_observations(is_current):
    chunks = EpisodeList([walk(MOST, start) for start in (0, 1, 2, 5)])

    assert_past(chunks.current() if is_current else chunks)


def test_recorded_chunks_have_the_past_of_their_observations():
    piece = PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=2)
    with SingleAgentEnvRunner(Count, Repeat(), num_envs=2, env_to_module=[piece], seed=0) as runner:
        for _ in range(3):
            assert_past(runner.sample(num_timesteps=8))
