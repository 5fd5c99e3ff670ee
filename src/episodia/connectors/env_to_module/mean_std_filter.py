"""Observations with mean 0 and standard deviation 1, by running statistics of what was seen so far."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar, final

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import checked_flag, checked_number
from episodia.columns import Columns
from episodia.connectors.common.finite_numbers import check_finite, is_finite, too_large
from episodia.connectors.env_to_module.observation_changer import ObservationChanger
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.connectors.spaces.row_spaces import Part, paired
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import BatchError, ConnectorStateError, PipelineError, ShapeError
from episodia.trees import leaves, map_batch, shown
from episodia.types import AgentID, Item

Key = TypeVar("Key", bound=Hashable)


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The number of rows, their mean, and the sum of their squared distances from it, element by element.

    >>> seen = Moments.of(np.array([[1.0], [3.0]])).merged(Moments.of(np.array([[5.0]])))
    >>> seen.count, seen.mean, seen.std()
    (3, array([3.]), array([2.]))
    """

    count: int
    mean: np.ndarray
    m2: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Moments:
        """Return the moments of `rows`, an array [N, ...]."""
        count = len(rows)
        if not count:
            return cls(0, np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:]))
        rough = rows.mean(axis=0, dtype=np.float64)
        distances = rows - rough
        # The sum of the distances would be 0 if the mean were exact.
        rest = distances.sum(axis=0) / count
        m2 = np.square(distances).sum(axis=0) - count * np.square(rest)
        return cls(count, rough + rest, np.maximum(m2, 0.0))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both.

        Raises:
            ShapeError: If their rows have different shapes.
        """
        if self.mean.shape != other.mean.shape:
            raise ShapeError(
                f"found statistics of the shapes {list(self.mean.shape)} and {list(other.mean.shape)}, expected one shape. "
                "Rows of different shapes need statistics of their own."
            )
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        distance = other.mean - self.mean
        share = other.count / count
        return Moments(
            count, self.mean + distance * share, self.m2 + other.m2 + np.square(distance) * (self.count * share)
        )

    def std(self) -> np.ndarray:
        """Return the standard deviation of a sample (with N - 1); 1 as long as there are fewer than two rows."""
        return np.sqrt(self.m2 / (self.count - 1)) if self.count > 1 else np.ones_like(self.m2)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return (
            self.count == other.count
            and np.array_equal(self.mean, other.mean, equal_nan=True)
            and np.array_equal(self.m2, other.m2, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]  # it compares by content

    def state(self) -> dict[str, Any]:
        """Return numbers and copies of the arrays."""
        # NumPy makes scalars of arrays without axes, and a state has none.
        return {"count": self.count, "mean": np.array(self.mean), "m2": np.array(self.m2)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Moments:
        """Return what `state` describes, with arrays of its own."""
        return cls(int(state["count"]), np.array(state["mean"], np.float64), np.array(state["m2"], np.float64))


def merged_tables(tables: Iterable[Mapping[Key, Moments]]) -> dict[Key, Moments]:
    """Return the moments under each key, of the rows of all tables.

    >>> merged_tables([{"a": Moments.of(np.zeros((2, 1)))}, {"a": Moments.of(np.ones((2, 1)))}])["a"].mean
    array([0.5])
    """
    return reduce(_with_table, tables, {})


def _with_table(merged: dict[Key, Moments], table: Mapping[Key, Moments]) -> dict[Key, Moments]:
    return {**merged, **{key: merged[key].merged(new) if key in merged else new for key, new in table.items()}}


# The moments of each leaf of each agent's observations, under `(agent id, path)`.
Table = dict[tuple[Any, str], Moments]

_TABLES = ("synced", "delta", "pending")
_SMALLEST = 1e-8
# The sums of squares of numbers up to this size can be added up for ever.
_LARGEST = 1e100
# So many bytes of rows are kept before their moments are taken.
_MOST_SEEN_BYTES = 2**20
# The paths of what is not nested.
_ONLY_LEAF = frozenset({""})


class MeanStdFilter(ObservationChanger):
    """Subtracts the mean of all observations seen so far, divides by their standard deviation, and clips.

    There are statistics for each leaf of the observations, and with `multi_agent` for each agent. Box leaves are filtered
    (leaves of floats, where no space is known) and become float32; classes stay as they are. Episodes keep the raw
    observations.

    *What is frozen.* What is seen while a runner acts is only noted; observations are normalised with the statistics of the
    last `commit()`, which the runner calls when a sample is complete. So all steps of a sample, and a learner with the same
    `version`, see the same numbers. Before the first commit, mean is 0 and standard deviation 1: observations are only
    clipped. In a learner pipeline nothing is noted.

    *NaN and infinity.* One of them would stay in the statistics for ever, so the filter rejects them.
    A call that fails notes nothing.

    *Many filters at once.* A state holds three tables apart: what all filters had in common when they were last synchronised,
    what this one has committed since then, and what it has noted since its last commit. `merge_states` counts the common
    part once and adds everybody's own parts; the merged state is the next common part. Give it to every filter with
    `set_state`: states with different common parts are rejected, because something would be counted twice.

    Args:
        input_observation_space: The space of observations; with `multi_agent`, of each agent.
        input_action_space: The space of actions, which stays.
        multi_agent: Whether there are statistics, and an entry of the space, for each agent. Otherwise all share one.
        de_mean_to_zero: Whether the mean is subtracted.
        de_std_to_one: Whether it is divided by the standard deviation.
        clip_by_value: The largest absolute value that comes out; None for no limit.
        update_stats: Whether to note what is seen. Switch it off to act with a finished filter.
        **kwargs: Those of `ConnectorV2`.

    >>> walk = SingleAgentEpisode(observations=[np.array([4.0])])
    >>> run = SingleAgentEpisode(observations=[np.array([8.0])])
    >>> piece, episodes = MeanStdFilter(), EpisodeList([walk, run]).current()
    >>> piece(rl_module=None, batch={}, episodes=episodes)["obs"].values.tolist()
    [[4.0], [8.0]]
    >>> piece.commit()
    >>> piece(rl_module=None, batch={}, episodes=episodes)["obs"].values
    array([[-0.70710677],
           [ 0.70710677]], dtype=float32)
    """

    lookback = 0
    is_stateful = True

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        multi_agent: bool = False,
        de_mean_to_zero: bool = True,
        de_std_to_one: bool = True,
        clip_by_value: float | None = 10.0,
        update_stats: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, multi_agent=multi_agent, name=name)
        if (
            clip_by_value is not None
            and not checked_number(PipelineError, self.name, "clip_by_value", clip_by_value) > 0
        ):
            raise PipelineError(
                f"{self.name}: found `clip_by_value={shown(clip_by_value)}`, expected a positive number or None. Pass one "
                "of these."
            )
        self.de_mean_to_zero = checked_flag(PipelineError, self.name, "de_mean_to_zero", de_mean_to_zero)
        self.de_std_to_one = checked_flag(PipelineError, self.name, "de_std_to_one", de_std_to_one)
        self.clip_by_value = clip_by_value
        self.update_stats = checked_flag(PipelineError, self.name, "update_stats", update_stats)
        self._restore({}, {}, {}, 0)

    def _restore(self, synced: Table, delta: Table, pending: Table, version: int) -> None:
        committed = merged_tables([synced, delta])
        # The mean, and what to divide by.
        self._scales = {key: (moments.mean, moments.std() + _SMALLEST) for key, moments in committed.items()}
        self._synced, self._delta, self._pending, self._version = synced, delta, pending, version
        # Rows that are seen and not yet in `_pending`: moments of many rows take little more time than of a few.
        self._seen: list[tuple[tuple[Any, str], np.ndarray]] = []
        self._num_seen_bytes = 0
        self._shapes = {key: moments.mean.shape for key, moments in {**committed, **pending}.items()}

    @property
    def version(self) -> int:
        """The number of times that statistics were committed or merged: equal versions of one filter normalise alike."""
        return self._version

    def commit(self) -> None:
        """Normalise from now on by what was seen up to now; the version is one higher."""
        self._fold()
        self._restore(self._synced, merged_tables([self._delta, self._pending]), {}, self._version + 1)

    def freeze(self) -> None:
        """Act with the committed statistics from now on, and note no more observations; what was noted is forgotten."""
        self.update_stats = False
        self._restore(self._synced, self._delta, {}, self._version)

    # --- Observations -----------------------------------------------------------------------------------------------

    def compile(self, layout: Layout) -> Step:
        """Return `work`; in a shorter form for the observations of a runner that are one array, in front of all others."""
        space = self.input_observation_space
        if layout.episodes is not LiveEpisodes or self.multi_agent or not isinstance(space, spaces.Box):
            return self.work
        shape, key = space.shape, (None, "")

        def filter_rows(run: Run) -> None:
            episodes = run.episodes
            rows = None if run.batch else episodes.latest(Columns.OBS)
            if type(rows) is not np.ndarray or rows.shape[1:] != shape or not is_finite(rows):
                self.work(run)
                return
            if self._shapes.get(key, shape) != shape:
                self._check_shape(rows, key)
            normalised = self._normalised(rows, key)
            if self.update_stats:
                self._note(rows, key)
            run.batch[Columns.OBS] = Ragged(normalised, episodes.offsets)

        return filter_rows

    def work(self, run: Run) -> None:
        """Normalise the observations in the batch, and note those of the present moment, all of them or none."""
        pending, seen, shapes, count = self._pending, self._seen, self._shapes, len(self._seen)
        try:
            super().work(run)
        except BaseException:
            del seen[count:]
            self._pending, self._seen, self._shapes = pending, seen, shapes
            raise

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the space with float32 Boxes between the bounds of clipping."""
        if isinstance(space, spaces.Dict):
            return spaces.Dict([(key, self.output_space(child, None, None)) for key, child in space.spaces.items()])
        if isinstance(space, spaces.Tuple):
            return spaces.Tuple([self.output_space(child, None, None) for child in space.spaces])
        if not isinstance(space, spaces.Box):
            return space
        limit = np.inf if self.clip_by_value is None else self.clip_by_value
        return spaces.Box(-limit, limit, space.shape, np.float32)

    def label(self, episode: SingleAgentEpisode) -> Any:
        """Return whose statistics are used: those of the agent, or the ones that all share."""
        return episode.agent_id if self.multi_agent else None

    def changed(self, column: Ragged, rows: EpisodeList, part: Part) -> Ragged:
        """Return `column` normalised; at the present moment its rows are noted."""
        check_finite(self.name, Columns.OBS, column, rows)
        filtered = self._filtered_paths(column.values, part.space)
        look = self._note if rows.is_current and self.update_stats else self._check_shape
        made = []
        for path, leaf in leaves(column.values):
            if path in filtered:
                key = part.label, path
                look(leaf, key)
                leaf = self._normalised(leaf, key)  # noqa: PLW2901  # a leaf of numbers that are not filtered stays
            made.append(leaf)
        following = iter(made)
        return column.with_values(map_batch(lambda _: next(following), column.values))

    def _note(self, rows: np.ndarray, key: tuple[Any, str]) -> None:
        """Keep rows until the next commit, if their squares can be added up."""
        self._check_shape(rows, key)
        # The squares of float32 cannot get too large.
        if rows.dtype != np.float32 and not np.abs(rows).max(initial=0) <= _LARGEST:
            raise too_large(self.name, f"the column {Columns.OBS!r}{key[1]}", "their variance")
        if key not in self._shapes:
            self._shapes = {**self._shapes, key: rows.shape[1:]}
        self._seen.append((key, rows.copy()))
        self._num_seen_bytes += rows.nbytes
        if self._num_seen_bytes > _MOST_SEEN_BYTES:
            self._fold()

    def _fold(self) -> None:
        """Let the moments of all rows that are seen be in `_pending`."""
        by_key: dict[tuple[Any, str], list[np.ndarray]] = {}
        for key, rows in self._seen:
            by_key.setdefault(key, []).append(rows)
        moments = {key: Moments.of(np.concatenate(rows)) for key, rows in by_key.items()}
        self._pending, self._seen = merged_tables([self._pending, moments]), []
        self._num_seen_bytes = 0

    def _filtered_paths(self, values: Item, space: Space[Any] | None) -> Collection[str]:
        if space is None:
            return {path for path, leaf in leaves(values) if leaf.dtype.kind == "f"}
        if type(values) is np.ndarray and isinstance(space, spaces.Box) and values.shape[1:] == space.shape:
            return _ONLY_LEAF
        return {path for path, leaf, _ in paired(self.name, space, values) if isinstance(leaf, spaces.Box)}

    def _check_shape(self, leaf: np.ndarray, key: tuple[Any, str]) -> None:
        if self._shapes.get(key, leaf.shape[1:]) != leaf.shape[1:]:
            raise BatchError(
                f"{self.name}: found observations{key[1]} of the shape {list(leaf.shape[1:])}, expected "
                f"{list(self._shapes[key])}, as those that were seen before. Agents of different spaces need "
                "`multi_agent=True`."
            )

    def _normalised(self, leaf: np.ndarray, key: tuple[Any, str]) -> np.ndarray:
        values = leaf
        if key in self._scales:
            mean, std = self._scales[key]
            values = leaf - mean if self.de_mean_to_zero else leaf
            values = values / std if self.de_std_to_one else values
        if self.clip_by_value is not None:
            values = np.minimum(np.maximum(values, -self.clip_by_value), self.clip_by_value)
        return values.astype(np.float32, copy=False)

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the version and the three tables, each a list of the statistics of one leaf of one agent."""
        self._fold()
        tables = (self._synced, self._delta, self._pending)
        encoded = {name: _encoded(table) for name, table in zip(_TABLES, tables, strict=True)}
        return {"version": self._version, **encoded}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which `get_state` or `merge_states` returned.

        Raises:
            ConnectorStateError: If it is no such state; the filter is as before then.
        """
        synced, delta, pending = self._decoded(state)
        self._restore(synced, delta, pending, int(state["version"]))

    def reset_state(self) -> None:
        """Forget all statistics."""
        self._restore({}, {}, {}, 0)

    def merge_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the state of one filter that has seen what each of several filters has seen; ours is not changed.

        Its version is higher than that of each of them.

        Raises:
            ConnectorStateError: If one of them is no state of a filter, if their common parts differ, or if their
                observations have different shapes.
        """
        if not states:
            return self.get_state()
        decoded = [self._decoded(state) for state in states]
        synced = decoded[0][0]
        for position, (other, _, _) in enumerate(decoded):
            if other != synced:
                raise ConnectorStateError(
                    f"{self.name}: found that state {position} of {len(states)} does not begin from the same statistics as "
                    "state 0, expected filters that were last given one common state. Call `set_state` with the last merged "
                    "state on every filter, new ones included, before it goes on."
                )
        try:
            merged = merged_tables([synced, *(table for _, *own in decoded for table in own)])
        except ShapeError as error:
            raise ConnectorStateError(f"{self.name}: {error}") from error
        version = 1 + max(int(state["version"]) for state in states)
        return {"version": version, "synced": _encoded(merged), "delta": [], "pending": []}

    def add_collected(self, state: Mapping[str, Any]) -> None:
        """Count what a copy has committed since it last took over a common state; it is common from now on.

        Raises:
            ConnectorStateError: If it is no state of a filter, or if its observations have other shapes.
        """
        self._fold()
        _, delta, _ = self._decoded(state)
        try:
            synced = merged_tables([self._synced, delta])
        except ShapeError as error:
            raise ConnectorStateError(f"{self.name}: {error}") from error
        self._restore(synced, self._delta, self._pending, self._version + 1)

    def take_common(self, state: dict[str, Any]) -> None:
        """Normalise by common statistics from now on; what was noted since the last commit is kept for the next one.

        Raises:
            ConnectorStateError: If it is no state of a filter.
        """
        self._fold()
        synced, delta, _ = self._decoded(state)
        self._restore(merged_tables([synced, delta]), {}, self._pending, int(state["version"]))

    def _decoded(self, state: Mapping[str, Any]) -> tuple[Table, Table, Table]:
        try:
            int(state["version"])
            synced, delta, pending = (_decoded(state[name]) for name in _TABLES)
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectorStateError(
                f"{self.name}: found a state that cannot be read ({type(error).__name__}: {error}), expected 'version' and the "
                f"lists {list(_TABLES)}. Pass what `get_state` of a MeanStdFilter returned."
            ) from error
        return synced, delta, pending


def _encoded(table: Table) -> list[dict[str, Any]]:
    return [
        {"agent_id": _plain(agent_id), "path": path, **moments.state()} for (agent_id, path), moments in table.items()
    ]


def _decoded(entries: Sequence[Mapping[str, Any]]) -> Table:
    return {(_hashable(entry["agent_id"]), entry["path"]): Moments.from_state(entry) for entry in entries}


def _plain(agent_id: AgentID) -> Any:
    """Return an agent's id as a JSON value."""
    if isinstance(agent_id, tuple):
        return [_plain(part) for part in agent_id]
    return agent_id.item() if isinstance(agent_id, np.generic) else agent_id


def _hashable(agent_id: Any) -> AgentID:
    """Return an agent's id again, of which `_plain` has made a JSON value."""
    return tuple(map(_hashable, agent_id)) if isinstance(agent_id, list) else agent_id
