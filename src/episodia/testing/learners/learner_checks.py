"""Laws of learners, and `check_learner`, which checks an algorithm against all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from episodia.checkpoints import load_state, save_state
from episodia.columns import Columns
from episodia.connectors.batches.tracked_batch import TrackedBatch, fingerprint
from episodia.episodes import MultiAgentEpisode
from episodia.errors import NonFiniteError
from episodia.learners import AlgorithmConfig
from episodia.learners.losses.loss import LossInputs
from episodia.learners.minibatches import taken
from episodia.testing.comparing import assert_same_episode, assert_same_multi_agent_episode
from episodia.testing.law_checking import CheckResult, Family, Law, NotApplicableError, described, results_in, shorter
from episodia.testing.learners.learner_subject import (
    LearnerSubject,
    changed_weights,
    compare_gradients,
    compare_weights,
    in_first_part,
    needs,
    numbers_in,
    rows_of,
    weights_of,
)
from episodia.testing.modules.module_memory import global_seed
from episodia.testing.pickled_copies import pickled_copy, require_importable
from episodia.trees import map_batch
from episodia.types import ModuleBatch

# Inputs of the module are not changed, because they also affect other steps.
_SHOWN = frozenset({Columns.OBS, Columns.STATE_IN, Columns.SEQ_LENS, Columns.LOSS_MASK, Columns.ACTIONS})


def it_runs(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """`update` takes episodes and returns metrics by module."""
    metrics = subject.learner().update(episodes)
    if not isinstance(metrics, dict) or not all(isinstance(found, dict) for found in metrics.values()):
        raise AssertionError(f"it runs: found {metrics!r} from `update`, expected a dict of metrics for each module.")


def callers_data_stay_as_they_are(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """An update changes neither episodes nor batches, which other code and later epochs use."""
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


def _prints(batch: ModuleBatch) -> dict[str, Any]:
    return {
        f"{module_id}.{name}": fingerprint(column)
        for module_id, columns in batch.items()
        for name, column in columns.items()
    }


# --- Averages ---------------------------------------------------------------------------------------------------------


def parts_average_to_the_whole(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Gradients of parts of a batch, averaged by their numbers of steps, equal those of the whole batch."""
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
    """Rows that `loss_mask` excludes, padding included, do not affect gradients."""
    learner, batch = _batch_of(subject, episodes)
    masked = {module_id: _masked(columns) for module_id, columns in batch.items()}
    if not any(numbers_in(columns, without=_SHOWN) for columns in masked.values()):
        raise NotApplicableError("its batches have no numbers beside observations and actions")
    disturbed = {module_id: _disturbed(columns) for module_id, columns in masked.items()}
    expected, found = learner.compute_gradients(masked), learner.compute_gradients(disturbed)
    compare_gradients("masked steps do not count", expected, found, "other numbers in masked steps")


