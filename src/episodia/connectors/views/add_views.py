"""Views of the trajectory as columns of the batch: one declaration for acting and for learning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import rows_of_modules
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.env_to_module.observation_changer import ObservationPiece
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.editing import outermost_of, set_pieces
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, LearnerConnectorPipeline
from episodia.connectors.views.view import View, space_of_view
from episodia.connectors.views.view_plan import Gather, Reader, compiled
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.columns.filling import Fills
from episodia.episodes.lists.list_columns import COMPUTED
from episodia.episodes.lists.other_agents import OtherAgents
from episodia.episodes.lists.ragged import sparse_rows
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import BatchError, PipelineError
from episodia.trees import shown
from episodia.types import AgentID, ModuleID


class AddViews(ObservationPiece):
    """Adds one column per view. The same piece serves acting and learning and returns the same values in both.

    Views read the episodes, not the columns that earlier pieces added to the batch. In training, view columns are tracks,
    like observations: they have a row after the last step, so that values can be bootstrapped.

    Args:
        views: The views by column name. A view named `obs` replaces the observations; put the piece before the one that
            adds observations.
        input_observation_space: The space of observations.
        input_action_space: The space of actions.
        modules: The ids of the modules whose rows get the columns; all modules by default.
        multi_agent: Whether the spaces have an entry for each agent.
        **kwargs: The arguments of `ConnectorV2`.

    Raises:
        PipelineError: If `views` is not a dict of views, or `modules` is not a list of module ids.

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.5], len_lookback_buffer=0)
    >>> piece = AddViews({"last_reward": View("rewards", shift=-1)})
    >>> piece(rl_module=None, batch={}, episodes=[walk])["last_reward"].body().values.tolist()
    [0.0, 0.5]
    >>> piece(rl_module=None, batch={}, episodes=EpisodeList([walk]).current())["last_reward"].values.tolist()
    [1.5]
    """

    reads = frozenset[str]()

    def __init__(
        self,
        views: Mapping[str, View],
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        modules: Collection[Any] | None = None,
        multi_agent: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, multi_agent=multi_agent, name=name)
        self.modules = _module_ids(self.name, modules)
        self._views = _checked(self.name, views)
        self._plans: dict[bool, list[Gather]] = {}

    @property
    def reads_rewards(self) -> bool:
        """Whether a view for acting shows rewards."""
        return any(view.infer and view.source == Columns.REWARDS for view in self._views.values())

    # --- Views ------------------------------------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[str, View]:
        """The views by name, read-only; change them with `add` and `remove`."""
        return MappingProxyType(self._views)

    def add(self, name: str, view: View) -> None:
        """Add `view` as the column `name`; a view of that name is replaced.

        Raises:
            PipelineError: If a pipeline that contains the piece rejects the view. The views then stay as they were.
        """
        self._change({**self._views, **_checked(self.name, {name: view})})

    def remove(self, name: str) -> View:
        """Remove a view and return it.

        Raises:
            PipelineError: If no view has that name, or another piece needs its column. The views then stay as they were.
        """
        if name not in self._views:
            raise PipelineError(f"{self.name}: found no view {name!r}, expected one of {list(self._views)}.")
        removed = self._views[name]
        self._change({other: view for other, view in self._views.items() if other != name})
        return removed

    def take_over(self, views: Mapping[str, View]) -> None:
        """Add `views` in place of all earlier ones.

        Raises:
            PipelineError: If a pipeline that contains the piece rejects one. The views then stay as they were.
        """
        self._change(_checked(self.name, views))

    def _change(self, views: dict[str, View]) -> None:
        before, self._views = self._views, views
        try:
            self._check_pipelines()
        except BaseException:
            self._views = before
            # The pipelines checked before the failure already hold the new spaces.
            self._check_pipelines()
            raise
        self._plans = {}

    def _check_pipelines(self) -> None:
        for pipeline in self._pipelines():
            set_pieces(pipeline, pipeline.connectors)

    # --- Declarations -----------------------------------------------------------------------------------------------

    @property
    def writes(self) -> frozenset[str]:
        """The names of the views that are used in the pipelines that contain the piece."""
        return frozenset(
            self._seen(acting=self._is_in(EnvToModulePipeline), learning=self._is_in(LearnerConnectorPipeline))
        )

    @property
    def fills(self) -> frozenset[str]:
        """All columns in `writes` if `modules` is set: another piece may write them for other modules. Otherwise empty."""
        return frozenset() if self.modules is None else self.writes

    @property
    def lookback(self) -> int:
        """The number of steps back to the farthest item of all views, including views that only learners see.

        So a runner whose pipeline contains the piece keeps the steps that the learner needs. For views of another agent it
        is at least 1: an agent that waits at a cut has its first row before the cut.
        """
        return max((max(view.lookback, int(view.agent is not None)) for view in self._views.values()), default=0)

    @property
    def kind(self) -> Kind:
        """Forward-looking if a view for training looks ahead, otherwise causal."""
        looks_ahead = any(view.looks_ahead for view in self._views.values() if view.train and max(view.shifts) > 0)
        return Kind.FORWARD_LOOKING if looks_ahead else Kind.CAUSAL

    def _is_in(self, kind: type[ConnectorV2]) -> bool:
        return any(isinstance(root, kind) for pipeline in self._pipelines() for root in outermost_of(pipeline))

    def _seen(self, *, acting: bool, learning: bool) -> dict[str, View]:
        everybody = acting == learning
        return {
            name: view
            for name, view in self._views.items()
            if everybody or (acting and view.infer) or (learning and view.train)
        }

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Reject an env-to-module pipeline if a view that is used for acting looks into the future."""
        if not isinstance(pipeline, EnvToModulePipeline):
            return
        for name, view in self._seen(acting=True, learning=False).items():
            if view.looks_ahead:
                raise PipelineError(
                    f"{type(pipeline).__name__}, piece {self.name!r}: found the view {name!r}, {view!r}, {_why_unknown(view)}. "
                    "Pass `infer=False` (`used_for_compute_actions=False`), and only learners see it."
                )

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Any:
        """Return the space of the view that replaces the observations; `space` if no view does."""
        view = self._views.get(Columns.OBS)
        return space if view is None else space_of_view(view, space, action_space)

    # --- Work -------------------------------------------------------------------------------------------------------

    def work(self, run: Run) -> None:
        """Add the columns of all views to the batch."""
        episodes = EpisodeList.of(run.episodes)
        gathers = self._plan(episodes.is_current)
        for module_id, columns, rows in rows_of_modules(run):
            if self.modules is not None and module_id not in self.modules:
                continue
            for gather in gathers:
                reader = _reader(gather, rows, episodes, module_id)
                columns.update(gather.columns(reader, tail=not episodes.is_current))

    def _plan(self, is_acting: bool) -> list[Gather]:
        if is_acting not in self._plans:
            self._plans[is_acting] = compiled(self._seen(acting=is_acting, learning=not is_acting))
        return self._plans[is_acting]


