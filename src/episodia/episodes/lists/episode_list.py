"""Many episodes, and questions about a column of all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.indexing import with_int_bounds
from episodia.episodes.display.episode_plots import plot_list
from episodia.episodes.display.episode_tables import episodes_html, episodes_text
from episodia.episodes.lists import gather, list_columns, list_state
from episodia.episodes.lists.episode_kinds import agents_in, are_multi_agent, listed
from episodia.episodes.lists.joined_columns import joined, joined_whole
from episodia.episodes.lists.list_arguments import check_asked, check_name, check_windows, position_in
from episodia.episodes.lists.list_columns import COMPUTED, STORED, columns_of
from episodia.episodes.lists.ragged import Ragged, counted, offsets_of, rows_of_ranges, sparse_rows
from episodia.episodes.lists.rows_by_module import DEFAULT_MODULE_ID, positions_by_module
from episodia.episodes.multi_agent import multi_agent_chunks
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent import single_agent_chunks as chunks
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ShapeError
from episodia.trees import frozen

Episode: TypeAlias = SingleAgentEpisode | MultiAgentEpisode
# What a connector works on; in pipelines it is an `EpisodeList`.
Episodes: TypeAlias = Sequence[Episode]

if TYPE_CHECKING:
    import typing_extensions

    # With a default, so that `EpisodeList` alone stands for a list of either kind of episodes.
    AnyEpisode_co = typing_extensions.TypeVar("AnyEpisode_co", bound=Episode, covariant=True, default=Any)
else:
    AnyEpisode_co = TypeVar("AnyEpisode_co", covariant=True)


class EpisodeList(Sequence[AnyEpisode_co]):
    """A sequence of episodes (all single-agent, or all multi-agent) that answers for a column of all of them in one go.

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
        "_episodes",
        "_extents",
        "_group",
        "_handed_out",
        "_keeps_lengths",
        "_lengths",
        "_modules",
        "_part_of",
        "is_current",
        "is_multi_agent",
    )

    def __init__(self, episodes: Iterable[AnyEpisode_co] = ()) -> None:
        """List `episodes`, without copying them.

        Raises:
            EpisodeError: If something else than episodes of one kind is among them.
        """
        self._episodes = listed(episodes)
        self.is_multi_agent = are_multi_agent(self._episodes)
        self.is_current = False
        self._copies_on_access = False
        self._handed_out: set[int] = set()
        self._modules: dict[Any, np.ndarray] | None = None
        self._group: EpisodeList | None = None
        # Of a group of forks: the list that makes them, and which of its rows these are.
        self._part_of: tuple[EpisodeList, list[int]] | None = None
        # What nobody was handed, nobody changes: then lengths are counted once for all columns.
        self._keeps_lengths = False
        self._lengths: np.ndarray | None = None
        self._extents: dict[int, tuple[np.ndarray, list[int]]] = {}

    @classmethod
    def of(cls, episodes: Iterable[AnyEpisode_co]) -> EpisodeList[AnyEpisode_co]:
        """Return `episodes` if it is an `EpisodeList` already, else a list of them."""
        return episodes if isinstance(episodes, EpisodeList) else cls(episodes)

    @classmethod
    def now(cls, episodes: Iterable[AnyEpisode_co]) -> EpisodeList[AnyEpisode_co]:
        """Return `episodes` with one row for each agent that is to act, see `current`."""
        made = episodes.current() if isinstance(episodes, EpisodeList) else cls(episodes)
        made.is_current = True
        return made

    def forked(self) -> EpisodeList[AnyEpisode_co]:
        """Return an equal list whose episodes can be changed without changing ours.

        An episode is forked when it is handed out; most never are.
        """
        forked = self._like(list(self._episodes), self.is_multi_agent)
        forked._copies_on_access = forked._keeps_lengths = True
        return forked

    def current(self) -> EpisodeList[AnyEpisode_co]:
        """Return the same episodes with one row for each agent that is to act: the present moment.

        In a list of single-agent episodes there is a row for each of them.
        """
        current = self._like(self._episodes, self.is_multi_agent)
        current.is_current = True
        return current

    def _like(self, episodes: list[Any], is_multi_agent: bool) -> EpisodeList:
        """Return a list of `episodes` with rows as in ours, without looking at them."""
        made = EpisodeList.__new__(EpisodeList)
        made._episodes, made.is_multi_agent, made.is_current = episodes, is_multi_agent, self.is_current
        made._modules = made._group = made._lengths = made._part_of = None
        made._copies_on_access = made._keeps_lengths = False
        made._handed_out, made._extents = set(), {}
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
            fork = multi_agent_chunks.fork if self.is_multi_agent else chunks.fork
            self._episodes[position] = fork(self._episodes[position])
            self._handed_out.add(position)
        return self._episodes[position]

    def __iter__(self) -> Iterator[AnyEpisode_co]:
        if self._copies_on_access:
            return (self[position] for position in range(len(self)))
        self._fork_part()
        return iter(self._episodes)

    def _fork_part(self) -> None:
        """See to it that who gets an episode of a group of forks gets a fork."""
        if self._part_of is not None:
            (whole, positions), self._part_of = self._part_of, None
            rows = whole.agent_episodes
            self._episodes[:] = [rows[position] for position in positions]

    def __eq__(self, other: object) -> bool:
        return self._episodes == list(other) if isinstance(other, (EpisodeList, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it compares by content

    def __copy__(self) -> EpisodeList[AnyEpisode_co]:
        return self._like(list(self._episodes), self.is_multi_agent)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (list_state.pack(list(self._episodes)), self.is_current)

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
        return episodes_html(self._episodes)

    # --- Rows -------------------------------------------------------------------------------------------------------

    @property
    def agent_episodes(self) -> list[SingleAgentEpisode]:
        """The single-agent episodes whose rows the columns are made of, in order."""
        if self._copies_on_access:
            list(self)
        self._fork_part()
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
        return agents_in(self._episodes, to_act=self.is_current)

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each agent episode: int64 [B]."""
        if self._lengths is not None and not self._handed_out:
            return self._lengths
        lengths = np.array([row.t - row.t_started for row in self._rows()], np.int64)
        if self._keeps_lengths:
            self._lengths = frozen(lengths)
        return lengths

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each agent episode's first step: int64 [B]."""
        return np.array([row.t_started for row in self._rows()], np.int64)

    @property
    def lookbacks(self) -> np.ndarray:
        """How many steps before its first one each agent episode keeps: int64 [B]."""
        return np.array([row.rewards.lookback for row in self._rows()], np.int64)

    @property
    def is_terminated(self) -> np.ndarray:
        """Which agent episodes are terminated: bool [B]."""
        return np.array([row.is_terminated for row in self._rows()], np.bool_)

    @property
    def is_truncated(self) -> np.ndarray:
        """Which agent episodes are truncated: bool [B]."""
        return np.array([row.is_truncated for row in self._rows()], np.bool_)

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

    def groups(self) -> dict[Any, EpisodeList]:
        """Return the agent episodes of each module as a list of their own."""
        if not self.is_grouped:
            return {next(iter(self.by_module())): self._as_group()}
        rows = self._rows()
        return {
            module_id: self._group_of(rows, positions.tolist()) for module_id, positions in self.by_module().items()
        }

    def _group_of(self, rows: list[SingleAgentEpisode], positions: list[int]) -> EpisodeList:
        group = self._like([rows[position] for position in positions], False)
        if self._copies_on_access:
            group._part_of = self, positions
        return group

    def _as_group(self) -> EpisodeList:
        """Return all episodes as the only group: the same list, so that it sees forks as they are made."""
        if self._group is None:
            self._group = group = self._like(self._episodes, False)
            group._modules, group._handed_out = self._modules, self._handed_out
            group._keeps_lengths, group._lengths, group._extents = self._keeps_lengths, self._lengths, self._extents
            if self._copies_on_access:
                group._part_of = self, list(range(len(self)))
        return self._group

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for every row the position of its agent episode, and its time step: two arrays int64 [N]."""
        begins, counts = self._asked(0)
        times = rows_of_ranges(self.t_started + begins, counts)
        return np.repeat(np.arange(len(counts)), counts), times

    @property
    def row_counts(self) -> np.ndarray:
        """How many rows each agent episode has: its steps, or 1 at the present moment; int64 [B]."""
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
        return column in STORED or column in COMPUTED or all(column in row.extra_model_outputs for row in self._rows())

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
        if column in COMPUTED:
            return self._computed(column)
        rows = self._rows()
        columns = columns_of(rows, column)
        if self.is_current:
            raise list_columns.not_yet(column)
        extra = 1 if tail else 0
        offsets, counts = self._extent(extra)
        try:
            values = joined_whole(columns, counts)
            if values is None:
                starts = [buffer.lookback for buffer in columns]
                values = joined(columns, starts, list(map(add, starts, counts)))
            return Ragged(values, offsets, extra)
        except ShapeError:
            if tail:
                list_columns.check_started(rows, column, columns)
            raise

    def _computed(self, column: str) -> Ragged:
        """Return a column that is not stored per step."""
        offsets = offsets_of(self.row_counts) if self.is_current else self._extent(0)[0]
        if column == Columns.T:
            return Ragged(self.steps()[1], offsets)
        flags = self.is_terminated if column == Columns.TERMINATEDS else self.is_truncated
        return Ragged(list_columns.at_ends(flags, offsets), offsets)

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each agent episode begin, and how many it has with `extra` ones after its steps."""
        known = self._extents.get(extra)
        if known is not None and not self._handed_out:
            return known
        counts = self.lengths + extra
        found = frozen(offsets_of(counts)), counts.tolist()
        if self._keeps_lengths:
            self._extents[extra] = found
        return found

    def windows(self, column: str, *, shifts: Sequence[int], fill: Any, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row (or, of steps, for the first of `every` so many) the items at `shifts` from it: `[N, K, ...]`.

        Before the first step of an episode and after its last item stands `fill`: a value, or `Fills`.

        Raises:
            DroppedHistoryError: If a window reaches for steps that the lookback of a chunk does not have any more.
        """
        check_windows(column, shifts, tail, every)
        columns = columns_of(self._rows(), column)
        extra = 1 if tail and not self.is_current else 0
        begins, rows = self._asked(extra)
        indices = None
        if every > 1 and not self.is_current:
            indices, rows = sparse_rows(self.lengths, extra, every)
        values, past, counts = list_columns.values_and_places(columns, shifts, at_end=self.is_current)
        stretches = gather.Stretches(past, counts, self.t_started, begins, rows, indices)
        return Ragged(gather.windows(values, stretches, shifts, fill), offsets_of(rows), extra, every)

    def preceding(self, column: str, first: Any) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it: a track.

        It is what `windows` with the shift -1 gives, with one copy less.

        Args:
            column: A column of steps.
            first: The item that stands before the first step of an episode.

        Raises:
            DroppedHistoryError: If a chunk does not have the step before its first one any more.
        """
        offsets, counts = self._extent(1)
        columns = columns_of(self._rows(), column)
        return Ragged(list_columns.preceding(columns, counts, self.t_started, first), offsets, 1)


def _unpickled(packed: dict[str, Any], is_current: bool) -> EpisodeList:
    episodes = EpisodeList(list_state.unpack(packed))
    return episodes.current() if is_current else episodes
