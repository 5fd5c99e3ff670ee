"""A pipeline: pieces that run one after another. It is a piece itself, so pipelines can be nested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar
from weakref import ref

from gymnasium import Space

from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines import piece_lookup as places
from episodia.connectors.pipelines import pipeline_display as display
from episodia.connectors.pipelines import pipeline_state as state_keeping
from episodia.connectors.pipelines.checks import build_checks as checking
from episodia.connectors.pipelines.checks.space_flow import MaybeSpace
from episodia.connectors.pipelines.current_run import Run, copied, unwrapped
from episodia.connectors.pipelines.editing import set_own_spaces, set_pieces
from episodia.connectors.pipelines.explaining import Explanation, Trace, Tracer, explain
from episodia.connectors.pipelines.piece_lookup import name_clash
from episodia.connectors.pipelines.pipeline_display import pipeline_html
from episodia.connectors.pipelines.plan import Layout, Plan
from episodia.episodes.lists.episode_list import EpisodeList, Episodes
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import PipelineError
from episodia.modules.protocol import Modules
from episodia.spaces import short_name

# The types of columns, or of columns of a module, that `unwrapped` changes or looks into.
_NESTED = frozenset({Ragged, dict})
# A piece, by its index, its name (`inner/Name` in nested pipelines) or its class.
Key = int | str | type[ConnectorV2]


class ConnectorPipelineV2(ConnectorV2):
    """Pieces that run one after another, each on the batch that the one before has returned.

    It is checked when it is built and after each change: that each piece finds what it reads, that no piece overwrites
    another's column, that all names differ. Spaces flow through it from piece to piece. A change that fails leaves the
    pipeline as it was.

    Use one of the three kinds, `EnvToModulePipeline`, `ModuleToEnvPipeline` and `LearnerConnectorPipeline`, which know what
    they are given. This class is for parts of them: it takes any column as given.

    Attributes:
        given_columns: The columns that the caller puts into the batch; None if that can be any.
        has_fixed_episodes: Whether its pieces may neither add nor drop episodes, because each of them needs an action.
    """

    given_columns: ClassVar[frozenset[str] | None] = None
    has_fixed_episodes: ClassVar[bool] = False
    inner_pieces: tuple[ConnectorV2, ...] = ()
    # By the class of the list of episodes, each for the module of its last run; empty after each change.
    _plans: Mapping[type[Any], Plan] = MappingProxyType({})
    _trace: Trace | None = None

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        connectors: Iterable[ConnectorV2] | None = None,
        name: str | None = None,
    ) -> None:
        """Create a pipeline.

        Args:
            input_observation_space: The space of the observations that reach the first piece.
            input_action_space: The same for actions.
            connectors: The pieces, in order.
            name: The name by which a nested pipeline is found; by default that of its class.

        Raises:
            PipelineError: If the pieces do not fit together.
        """
        super().__init__(input_observation_space, input_action_space, name=name)
        set_pieces(self, () if connectors is None else connectors)

    def __call__(
        self,
        *,
        rl_module: Modules = None,
        batch: dict[str, Any] | None = None,
        episodes: Episodes,
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        metrics: object = None,
        _nested: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return what the pieces make of `batch`, which is not changed itself; it is empty by default.

        At the end of the outermost pipeline, whole stretches (`Ragged`) become plain arrays or tensors of the steps.

        Raises:
            ConnectorError: If a piece fails; `__cause__` is what it raised.
            BatchError: If `batch` is no dict.
            EpisodeError: If `episodes` is not a list of episodes of one kind.
            PipelineError: If the module and the pieces do not fit together, see `check_module`.
        """
        shared_data = {} if shared_data is None else shared_data
        kwargs.pop("data", None)  # the batch by its older name, which a called piece gets anyway
        if _nested:
            run = Run({} if batch is None else batch, episodes, rl_module, explore, shared_data, metrics, kwargs)
            self.plan_for(run)(run)
            return run.batch
        run = Run(copied(batch), self.prepared(episodes), rl_module, explore, shared_data, metrics, kwargs)
        return self.run(run)

    def run(self, run: Run) -> dict[str, Any]:
        """Return what the pieces make of the batch of `run`, whose episodes are those that `prepared` returns.

        It is what a call does, for those who call at each step.
        """
        plan = self._plans.get(type(run.episodes))
        if plan is None or plan.rl_module is not run.rl_module:
            if all(other.rl_module is not run.rl_module for other in self._plans.values()):
                self.check_module(run.rl_module)
            plan = self.plan_for(run)
            if self._trace is None:
                return self._traced(plan, run)
        plan(run)
        batch = run.batch
        for column in batch.values():
            kind = type(column)
            if kind is Ragged or (kind is dict and not _NESTED.isdisjoint(map(type, column.values()))):
                return unwrapped(batch)
        return batch

    def _traced(self, plan: Plan, run: Run) -> dict[str, Any]:
        """Run `plan`, and keep what flowed between the pieces, to be drawn later."""
        tracer = Tracer(self, run.batch)
        plan.watched(run, tracer)
        returned = unwrapped(run.batch)
        self._trace = tracer.trace(returned)
        return returned

    def plan_for(self, run: Run) -> Plan:
        """Return the compiled pipeline for the module and the layout of `run`; it is kept until the pipeline is edited."""
        kind = type(run.episodes)
        plan = self._plans.get(kind)
        if plan is None or plan.rl_module is not run.rl_module:
            plan = Plan(self, Layout(run.rl_module, kind, follows_module=self.given_columns is None))
            self._plans = {**self._plans, kind: plan}
        return plan

    def compile(self, layout: Layout) -> Plan:
        """Return the plan of the pipeline, as a step of the pipeline around it."""
        return Plan(self, layout)

    def commit(self) -> None:
        """Let what the pieces have collected take effect."""
        for piece in self.inner_pieces:
            piece.commit()

    def freeze(self) -> None:
        """Stop all pieces from collecting data."""
        for piece in self.inner_pieces:
            piece.freeze()

    def prepared(self, episodes: Episodes | None) -> EpisodeList | None:
        """Return `episodes` as the pieces of this kind of pipeline get them."""
        return None if episodes is None else EpisodeList.of(episodes)

    def explain(self, episodes: Episodes | None, rl_module: Modules = None, **kwargs: Any) -> Explanation:
        """Run the pipeline on copies of itself and of `episodes`, and return what each piece made of the batch.

        Args:
            episodes: What to run on; they are not changed, and neither is the state of the pipeline.
            rl_module: The module, for pieces that need it.
            **kwargs: What else the pipeline is called with, such as `batch` and `explore`.

        Returns:
            Columns with shapes and dtypes, time and bytes of each piece; print it, or let a notebook show it. The shapes are
            also on the arrows of the diagram that a notebook shows for the pipeline itself from now on.

        Raises:
            ConnectorError: If a piece fails.
        """
        explanation = explain(self, episodes, rl_module, **kwargs)
        self._trace = explanation.trace
        return explanation

    def check_module(self, rl_module: Modules) -> None:
        """Check that `rl_module` finds what it needs, and the pieces what they need of it; its first call does that too.

        Raises:
            PipelineError: If the module is stateful and no piece writes its states, or if a piece cannot work with it.
        """
        checking.check_module_fits(self, rl_module)

    # --- Its pieces -------------------------------------------------------------------------------------------------

    @property
    def connectors(self) -> tuple[ConnectorV2, ...]:
        """The pieces, in order; change them with the methods below."""
        return self.inner_pieces

    def __len__(self) -> int:
        return len(self.inner_pieces)

    def __bool__(self) -> bool:
        # An empty pipeline is a pipeline.
        return True

    def __iter__(self) -> Iterator[ConnectorV2]:
        return iter(self.inner_pieces)

    def __getitem__(self, key: Key) -> ConnectorV2:
        return places.find(self, key).piece

    def prepend(self, connector: ConnectorV2) -> None:
        """Let `connector` be the first piece."""
        set_pieces(self, (connector, *self.inner_pieces))

    def append(self, connector: ConnectorV2) -> None:
        """Let `connector` be the last piece."""
        set_pieces(self, (*self.inner_pieces, connector))

    def insert_before(self, key: Key, connector: ConnectorV2) -> ConnectorV2:
        """Insert `connector` before the piece that `key` names, also in a nested pipeline; return that piece."""
        return self._splice(key, lambda piece: (connector, piece))

    def insert_after(self, key: Key, connector: ConnectorV2) -> ConnectorV2:
        """Insert `connector` after the piece that `key` names, also in a nested pipeline; return that piece."""
        return self._splice(key, lambda piece: (piece, connector))

    def replace(self, key: Key, connector: ConnectorV2) -> ConnectorV2:
        """Put `connector` in the place of the piece that `key` names, also in a nested pipeline; return that piece."""
        return self._splice(key, lambda _: (connector,))

    def remove(self, key: Key) -> ConnectorV2:
        """Remove the piece that `key` names, also from a nested pipeline; return it."""
        return self._splice(key, lambda _: ())

    def _splice(self, key: Key, instead: Any) -> ConnectorV2:
        place = places.find(self, key)
        pieces = place.pipeline.connectors
        set_pieces(place.pipeline, (*pieces[: place.index], *instead(place.piece), *pieces[place.index + 1 :]))
        return place.piece

    def _check_new_name(self, piece: ConnectorV2, name: str) -> None:
        for other in self.inner_pieces:
            if other is not piece and other.name == name:
                position = next(index for index, one in enumerate(self.inner_pieces) if one is piece)
                raise PipelineError(name_clash(piece, name, other, position))

    def forget_plan(self) -> None:
        """Compile again before the next run: a piece, a space or a module has changed."""
        self._plans, self._trace = {}, None
        for pipeline in self._pipelines():
            pipeline.forget_plan()

    # --- What it declares, as a piece -------------------------------------------------------------------------------

    @property
    def reads(self) -> frozenset[str] | None:
        """The columns that its pieces read and that no earlier piece writes; None if a piece does not declare what it reads."""
        return checking.outside_columns(self)

    @property
    def writes(self) -> frozenset[str] | None:
        """The columns that its pieces write; None if one does not declare it."""
        return checking.all_written(self)

    @property
    def lookback(self) -> int:
        """The number of steps to keep before a chunk: the most that one of its pieces looks back.

        The maximum, not the sum: pieces look back in the episodes, not in what earlier pieces have made of them.
        """
        return max((piece.lookback for piece in self.inner_pieces), default=0)

    @property
    def kind(self) -> Kind:
        """The kind of the piece that depends on most other rows."""
        kinds = [piece.kind for piece in self.inner_pieces]
        return max(kinds, key=list(Kind).index, default=Kind.CAUSAL)

    @property
    def is_stateful(self) -> bool:
        """Whether a piece of the pipeline is stateful."""
        return any(piece.is_stateful for piece in self.inner_pieces)

    @property
    def writes_to_episodes(self) -> bool:
        """Whether a piece writes into episodes."""
        return any(piece.writes_to_episodes for piece in self.inner_pieces)

    @property
    def changes_episodes(self) -> bool | None:
        """Whether a piece changes episodes; None if no piece declares that it does, and a piece declares nothing."""
        declared = {piece.changes_episodes for piece in self.inner_pieces}
        return True if True in declared else None if None in declared else False

    # --- Spaces -----------------------------------------------------------------------------------------------------

    @property
    def observation_space(self) -> MaybeSpace:
        """The space of the observations that leave the last piece."""
        return self.inner_pieces[-1].observation_space if self.inner_pieces else self._input_observation_space

    @property
    def action_space(self) -> MaybeSpace:
        """The space of the actions that leave the last piece."""
        return self.inner_pieces[-1].action_space if self.inner_pieces else self._input_action_space

    def recompute_output_observation_space(
        self, input_observation_space: Space[Any], input_action_space: MaybeSpace
    ) -> MaybeSpace:
        """Let the spaces flow through the pieces, and return the observation space that leaves the last one."""
        self._receive_spaces(input_observation_space, input_action_space)
        return self.observation_space

    def recompute_output_action_space(
        self, input_observation_space: MaybeSpace, input_action_space: Space[Any]
    ) -> MaybeSpace:
        """Let the spaces flow through the pieces, and return the action space that leaves the last one."""
        self._receive_spaces(input_observation_space, input_action_space)
        return self.action_space

    def _thread_spaces(self) -> None:
        self._receive_spaces(*self._own_spaces)

    def _change_own_spaces(
        self, own: tuple[MaybeSpace, MaybeSpace], observation_space: MaybeSpace, action_space: MaybeSpace
    ) -> None:
        set_own_spaces(self, own)

    def _compute_output_spaces(self) -> None:
        observation_space, action_space = self._input_observation_space, self._input_action_space
        for position, piece in enumerate(self.inner_pieces):
            try:
                piece._receive_spaces(observation_space, action_space)
                observation_space, action_space = piece.observation_space, piece.action_space
            except Exception as error:
                what = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
                raise PipelineError(
                    f"{type(self).__name__}, piece {piece.name!r} at {position}: found no output spaces for the observation "
                    f"space {_text(observation_space)} and the action space {_text(action_space)} ({what}). Correct "
                    "`recompute_output_observation_space` or `recompute_output_action_space`, or the pieces before it."
                ) from error

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the states of the pieces that have one, by name.

        Args:
            components: Only the pieces of these names; `inner/Name` in nested pipelines.
            not_components: Not the pieces of these names.
            **kwargs: Ignored.

        Raises:
            ConnectorStateError: If there is no piece of such a name.
        """
        return state_keeping.states_of(self, components, not_components)

    def set_state(self, state: dict[str, Any]) -> None:
        """Give the pieces that `state` names their states; the others keep theirs.

        Raises:
            ConnectorStateError: If a name is unknown; nothing is changed then.
        """
        state_keeping.set_states(self, state)

    def reset_state(self) -> None:
        """Let all pieces forget everything."""
        for piece in self.inner_pieces:
            piece.reset_state()

    def merge_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return one state that stands for what several copies of the pipeline have seen, piece by piece.

        Raises:
            ConnectorStateError: If a name is unknown, or a piece does not say how its states are merged.
        """
        return state_keeping.merged_states(self, states)

    # --- Copies and display -----------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        seen = {"_plans", "_trace"}
        return {key: value for key, value in super().__getstate__().items() if key not in seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for piece in self.inner_pieces:
            piece._owners = (*piece._owners, ref(self))

    def __repr__(self) -> str:
        return display.pipeline_text(self)

    def _repr_html_(self) -> str:
        return pipeline_html(self, self._trace)


def _text(space: MaybeSpace) -> str:
    return "None" if space is None else short_name(space)
