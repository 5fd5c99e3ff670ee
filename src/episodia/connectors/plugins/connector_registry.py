"""All connectors by name: the connectors of this library, registered ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isabstract
from typing import Any, Final

from episodia import connectors
from episodia.arguments import proposal
from episodia.class_registry import ClassRegistry
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.errors import PieceLookupError, PipelineError


def _is_connector(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, ConnectorV2)


def _is_piece(found: Any) -> bool:
    """Return whether `found` is a concrete piece class: neither a base class nor a pipeline."""
    return _is_connector(found) and not isabstract(found) and not issubclass(found, ConnectorPipelineV2)


def _shipped() -> Mapping[str, type[ConnectorV2]]:
    # `ObservationPreprocessor` and others are second names of one class.
    return {name: found for name, found in vars(connectors).items() if _is_piece(found)}


#: All connectors by name.
CONNECTORS: Final[ClassRegistry[type[ConnectorV2]]] = ClassRegistry(
    "episodia.connectors",
    "connector",
    "a connector class, derived from `ConnectorV2`",
    fits=_is_connector,
    shipped=_shipped,
    error=PipelineError,
)


def load_connector(name: str) -> type[ConnectorV2]:
    """Return the connector class called `name`: of this library, registered, or of an installed plugin.

    Raises:
        PluginError: If several connectors have the name, or the plugin is broken.
        PieceLookupError: If no connector has the name, or it is no text.

    >>> load_connector("FrameStacking")(num_frames=3).lookback
    2
    """
    found = None
    if isinstance(name, str):
        found = CONNECTORS.find(name)
        CONNECTORS.check_unique(name)
    if found is None:
        raise PieceLookupError(
            f"connector {name!r}: found no connector of that name, expected one of {CONNECTORS.names}. "
            f"{proposal([name], CONNECTORS.names) or 'Install its package.'} Packages announce connectors in the entry point "
            f"group {CONNECTORS.group!r}."
        )
    return found
