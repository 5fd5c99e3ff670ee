"""Replay: episodes at rest, and every way of sampling from them."""

from episodia.replay.buffer import ReplayBuffer
from episodia.replay.draws import Draw, Transitions, WholeEpisodes
from episodia.replay.minari_episodes import minari_episodes
from episodia.replay.mixed_replay import MixedReplay
from episodia.replay.rate_limiter import RateLimiter
from episodia.replay.sampled import Sampled
from episodia.replay.selectors.selector import AddedSteps, Selection, Selector, StoredSteps, Uniform
from episodia.replay.storage import InMemory, MemoryMapped, Storage
from episodia.replay.table import Added

__all__ = [
    "Added",
    "AddedSteps",
    "Draw",
    "InMemory",
    "MemoryMapped",
    "MixedReplay",
    "RateLimiter",
    "ReplayBuffer",
    "Sampled",
    "Selection",
    "Selector",
    "Storage",
    "StoredSteps",
    "Transitions",
    "Uniform",
    "WholeEpisodes",
    "minari_episodes",
]


def __dir__() -> list[str]:
    return sorted(__all__)
