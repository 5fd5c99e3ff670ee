"""Statistics that pieces of env-to-module pipelines collect while runners play, such as those of a `MeanStdFilter`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.connectors import ConnectorPipelineV2, ConnectorV2
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.dataflow.deliveries import Statistics


def collecting(pipeline: ConnectorPipelineV2) -> dict[str, ConnectorV2]:
    """Return the pieces that collect, by their paths: those with a `commit` of their own, which runners call after a sample."""
    return {place.path: place.piece for place in leaves(pipeline) if type(place.piece).commit is not ConnectorV2.commit}


def statistics_of(pipeline: ConnectorPipelineV2) -> Statistics:
    """Return the states of the pieces that collect."""
    return {path: piece.get_state() for path, piece in collecting(pipeline).items()}


def take_common(pipeline: ConnectorPipelineV2, statistics: Statistics) -> None:
    """Let the pieces of a runner go on from what all runners have in common."""
    for path, piece in collecting(pipeline).items():
        if path in statistics:
            piece.take_common(statistics[path])


def set_statistics(pipeline: ConnectorPipelineV2, statistics: Statistics) -> None:
    """Let the pieces that collect go on from `statistics`."""
    for path, piece in collecting(pipeline).items():
        if path in statistics:
            piece.set_state(statistics[path])


def add_statistics(pipeline: ConnectorPipelineV2, collected: Mapping[str, Any]) -> None:
    """Add what the pieces of a runner have collected since they were given the statistics of `pipeline`, or earlier ones."""
    for path, piece in collecting(pipeline).items():
        if path in collected:
            piece.add_collected(collected[path])