def _module_ids(where: str, modules: Any) -> frozenset[Any] | None:
    if modules is None:
        return None
    try:
        return frozenset([modules] if isinstance(modules, str) else modules)
    except TypeError as error:
        raise PipelineError(
            f"{where}: found `modules={shown(modules)}`, expected a list of module ids. Pass `modules=[...]`."
        ) from error


def _checked(where: str, views: Any) -> dict[str, View]:
    """Return the views, each with its source filled in."""
    if not isinstance(views, Mapping):
        raise PipelineError(
            f"{where}: found {views!r}, expected a dict of names and views. Pass `{{'name': View(...)}}`."
        )
    for name, view in views.items():
        if not isinstance(name, str) or not name or not isinstance(view, View):
            raise PipelineError(
                f"{where}: found {view!r} as the view {name!r}, expected a `View`, or a `ViewRequirement`, under the name of "
                "its column. Pass `{'name': View(...)}`."
            )
    return {name: replace(view, source=name) if view.source is None else view for name, view in views.items()}


def _reader(gather: Gather, rows: EpisodeList, episodes: EpisodeList, module_id: ModuleID) -> Reader:
    if gather.agent is None:
        return OwnRows(rows)
    if not episodes.is_multi_agent:
        raise BatchError(
            f"views {list(gather.picks)}: found single-agent episodes, expected multi-agent ones, because of "
            f"`agent={gather.agent!r}`: single-agent episodes have no other agents. Pass multi-agent episodes, or omit `agent`."
        )
    other = gather.agent
    return OtherAgents(episodes, module_id, other if callable(other) else lambda *_: other)


def _why_unknown(view: View) -> str:
    """Say why a module that acts cannot see `view`."""
    if view.source == Columns.FRAGMENT_ID:
        return f"whose items are not known when a module acts: {view.source!r} follows from where the fragment is cut later"
    latest = view.latest_when_acting
    return f"which looks into the future: when a module acts, {view.source!r} is known up to the shift {latest}"


@final
class OwnRows:
    """Reader of each agent's own episode."""

    def __init__(self, rows: EpisodeList) -> None:
        self._rows = rows

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`; None if it is unknown."""
        return self._rows.space_of(column)

    def row_counts(self, *, tail: bool = False, every: int = 1) -> np.ndarray:
        """Return how many rows each agent episode has."""
        rows = self._rows
        return rows.row_counts if rows.is_current else sparse_rows(rows.lengths, int(tail), every)[1]

    def windows(
        self, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
    ) -> Ragged | None:
        """Return the items at `shifts` from each row; None if the shape of an item is unknown."""
        if column in COMPUTED:
            return self._rows.computed_windows(column, shifts=shifts, fills=fills, tail=tail, every=every)
        if not self._is_known(column):
            return None
        return self._rows.windows(column, shifts=shifts, fill=fills, tail=tail, every=every)

    def _is_known(self, column: str) -> bool:
        """Return whether an item of `column`, or at least its space, is known."""
        rows = self._rows
        if column in (Columns.OBS, Columns.INFOS, Columns.REWARDS):
            return True
        if column == Columns.ACTIONS and rows.space_of(column) is not None:
            return True
        if isinstance(rows, LiveEpisodes) and column in rows.extra_columns():
            return True  # a recorder knows the column after its first recorded item
        if rows.lengths.any():
            return True
        columns = [
            row.actions if column == Columns.ACTIONS else row.extra_model_outputs.get(column) for row in rows._rows()
        ]
        return any(buffer is not None and buffer.len_incl_lookback() for buffer in columns)
