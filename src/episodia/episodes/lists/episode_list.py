"""Lists of episodes, which return a column of all their episodes at once."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, final, overload

import numpy as np
from gymnasium import Space

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.columns.filling import Fills, put
from episodia.episodes.columns.indexing import with_int_bounds
from episodia.episodes.display.episode_plots import plot_list
from episodia.episodes.display.episode_tables import episodes_html, episodes_text
from episodia.episodes.lists import gather, list_columns, list_state
from episodia.episodes.lists.chosen_times import ChooseTimes, chosen_times
from episodia.episodes.lists.list_columns import (
    DERIVED,
    FLAGS,
    STORED,
    check_asked,
    check_name,
    check_sizes,
    check_windows,
    columns_of,
    joined_steps,
    position_in,
)
from episodia.episodes.lists.origins import AT_STEPS, IDS, origin_windows
from episodia.episodes.lists.ragged import Ragged, counted, offsets_of, positions_by_module, rows_of_ranges, sparse_rows
from episodia.episodes.lists.unmade_rows import ChunkFacts, RowsInPlace
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.errors import EpisodeError
from episodia.trees import describe, frozen
from episodia.types import Item

Episode: TypeAlias = SingleAgentEpisode | MultiAgentEpisode
# What a connector works on; in pipelines it is an `EpisodeList`.
Episodes: TypeAlias = Sequence[Episode]

if TYPE_CHECKING:
    import typing_extensions

    # With a default, so that `EpisodeList` alone stands for a list of either kind of episodes.
    AnyEpisode_co = typing_extensions.TypeVar("AnyEpisode_co", bound=Episode, covariant=True, default=Any)
else:
    AnyEpisode_co = TypeVar("AnyEpisode_co", covariant=True)


@final
class _Counts:
    """Counts of a list that are kept, because its episodes do not change before one of them is read.

    `lengths` are the numbers of steps. `extents` has, by the number of rows after the steps, where the rows of each episode
    begin, and how many it has.
    """

    __slots__ = ("extents", "lengths")

    def __init__(self) -> None:
        self.lengths: np.ndarray | None = None
        self.extents: dict[int, tuple[np.ndarray, list[int]]] = {}


# Held while a list makes or forks episodes, so that several threads read the same ones. One list may ask another.
READING = threading.RLock()


class EpisodeList(Sequence[AnyEpisode_co]):
    """A list of episodes, all single-agent or all multi-agent, that returns a column of all of them at once.

    Rows belong to *agent episodes*: the episodes themselves, or the agents of the multi-agent ones, in order. They are kept
    apart by position, so two chunks of one episode may be in one list. There is a row for each step, as a learner wants
    them; or, in the list that `current()` returns, one row for each agent episode, at its last observation, which is what a
    module acts on. A column is asked for in the same way in both.

    >>> walks = [SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0),
    ...          SingleAgentEpisode(observations=[7, 8], actions=[9], rewards=[2.0], len_lookback_buffer=0)]
    >>> episodes = EpisodeList(walks)
    >>> episodes.latest(Columns.OBS)
    array([2, 8])
    >>> episodes.flat(Columns.REWARDS)
    Ragged(2 stretches, 3 steps of float64[3])
    >>> episodes.windows(Columns.OBS, shifts=[-1, 0], fill=0).values.tolist()
    [[0, 0], [0, 1], [0, 7]]
    """

    __slots__ = (
        "_copies_on_access",
        "_counts",
        "_episodes",
        "_group",
        "_handed_out",
        "_modules",
        "_part_of",
        "is_current",
        "is_multi_agent",
        "num_edits",
    )

    def __init__(self, episodes: Iterable[AnyEpisode_co] = ()) -> None:
        """List `episodes`, without copying them.

        Raises:
            EpisodeError: If something else than episodes of one kind is among them.
        """
        found = listed(episodes)
        self._begin(found, is_multi_agent=are_multi_agent(found))

    def _begin(  # noqa: PLR0913  # one argument for each thing that is known of a list
        self,
        episodes: list[Any],
        *,
        is_multi_agent: bool,
        is_current: bool = False,
        copies_on_access: bool = False,
        counts: _Counts | None = None,
        handed_out: set[int] | None = None,
        modules: dict[Any, np.ndarray] | None = None,
        part_of: tuple[EpisodeList[Any], list[int]] | None = None,
    ) -> None:
        """List `episodes` without looking at them.

        Args:
            episodes: The list to use.
            is_multi_agent: Of which kind they are.
            is_current: Whether there is one row for each agent that is to act.
            copies_on_access: Whether an episode is forked when it is read.
            counts: Where to keep counts; None to count each time.
            handed_out: Which episodes have been forked.
            modules: Which rows belong to which module, if that is known.
            part_of: Of a group of forks: the list that makes them, and which of its rows these are.
        """
        self._episodes = episodes
        self.is_multi_agent = is_multi_agent
        self.is_current = is_current
        self._copies_on_access = copies_on_access
        self._counts = counts
        self._handed_out: set[int] = set() if handed_out is None else handed_out
        self._modules = modules
        self._part_of = part_of
        self._group: EpisodeList[Any] | None = None
        # How often episodes were added, removed or replaced.
        self.num_edits = 0

    @classmethod
    def of(cls, episodes: Iterable[AnyEpisode_co]) -> EpisodeList[AnyEpisode_co]:
        """Return `episodes` if it is an `EpisodeList` already, else a list of them."""
        # Asked at each step of a runner, and `isinstance` is slow with abstract classes.
        return episodes if EpisodeList in type(episodes).__mro__ else cls(episodes)  # type: ignore[return-value]  # is one

    @classmethod
    def now(cls, episodes: Iterable[AnyEpisode_co]) -> EpisodeList[AnyEpisode_co]:
        """Return `episodes` with one row for each agent that is to act, see `current`."""
        made = episodes.current() if isinstance(episodes, EpisodeList) else cls(episodes)
        made.is_current = True
        return made

    def forked(self) -> EpisodeList[AnyEpisode_co]:
        """Return an equal list whose episodes can be changed without changing ours.

        An episode is forked when it is read; most never are.
        """
        return self._like(list(self._episodes), self.is_multi_agent, copies_on_access=True, counts=_Counts())

    def current(self) -> EpisodeList[AnyEpisode_co]:
        """Return the same episodes with one row for each agent that is to act: the present moment.

        In a list of single-agent episodes there is a row for each of them.
        """
        return self._like(self._episodes, self.is_multi_agent, is_current=True)

    def _like(self, episodes: list[Any], is_multi_agent: bool, **facts: Any) -> EpisodeList[Any]:
        """Return a list of `episodes` with rows as in ours, without looking at them; for `facts` see `_begin`."""
        made: EpisodeList[Any] = EpisodeList.__new__(EpisodeList)
        made._begin(episodes, is_multi_agent=is_multi_agent, **{"is_current": self.is_current, **facts})
        return made

    # --- A sequence -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._episodes)

    @overload
    def __getitem__(self, index: int) -> AnyEpisode_co: ...
    @overload
    def __getitem__(self, index: slice) -> EpisodeList[AnyEpisode_co]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            positions = range(len(self))[with_int_bounds(index, f"list of {len(self)} episodes")]
            return self._like([self[position] for position in positions], self.is_multi_agent)
        position = position_in(len(self), index)
        self._fork_part()
        if self._copies_on_access and position not in self._handed_out:
            self._fork(position)
        return self._episodes[position]

    def __iter__(self) -> Iterator[AnyEpisode_co]:
        if self._copies_on_access:
            return (self[position] for position in range(len(self)))
        self._fork_part()
        return iter(self._episodes)

    def _fork(self, position: int) -> None:
        with READING:
            if position not in self._handed_out:
                self._episodes[position] = copy.copy(self._episodes[position])
                self._handed_out.add(position)

    def _fork_part(self) -> None:
        """Replace the episodes of a group of forks by forks, before one is read."""
        if self._part_of is None:
            return
        with READING:
            if self._part_of is not None:
                whole, positions = self._part_of
                rows = whole.agent_episodes
                self._episodes[:] = [rows[position] for position in positions]
                self._part_of = None

    def __eq__(self, other: object) -> bool:
        return self._episodes == list(other) if isinstance(other, (EpisodeList, list)) else NotImplemented

    # --- Changes of the list ----------------------------------------------------------------------------------------

    def __setitem__(self, index: int | slice, episodes: Any) -> None:
        """Replace an episode, or several, as in a list."""
        self._edit(lambda listed: listed.__setitem__(index, episodes))

    def __delitem__(self, index: int | slice) -> None:
        """Remove an episode, or several, as from a list."""
        self._edit(lambda listed: listed.__delitem__(index))

    def insert(self, index: int, episode: Episode) -> None:
        """Insert `episode` before the one at `index`."""
        self._edit(lambda listed: listed.insert(index, episode))

    def append(self, episode: Episode) -> None:
        """Add `episode` at the end."""
        self._edit(lambda listed: listed.append(episode))

    def extend(self, episodes: Iterable[Episode]) -> None:
        """Add `episodes` at the end."""
        added = listed(episodes)
        self._edit(lambda listed: listed.extend(added))

    def __iadd__(self, episodes: object) -> Self:
        if not isinstance(episodes, Iterable):
            return NotImplemented
        self.extend(episodes)
        return self

    def remove(self, episode: Episode) -> None:
        """Remove the first episode that equals `episode`."""
        self._edit(lambda listed: listed.remove(episode))

    def pop(self, index: int = -1) -> AnyEpisode_co:
        """Remove the episode at `index`, and return it."""
        removed: AnyEpisode_co = self[index]
        del self[index]
        return removed

    def clear(self) -> None:
        """Remove all episodes."""
        self._edit(list.clear)

    def reverse(self) -> None:
        """Reverse the order of the episodes."""
        self._edit(list.reverse)

    def sort(self, *, key: Callable[[AnyEpisode_co], Any], reverse: bool = False) -> None:
        """Sort the episodes by `key`, as in a list; episodes themselves have no order.

        >>> walks = EpisodeList([SingleAgentEpisode("b"), SingleAgentEpisode("a")])
        >>> walks.sort(key=lambda episode: episode.id_)
        >>> [episode.id_ for episode in walks]
        ['a', 'b']
        """
        self._edit(lambda listed: listed.sort(key=key, reverse=reverse))

    def _edit(self, change: Callable[[list[Any]], object]) -> None:
        """Let `change` change the list of episodes; if it raises, or if the result is not a list of one kind, nothing happens.

        Raises:
            EpisodeError: If this list is about the present moment, or if there would be episodes of two kinds.
        """
        if self.is_current:
            raise EpisodeError(
                "found an attempt to add, remove or replace episodes at the present moment, expected the episodes of the "
                "environments, of which each needs an action. Change the list in a learner pipeline, in a piece "
                "that declares `changes_episodes = True`."
            )
        before = list(self)
        episodes = list(before)
        change(episodes)
        is_multi_agent = are_multi_agent(episodes)
        # Of a list of forks, added episodes are forked when they are read.
        forks = set(map(id, before)) if self._copies_on_access else set()
        self._relist(episodes)
        self.is_multi_agent = is_multi_agent
        self._counts, self._modules, self._group = None, None, None
        self._handed_out = {position for position, episode in enumerate(episodes) if id(episode) in forks}
        self.num_edits += 1

    def _relist(self, episodes: list[Any]) -> None:
        self._episodes = episodes

    # --- Sums -------------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> EpisodeList[AnyEpisode_co]:
        if not isinstance(other, (EpisodeList, list)):
            return NotImplemented
        both = [*self, *other]
        return self._like(both, are_multi_agent(both))

    def __radd__(self, other: object) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it compares by content

    def __copy__(self) -> EpisodeList[AnyEpisode_co]:
        return self._like(list(self._episodes), self.is_multi_agent)

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (list_state.pack(list(self._episodes)), self.is_current)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the return and the length of each episode, and return matplotlib's figure.

        Args:
            ax: Draw into these two axes; by default into a new figure.

        Raises:
            EpisodeError: If `ax` is something else.
            MissingExtraError: If matplotlib is not installed.
        """
        return plot_list(self._episodes, ax)

    def __repr__(self) -> str:
        return episodes_text(self._episodes)

    def _repr_html_(self) -> str:
        return episodes_html(self._episodes, is_multi_agent=self.is_multi_agent)

    # --- Rows -------------------------------------------------------------------------------------------------------

    @property
    def agent_episodes(self) -> list[SingleAgentEpisode]:
        """The single-agent episodes whose rows the columns are made of, in order."""
        if self._copies_on_access:
            list(self)
        self._fork_part()
        return self._rows()

    def agents_for_reading(self) -> list[SingleAgentEpisode]:
        """Return the agent episodes, of which only ids and spaces may be read; no fork is made for that."""
        return self._rows()

    def _rows(self) -> list[SingleAgentEpisode]:
        """Return the agent episodes as they are, for reading."""
        if not self.is_multi_agent:
            return self._episodes
        return [self._episodes[position].agent_episodes[agent] for position, agent in self.row_owners()]

    def row_owners(self) -> list[tuple[int, Any]]:
        """Return for each agent episode the position of the episode that it is part of, and its agent."""
        if not self.is_multi_agent:
            return [(position, row.agent_id) for position, row in enumerate(self._episodes)]
        return _agents_in(self._episodes, to_act=self.is_current)

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each agent episode: int64 [B]."""
        counts = None if self._handed_out else self._counts
        if counts is not None and counts.lengths is not None:
            return counts.lengths
        lengths = np.array([row.t - row.t_started for row in self._rows()], np.int64)
        if counts is not None:
            counts.lengths = frozen(lengths)
        return lengths

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each agent episode's first step: int64 [B]."""
        return np.array([row.t_started for row in self._rows()], np.int64)

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of steps that each agent episode keeps before its first one: int64 [B]."""
        return np.array([row.rewards.lookback for row in self._rows()], np.int64)

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each agent episode that is terminated: bool [B]."""
        return np.array([row.is_terminated for row in self._rows()], np.bool_)

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each agent episode that is truncated: bool [B]."""
        return np.array([row.is_truncated for row in self._rows()], np.bool_)

    @property
    def origins(self) -> list[Any]:
        """The common key of the chunks of an agent episode: the episode id, in a tuple with the agent if there is one."""
        own_id = IDS[Columns.EPS_ID]
        return [own_id(row) if row.agent_id is None else (own_id(row), row.agent_id) for row in self._rows()]

    def facts(self) -> ChunkFacts:
        """Return what is known of all agent episodes beside their columns."""
        lengths, ends = self.lengths, self.is_terminated + 2 * self.is_truncated.astype(np.uint8)
        return ChunkFacts(self.origins, self.t_started, lengths, ends, int(lengths.sum()))

    def in_place(self) -> RowsInPlace | None:
        """Return where all columns but infos are stored together; None if they are not, or an episode has no steps."""
        return None

    @property
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that chose the actions of each agent episode, with the time step from which each did."""
        return [row.weights_versions for row in self._rows()]

    def by_module(self) -> dict[Any, np.ndarray]:
        """Return which agent episodes each module acts for, as positions in `agent_episodes`."""
        if self._modules is not None:
            return self._modules
        ids = [row.module_id for row in self._rows()]
        # Where there are no episodes, columns without rows are the default module's.
        modules = positions_by_module(ids) if self._episodes else {DEFAULT_MODULE_ID: counted(0)}
        if not self.is_multi_agent:
            # Single-agent episodes keep their module; agents may still join a multi-agent one.
            self._modules = modules
        return modules

    @property
    def is_grouped(self) -> bool:
        """Whether columns are kept apart by module, because the episodes of each may have other spaces."""
        return self.is_multi_agent or len(self.by_module()) > 1

    def groups(self) -> dict[Any, EpisodeList[SingleAgentEpisode]]:
        """Return the agent episodes of each module as a list of their own."""
        if not self.is_grouped:
            return {next(iter(self.by_module())): self._as_group()}
        rows = self._rows()
        return {
            module_id: self._group_of(rows, positions.tolist()) for module_id, positions in self.by_module().items()
        }

    def _group_of(self, rows: list[SingleAgentEpisode], positions: list[int]) -> EpisodeList[SingleAgentEpisode]:
        part_of = (self, positions) if self._copies_on_access else None
        return self._like([rows[position] for position in positions], False, part_of=part_of)

    def _as_group(self) -> EpisodeList[SingleAgentEpisode]:
        """Return all episodes as the only group: the same list, so that it sees forks as they are made."""
        if self._group is None:
            self._group = self._like(
                self._episodes,
                False,
                modules=self._modules,
                handed_out=self._handed_out,
                counts=self._counts,
                part_of=(self, list(range(len(self)))) if self._copies_on_access else None,
            )
        return self._group

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for every row the position of its agent episode, and its time step: two arrays int64 [N]."""
        begins, counts = self._asked(0)
        times = rows_of_ranges(self.t_started + begins, counts)
        return np.repeat(np.arange(len(counts)), counts), times

    @property
    def row_counts(self) -> np.ndarray:
        """The number of rows of each agent episode: its steps, or 1 at the present moment; int64 [B]."""
        return self._asked(0)[1]

    def _asked(self, tail: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each agent episode the index of its first row, and how many rows it has."""
        lengths = self.lengths
        if self.is_current:
            return lengths, np.ones_like(lengths)
        return np.zeros_like(lengths), lengths + tail

    # --- Columns ----------------------------------------------------------------------------------------------------

    def has(self, column: str) -> bool:
        """Tell whether every agent episode has `column`."""
        check_name(column)
        return column in STORED or column in DERIVED or all(column in row.extra_model_outputs for row in self._rows())

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`; the first episode with a step decides."""
        first = next((row for row in self._rows() if len(row)), None)
        observation = None if first is None else first.get_observations(0)
        return isinstance(observation, dict) and key in observation

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs, those of all agent episodes together."""
        return list_columns.extra_columns(self._rows())

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column` in the first agent episode, None if it is not known."""
        return list_columns.space_of(self._rows(), column)

    def latest(self, column: str) -> Any:
        """Return the last item of `column` of each agent episode, as a batch of B rows."""
        return list_columns.latest(self._rows(), column)

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all agent episodes, one after another.

        Args:
            column: One of `Columns` (observations, infos, actions, rewards, flags, time steps), or the name of an extra
                model output.
            tail: Keep the item after the last step, for observations and infos, as the tail of a track. In a `current()`
                list that item is the row itself, and there is no tail.
        """
        check_asked(column, tail)
        if self.is_current and column in (Columns.OBS, Columns.INFOS):
            latest = self.latest(column)
            return Ragged(latest, counted(len(self._rows()) + 1))
        if column in DERIVED:
            return self._computed(column)
        rows = self._rows()
        if self.is_current:
            columns_of(rows, column)
            raise list_columns.not_yet(column)
        extra = 1 if tail else 0
        offsets, counts = self._extent(extra)
        return Ragged(joined_steps(rows, column, counts, tail=tail), offsets, extra)

    def _computed(self, column: str) -> Ragged:
        """Return a column that is not stored per step."""
        offsets = offsets_of(self.row_counts) if self.is_current else self._extent(0)[0]
        if column == Columns.T:
            return Ragged(self.steps()[1], offsets)
        flags = self.is_terminated if column == Columns.TERMINATEDS else self.is_truncated
        return Ragged(list_columns.at_ends(flags, offsets), offsets)

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each agent episode begin, and how many it has with `extra` ones after its steps."""
        counts = None if self._handed_out else self._counts
        if counts is not None and extra in counts.extents:
            return counts.extents[extra]
        rows = self.lengths + extra
        found = frozen(offsets_of(rows)), rows.tolist()
        if counts is not None:
            counts.extents[extra] = found
        return found

    def known_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the time steps of the first and the last observation that are known of each agent episode: two int64 [B].

        Here these are its own ones. A sample from a replay buffer knows all that is stored of the episode.
        """
        started = self.t_started
        return started, started + self.lengths

    def items_at(self, column: str, choose: ChooseTimes, *, key: str | None = None) -> Any:
        """Return the item of `column`, observations or infos, at one of the known time steps of each agent episode.

        Args:
            column: The column.
            choose: Returns the time step for each agent episode. It is given the time steps of the first observation of each
                agent episode, and of the first and the last one that are known, see `known_times`: each int64 [B].
            key: The only key of interest, if items are dicts.

        Returns:
            A batch of B rows.

        Raises:
            EpisodeIndexError: If one of the time steps is not known.
        """
        track = self.flat(column, tail=True)
        part = track if key is None else track.with_values(track.values[key])
        started, (first, last) = self.t_started, self.known_times()
        return part.take(track.offsets[:-1] + chosen_times(choose, started, first, last) - started)

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row (or, of steps, for the first of `every` so many) the items at `shifts` from it: `[N, K, ...]`.

        Before the first step of an episode and after its last item stands `fill`: a value, or `Fills`.

        Raises:
            DroppedHistoryError: If a window reaches for steps that the lookback of a chunk does not have any more.
        """
        check_windows(column, shifts, tail, every)
        owners = self._rows()
        columns = columns_of(owners, column)
        extra = 1 if tail and not self.is_current else 0
        begins, rows = self._asked(extra)
        indices = None
        if every > 1 and not self.is_current:
            indices, rows = sparse_rows(self.lengths, extra, every)
        values, past, counts = list_columns.values_and_places(columns, shifts, at_end=self.is_current)
        if not self.is_current and (counts != self.lengths + (column in (Columns.OBS, Columns.INFOS))).any():
            check_sizes(owners, column, columns)
        stretches = gather.Stretches(past, counts, self.t_started, begins, rows, indices)
        return Ragged(gather.windows(values, stretches, shifts, fill), offsets_of(rows), extra, every)

    def preceding(self, column: str, first: Item) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it: a track.

        It is what `windows` with the shift -1 gives, with one copy less.

        Args:
            column: A column of steps.
            first: The item that stands before the first step of an episode.

        Raises:
            DroppedHistoryError: If a chunk does not have the step before its first one any more.
        """
        offsets, counts = self._extent(1)
        rows = self._rows()
        columns = columns_of(rows, column)
        check_sizes(rows, column, columns)
        return Ragged(list_columns.preceding(columns, counts, self.t_started, first), offsets, 1)

    def computed_windows(
        self, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
    ) -> Ragged:
        """Return time steps, flags or origins, which no episode stores, at `shifts` from each row: `[N, K]`; see `windows`.

        Flags and versions of the weights stand at steps, the flag of an episode at its last one. All others stand at
        observations, so there is one more of them, and the present moment has them too. Only versions need a lookback.

        Raises:
            DroppedHistoryError: If a version of the weights is asked for that a chunk has dropped.

        >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0)
        >>> EpisodeList([walk]).computed_windows("t", shifts=[-1, 0], fills=Fills((-1, -1))).values.tolist()
        [[-1, 0], [0, 1]]
        """
        lengths, extra = self.lengths, 1 if tail and not self.is_current else 0
        if self.is_current:
            indices, counts = lengths, np.ones_like(lengths)
        else:
            indices, counts = sparse_rows(lengths, extra, every)
        owners = np.repeat(np.arange(len(counts)), counts)
        at = indices[:, None] + np.asarray(shifts, np.int64)
        times = self.t_started[owners][:, None] + at
        last = lengths[owners][:, None] - (column in FLAGS or column in AT_STEPS)
        values: np.ndarray
        if column in FLAGS:
            ended = self.is_terminated if column == Columns.TERMINATEDS else self.is_truncated
            values = ended[owners][:, None] & (at == last)
        elif column == Columns.T:
            values = times
        else:
            values = origin_windows(column, self._rows(), owners, times)
        outside = (times < 0) | (at > last)
        for part, fill in fills.runs():
            put(values[:, part], outside[:, part], fill)
        return Ragged(values, offsets_of(counts), extra, every)