def _masked(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with a mask that also excludes every second row."""
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
    """The gradients of one module do not depend on the data of other modules."""
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


def _batch_of(subject: LearnerSubject, episodes: Sequence[Any]) -> tuple[Any, ModuleBatch]:
    learner = subject.learner()
    needs(learner, "batch_of", "compute_gradients", "num_steps_of")
    counts = learner.num_steps_of(batch := learner.batch_of(episodes))
    return learner, {module_id: columns for module_id, columns in batch.items() if counts.get(module_id)}


def _some_rows(batch: ModuleBatch, rows: Callable[[dict[str, Any]], np.ndarray]) -> ModuleBatch:
    return {module_id: taken(columns, rows(columns)) for module_id, columns in batch.items()}


# --- Non-finite values ----------------------------------------------------------------------------------------------


def non_finite_values_never_reach_the_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """After an update with NaN in rewards and targets, all weights are finite: the update is skipped, or raises."""
    law = "non-finite values never reach the weights"
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
    # An error is as good as a skipped update.
    with suppress(NonFiniteError):
        learner.update_batch(poisoned)
    broken = [name for name, value in weights_of(learner).items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise AssertionError(f"{law}: found NaN in {broken[:3]}, expected finite weights.")


def metrics_are_finite_numbers(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """All metrics of an update are plain finite numbers."""
    metrics = subject.learner().update(episodes, num_epochs=2)
    for module_id, named in metrics.items():
        for name, value in named.items():
            if not isinstance(value, (int, float)) or not np.isfinite(value):
                raise AssertionError(
                    f"metrics are finite numbers: found {value!r} as {name!r} of {module_id!r}, expected a finite number."
                )


def coefficients_are_those_declared(subject: LearnerSubject, episodes: Sequence[Any]) -> list[str]:
    """The loss reads only coefficients that `coefficients()` returns."""
    if subject.config is None:
        raise NotApplicableError("it is not made of an algorithm's config")
    learner, batch = _batch_of(subject, episodes)
    declared = dict.fromkeys(subject.config.coefficients(), 0.5)
    read: set[str] = set()
    for module_id, columns in batch.items():
        tracked = TrackedBatch(dict(declared))
        copied = map_batch(lambda leaf: leaf, columns)
        targets = learner.target_networks[module_id]
        due = frozenset(optimizer.loss for optimizer in subject.config.optimizers)
        subject.config.loss(LossInputs(learner.modules[module_id], copied, tracked, targets, due))
        if tracked.missed:
            raise AssertionError(
                f"coefficients are those declared: found that the loss asks for {sorted(tracked.missed)}, expected some of "
                f"{sorted(declared)}. Return them from `coefficients()`."
            )
        read |= tracked.read
    unread = sorted(declared.keys() - read)
    return [f"`coefficients()` has {unread}, which the loss does not ask for"] if unread else []


def learning_changes_the_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> list[str]:
    """An update changes the weights of modules that learn; weights that stay are a remark."""
    learner = subject.learner()
    before = weights_of(learner)
    learner.update(episodes)
    changed = changed_weights(before, weights_of(learner))
    if not changed:
        raise AssertionError("learning changes the weights: found that all weights stayed the same, expected changes.")
    stayed = sorted(before.keys() - set(changed))
    return [f"{stayed} stayed as they were"] if stayed else []


# With several gradient steps, random numbers and the order of minibatches matter.
_EPOCHS = {"num_epochs": 2, "minibatch_size": 4}


def frozen_weights_stay(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """An update does not change frozen weights (`requires_grad_(False)`); other weights still learn."""
    frozen: list[str] = []

    def freeze(modules: Any) -> None:
        for module_id, module in _named_modules(modules):
            for name, weight in list(module.named_parameters())[::2]:
                weight.requires_grad_(False)
                frozen.append(f"{module_id}.{name}")

    learner = subject.learner(prepare=freeze)
    before = weights_of(learner)
    learner.update(episodes, **_EPOCHS)
    changed = changed_weights(before, weights_of(learner))
    wrong = sorted(set(frozen) & set(changed))
    if wrong:
        raise AssertionError(f"frozen weights stay: found {wrong} changed, expected them to stay the same.")
    if not changed:
        raise AssertionError(
            "frozen weights stay: found that the others did not change either, expected them to learn."
        )


def _named_modules(modules: Any) -> Iterator[tuple[str, nn.Module]]:
    named = modules.items() if isinstance(modules, Mapping) else [("default_policy", modules)]
    return ((module_id, module) for module_id, module in named if isinstance(module, nn.Module))


def same_seed_gives_same_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Learners with the same weights and seed learn the same weights; they draw from no other generator."""
    found = []
    for elsewhere in (1, 2):
        learner = subject.learner()
        with global_seed(elsewhere):
            learner.update(episodes, **_EPOCHS)
        found.append(weights_of(learner))
    compare_weights("same seed gives same weights", found[0], found[1], "other global seeds")


def restored_learners_go_on_alike(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """A learner with the state of another, saved and loaded, makes the same update as that one."""
    original, twin = subject.learner(), subject.learner(weights=5, seed=5)
    needs(original, "get_state", "set_state")
    original.update(episodes, **_EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        save_state(Path(folder) / "state", original.get_state())
        twin.set_state(load_state(Path(folder) / "state"))
    law = "restored learners go on alike"
    compare_weights(law, weights_of(original), weights_of(twin), "after `set_state`")
    for learner in (original, twin):
        with global_seed(0):
            learner.update(episodes, **_EPOCHS)
    compare_weights(law, weights_of(original), weights_of(twin), "one update later")


def it_pickles(subject: LearnerSubject, _: Sequence[Any]) -> None:
    """The config of an algorithm equals its pickled copy."""
    if subject.config is None:
        raise NotApplicableError("it is not made of an algorithm's config")
    require_importable(type(subject.config))
    twin = pickled_copy(subject.config, "it pickles")
    if twin != subject.config:
        raise AssertionError(f"it pickles: found {twin!r}, expected {subject.config!r}.")


# --- Little to learn from ---------------------------------------------------------------------------------------------


def it_learns_from_single_steps(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """An episode of one step is enough for an update, and weights stay finite."""
    for episode in episodes:
        if len(episode):
            learner = subject.learner()
            learner.update([_ended(episode[:1])])
            broken = [name for name, value in weights_of(learner).items() if not bool(torch.isfinite(value).all())]
            if broken:
                raise AssertionError(
                    f"it learns from single steps: found NaN in {broken[:3]}, expected finite weights."
                )


def _ended(episode: Any) -> Any:
    """Return `episode` as a truncated one; algorithms without bootstrapping reject chunks that go on."""
    singles = episode.agent_episodes.values() if isinstance(episode, MultiAgentEpisode) else [episode]
    for single in singles:
        single.is_truncated = single.is_truncated or not single.is_terminated
    return episode


def nothing_comes_of_nothing(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """An update without episodes, or without steps, runs and does not change weights."""
    for given, where in (([], "no episodes"), ([episode[:0] for episode in episodes], "episodes without steps")):
        learner = subject.learner()
        before = weights_of(learner)
        learner.update(given)
        compare_weights("nothing comes of nothing", before, weights_of(learner), where)


#: The laws of learning, in the order of the checks.
LEARNER_LAWS: tuple[Law, ...] = (
    it_runs,
    callers_data_stay_as_they_are,
    learning_changes_the_weights,
    frozen_weights_stay,
    metrics_are_finite_numbers,
    it_learns_from_single_steps,
    nothing_comes_of_nothing,
    non_finite_values_never_reach_the_weights,
    parts_average_to_the_whole,
    order_of_steps_does_not_matter,
    masked_steps_do_not_count,
    modules_learn_apart,
    same_seed_gives_same_weights,
    restored_learners_go_on_alike,
    it_pickles,
    coefficients_are_those_declared,
)

LEARNERS = Family(
    laws=LEARNER_LAWS,
    inputs=lambda subject: subject.fresh_episodes(),
    smaller=shorter,
    described=described,
    without_inputs=(it_pickles, coefficients_are_those_declared),
)


def check_learner(config: AlgorithmConfig, **options: Any) -> list[CheckResult]:
    """Check an algorithm and its loss against all laws of learning, and return the results.

    Args:
        config: The algorithm.
        **options: Those of `LearnerSubject.of`: `modules`, `episodes`, `make` for a learner of another kind, `label`, and
            `expected_failures`.

    Raises:
        AssertionError: If laws are broken; it names each law and the difference, on the smallest episodes that show it.

    >>> from episodia.learners import A2CConfig
    >>> print(check_learner(A2CConfig())[8])
    passed   parts_average_to_the_whole
    """
    return results_in(LEARNERS, LearnerSubject.of(config, **options))
