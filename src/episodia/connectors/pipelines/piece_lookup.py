"""Positions and names of the pieces of a pipeline: walking nested pipelines, finding pieces, unique names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from episodia.errors import PieceLookupError, PipelineError

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


@dataclass(frozen=True)
class Place:
    """A piece and its path from the outermost pipeline."""

    piece: ConnectorV2
    pipeline: ConnectorPipelineV2  # the one that directly contains the piece
    indices: tuple[int, ...]
    path: str

    @property
    def index(self) -> int:
        """The position of the piece in the pipeline that directly contains it."""
        return self.indices[-1]

    def __str__(self) -> str:
        where = ".".join(map(str, self.indices))
        return f"piece {self.path!r} at {where}"


def walk(pipeline: ConnectorPipelineV2, indices: tuple[int, ...] = (), path: str = "") -> Iterator[Place]:
    """Yield the places of all pieces in the order in which they run; nested pipelines come before their pieces."""
    for index, piece in enumerate(pipeline.connectors):
        place = Place(piece, pipeline, (*indices, index), f"{path}{piece.name}")
        yield place
        if piece.inner_pieces is not None:
            yield from walk(piece, place.indices, place.path + SEPARATOR)  # type: ignore[arg-type]  # pipelines have pieces


def with_inner(pieces: Iterable[ConnectorV2]) -> Iterator[ConnectorV2]:
    """Yield `pieces`, each pipeline followed by the pieces in it, in the order in which they run."""
    for piece in pieces:
        yield piece
        if piece.inner_pieces is not None:
            yield from with_inner(piece.inner_pieces)


def leaves(pipeline: ConnectorPipelineV2) -> list[Place]:
    """Return the places of the pieces that are not pipelines, in the order in which they run."""
    return [place for place in walk(pipeline) if place.piece.inner_pieces is None]


def find(pipeline: ConnectorPipelineV2, key: int | str | type[ConnectorV2]) -> Place:
    """Return the place that `key` names.

    Args:
        pipeline: The pipeline to search; nested pipelines are searched too, except for an index.
        key: An index into `pipeline`; a name, or a path such as `inner/Flatten`; or a class. A class means pieces of exactly
            that class or, without such pieces, of its subclasses.

    Raises:
        PieceLookupError: If there is no such piece, or more than one.
    """
    places = list(walk(pipeline))
    found = _matches(pipeline, places, key)
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} pieces for {_key_text(key)}: {_listing(found)}" if found else f"no piece for {_key_text(key)}"
    expected = (
        "exactly one" if found else "one of " + (_listing(places) if places else "none, because the pipeline is empty")
    )
    raise PieceLookupError(
        f"{type(pipeline).__name__}: found {what}; expected {expected}. Pass the index, the name (`inner/Name` in nested "
        "pipelines) or the class of a piece."
    )


def _matches(pipeline: ConnectorPipelineV2, places: list[Place], key: int | str | type[ConnectorV2]) -> list[Place]:
    if isinstance(key, str):
        exact = [place for place in places if place.path == key]
        return exact or [place for place in places if place.path.endswith(SEPARATOR + key)]
    if isinstance(key, type):
        exact = [place for place in places if type(place.piece) is key]
        return exact or [place for place in places if isinstance(place.piece, key)]
    if not hasattr(key, "__index__") or isinstance(key, bool):
        return []
    index, length = key.__index__(), len(pipeline)
    position = index + length if index < 0 else index
    return [place for place in places if place.indices == (position,)]


def _key_text(key: int | str | type[ConnectorV2]) -> str:
    return f"the class {key.__name__}" if isinstance(key, type) else repr(key)


def _listing(places: list[Place]) -> str:
    return ", ".join(f"{'.'.join(map(str, place.indices))}: {place.path!r}" for place in places)


# Stands between the name of a nested pipeline and the name of a piece in it.
SEPARATOR = "/"


def checked_name(name: object) -> str:
    """Return `name` if it is a valid name of a piece.

    Raises:
        PipelineError: If it is not valid.

    >>> checked_name("frames")
    'frames'
    """
    if not isinstance(name, str) or not name or SEPARATOR in name:
        raise PipelineError(
            f"found the name {name!r} for a piece, expected a string that is not empty and has no {SEPARATOR!r}, which "
            "stands between a pipeline and its pieces. Choose such a name."
        )
    return name


def _free_name(wanted: str, taken: Collection[str]) -> str:
    """Return `wanted`; if the name is taken, append the first free number from 2 on.

    >>> _free_name("Flatten", {"Flatten", "Flatten_2"})
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
        settled: The pieces that were already in a pipeline; they keep their names.

    Raises:
        PipelineError: If two pieces have the same given name, or a new piece has the name of an existing piece.
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
            names[id(piece)] = _free_name(type(piece).__name__, names.values())
    return [names[id(piece)] for piece in pieces]


def name_clash(piece: ConnectorV2, name: str, other: ConnectorV2, position: int) -> str:
    """Return the message for a piece whose name is taken by another piece of its pipeline."""
    return (
        f"found the name {name!r} for the {type(piece).__name__} at {position}, which a {type(other).__name__} of the pipeline "
        "has already, expected names that differ: state is kept by name. Give one of them another name with `name=`."
    )
