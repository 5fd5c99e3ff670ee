"""RLlib's side of the replay rows. Its samples are episodes, one for each transition."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from _replay_settings import BATCH, LENGTH, SEQUENCES, SIZES, steps
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer


@cache
def _buffer(num: int) -> EpisodeReplayBuffer:
    buffer, found = EpisodeReplayBuffer(capacity=num), steps(num)
    for episode, track in enumerate(found.observations):
        buffer.add(
            SingleAgentEpisode(
                observations=list(track),
                actions=list(found.actions[episode]),
                rewards=found.rewards[episode].tolist(),
                terminated=bool(found.is_terminated[episode]),
                truncated=not found.is_terminated[episode],
                len_lookback_buffer=0,
            )
        )
    return buffer


def uniform(num: int) -> Callable[[], Any]:
    """Return what samples transitions; of a smaller buffer where filling one would take minutes."""
    buffer = _buffer(min(num, SIZES["100k"]))
    return lambda: buffer.sample(num_items=BATCH, n_step=1, sample_episodes=True)


def sequences(num: int) -> Callable[[], Any]:
    """Return what samples sequences of arrays."""
    buffer = _buffer(num)
    return lambda: buffer.sample(batch_size_B=SEQUENCES, batch_length_T=LENGTH)
