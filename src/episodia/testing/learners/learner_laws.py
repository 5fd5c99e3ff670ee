"""Laws about gradients: a loss is an average over the steps that count, and over nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from episodia.columns import Columns
from episodia.connectors.batches.fingerprints import fingerprint
from episodia.connectors.batches.tracked_batch import TrackedBatch
from episodia.episodes import MultiAgentEpisode
from episodia.errors import NonFiniteError
from episodia.learners.minibatches import taken
from episodia.testing.episodes.episode_comparing import assert_same_episode
from episodia.testing.episodes.multi_agent_comparing import assert_same_multi_agent_episode
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.testing.learners.learner_subject import (
    LearnerSubject,
    changed_weights,
    compare_gradients,
    in_first_part,
    needs,
    numbers_in,
    rows_of,
    weights_of,
)
from episodia.trees import map_batch

Batch = dict[str, dict[str, Any]]

# What a module is shown may not be played with: it also decides what comes later.
_SHOWN = frozenset({Columns.OBS, Columns.STATE_IN, Columns.SEQ_LENS, Columns.LOSS_MASK, Columns.ACTIONS})


def it_runs(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """`update` takes episodes and returns metrics by module."""
    metrics = subject.learner().update(episodes)
    if not isinstance(metrics, dict) or not all(isinstance(found, dict) for found in metrics.values()):
        raise AssertionError(f"it runs: found {metrics!r} from `update`, expected a dict of metrics for each module.")


def callers_data_stay_as_they_are(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Neither episodes nor batches are changed by an update: others, and later epochs, use them, too."""
    law, learner = "callers data stay as they are", subject.learner()
    given = [type(episode).from_state(episode.get_state()) for episode in episodes]
    before = [type(episode).from_state(episode.get_state()) for episode in episodes]
    learner.update(given, num_epochs=2)
    for wanted, got in zip(before, given, strict=True):
        compare = assert_same_multi_agent_episode if isinstance(got, MultiAgentEpisode) else assert_same_episode
        try:
            compare(got, wanted, ignore=["times"])
        except AssertionError as error:
            raise AssertionError(f"{law}, episode {got.id_!r}: {error}") from error
    if not hasattr(learner, "update_batch"):
        return
    batch = learner.batch_of(episodes)
    prints = _prints(batch)
    learner.update_batch(batch, num_epochs=2)
    changed = sorted(name for name, found in _prints(batch).items() if found != prints.get(name))
    if changed or prints.keys() != _prints(batch).keys():
        raise AssertionError(f"{law}: found the columns {changed} of the batch changed, expected none. Work on copies.")


def _prints(batch: Batch) -> dict[str, Any]:
    return {
        f"{module_id}.{name}": fingerprint(column)
        for module_id, columns in batch.items()
        for name, column in columns.items()
    }


# --- Averages ---------------------------------------------------------------------------------------------------------


