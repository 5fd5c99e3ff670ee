"""The views that modules declare: the pieces that add them, and pipelines that follow later changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final
from weakref import ref

from episodia.connectors.batches.module_outputs import is_container, members
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.piece_lookup import walk
from episodia.connectors.views.add_views import AddViews
from episodia.modules.declared_views import DeclaredViews
from episodia.modules.protocol import DeclaresViews, Modules
from episodia.types import ModuleID


def views_of(rl_module: Modules, *, multi_agent: bool = False) -> list[AddViews]:
    """Return pieces that add the views which modules declare in `views`; an empty list if no module declares views.

    Args:
        rl_module: A module, or modules by their ids.
        multi_agent: Whether the spaces of the pipeline have an entry for each agent.
    """
    return [
        AddViews(views, modules=module_ids, multi_agent=multi_agent)
        for module_ids, views in _declared(rl_module)
        if views
    ]


def follow_views(pipeline: ConnectorPipelineV2, rl_module: Modules, *, multi_agent: bool = False) -> None:
    """Let `pipeline`, which has the pieces of `views_of`, follow all later changes of the modules' views."""
    # A piece of the user for the same module stands in front.
    pieces = {piece.modules: piece for piece in pipeline if isinstance(piece, AddViews)}
    for module_ids, views in _declared(rl_module):
        if isinstance(views, DeclaredViews):
            ids = None if module_ids is None else frozenset(module_ids)
            piece = pieces[ids] if views else AddViews({}, modules=ids, multi_agent=multi_agent)
            views.follow(_Follower(pipeline, piece))


@final
class _Follower:
    """Keeps the piece of one module in one pipeline; the piece is in the pipeline while there are views."""

    def __init__(self, pipeline: ConnectorPipelineV2, piece: AddViews) -> None:
        self._pipeline = ref(pipeline)
        self._piece = piece

    def __call__(self, views: Mapping[str, Any]) -> bool:
        """Take over `views`, and return whether the pipeline still exists."""
        pipeline = self._pipeline()
        if pipeline is None:
            return False
        place = next((place for place in walk(pipeline) if place.piece is self._piece), None)
        if place is not None and not views:
            pipeline.remove(place.path)
            return True
        self._piece.take_over(views)
        if place is None and views:
            pipeline.insert_before(AddObservationsFromEpisodesToBatch, self._piece)
        return True


def _declared(rl_module: Modules) -> Iterator[tuple[list[ModuleID] | None, Mapping[str, Any]]]:
    """Yield the views of each module after the list of its id; after None for a single module, which serves all rows."""
    if is_container(rl_module):
        each: list[tuple[Any, object]] = [([module_id], module) for module_id, module in members(rl_module).items()]
    else:
        each = [(None, rl_module)]
    for module_ids, module in each:
        if isinstance(module, DeclaresViews):
            yield module_ids, {} if module.views is None else module.views
