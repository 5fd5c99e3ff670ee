"""Base class of pieces that change actions to explore: schedule, changed column, counted steps and state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from episodia.arguments import checked_number, checked_seed
from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import (
    ModuleOutputs,
    check_arrays,
    needed_column,
    outputs_of_modules,
    place_of,
)
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.spaces.action_spaces import ActionSpaces, PerSpace, RowsOfSpace
from episodia.errors import BatchError, ConnectorStateError, PipelineError
from episodia.modules.random_actions import Range, checked_range, range_of
from episodia.schedules import Schedule
from episodia.trees import leaves
from episodia.types import Item


class Exploration(ColumnPiece, ABC):
    """Changes actions at random while exploring, by an amount that a schedule sets.

    **Changed column.** With `action_logp` in the batch, `actions` is kept, because the log-probability refers to it; the
    changed action goes to `actions_for_env`, which the environment gets. Without `action_logp` (Q-learning, deterministic
    policies) the changed action goes to `actions`: off-policy learning needs the action that was taken, and nothing refers to
    the original one.

    **Place.** Before `NormalizeAndClipActions`. There, real-valued actions lie between -1 and 1 (`real_range`) wherever the
    space has two finite bounds; pass None if they are in the units of the environment. Results are clipped to that range.

    **Counted steps.** The schedule gets the number of rows (steps of agents) that the piece has processed; calls
    that do not explore are not counted. Merging the states of parallel pieces adds up their steps.

    Args:
        input_observation_space: See `ConnectorV2`.
        input_action_space: See `ConnectorV2`.
        schedule: How much to explore.
        real_range: See above.
        seed: For the piece's random generator.
        **kwargs: See `ConnectorV2`.
    """

    reads = frozenset({Columns.ACTIONS})
    writes = frozenset({Columns.ACTIONS, Columns.ACTIONS_FOR_ENV})
    fills = frozenset({Columns.ACTIONS_FOR_ENV})
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = True

    def __init__(
        self,
        input_observation_space: Space[Any] | None,
        input_action_space: Space[Any] | None,
        *,
        schedule: Schedule,
        real_range: Range | None,
        seed: int | None,
        name: str | None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        self.schedule = schedule
        self.real_range = checked_range(PipelineError, self.name, real_range)
        self.seed = checked_seed(PipelineError, self.name, seed)
        self._spaces = ActionSpaces()
        self._ranges = PerSpace(self._range_of)
        self._rng = np.random.default_rng(seed)
        # Steps of all parallel pieces at the last merge, and the piece's own steps since then.
        self._merged_steps = 0
        self._own_steps = 0
        self._fixed: float | None = None

    @property
    def steps(self) -> int:
        """The number of rows processed so far, by this piece and the pieces that it was merged with."""
        return self._merged_steps + self._own_steps

    @property
    def amount(self) -> float:
        """The current amount of exploration: the value of the schedule, or the value that `fixed_at` has set."""
        return self.schedule.at(self.steps) if self._fixed is None else self._fixed

    @contextmanager
    def fixed_at(self, amount: float) -> Iterator[None]:
        """Explore by `amount` inside of the `with` block, whatever the schedule says; steps are counted as always.

        Raises:
            PipelineError: If `amount` is not a number of at least 0.
        """
        checked = checked_number(PipelineError, self.name, "amount", amount, 0.0)
        before, self._fixed = self._fixed, checked
        try:
            yield
        finally:
            self._fixed = before

    def continue_at(self, steps: int) -> None:
        """Let the schedule go on at a number of steps: those of a training, which also takes steps without this piece."""
        self._merged_steps, self._own_steps = steps, 0

    def work(self, run: Run) -> None:
        """Change the actions of all modules; if one fails, change nothing."""
        if not run.explore:
            return
        amount, rows = self.amount, 0
        changed = []
        for outputs in outputs_of_modules(run):
            source, target = _columns(outputs)
            actions = needed_column(outputs, source, "the module or `GetActions`")
            check_arrays(outputs, source, actions)
            parts = self._spaces.of(outputs, self.input_action_space, run.shared_data)
            masks = self._masks(outputs, run.episodes, run.shared_data)
            changed.append((outputs.columns, target, self._explored(parts, actions, masks, amount)))
            rows += len(next(leaves(actions))[1])
        for columns, target, actions in changed:
            columns[target] = actions
        self._own_steps += rows

    # A method, because a lambda cannot be pickled.
    def _range_of(self, box: Box) -> tuple[np.ndarray, np.ndarray]:
        return range_of(box, self.real_range)

    @abstractmethod
    def _explored(self, parts: list[RowsOfSpace], actions: Item, masks: Any, amount: float) -> Any:
        """Return changed actions; `actions` itself is not modified."""

    def _masks(self, outputs: ModuleOutputs, episodes: Sequence[Any], shared_data: dict[Any, Any] | None) -> Any:
        """Return action masks if the piece uses them."""
        return None

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the steps so far and the state of the random generator."""
        return {
            "merged_steps": self._merged_steps,
            "own_steps": self._own_steps,
            "generator": dict(self._rng.bit_generator.state),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue exploring from `state`. An empty state changes nothing.

        A state without a generator, as `merge_states` returns it, sets the steps alone.

        Raises:
            ConnectorStateError: If the state does not belong to such a piece.
        """
        if not state:
            return
        try:
            merged, own = int(state["merged_steps"]), int(state["own_steps"])
            rng = np.random.default_rng(0)
            rng.bit_generator.state = state.get("generator", self._rng.bit_generator.state)
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectorStateError(
                f"piece {self.name!r}: found a state with {list(state)} that does not fit ({error!r}), expected "
                "`merged_steps`, `own_steps` and `generator`, as `get_state` returns them. Load a state of the same piece."
            ) from error
        self._merged_steps, self._own_steps, self._rng = merged, own, rng

    def reset_state(self) -> None:
        """Begin again with the seed, at step 0."""
        self._merged_steps = self._own_steps = 0
        self._rng = np.random.default_rng(self.seed)

    def merge_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a state with the steps of all pieces together.

        Steps that were merged before are common to all pieces and count once. The state has no generator: parallel pieces must
        not draw the same numbers, so each piece keeps its own generator.
        """
        if not states:
            return {}
        merged = max(state["merged_steps"] for state in states) + sum(state["own_steps"] for state in states)
        return {"merged_steps": merged, "own_steps": 0}


def _columns(outputs: ModuleOutputs) -> tuple[str, str]:
    """Return the name of the column that is read, and of the column that gets the result."""
    is_for_env = Columns.ACTIONS_FOR_ENV in outputs.columns
    if Columns.ACTION_LOGP in outputs.columns:
        return Columns.ACTIONS_FOR_ENV if is_for_env else Columns.ACTIONS, Columns.ACTIONS_FOR_ENV
    if is_for_env:
        raise BatchError(
            f"{place_of(outputs, Columns.ACTIONS_FOR_ENV)}: found actions for the environment already, and no "
            f"{Columns.ACTION_LOGP!r}; expected neither, as {Columns.ACTIONS!r} has to be the action that is taken. Place this "
            "piece before `NormalizeAndClipActions`."
        )
    return Columns.ACTIONS, Columns.ACTIONS
