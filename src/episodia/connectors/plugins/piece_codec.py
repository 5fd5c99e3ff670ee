"""Codec between pieces or pipelines and plain data, for saving. Only registered classes are rebuilt from data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch

from episodia.arguments import checked_registered_name
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.piece_arguments import setting_names
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.plugins.connector_registry import CONNECTORS
from episodia.connectors.plugins.size_limits import check_windows, decoded_spaces, encoded_spaces
from episodia.connectors.views.view import View
from episodia.errors import PipelineError
from episodia.schedules import Schedule, decoded_schedule, encoded_schedule
from episodia.types import Item

_PieceClass = TypeVar("_PieceClass", bound=type[ConnectorV2])
_Pipeline = TypeVar("_Pipeline", bound=ConnectorPipelineV2)

# The loader, not the file, decides on which device a policy computes.
_DEVICE = "device"

# A small file could ask for so many pieces that building the pipeline takes hours.
_MAX_PIECES = 256


# By class, for registered ones: the attributes that hold arguments, by argument.
_ATTRIBUTES: dict[type[ConnectorV2], Mapping[str, str]] = {}


def register_connector(name: str, **attributes: str) -> Callable[[_PieceClass], _PieceClass]:
    """Return a class decorator that registers a class of pieces, so that its pieces can be saved and loaded.

    Args:
        name: The name of the class in saved files: unique, and never changed.
        **attributes: By argument of the class, the attribute that holds its value. Needed if the attribute has another name
            than the argument, or if the constructor passes the argument on (`**kwargs`) without naming it. Values must be
            numbers, strings, None, schedules, dicts of views, or lists and tuples of these.

    Raises:
        PipelineError: If the name is not a string or belongs to another class, or if the decorated object is not a class of
            pieces.

    >>> @register_connector("my_game.Blur")
    ... class Blur(ConnectorV2):
    ...     def __init__(self, *args, radius=1, **kwargs):
    ...         super().__init__(*args, **kwargs)
    ...         self.radius = radius
    ...
    ...     def __call__(self, *, batch, **kwargs):
    ...         return batch
    >>> encoded_piece(Blur(radius=3))
    {'class': 'my_game.Blur', 'arguments': {'radius': 3}}
    """
    checked_registered_name(PipelineError, "register_connector", name)

    def registered(made: _PieceClass) -> _PieceClass:
        given: object = made
        if not (isinstance(given, type) and issubclass(given, ConnectorV2)):
            raise PipelineError(
                f"register_connector: found {given!r}, expected a subclass of `ConnectorV2`. Decorate such a class."
            )
        CONNECTORS.register("register_connector", name, made)
        _ATTRIBUTES[made] = attributes
        return made

    return registered


def _attributes_of(made: type[ConnectorV2]) -> dict[str, str]:
    """Return the attributes that hold the arguments of the class `made`, by argument."""
    return {**{name: name for name in setting_names(made)}, **_ATTRIBUTES.get(made, {})}


# --- To data --------------------------------------------------------------------------------------------------------


def encoded_piece(piece: ConnectorV2) -> dict[str, Any]:
    """Return the data to rebuild `piece`: class and arguments, for a pipeline its pieces. The state is not included.

    Raises:
        PipelineError: If its class is not registered, if an argument is not a plain value, or if it has too many pieces.
    """
    named: dict[str, Any] = {} if piece._given_name is None else {"name": piece._given_name}
    if piece._own_spaces != (None, None):
        named["spaces"] = encoded_spaces(*piece._own_spaces)
    if piece.inner_pieces is not None:
        return {"pieces": _encoded_pieces(piece.inner_pieces), **named}
    arguments = {
        argument: _plain(_attribute(piece, attribute), f"`{argument}` of piece {piece.name!r}")
        for argument, attribute in _attributes_of(type(piece)).items()
        if argument != _DEVICE
    }
    return {"class": _class_name(piece), "arguments": arguments, **named}


def _encoded_pieces(pieces: ConnectorPipelineV2 | Sequence[ConnectorV2]) -> list[dict[str, Any]]:
    if len(pieces) > _MAX_PIECES:
        raise PipelineError(
            f"found {len(pieces)} pieces in one pipeline, expected at most {_MAX_PIECES}: longer ones are not saved or loaded. "
            "Put some of them into pipelines of their own."
        )
    return [encoded_piece(piece) for piece in pieces]


def _class_name(piece: ConnectorV2) -> str:
    name = CONNECTORS.name_of(type(piece))
    if name is None:
        raise PipelineError(
            f"piece {piece.name!r}: found the class {type(piece).__name__}, which is not registered, expected a class with a "
            "name that files can hold. Decorate it with `register_connector(name)`, or let its package announce it as an "
            f"entry point of {CONNECTORS.group!r}."
        )
    return name


def _attribute(piece: ConnectorV2, attribute: str) -> Any:
    try:
        return getattr(piece, attribute)
    except AttributeError as error:
        raise PipelineError(
            f"piece {piece.name!r}: found no attribute {attribute!r}, expected it to hold an argument. Store the argument "
            "there, or name another attribute in `register_connector`."
        ) from error


def _plain(value: Item, where: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(part, where) for part in value)
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(part, where) for part in value)
    if isinstance(value, Schedule) and (schedule := encoded_schedule(value)) is not None:
        return schedule
    if isinstance(value, Mapping) and all(isinstance(view, View) for view in value.values()):
        return {"views": {name: _plain_view(view, where) for name, view in value.items()}}
    raise PipelineError(
        f"{where}: found a {type(value).__name__}, expected a number, a string, None, a schedule of the library, views, or "
        "lists and tuples of these. Pieces with other arguments cannot be saved."
    )


def _plain_view(view: View, where: str) -> dict[str, Any]:
    parts = {field.name: getattr(view, field.name) for field in fields(view)}
    parts["shift"] = list(view.shifts) if view.is_window else view.shift  # a range is saved as a list
    return {name: _plain(value, where) for name, value in parts.items()}


def encoded_pipeline(pipeline: ConnectorPipelineV2) -> dict[str, Any]:
    """Return the spaces, the pieces and the state of a pipeline.

    Raises:
        PipelineError: If the class of a piece is not registered, or if there are too many pieces.
        CheckpointError: If its observations are too large to be loaded.
    """
    data = {
        "spaces": encoded_spaces(pipeline.input_observation_space, pipeline.input_action_space),
        "pieces": _encoded_pieces(pipeline),
        "state": pipeline.get_state(),
    }
    check_windows(data)
    return data


# --- From data ------------------------------------------------------------------------------------------------------


def decoded_piece(data: object, device: torch.device) -> ConnectorV2:
    """Return the piece or pipeline that `encoded_piece` turned into `data`; its tensors are on `device`.

    Raises:
        PipelineError: If the class is not registered, or `data` is not a saved piece.
    """
    if not isinstance(data, dict):
        raise PipelineError(f"found {repr(data)[:80]}, expected a saved piece. Pass the data of `encoded_piece`.")
    options: dict[str, Any] = {"name": data["name"]} if "name" in data else {}
    if "spaces" in data:
        options["input_observation_space"], options["input_action_space"] = decoded_spaces(data["spaces"])
    if "pieces" in data:
        return ConnectorPipelineV2(connectors=decoded_pieces(data["pieces"], device), **options)
    made, arguments = _class_of(data), data.get("arguments")
    known = _attributes_of(made)
    if not isinstance(arguments, dict) or not arguments.keys() <= known.keys() - {_DEVICE}:
        raise PipelineError(
            f"found a piece of the class {made.__name__} with {repr(arguments)[:80]}, expected some of its own "
            f"arguments {sorted(known.keys() - {_DEVICE})}. Load it with the version of the class that was saved."
        )
    if _DEVICE in known:
        options[_DEVICE] = device
    return made(**{name: _valued(value) for name, value in arguments.items()}, **options)


def _class_of(data: Mapping[str, Any]) -> type[ConnectorV2]:
    name = data.get("class")
    made = CONNECTORS.find(name) if isinstance(name, str) else None
    if made is None:
        raise PipelineError(
            f"found a piece of the class {repr(name)[:80]}, expected a registered one. Install the package that announces "
            "it, or import the module that registers it with `register_connector` first."
        )
    return made


def decoded_pieces(data: object, device: torch.device) -> list[ConnectorV2]:
    """Return the pieces that a saved list describes."""
    if not isinstance(data, list) or len(data) > _MAX_PIECES:
        found = f"{len(data)} pieces" if isinstance(data, list) else repr(data)[:80]
        raise PipelineError(
            f"found {found}, expected a list of at most {_MAX_PIECES} saved pieces. Pass the data of `encoded_piece`."
        )
    return [decoded_piece(inner, device) for inner in data]


def decoded_pipeline(kind: type[_Pipeline], data: dict[str, Any], device: torch.device) -> _Pipeline:
    """Return the pipeline of this kind that `encoded_pipeline` turned into `data`.

    Raises:
        PipelineError: If the class of a piece is not known, or if the pieces do not fit together.
        CheckpointError: If its observations are too large.
    """
    check_windows(data)
    pipeline = kind(*decoded_spaces(data["spaces"]), connectors=decoded_pieces(data["pieces"], device))
    pipeline.set_state(data["state"])
    return pipeline


def _valued(value: Item) -> Any:
    if not isinstance(value, dict):
        return value
    if "views" in value:
        return {name: View(**parts) for name, parts in value["views"].items()}
    return decoded_schedule(value)
