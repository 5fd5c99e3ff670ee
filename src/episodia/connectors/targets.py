"""What a learner aims at: returns, advantages, masks. The maths is in `episodia.returns`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from episodia import returns
from episodia.arguments import checked_number, checked_whole
from episodia.columns import Columns
from episodia.connectors.base import ConnectorV2
from episodia.connectors.batches.batch_columns import (
    Batch,
    add_column,
    change_column,
    missing_column,
    module_batches,
)
from episodia.connectors.batches.collected import as_ragged
from episodia.connectors.batches.served_modules import check_some_known, learns, module_of
from episodia.connectors.finite import check_made
from episodia.connectors.kinds import Kind
from episodia.connectors.observations import check_tracks
from episodia.connectors.values import check_values, values_and_bootstraps
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError, PipelineError


@final
class GeneralAdvantageEstimation(ConnectorV2):
    """Adds advantages (GAE) and value targets, with values that the module computes in one forward pass.

    The value after the last step is that of the episode's last observation (for recurrent modules, in the state that follows
    the last step); an episode that terminated has none.

    A module without `compute_values` is refused. Only in a container of several, those that do not learn may lack it: members
    that are frozen or have no weights, such as rules. They get no advantages, and neither do modules that the container does
    not have, unless it has none of them.

    Place it before `BatchIndividualItems`, while observations are tracks; and `Standardize` after it.
    """

    reads = frozenset({Columns.OBS, Columns.REWARDS, Columns.TERMINATEDS})
    writes = frozenset({Columns.ADVANTAGES, Columns.VALUE_TARGETS})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(
        self,
        *args: Any,
        gamma: float = 0.99,
        lambda_: float = 0.95,
        max_seq_len: int | None = None,
        device: Any = None,
        **kwargs: Any,
    ) -> None:
        """Discount by `gamma` per step, and differences to the values by another `lambda_`.

        Args:
            *args: The spaces.
            gamma: In [0, 1].
            lambda_: In [0, 1].
            max_seq_len: For recurrent modules, as in `AddTimeDimToBatchAndZeroPad`.
            device: Where the module is; on the CPU by default.
            **kwargs: As for all connectors.

        Raises:
            PipelineError: If a number is out of its range.
        """
        super().__init__(*args, **kwargs)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)
        self.lambda_ = checked_number(PipelineError, self.name, "lambda_", lambda_, 0.0, 1.0)
        self.max_seq_len = (
            None if max_seq_len is None else checked_whole(PipelineError, self.name, "max_seq_len", max_seq_len, 1)
        )
        self.device = device

    def check_place(self, pipeline: Any) -> None:
        """Refuse a place where observations have lost the one after the last step."""
        check_tracks(self, pipeline)

    def check_module(self, rl_module: Any) -> None:
        """Refuse a module that computes no values, see `check_values`."""
        check_values(self.name, rl_module)

    def __call__(self, *, rl_module: Any, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        self.check_module(rl_module)
        episodes = EpisodeList.of(episodes)
        check_some_known(rl_module, episodes)
        for module_id, columns, rows in list(module_batches(batch, episodes)):
            module = module_of(rl_module, module_id)
            if not hasattr(module, "compute_values"):
                continue  # it does not learn
            values, bootstraps = values_and_bootstraps(module, columns, rows, self.max_seq_len, self.device)
            rewards = _flat(columns, Columns.REWARDS, rows)
            terminated = ends(_flat(columns, Columns.TERMINATEDS, rows))
            advantages, targets = returns.advantages(
                rewards.values,
                values,
                bootstraps,
                terminated,
                rewards.offsets,
                discount=self.gamma,
                lambda_=self.lambda_,
            )
            sources = {
                Columns.REWARDS: rewards,
                "values": rewards.with_values(values),
                "values after the last step": Ragged(np.where(terminated, 0.0, bootstraps), np.arange(len(rows) + 1)),
            }
            columns[Columns.ADVANTAGES] = _made(self.name, Columns.ADVANTAGES, advantages, sources, rows)
            columns[Columns.VALUE_TARGETS] = _made(self.name, Columns.VALUE_TARGETS, targets, sources, rows)
        return batch


@final
class ComputeReturnsToGo(ConnectorV2):
    """Adds for each step the discounted sum of the rewards from it to the end of the chunk."""

    reads = frozenset({Columns.REWARDS})
    writes = frozenset({Columns.RETURNS_TO_GO})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(self, *args: Any, gamma: float = 0.99, **kwargs: Any) -> None:
        """Discount by `gamma` per step."""
        super().__init__(*args, **kwargs)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            rewards = _flat(columns, Columns.REWARDS, rows)
            sums = returns.returns_to_go(rewards.values, rewards.offsets, self.gamma)
            columns[Columns.RETURNS_TO_GO] = _made(
                self.name, Columns.RETURNS_TO_GO, sums, {Columns.REWARDS: rewards}, rows
            )
        return batch


@final
class NStepReturns(ConnectorV2):
    """Replaces each step by the next `n` together: rewards, next observation, flags, and how much a value after them counts.

    Near the end of a chunk there are fewer than `n` steps left; then it is as many as there are. `discounts` is gamma to the
    power of that number, and 0 where the steps end in a terminal state: `rewards + discounts * V(new_obs)` is the target.
    """

    reads = frozenset({Columns.OBS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})
    writes = frozenset({Columns.REWARDS, Columns.NEXT_OBS, Columns.TERMINATEDS, Columns.TRUNCATEDS, Columns.DISCOUNTS})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(self, *args: Any, n: int, gamma: float = 0.99, **kwargs: Any) -> None:
        """Look `n` steps ahead."""
        super().__init__(*args, **kwargs)
        self.n = checked_whole(PipelineError, self.name, "n", n, 1)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)

    def check_place(self, pipeline: Any) -> None:
        """Refuse a place where observations have lost the one after the last step."""
        check_tracks(self, pipeline)

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            track = track_of(columns, type(self).__name__)
            rewards = _flat(columns, Columns.REWARDS, rows)
            flags = {name: ends(_flat(columns, name, rows)) for name in (Columns.TERMINATEDS, Columns.TRUNCATEDS)}
            found = returns.n_step_returns(
                rewards.values, rewards.offsets, flags[Columns.TERMINATEDS], n=self.n, discount=self.gamma
            )
            columns[Columns.REWARDS] = _made(
                self.name, "n-step returns", found.returns, {Columns.REWARDS: rewards}, rows
            )
            columns[Columns.DISCOUNTS] = rewards.with_values(found.discounts.astype(np.float32))
            columns[Columns.NEXT_OBS] = rewards.with_values(track.take(found.next_rows))
            reaches_end = found.next_rows == np.repeat(track.offsets[1:] - 1, track.lengths)
            for name, flag in flags.items():
                columns[name] = rewards.with_values(reaches_end & np.repeat(flag, track.lengths))
        return batch


@final
class Standardize(ConnectorV2):
    """Gives a column mean 0 and standard deviation 1 over all steps of a module that count for the loss.

    Modules of a container that do not learn, such as rules, need not have the column.
    """

    lookback = 0
    kind = Kind.BATCH_WIDE

    def __init__(self, *args: Any, column: str = Columns.ADVANTAGES, **kwargs: Any) -> None:
        """Standardise `column`."""
        super().__init__(*args, **kwargs)
        self.column = column

    @property
    def reads(self) -> frozenset[str]:
        """The column that is standardised."""
        return frozenset({self.column})

    @property
    def writes(self) -> frozenset[str]:
        """The column that is standardised."""
        return frozenset({self.column})

    def __call__(self, *, batch: Batch, episodes: Any, rl_module: Any = None, **kwargs: Any) -> Batch:
        for module_id, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            if self.column not in columns and not learns(rl_module, module_id):
                continue
            column = _flat(columns, self.column, rows)
            mask = columns.get(Columns.LOSS_MASK)
            counted = None if mask is None else as_ragged(mask, rows).body().values
            standardized = returns.standardized(column.values, counted)
            columns[self.column] = _made(
                self.name, f"standardized {self.column}", standardized, {self.column: column}, rows
            )
        return batch


@final
class AddLossMask(ConnectorV2):
    """Adds a mask of the steps that count for the loss: all of them, until later pieces (padding, burn-in) exclude some."""

    reads = frozenset[str]()
    writes = frozenset({Columns.LOSS_MASK})
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        def all_count(rows: EpisodeList) -> Ragged:
            return rows.flat(Columns.T).map(lambda times: np.ones(len(times), np.bool_))

        add_column(batch, Columns.LOSS_MASK, EpisodeList.of(episodes), all_count)
        return batch


@final
class IgnoreTerminations(ConnectorV2):
    """Treats terminations as truncations: values are bootstrapped after them, as if the episode went on."""

    reads = writes = frozenset({Columns.TERMINATEDS, Columns.TRUNCATEDS})
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        episodes = EpisodeList.of(episodes)
        ended: list[np.ndarray] = []

        def ignore(column: Ragged, _: EpisodeList) -> Ragged:
            ended.append(column.values)
            return column.map(np.zeros_like)

        change_column(batch, Columns.TERMINATEDS, episodes, ignore)
        flags = iter(ended)
        change_column(
            batch, Columns.TRUNCATEDS, episodes, lambda column, _: column.with_values(column.values | next(flags))
        )
        return batch


def ends(flags: Ragged) -> np.ndarray:
    """Return the flag at the last step of each stretch; False for one without steps."""
    at_ends = np.zeros(len(flags), np.bool_)
    has_steps = flags.lengths > 0
    at_ends[has_steps] = flags.values[flags.offsets[1:][has_steps] - 1]
    return at_ends


def track_of(columns: Batch, who: str) -> Ragged:
    """Return the observations with the one after the last step of each episode."""
    column = columns.get(Columns.OBS)
    if not isinstance(column, Ragged) or not column.tail:
        raise BatchError(
            f"found observations without the one after the last step, expected a track: {who} needs it. Place it before "
            "`BatchIndividualItems`, and add observations with `AddObservationsFromEpisodesToBatch`."
        )
    return column


def _made(piece: str, name: str, made: np.ndarray, of: Mapping[str, Ragged], rows: EpisodeList) -> Ragged:
    """Return what was computed from the columns `of`, for the same steps as the first, if it is finite as float32."""
    with np.errstate(over="ignore"):
        as_stored = made.astype(np.float32)
    check_made(piece, name, as_stored, of, rows)
    return next(iter(of.values())).with_values(as_stored)


def _flat(columns: Batch, name: str, rows: EpisodeList) -> Ragged:
    if name not in columns:
        raise missing_column(name, columns)
    return as_ragged(columns[name], rows).body()
