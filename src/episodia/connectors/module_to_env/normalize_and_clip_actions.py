"""Normalization and clipping of real-valued actions to the bounds of the environment."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import ModuleOutputs, gathered, needed_column, outputs_of_modules
from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.connectors.spaces.action_spaces import ActionSpaces, PerSpace, change_actions
from episodia.episodes.lists.live_agents import LiveAgents
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.modules.random_actions import float_bounds, within
from episodia.spaces import ARRAY_SPACES

# No rows, and no shape of actions.
_UNKNOWN = (object(), None)


@final
class BoxBounds:
    """The bounds of a `Box`, ready for whole batches of actions.

    >>> bounds = BoxBounds(spaces.Box(0.0, 10.0, (2,)))
    >>> bounds.unsquashed(np.array([[-1.0, 0.0], [1.0, 7.0]]))
    array([[ 0.,  5.],
           [10., 10.]], dtype=float32)
    """

    def __init__(self, space: spaces.Box) -> None:
        self._dtype = np.dtype(space.dtype)
        self._low, self._high = space.low, space.high
        low, high = float_bounds(space)
        self._bounded = np.isfinite(low) & np.isfinite(high)
        self._is_bounded = bool(self._bounded.all())
        # Halve each bound first: the difference of two large bounds may be infinite.
        self._centre = np.where(self._bounded, low, 0.0) / 2 + np.where(self._bounded, high, 0.0) / 2
        self._half = np.where(self._bounded, high, 0.0) / 2 - np.where(self._bounded, low, 0.0) / 2

    def unsquashed(self, actions: np.ndarray) -> np.ndarray:
        """Return actions from -1 to 1 spread over the bounds, in the dtype of the space.

        Values beyond -1 or 1 are clipped to the bound. Elements with an infinite bound keep their value, clipped to the finite
        bound if there is one. Integers for a `Box` of integers are only clipped.
        """
        if actions.dtype.kind != "f" and self._dtype.kind != "f":
            return self.clipped(actions)
        values = actions.astype(np.float64)
        spread = self._centre + within(values, -1.0, 1.0) * self._half
        return self.clipped(spread if self._is_bounded else np.where(self._bounded, spread, values))

    def clipped(self, actions: np.ndarray) -> np.ndarray:
        """Return actions within the bounds, in the dtype of the space; rounded if that is an integer dtype."""
        if self._dtype.kind != "f" and actions.dtype.kind == "f":
            actions = _whole(np.rint(actions), self._dtype)
        return within(actions, self._low, self._high).astype(self._dtype, copy=False)


def _whole(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return whole floats as the widest integers of their kind, clipped to the range of these integers."""
    wide, bits = (np.uint64, 64) if dtype.kind == "u" else (np.int64, 63)
    low = 0.0 if dtype.kind == "u" else -(2.0**63)
    return np.clip(values.astype(np.float64), low, np.nextafter(2.0**bits, 0.0)).astype(wide)


def _has_no_bounds(space: Space[Any]) -> bool:
    """Return whether actions of the space have no bounds, and are not changed."""
    return isinstance(space, ARRAY_SPACES) and not isinstance(space, spaces.Box)


def _are_rows(actions: object, shape: tuple[int, ...] | None) -> bool:
    return type(actions) is np.ndarray and actions.ndim > 0 and actions.shape[1:] == shape


