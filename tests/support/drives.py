"""Short drives for tests of connectors: episodes whose every number says where and when it was."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from episodia import EpisodeList, SingleAgentEpisode

OBSERVATIONS = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
ACTIONS = gym.spaces.Discrete(3)
STATE_SIZE = 4


def drive(
    length: int, seed: int = 0, *, stateful: bool = False, finalized: bool = True, end: str = "", **kwargs: Any
) -> SingleAgentEpisode:
    """Return an episode of random numbers with log-probabilities, and states if `stateful`."""
    rng = np.random.default_rng([seed, length])
    episode = SingleAgentEpisode(
        f"drive-{seed}-{length}", observation_space=OBSERVATIONS, action_space=ACTIONS, **kwargs
    )
    episode.add_env_reset(_observation(rng), {"start": seed})
    for t in range(length):
        extras: dict[str, Any] = {"action_logp": -rng.random()}
        if stateful:
            extras["state_out"] = {key: rng.normal(size=STATE_SIZE).astype(np.float32) for key in ("h", "c")}
        episode.add_env_step(
            _observation(rng),
            int(rng.integers(3)),
            float(rng.normal()),
            {"t": t},
            terminated=end == "terminated" and t == length - 1,
            truncated=end == "truncated" and t == length - 1,
            extra_model_outputs=extras,
        )
    return episode.finalize() if finalized else episode


def _observation(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=2).astype(np.float32)


def run(pieces: list[Any], episodes: Any, rl_module: Any = None, **kwargs: Any) -> dict[Any, Any]:
    """Return what `pieces`, called one after another, make of `episodes`."""
    batch: dict[Any, Any] = {}
    listed = EpisodeList.of(episodes)
    shared: dict[Any, Any] = kwargs.pop("shared_data", {})
    for piece in pieces:
        batch = piece(rl_module=rl_module, batch=batch, episodes=listed, shared_data=shared, **kwargs)
    return batch
