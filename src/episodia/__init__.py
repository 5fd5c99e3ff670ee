"""episodia: trajectories stay whole, and become batches just before each forward pass."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

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

if _TYPE_CHECKING:
    from episodia.env_runners.collect import collect

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
    "collect",
]


def __getattr__(name: str) -> _Any:
    # `collect` plays, which takes pipelines and torch; who only imports the package waits for neither.
    if name == "collect":
        return _import_module("episodia.env_runners.collect").collect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "collect"})
