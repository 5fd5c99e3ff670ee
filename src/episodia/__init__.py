"""episodia: trajectories stay whole, and become batches just before each forward pass."""

from importlib.metadata import version as _version

from episodia.columns import Columns
from episodia.episodes import EpisodeList, InfiniteLookbackBuffer, LookbackBuffer, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import (
    BatchError,
    ConnectorError,
    ConnectorStateError,
    EpisodeError,
    EpisodeIndexError,
    EpisodeKeyError,
    EpisodiaError,
    IndexTypeError,
    ModuleError,
    PieceLookupError,
    PipelineError,
    ReturnsError,
    ShapeError,
    SpaceError,
)

__version__ = _version("episodia")

__all__ = [
    "BatchError",
    "Columns",
    "ConnectorError",
    "ConnectorStateError",
    "EpisodeError",
    "EpisodeIndexError",
    "EpisodeKeyError",
    "EpisodeList",
    "EpisodiaError",
    "IndexTypeError",
    "InfiniteLookbackBuffer",
    "LookbackBuffer",
    "ModuleError",
    "MultiAgentEpisode",
    "PieceLookupError",
    "PipelineError",
    "ReturnsError",
    "ShapeError",
    "SingleAgentEpisode",
    "SpaceError",
]
