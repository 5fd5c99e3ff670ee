"""Hindsight: goals that were reached later take the place of goals that were set (hindsight experience replay)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias, final

import numpy as np
from gymnasium import Space

from episodia.arguments import checked_choice, checked_number, checked_seed
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, mapped_rows
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import as_track, check_tracks
from episodia.connectors.learner.value_estimates import flat_column
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList
from episodia.episodes.lists.ragged import counted
from episodia.errors import BatchError, ConnectorStateError, PipelineError
from episodia.trees import describe
from episodia.types import Item

Rewards: TypeAlias = Callable[[Any, Any, dict[str, Any]], Any]

_ACHIEVED, _DESIRED = "achieved_goal", "desired_goal"

# Arrays without axes, which NumPy combines with others faster than numbers.
_ZERO, _ONE = np.array(0), np.array(1)


@final
class HindsightGoals(ColumnPiece):
    """Gives a share of the stretches in a batch a goal that was achieved in the same episode, and rewards for this goal.

    Observations are dicts with `achieved_goal` and `desired_goal`, as in goal environments. In a sample from a replay buffer,
    goals are looked up in all that the buffer has of the episode, beyond the sampled steps; in other lists, in the episode
    itself. All steps of a stretch get the same goal. Episodes and flags stay unchanged.

    Place it behind the pieces that add observations and rewards, and before `NStepReturns`: `defaults.learner(targets=[...])`.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of actions, which stays.
        compute_reward: The method of the environment: `compute_reward(achieved_goals, desired_goals, info)` for arrays
            `[N, ...]`, where `achieved_goals` are those after each step; `info` is an empty dict.
        strategy: The goals to choose from: `"future"`, one that is achieved after the first step of the stretch or later;
            `"final"`, the last one of the episode; `"episode"`, any of the episode.
        ratio: The share of the stretches that get another goal.
        seed: The seed of the choices.
        name: The name of the piece.

    Raises:
        PipelineError: If an argument is wrong.
    """

    reads = writes = frozenset({Columns.OBS, Columns.REWARDS})
    lookback = 0
    kind = Kind.BATCH_WIDE
    is_stateful = True

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        compute_reward: Rewards,
        strategy: Literal["future", "final", "episode"] = "future",
        ratio: float = 0.8,
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        given: object = compute_reward
        if not callable(given):
            raise PipelineError(
                f"{self.name}: found `compute_reward={describe(compute_reward)}`, expected a function. Pass the method of the "
                "environment: `env.unwrapped.compute_reward`."
            )
        self.compute_reward = compute_reward
        self.strategy = checked_choice(PipelineError, self.name, "strategy", strategy, ("future", "final", "episode"))
        self.ratio = checked_number(PipelineError, self.name, "ratio", ratio, 0.0, 1.0)
        self.seed = checked_seed(PipelineError, self.name, seed)
        self._rng = np.random.default_rng(self.seed)

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Reject a place where the observation after the last step is no longer in the batch."""
        check_tracks(self, pipeline)

    def work(self, run: Run) -> None:
        """Replace goals and rewards in the columns of every module."""
        for _, columns, rows in mapped_rows(run):
            if len(rows):
                self._relabel(columns, rows)

    def _relabel(self, columns: Batch, rows: EpisodeList) -> None:
        track = as_track(columns.get(Columns.OBS), type(self).__name__)
        rewards = flat_column(columns, Columns.REWARDS, rows)
        _check(track.values, columns)
        lengths = track.lengths
        is_new = (self._rng.random(len(rows)) < self.ratio) & (lengths > _ZERO)
        goals, chosen = self._goals(rows), np.flatnonzero(is_new)
        achieved = track.values[_ACHIEVED].take(track.rows_of(chosen, skip=1, add=1), 0)
        wanted = goals.take(chosen.repeat(lengths.take(chosen)), 0)
        found = np.asarray(self.compute_reward(achieved, wanted, {}))
        if found.shape != (len(achieved),):
            raise BatchError(
                f"{self.name}: found rewards of the shape {list(found.shape)} from `compute_reward`, expected one for each of "
                f"{len(achieved)} steps. Let it compute on arrays of goals."
            )
        made = np.array(rewards.values)
        made[rewards.rows_of(chosen)] = found
        desired = _replaced(track.values[_DESIRED], goals, is_new, lengths + _ONE)
        columns[Columns.OBS] = track.with_values({**track.values, _DESIRED: desired})
        columns[Columns.REWARDS] = rewards.with_values(made)

    def _goals(self, rows: EpisodeList) -> np.ndarray:
        """Return for each stretch its new goal."""
        goals: np.ndarray = rows.items_at(Columns.OBS, self._times, key=_ACHIEVED)
        return goals

    def _times(self, started: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return for each stretch the time step at which its new goal is achieved: int64 [B]."""
        if self.strategy == "final":
            return last
        begins = np.minimum(started + _ONE, last) if self.strategy == "future" else first
        # Faster than `integers` with a range for each of them.
        times: np.ndarray = begins + (self._rng.random(len(last)) * (last + _ONE - begins)).astype(np.int64)
        return times

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the state of the random generator."""
        return {"generator": dict(self._rng.bit_generator.state)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`; an empty state changes nothing.

        Raises:
            ConnectorStateError: If the state does not belong to such a piece.
        """
        if not state:
            return
        try:
            rng = np.random.default_rng(0)
            rng.bit_generator.state = state["generator"]
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectorStateError(
                f"piece {self.name!r}: found a state with {list(state)} that does not fit ({error!r}), expected `generator`. "
                "Load a state of the same piece."
            ) from error
        self._rng = rng

    def reset_state(self) -> None:
        """Begin again with the seed."""
        self._rng = np.random.default_rng(self.seed)


def _replaced(items: np.ndarray, goals: np.ndarray, is_new: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the `items` of stretches, `counts` of each, with the goal of each stretch in place of those that are new."""
    # Taking rows is faster than writing some of them.
    both = np.concatenate([items, goals], dtype=items.dtype, casting="unsafe")
    of_goals = (np.arange(len(items), len(both)) * is_new).repeat(counts)
    places: np.ndarray = np.maximum(of_goals, counted(len(items)))
    return both.take(places, 0)


def _check(observations: Item, columns: Batch) -> None:
    """Reject observations without goals, and steps that stand for several.

    Raises:
        BatchError: If there are such.
    """
    if not isinstance(observations, dict) or not {_ACHIEVED, _DESIRED} <= observations.keys():
        raise BatchError(
            f"found the observations {describe(observations)}, expected dicts with {_ACHIEVED!r} and {_DESIRED!r}. Use the "
            "piece with goal environments only."
        )
    if Columns.DISCOUNTS in columns:
        raise BatchError(
            "found the column 'discounts': steps that stand for several, whose rewards cannot be computed again. Draw "
            "`Sequences(n)`, and place `NStepReturns` behind this piece."
        )
