"""Items that pieces add for episodes outside of the list: rows of mirrored, relabelled or imagined steps.

They have no place in a `Ragged`, whose stretches belong to the episodes of the list. So a column with such items stays
collected, `{(episode id, ...): [items]}`, until it becomes arrays; its rows are in the order in which the items were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from episodia.connectors.pipelines.current_run import owner_of
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import BatchError

# An episode id; or the ids of a multi-agent episode, an agent and a module.
ItemKey = tuple[Any, ...]
Collected = dict[ItemKey, list[Any]]


def keys_of(episode: SingleAgentEpisode) -> tuple[ItemKey, ItemKey]:
    """Return the two keys under which items of `episode` may be filed."""
    owner = owner_of(episode)
    return (owner.eps_id,), tuple(owner)


def other_keys(column: Collected, rows: EpisodeList) -> list[ItemKey]:
    """Return the keys of `column` that have items and belong to no episode of `rows`."""
    known = {key for episode in rows.agents_for_reading() for key in keys_of(episode)}
    return [key for key, items in column.items() if items and key not in known]


def of_acting_agents(column: Collected, episodes: EpisodeList) -> Collected:
    """Return `column` without the items of agents of `episodes` that have ended or wait, if only acting agents have rows."""
    if not (episodes.is_current and episodes.is_multi_agent) or not other_keys(column, episodes):
        return column
    acting = {key for single in episodes.agents_for_reading() for key in keys_of(single)}
    agents = {key for episode in episodes for single in episode.agent_episodes.values() for key in keys_of(single)}
    return {key: items for key, items in column.items() if key in acting or key not in agents}


def of_module(column: Collected, module_id: Any, rows: EpisodeList) -> Collected:
    """Return the items of one module, in order; `rows` are the episodes of this module.

    An item filed under an episode id alone belongs to the module of the episode with this id.
    """
    known = {key for episode in rows.agents_for_reading() for key in keys_of(episode)}
    return {key: items for key, items in column.items() if key in known or (len(key) > 1 and key[-1] == module_id)}


def check_modules(column: Collected, episodes: EpisodeList) -> None:
    """Raise a `BatchError` if items belong to a module that acts for no agent of `episodes`, or to an unknown module."""
    modules = episodes.by_module()
    lost = [key for key in other_keys(column, episodes) if len(key) == 1 or key[-1] not in modules]
    if lost:
        raise BatchError(
            f"found items of {_listing(lost)}, which are not in the list and belong to none of its modules "
            f"{list(modules)}; expected items of one of these modules. Add the items with an episode that names its agent and "
            "its module (`agent_id=`, `module_id=`, `multi_agent_episode_id=`)."
        )


def rejected(keys: Sequence[ItemKey], rows: EpisodeList) -> BatchError:
    """Return the error to raise where only the episodes of the list can have rows."""
    if rows.is_current:
        return BatchError(
            f"found items of {_listing(keys)}, which no environment acts on; expected items of the episodes that the pipeline "
            "was given. Add such rows in a learner pipeline."
        )
    return BatchError(
        f"found items of {_listing(keys)}, which are not in the list of episodes; expected one item for each step of the "
        "listed ones, because this piece relates rows to their episodes. Add the episodes themselves to the list, in a piece "
        "that declares `changes_episodes`, or place the piece that adds the items behind this one."
    )


def check_same_places(columns: Mapping[str, Mapping[ItemKey, int]], rows: EpisodeList) -> None:
    """Raise a `BatchError` if an episode has its rows at different places in two columns.

    Args:
        columns: For each column with items of other episodes, the number of items of each key, in order.
        rows: The episodes of the list, whose rows are the rows of all other columns.
    """
    if not columns:
        return
    counts = rows.row_counts.tolist()
    listed = [(owner_of(episode).key, count) for episode, count in zip(rows.agents_for_reading(), counts, strict=True)]
    places = {"the columns of the listed episodes": _places(listed)}
    places.update({f"column {name!r}": _places(column.items()) for name, column in columns.items()})
    for (name, found), (other, expected) in combinations(places.items(), 2):
        moved = [key for key in found if key in expected and found[key] != expected[key]]
        # Columns with different numbers of rows are reported at the end of the pipeline, together with their writers.
        if moved and _num_rows(found) == _num_rows(expected):
            raise BatchError(
                f"{other}: found the rows of the episode {moved[0]} at {_span(expected[moved[0]])}, and in {name} at "
                f"{_span(found[moved[0]])}; expected the same rows in all columns. Add the items of all columns in the same "
                "order of episodes, and those of episodes outside of the list last."
            )


def _places(counts: Iterable[tuple[ItemKey, int]]) -> dict[ItemKey, tuple[int, int]]:
    """Return where the rows of each key begin and end; chunks of one episode count as one."""
    found: dict[ItemKey, tuple[int, int]] = {}
    stop = 0
    for key, count in counts:
        start, stop = stop, stop + count
        if count:
            found[key] = (found.get(key, (start,))[0], stop)
    return found


def _num_rows(places: Mapping[ItemKey, tuple[int, int]]) -> int:
    return max((stop for _, stop in places.values()), default=0)


def _span(place: tuple[int, int]) -> str:
    return f"[{place[0]}, {place[1]})"


def _listing(keys: Sequence[ItemKey]) -> str:
    shown = ", ".join(str(key) for key in keys[:3])
    return f"the episodes {shown}" + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")  # as shown