class NormalizeAndClipActions(ColumnPiece):
    """Writes `actions_for_env`: the actions of the module, within the bounds of the action space.

    `actions` is kept: its log-probability refers to it, and episodes record it. If an earlier piece has written
    `actions_for_env` (noise, for example), that column is normalized or clipped instead.

    Only `Box` leaves are changed, in nested spaces each separately; see `BoxBounds`. The output action space is the input
    action space, as in RLlib: modules draw from distributions without bounds, so a tighter space would be wrong.

    Args:
        normalize_actions: Spread -1 to 1 over the bounds, and clip values beyond. Modules learn more easily if their
            actions are about that size.
        clip_actions: Clip actions to the bounds; only if `normalize_actions` is False. With neither, nothing is written.

    >>> piece = NormalizeAndClipActions(input_action_space=spaces.Box(0.0, 10.0, (1,)))
    >>> batch = {"actions": np.array([[0.5], [-3.0]], np.float32)}
    >>> piece(rl_module=None, batch=batch, episodes=[])["actions_for_env"]
    array([[7.5],
           [0. ]], dtype=float32)
    """

    reads = frozenset({Columns.ACTIONS})
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        normalize_actions: bool = True,
        clip_actions: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        self.normalize_actions = normalize_actions
        self.clip_actions = clip_actions
        self._spaces = ActionSpaces()
        self._bounds = PerSpace(BoxBounds)

    @property
    def writes(self) -> frozenset[str]:
        """`actions_for_env`, if actions are normalized or clipped."""
        return frozenset({Columns.ACTIONS_FOR_ENV} if self.normalize_actions or self.clip_actions else ())

    @property
    def fills(self) -> frozenset[str]:
        """The same column: it is computed from `actions` if no earlier piece has written it."""
        return self.writes

    def compile(self, layout: Layout) -> Step:
        """Return `work`, or a fast path for runners whose actions have no bounds."""
        space = self.input_action_space
        if layout.episodes is LiveAgents and (self.normalize_actions or self.clip_actions):
            return partial(self._work_on_agents, {})
        if layout.episodes is not LiveEpisodes or space is None or not _has_no_bounds(space):
            return self.work
        shape = space.shape

        def work_without_bounds(run: Run) -> None:
            columns = run.batch
            actions = columns.get(Columns.ACTIONS)
            if Columns.ACTIONS_FOR_ENV in columns or type(actions) is not np.ndarray or actions.shape[1:] != shape:
                self.work(run)
            elif self.normalize_actions or self.clip_actions:
                columns[Columns.ACTIONS_FOR_ENV] = actions

        return work_without_bounds

    def _work_on_agents(self, kept: dict[Any, tuple[Any, Any]], run: Run) -> None:
        """Do as `work`; `kept` has the rows of modules whose actions had no bounds last, and the shapes of these actions."""
        owners = {} if run.shared_data is None else run.shared_data.get(ROW_OWNERS, {})
        for outputs in outputs_of_modules(run):
            module_id, columns, _ = outputs
            actions: Any = columns.get(Columns.ACTIONS)
            rows, shape = kept.get(module_id, _UNKNOWN)
            is_same = rows is owners.get(module_id) and type(actions) is np.ndarray
            if is_same and actions.ndim and actions.shape[1:] == shape and Columns.ACTIONS_FOR_ENV not in columns:
                columns[Columns.ACTIONS_FOR_ENV] = actions
            elif self._work_on(outputs, run):
                kept[module_id] = owners.get(module_id), actions.shape[1:]

    def work(self, run: Run) -> None:
        """Add `actions_for_env` for every module."""
        if self.normalize_actions or self.clip_actions:
            for outputs in outputs_of_modules(run):
                self._work_on(outputs, run)

    def _work_on(self, outputs: ModuleOutputs, run: Run) -> bool:
        """Add the column for one module, and return whether it is that of the actions, which have no bounds."""
        column = Columns.ACTIONS_FOR_ENV if Columns.ACTIONS_FOR_ENV in outputs.columns else Columns.ACTIONS
        needed_column(outputs, column, "the module or `GetActions`")
        actions = gathered(outputs, column, run.episodes)
        parts = self._spaces.of(outputs, self.input_action_space, run.shared_data)
        space = parts[0].space if len(parts) == 1 else None
        is_kept = space is not None and _has_no_bounds(space) and _are_rows(actions, space.shape)
        outputs.columns[Columns.ACTIONS_FOR_ENV] = (
            actions if is_kept else change_actions(parts, self._in_bounds, actions)
        )
        return is_kept and column == Columns.ACTIONS and actions is outputs.columns[Columns.ACTIONS]

    def _in_bounds(self, space: Space[Any], actions: np.ndarray, _: Any) -> np.ndarray:
        if not isinstance(space, spaces.Box):
            return actions
        bounds = self._bounds(space)
        return bounds.unsquashed(actions) if self.normalize_actions else bounds.clipped(actions)
