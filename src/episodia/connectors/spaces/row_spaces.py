"""Spaces of the observations or actions of each row, and rows grouped by space.

A piece takes its spaces from the pipeline or from the episodes. With several agents there is one space per agent. Agents of
one module may have different spaces, as long as the rows that a piece makes of them have one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import DEFAULT_MODULE_ID
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.episodes.lists.list_columns import describe_row
from episodia.episodes.lists.ragged import offsets_of
from episodia.errors import BatchError, PipelineError
from episodia.spaces import ARRAY_SPACES, short_name, structure_of
from episodia.trees import leaves, map_batch
from episodia.types import Item


class Part(NamedTuple):
    """Group of rows that a piece treats alike: a label, and the space if it is known."""

    label: Any
    space: Space[Any] | None


def agent_spaces(piece: str, space: Any) -> Mapping[Any, Space[Any]]:
    """Return the space of each agent (or module) in a `Dict` space or a plain dict.

    Raises:
        PipelineError: If `space` is not a `Dict` space or a dict.

    >>> agent_spaces("Flatten", spaces.Dict({"left": spaces.Discrete(2)}))
    {'left': Discrete(2)}
    """
    if isinstance(space, spaces.Dict):
        return space.spaces
    if isinstance(space, Mapping):
        return space
    raise PipelineError(
        f"{piece}: found the space {space}, expected a `Dict` space with one entry for each agent, because of "
        "`multi_agent=True`. Pass the spaces of all agents, or omit `multi_agent`."
    )


def agent_space(piece: str, given: Any, episode: SingleAgentEpisode, *, is_mapped: bool) -> Space[Any]:
    """Return the entry of `given` for the agent of `episode`, or for its module if the batch is mapped to modules.

    Raises:
        PipelineError: If neither has an entry.
    """
    known = agent_spaces(piece, given)
    module_id = DEFAULT_MODULE_ID if episode.module_id is None else episode.module_id
    keys = (module_id, episode.agent_id) if is_mapped else (episode.agent_id, module_id)
    for key in keys:
        if key in known:
            return known[key]
    raise PipelineError(
        f"{piece}: found no space for the agent {episode.agent_id!r} (module {module_id!r}) among {list(known)}, expected one "
        "for every agent. Add it to the input space, or omit `multi_agent` if all agents share one space."
    )


def parts_of(
    rows: EpisodeList, part_of: Callable[[SingleAgentEpisode], Part]
) -> tuple[list[Part], list[np.ndarray], list[SingleAgentEpisode]]:
    """Return the parts of the agent episodes of one module, the positions of each part, and the episodes.

    `part_of` is called once for each agent and space, not once for each episode.
    """
    singles = rows.agents_for_reading()
    parts: list[Part] = []
    positions: list[list[int]] = []
    known: dict[tuple[Any, ...], int] = {}
    for position, single in enumerate(singles):
        key = (single.agent_id, single.module_id, id(single.observation_space), id(single.action_space))
        if key not in known:
            known[key] = _index_of(part_of(single), parts, positions)
        positions[known[key]].append(position)
    return parts, [np.array(places, np.int64) for places in positions], singles


def _index_of(part: Part, parts: list[Part], positions: list[list[int]]) -> int:
    for index, other in enumerate(parts):
        if other.label == part.label and (other.space is part.space or other.space == part.space):
            return index
    parts.append(part)
    positions.append([])
    return len(parts) - 1


def reassembled(piece: str, columns: list[Ragged], positions: list[np.ndarray]) -> Ragged:
    """Return one column that joins `columns`, with the rows of each episode at its place in `positions`.

    Raises:
        BatchError: If the rows of the columns differ in nesting or shape.
    """
    rows = [describe_row(column.values) for column in columns]
    try:
        values = map_batch(lambda *parts: np.concatenate(parts), *(column.values for column in columns))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        unlike = next((row for row in rows if row != rows[0]), rows[-1])
        raise BatchError(
            f"{piece}: found observations of {rows[0]} and of {unlike} for agents of one module, expected one shape. Map the "
            "agents to different modules, or pad their observations to one size."
        ) from error
    counts = np.concatenate([np.diff(column.offsets) for column in columns])
    joined = Ragged(values, offsets_of(counts), columns[0].tail)
    return joined.select(np.argsort(np.concatenate(positions)))


def paired(piece: str, space: Space[Any] | None, values: Item) -> list[tuple[str, Space[Any], np.ndarray]]:
    """Return `(path, space, column)` of each leaf, in the order of `space`.

    Raises:
        PipelineError: If the space is unknown.
        BatchError: If the rows of `values` are not items of `space`: their nesting or a shape differs.
    """
    if space is None:
        raise PipelineError(
            f"{piece}: found no space for its rows, expected one. Build the pipeline with its input "
            "spaces, or give the episodes their spaces."
        )
    expected, found = dict(leaves(structure_of(space))), dict(leaves(values))
    fits = expected.keys() == found.keys() and all(
        not isinstance(leaf, ARRAY_SPACES) or found[path].shape[1:] == leaf.shape for path, leaf in expected.items()
    )
    if not fits:
        raise BatchError(
            f"{piece}: found rows of {describe_row(values)}, expected items of {short_name(space)}. If an earlier piece has "
            "changed them, build the pipeline with its input spaces, so that each piece knows its spaces. If the space "
            "holds one entry for each agent, pass `multi_agent=True`."
        )
    return [(path, leaf, found[path]) for path, leaf in expected.items()]