def unpickled(packed: dict[str, Any], is_current: bool) -> EpisodeList[Any]:
    """Return the list that `list_state.pack` has packed; its episodes are made when one is read."""
    # A list of its kind is a list of ours.
    from episodia.episodes.lists.packed_rows import packed_list  # noqa: PLC0415

    episodes: EpisodeList[Any] = packed_list(packed)
    return episodes.current() if is_current else episodes


def listed(episodes: Iterable[Any]) -> list[Any]:
    """Return a new list of `episodes`.

    Raises:
        EpisodeError: If they are not a collection, such as a single episode.
    """
    try:
        return list(episodes)
    except TypeError as error:
        # Arrays and tensors without axes claim to be iterable, too.
        given: Any = episodes
        if isinstance(given, Iterable) and getattr(given, "ndim", None) != 0:  # the iterator itself has failed
            raise
        raise EpisodeError(
            f"found {_short(episodes)}, expected a list of episodes. Pass `[episode]` for one."
        ) from error


def _short(stranger: Any) -> str:
    is_episode = isinstance(stranger, (SingleAgentEpisode, MultiAgentEpisode))
    return f"the {type(stranger).__name__} {stranger.id_!r}" if is_episode else describe(stranger)


def are_multi_agent(episodes: list[Any]) -> bool:
    """Tell whether `episodes` are multi-agent ones; of no episodes, they are not.

    Raises:
        EpisodeError: If something else than episodes of one kind is among them.
    """
    if set(map(type, episodes)) == {SingleAgentEpisode}:
        return False
    kinds = {isinstance(episode, MultiAgentEpisode) for episode in episodes}
    strangers = [episode for episode in episodes if not isinstance(episode, (SingleAgentEpisode, MultiAgentEpisode))]
    if strangers or len(kinds) > 1:
        found = describe(strangers[0]) if strangers else "both single-agent and multi-agent episodes"
        remedy = "Leave it out." if strangers else "List them apart."
        raise EpisodeError(f"found {found} in a list of episodes, expected episodes of one kind. {remedy}")
    return kinds == {True}


def _agents_in(episodes: list[MultiAgentEpisode], *, to_act: bool) -> list[tuple[int, Any]]:
    """Return the agents of each multi-agent episode, or those that are to act, after the position of the episode."""
    found: list[tuple[int, Any]] = []
    for position, episode in enumerate(episodes):
        chosen = episode.get_agents_to_act() if to_act else episode.agent_episodes
        found += [(position, agent) for agent in episode.agent_episodes if agent in chosen]
    return found
