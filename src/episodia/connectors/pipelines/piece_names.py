"""Names of the pieces of a pipeline: unique among neighbours, and the same after an edit as before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from episodia.errors import PipelineError

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2

# Between the name of a nested pipeline and the name of a piece in it.
SEPARATOR = "/"


def checked_name(name: object) -> str:
    """Return `name` if it can be the name of a piece.

    Raises:
        PipelineError: If it cannot.

    >>> checked_name("frames")
    'frames'
    """
    if not isinstance(name, str) or not name or SEPARATOR in name:
        raise PipelineError(
            f"found the name {name!r} for a piece, expected a string that is not empty and has no {SEPARATOR!r}, which "
            "stands between a pipeline and its pieces. Choose such a name."
        )
    return name


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return `wanted`, or with the first number from 2 on that makes it new.

    >>> free_name("Flatten", {"Flatten", "Flatten_2"})
    'Flatten_3'
    """
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def names_for(pieces: Sequence[ConnectorV2], settled: Iterable[ConnectorV2]) -> list[str]:
    """Return a unique name for each of `pieces`.

    Args:
        pieces: The pieces of a pipeline, in order.
        settled: Those of them that were in a pipeline before; they keep their names.

    Raises:
        PipelineError: If two pieces were given one name, or a new piece the name of one that was there.
    """
    fixed = {id(piece) for piece in settled}
    names: dict[int, str] = {}
    for position, piece in enumerate(pieces):
        if id(piece) in fixed or piece._given_name is not None:
            clash = next((other for other in pieces if names.get(id(other)) == piece.name), None)
            if clash is not None:
                raise PipelineError(name_clash(piece, piece.name, clash, position))
            names[id(piece)] = piece.name
    for piece in pieces:
        if id(piece) not in names:
            names[id(piece)] = free_name(type(piece).__name__, names.values())
    return [names[id(piece)] for piece in pieces]


def name_clash(piece: ConnectorV2, name: str, other: ConnectorV2, position: int) -> str:
    """Return the message for a piece whose name another piece of its pipeline has."""
    return (
        f"found the name {name!r} for the {type(piece).__name__} at {position}, which a {type(other).__name__} of the pipeline "
        "has already, expected names that differ: state is kept by name. Give one of them another name with `name=`."
    )
