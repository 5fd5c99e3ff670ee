"""episodia: trajectories stay whole, and become batches just before each forward pass."""

from importlib.metadata import version as _version

from episodia.columns import Columns
from episodia.episodes import EpisodeList, InfiniteLookbackBuffer, LookbackBuffer, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import (
    EpisodeError,
    EpisodeIndexError,
    EpisodeKeyError,
    EpisodiaError,
    IndexTypeError,
    ShapeError,
    SpaceError,
)

__version__ = _version("episodia")

__all__ = [
    "Columns",
    "EpisodeError",
    "EpisodeIndexError",
    "EpisodeKeyError",
    "EpisodeList",
    "EpisodiaError",
    "IndexTypeError",
    "InfiniteLookbackBuffer",
    "LookbackBuffer",
    "MultiAgentEpisode",
    "ShapeError",
    "SingleAgentEpisode",
    "SpaceError",
]