def parts_average_to_the_whole(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Gradients of parts of a batch, averaged by their numbers of steps, are those of the whole batch."""
    learner, batch = _batch_of(subject, episodes)
    whole = learner.compute_gradients(batch)
    parts = [_some_rows(batch, partial(_rows, first=first)) for first in (True, False)]
    parts = [{module_id: columns for module_id, columns in part.items() if rows_of(columns)} for part in parts]
    totals: dict[str, Tensor] = {}
    counts = learner.num_steps_of(batch)
    for part in parts:
        shares = {module_id: count / counts[module_id] for module_id, count in learner.num_steps_of(part).items()}
        for module_id, columns in part.items():
            found = learner.compute_gradients({module_id: columns}) if shares.get(module_id) else {}
            for name, gradient in found.items():
                totals[name] = totals.get(name, 0.0) + shares[module_id] * gradient
    where = "averaged by numbers of steps; is the loss a mean over steps, and not a sum?"
    compare_gradients("parts average to the whole", whole, totals, where)


def _rows(columns: dict[str, Any], first: bool) -> np.ndarray:
    chosen = in_first_part(rows_of(columns))
    return np.flatnonzero(chosen if first else ~chosen)


def order_of_steps_does_not_matter(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """The same rows in another order have the same gradients."""
    learner, batch = _batch_of(subject, episodes)
    turned = _some_rows(batch, lambda columns: np.arange(rows_of(columns))[::-1].copy())
    expected, found = learner.compute_gradients(batch), learner.compute_gradients(turned)
    compare_gradients("order of steps does not matter", expected, found, "the other way round")


def masked_steps_do_not_count(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """What stands in rows that `loss_mask` excludes, padding among them, has no influence on gradients."""
    learner, batch = _batch_of(subject, episodes)
    masked = {module_id: _masked(columns) for module_id, columns in batch.items()}
    if not any(numbers_in(columns, without=_SHOWN) for columns in masked.values()):
        raise NotApplicableError("its batches have no numbers beside observations and actions")
    disturbed = {module_id: _disturbed(columns) for module_id, columns in masked.items()}
    expected, found = learner.compute_gradients(masked), learner.compute_gradients(disturbed)
    compare_gradients("masked steps do not count", expected, found, "other numbers in masked steps")


def _masked(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with a mask that excludes every second row, beside what was excluded before."""
    rows = rows_of(columns)
    counted = torch.arange(rows) % 2 == 0
    old = columns.get(Columns.LOSS_MASK)
    if old is None:
        return {**columns, Columns.LOSS_MASK: counted}
    return {**columns, Columns.LOSS_MASK: old & counted.reshape(rows, *[1] * (old.dim() - 1))}


def _disturbed(columns: dict[str, Any]) -> dict[str, Any]:
    mask = columns[Columns.LOSS_MASK]
    changed = {}
    for name, column in numbers_in(columns, without=_SHOWN).items():
        if column.shape[: mask.dim()] == mask.shape:
            wide = mask.reshape(*mask.shape, *[1] * (column.dim() - mask.dim()))
            changed[name] = torch.where(wide, column, 7.0 - 5.0 * column)
    return {**columns, **changed}


def modules_learn_apart(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """The gradients of one module do not depend on what others have in the batch."""
    learner, batch = _batch_of(subject, episodes)
    if len(batch) < 2:
        raise NotApplicableError("it has one module only")
    together = learner.compute_gradients(batch)
    alone: dict[str, Tensor] = {}
    for module_id, columns in batch.items():
        found = learner.compute_gradients({module_id: columns})
        if alone.keys() & found.keys():
            raise NotApplicableError("its modules share weights")
        alone |= found
    compare_gradients("modules learn apart", alone, together, "all modules together")


def _batch_of(subject: LearnerSubject, episodes: Sequence[Any]) -> tuple[Any, Batch]:
    learner = subject.learner()
    needs(learner, "batch_of", "compute_gradients", "num_steps_of")
    counts = learner.num_steps_of(batch := learner.batch_of(episodes))
    return learner, {module_id: columns for module_id, columns in batch.items() if counts.get(module_id)}


def _some_rows(batch: Batch, rows: Callable[[dict[str, Any]], np.ndarray]) -> Batch:
    return {module_id: taken(columns, rows(columns)) for module_id, columns in batch.items()}


# --- Numbers that are none --------------------------------------------------------------------------------------------


def numbers_that_are_none_do_not_reach_the_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """After an update with NaN among rewards and targets, all weights are finite: the update is skipped, or refused."""
    law = "numbers that are none do not reach the weights"
    learner, batch = _batch_of(subject, episodes)
    needs(learner, "update_batch")
    poisoned = {
        module_id: {
            **columns,
            **{
                name: torch.full_like(column, torch.nan) for name, column in numbers_in(columns, without=_SHOWN).items()
            },
        }
        for module_id, columns in batch.items()
    }
    # To refuse it is as good as to skip it.
    with suppress(NonFiniteError):
        learner.update_batch(poisoned)
    broken = [name for name, value in weights_of(learner).items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise AssertionError(f"{law}: found NaN in {broken[:3]}, expected finite weights.")


def metrics_are_finite_numbers(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """All metrics of an update are plain numbers, and none of them is NaN or infinite."""
    metrics = subject.learner().update(episodes, num_epochs=2)
    for module_id, named in metrics.items():
        for name, value in named.items():
            if not isinstance(value, (int, float)) or not np.isfinite(value):
                raise AssertionError(
                    f"metrics are finite numbers: found {value!r} as {name!r} of {module_id!r}, expected a finite number."
                )


def coefficients_are_those_declared(subject: LearnerSubject, episodes: Sequence[Any]) -> list[str]:
    """The loss asks for no coefficients but those that `coefficients()` returns."""
    if subject.config is None:
        raise NotApplicableError("it is not made of an algorithm's config")
    learner, batch = _batch_of(subject, episodes)
    declared = dict.fromkeys(subject.config.coefficients(), 0.5)
    read: set[str] = set()
    for module_id, columns in batch.items():
        tracked = TrackedBatch(dict(declared))
        subject.config.loss(learner.modules[module_id], map_batch(lambda leaf: leaf, columns), tracked)
        if tracked.missed:
            raise AssertionError(
                f"coefficients are those declared: found that the loss asks for {sorted(tracked.missed)}, expected some of "
                f"{sorted(declared)}. Return them from `coefficients()`."
            )
        read |= tracked.read
    unread = sorted(declared.keys() - read)
    return [f"`coefficients()` has {unread}, which the loss does not ask for"] if unread else []


def learning_changes_the_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> list[str]:
    """After an update, the modules that have learned have other weights; those that stayed are a remark."""
    learner = subject.learner()
    before = weights_of(learner)
    learner.update(episodes)
    changed = changed_weights(before, weights_of(learner))
    if not changed:
        raise AssertionError("learning changes the weights: found all of them as they were, expected others.")
    stayed = sorted(before.keys() - set(changed))
    return [f"{stayed} stayed as they were"] if stayed else []
