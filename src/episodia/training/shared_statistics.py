"""Pieces that learn from what is acted on, such as `MeanStdFilter`: learners have to see what the module saw."""

from __future__ import annotations

from episodia.connectors import ConnectorPipelineV2, ConnectorV2
from episodia.connectors.pipelines.piece_lookup import leaves


def share_statistics(source: ConnectorPipelineV2, target: ConnectorPipelineV2) -> None:
    """Give the pieces of `target` that collect statistics those of the pieces of the same name in `source`.

    Args:
        source: The pipeline in front of a module that acts.
        target: The learner's pipeline. It collects nothing itself.

    >>> from episodia.connectors import MeanStdFilter, defaults
    >>> acting, learning = defaults.env_to_module(custom=[MeanStdFilter()]), defaults.learner(custom=[MeanStdFilter()])
    >>> acting["MeanStdFilter"].commit()
    >>> share_statistics(acting, learning)
    >>> learning["MeanStdFilter"].version
    1
    """
    sources = _collecting(source)
    for name, piece in _collecting(target).items():
        if name in sources and type(sources[name]) is type(piece):
            piece.set_state(sources[name].get_state())


def _collecting(pipeline: ConnectorPipelineV2) -> dict[str, ConnectorV2]:
    # What is collected counts from the `commit` on that runners call after a sample.
    return {place.path: place.piece for place in leaves(pipeline) if hasattr(place.piece, "commit")}
