"""States of the pieces of a pipeline, by name, and the check of the types that a state may contain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.connectors.pipelines.piece_lookup import SEPARATOR, walk
from episodia.errors import ConnectorStateError

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

Names = str | Collection[str] | None


def states_of(pipeline: ConnectorPipelineV2, components: Names, not_components: Names) -> dict[str, Any]:
    """Return the state of each piece that has one, by name.

    Raises:
        ConnectorStateError: If a name is not the name of a piece.
    """
    for argument, names in (("components", components), ("not_components", not_components)):
        _check_known(pipeline, argument, names)
    states = {}
    for piece in pipeline.connectors:
        wanted = None if components is None else _inside(piece.name, components)
        unwanted = [] if not_components is None else _inside(piece.name, not_components)
        if wanted == [] or unwanted is None:
            continue
        state = _state_of(piece, wanted, unwanted or None)
        if state:
            states[piece.name] = state
    return states


def _check_known(pipeline: ConnectorPipelineV2, argument: str, names: Any) -> None:
    """Reject names that are not names of pieces; each nested pipeline checks the names of its own pieces."""
    known = [piece.name for piece in pipeline.connectors]
    is_names = isinstance(names, (str, Collection, type(None)))
    listed = [names] if isinstance(names, str) or not is_names else names or ()
    unknown = [name for name in listed if str(name).split(SEPARATOR)[0] not in known]
    if unknown:
        raise ConnectorStateError(
            f"{type(pipeline).__name__}: found {unknown} in `{argument}`, expected names of its pieces, {known}, or "
            "`inner/Name` in nested pipelines. Pass such names."
        )


def _inside(name: str, names: str | Collection[str]) -> list[str] | None:
    """Return which parts of the piece `name` are in `names`: paths inside it, nothing (`[]`), or all of it (None)."""
    listed = [names] if isinstance(names, str) else list(names)
    if name in listed:
        return None
    start = name + SEPARATOR
    return [path.removeprefix(start) for path in listed if path.startswith(start)]


def _state_of(piece: ConnectorV2, components: Names, not_components: Names) -> dict[str, Any]:
    # Many plugins have a `get_state` without arguments.
    if components is None and not_components is None:
        return piece.get_state()
    return piece.get_state(components, not_components=not_components)


def set_states(pipeline: ConnectorPipelineV2, states: dict[str, Any]) -> None:
    """Set the state of each piece that `states` names; other pieces keep theirs. If one fails, all states are restored.

    Raises:
        ConnectorStateError: If a name is not the name of a piece, or if a piece rejects its state.
    """
    _check_by_name(pipeline, states)
    pieces = _pieces_for(pipeline, states)
    done: list[tuple[ConnectorV2, dict[str, Any]]] = []
    try:
        for name, piece in pieces.items():
            done.append((piece, piece.get_state()))
            piece.set_state(states[name])
    except Exception as error:
        for changed, before in reversed(done):
            changed.set_state(before)
        if isinstance(error, ConnectorStateError):
            raise
        raise _cannot_take(pipeline, done[-1][0], error) from error


def _cannot_take(pipeline: ConnectorPipelineV2, piece: ConnectorV2, error: Exception) -> ConnectorStateError:
    place = next(place for place in walk(pipeline) if place.piece is piece)
    return ConnectorStateError(
        f"{type(pipeline).__name__}, {place}: found a state that it rejects ({type(error).__name__}: {error}), expected "
        "a state that its `get_state` returned. Pass such a state, or correct its `set_state`; all pieces are unchanged."
    )


def merged_states(pipeline: ConnectorPipelineV2, states: Any) -> dict[str, Any]:
    """Return for each piece the state that it merges from its states in `states`."""
    if not isinstance(states, (list, tuple)):
        raise ConnectorStateError(
            f"{type(pipeline).__name__}: found a {type(states).__name__}, expected a list of states. Pass `[state]` for one."
        )
    for state in states:
        _check_by_name(pipeline, state)
    pieces = _pieces_for(pipeline, {name for state in states for name in state})
    return {
        name: piece.merge_states([state[name] for state in states if name in state]) for name, piece in pieces.items()
    }


def _check_by_name(pipeline: ConnectorPipelineV2, state: object) -> None:
    if not isinstance(state, Mapping):
        raise ConnectorStateError(
            f"{type(pipeline).__name__}: found a {type(state).__name__} as its state, expected a dict of the states of its "
            "pieces, by name. Pass what `get_state` returned."
        )


def _pieces_for(pipeline: ConnectorPipelineV2, names: Collection[str]) -> dict[str, ConnectorV2]:
    """Return the pieces of these names, in the order of the pipeline."""
    known = {piece.name: piece for piece in pipeline.connectors}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConnectorStateError(
            f"{type(pipeline).__name__}: found states of {unknown}, expected states of its pieces, {list(known)}. Load the "
            "state into a pipeline with the same pieces, or give them the names that they had, with `name=`."
        )
    return {name: piece for name, piece in known.items() if name in names}


def check_state(state: object, path: str = "") -> None:
    """Check that `state` consists of JSON values and NumPy arrays, which can be stored without pickle.

    Those are dicts with strings as keys, lists, strings, numbers, booleans, None, and arrays of anything but objects.

    Raises:
        ConnectorStateError: If it contains another type; the message says where.

    >>> check_state({"Filter": {"count": 3, "mean": np.zeros(2)}})
    """
    if isinstance(state, dict):
        for key, value in state.items():
            if not isinstance(key, str):
                raise _not_plain(f"the key {key!r}", path, "a string")
            check_state(value, f"{path}[{key!r}]")
    elif isinstance(state, list):
        for position, value in enumerate(state):
            check_state(value, f"{path}[{position}]")
    elif isinstance(state, np.ndarray):
        if state.dtype.hasobject or type(state) is not np.ndarray:
            raise _not_plain(f"an array of type {type(state).__name__}, dtype {state.dtype}", path, "a plain array")
    elif type(state) not in _JSON_TYPES:
        raise _not_plain(f"a {type(state).__name__}", path, "a JSON value or a NumPy array")


_JSON_TYPES = frozenset({str, int, float, bool, type(None)})


def _not_plain(found: str, path: str, expected: str) -> ConnectorStateError:
    return ConnectorStateError(
        f"state{path}: found {found}, expected {expected}. A state has dicts with strings as keys, lists, strings, numbers, "
        "booleans, None, and NumPy arrays; `get_state` has to convert everything else."
    )
