"""Laws about what a module puts out, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from episodia.columns import COLUMN_NAMES, Columns
from episodia.connectors import GetActions
from episodia.connectors.batches.tracked_batch import TrackedBatch, fingerprint
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import SingleAgentEpisode
from episodia.modules import ActorCritic, Module
from episodia.modules.protocol import has_values
from episodia.stacking import unstack
from episodia.testing.comparing import compare_batches
from episodia.testing.connectors.connector_running import joined_rows
from episodia.testing.law_checking import NotApplicableError
from episodia.testing.modules.module_subject import (
    ACTING,
    LAST_BITS,
    LEARNING,
    PASSES,
    ModuleSubject,
    Rows,
    as_arrays,
    batch_for,
    needs_to_be_repeatable,
    outputs_of,
    own_copy,
    rows_in,
    some_rows,
    without_padding,
)
from episodia.trees import describe, leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]

_METHODS = (*PASSES, "get_initial_state", "is_stateful")
_DISTRIBUTIONS = {
    "forward_inference": "get_inference_action_dist_cls",
    "forward_exploration": "get_exploration_action_dist_cls",
    "forward_train": "get_train_action_dist_cls",
}


def it_runs(subject: ModuleSubject, episodes: Episodes) -> None:
    """It has what a `Module` has; while acting it puts out actions, or what makes their distribution."""
    module = subject.make()
    if not isinstance(module, Module):
        missing = [name for name in ("observation_space", "action_space", *_METHODS) if not hasattr(module, name)]
        raise AssertionError(f"it runs: found no {missing}, expected what `episodia.modules.Module` lists.")
    for which in PASSES:
        outputs = _first_outputs(subject, which, batch_for(subject, which, episodes))
        if which in ACTING and not {Columns.ACTIONS, Columns.ACTION_DIST_INPUTS} & outputs.keys():
            raise AssertionError(
                f"it runs: `{which}` puts out {sorted(outputs)}, expected `actions` or `action_dist_inputs` among them."
            )
        asks = Columns.ACTION_DIST_INPUTS in outputs and Columns.ACTIONS not in outputs
        if asks and not hasattr(module, _DISTRIBUTIONS[which]):
            raise AssertionError(
                f"it runs: `{which}` puts out `action_dist_inputs`, expected a method `{_DISTRIBUTIONS[which]}` that says of "
                "what distribution, such as `episodia.modules.dist_for(action_space)`."
            )


def _first_outputs(subject: ModuleSubject, which: str, batch: Rows) -> Rows:
    tracked = TrackedBatch(batch)
    try:
        with torch.no_grad():
            made = getattr(subject.make(), which)(tracked)
    except Exception as error:
        absent = sorted(map(str, tracked.missed - batch.keys() - COLUMN_NAMES))
        hint = f" It asked for {absent}: declare a view of that name in `views`." if absent else ""
        raise AssertionError(
            f"it runs: `{which}` raised {type(error).__name__}: {error}\nThe batch was {_shapes(batch)}.{hint}"
        ) from error
    if not isinstance(made, dict):
        raise AssertionError(f"it runs: `{which}` returned {type(made).__name__}, expected a dict of columns.")
    return made


def _shapes(columns: Rows) -> str:
    return describe(as_arrays(columns))


# --- Shapes -----------------------------------------------------------------------------------------------------------


def outputs_have_a_row_for_each_observation(subject: ModuleSubject, episodes: Episodes) -> None:
    """Columns have the leading axes of the observations: `[B]`, or `[B, T]` with a state; also if there is one row."""
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        many = outputs_of(subject.make(), which, batch)
        one = outputs_of(subject.make(), which, some_rows(batch, slice(0, 1)))
        _check_axes(which, many, batch, subject)
        _check_axes(which, one, some_rows(batch, slice(0, 1)), subject)
        _check_same_items(which, many, one)


def _check_axes(which: str, outputs: Rows, batch: Rows, subject: ModuleSubject) -> None:
    axes = 2 if subject.make().is_stateful() else 1
    expected = list(next(iter(leaves(batch[Columns.OBS])))[1].shape[:axes])
    for name, column in outputs.items():
        wanted = expected[:1] if name == Columns.STATE_OUT else expected
        for path, leaf in leaves(column):
            if list(leaf.shape[: len(wanted)]) != wanted:
                raise AssertionError(
                    f"outputs have a row for each observation (`{which}`, a batch of {rows_in(batch)}), column {name!r}{path}: "
                    f"found {describe(leaf)}, expected the leading axes {wanted}."
                )


def _check_same_items(which: str, many: Rows, one: Rows) -> None:
    wanted, found = ({name + path: _item(leaf) for name, path, leaf in _all(rows)} for rows in (many, one))
    if wanted != found:
        raise AssertionError(
            f"outputs have a row for each observation (`{which}`): found items {found} in a batch of one, expected those of a "
            f"larger batch, {wanted}."
        )


def _all(rows: Rows) -> list[tuple[str, str, np.ndarray]]:
    return [(name, path, leaf) for name, column in rows.items() for path, leaf in leaves(column)]


def _item(leaf: np.ndarray) -> str:
    return f"{leaf.dtype}{list(leaf.shape[1:])}"


def it_runs_on_empty_batches(subject: ModuleSubject, episodes: Episodes) -> None:
    """Of no rows it makes no rows."""
    for which in PASSES:
        batch = some_rows(batch_for(subject, which, episodes), slice(0, 0))
        _check_axes(which, outputs_of(subject.make(), which, batch), batch, subject)


def outputs_are_finite(subject: ModuleSubject, episodes: Episodes) -> None:
    """Nothing that is put out is NaN or infinite, but for actions that cannot happen (−∞)."""
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        outputs = without_padding(outputs_of(subject.make(), which, batch), batch)
        for name, path, leaf in _all(outputs):
            if leaf.dtype.kind not in "fc":
                continue
            bad = np.isnan(leaf) | np.isposinf(leaf)
            if name != Columns.ACTION_DIST_INPUTS:
                bad |= np.isneginf(leaf)
            if bad.any():
                row = int(np.argwhere(bad)[0, 0])
                raise AssertionError(
                    f"outputs are finite (`{which}`), column {name!r}{path}, row {row}: found {leaf[row]}."
                )


# --- Rows -------------------------------------------------------------------------------------------------------------


def rows_do_not_depend_on_each_other(subject: ModuleSubject, episodes: Episodes) -> None:
    """A batch of n gives what n batches of one give."""
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        needs_to_be_repeatable(subject, which, batch)
        together = without_padding(outputs_of(subject.make(), which, batch), batch)
        alone = []
        for row in range(rows_in(batch)):
            single = some_rows(batch, slice(row, row + 1))
            alone.append(without_padding(outputs_of(subject.make(), which, single), single))
        where = f"`{which}`, {len(alone)} rows together"
        compare_batches("rows do not depend on each other", joined_rows(alone), together, where, LAST_BITS)


def callers_batches_stay_as_they_are(subject: ModuleSubject, episodes: Episodes) -> None:
    """A forward pass changes neither the columns nor the numbers in the batch that it is given."""
    functions = [*PASSES, *(["compute_values"] if has_values(subject.make()) else [])]
    for which in functions:
        batch = batch_for(subject, which if which in PASSES else LEARNING, episodes)
        given = own_copy(batch)
        with torch.no_grad():
            getattr(subject.make(), which)(given)
        changed = sorted(name for name in batch if name not in given or _print(given[name]) != _print(batch[name]))
        if changed or given.keys() != batch.keys():
            raise AssertionError(
                f"callers batches stay as they are (`{which}`): found {changed or sorted(given.keys() - batch.keys())} changed "
                "in the batch that was passed, expected nothing. Work on copies: the batch is used again, by others."
            )


def _print(column: Any) -> Any:
    return fingerprint(map_batch(as_array, column))


def learning_sees_what_acted(subject: ModuleSubject, episodes: Episodes) -> None:
    """`forward_train` puts out the same inputs of distributions as `forward_exploration`, or ratios are not 1 at first."""
    batch = batch_for(subject, LEARNING, episodes)
    outputs = {which: outputs_of(subject.make(), which, batch) for which in (ACTING[1], LEARNING)}
    if not all(Columns.ACTION_DIST_INPUTS in found for found in outputs.values()):
        raise NotApplicableError("not both `forward_exploration` and `forward_train` put out `action_dist_inputs`")
    for which in outputs:
        needs_to_be_repeatable(subject, which, batch)
    expected, found = (
        {Columns.ACTION_DIST_INPUTS: without_padding(outputs[which], batch)[Columns.ACTION_DIST_INPUTS]}
        for which in (ACTING[1], LEARNING)
    )
    compare_batches("learning sees what acted", expected, found, "`forward_train`", LAST_BITS)


# --- What it is asked for ---------------------------------------------------------------------------------------------


def values_are_those_of_the_forward_pass(subject: ModuleSubject, episodes: Episodes) -> None:
    """`compute_values` has a value for each observation: that of `forward_train`, with `embeddings` or without."""
    module = subject.make()
    if not has_values(module):
        raise NotApplicableError("it has no `compute_values`")
    law = "values are those of the forward pass"
    batch = batch_for(subject, LEARNING, episodes)
    with torch.no_grad():
        outputs = module.forward_train(own_copy(batch))
        found = {"without embeddings": module.compute_values(own_copy(batch))}
        if Columns.EMBEDDINGS in outputs:
            found["with embeddings"] = module.compute_values(own_copy(batch), outputs[Columns.EMBEDDINGS])
    axes = list(next(iter(leaves(batch[Columns.OBS])))[1].shape[: 2 if module.is_stateful() else 1])
    for where, values in found.items():
        if list(np.shape(as_array(values))) != axes:
            raise AssertionError(f"{law} ({where}): found {describe(np.asarray(as_array(values)))}, expected {axes}.")
        if Columns.VF_PREDS in outputs:
            expected, got = (
                without_padding(as_arrays({"values": column}), batch) for column in (outputs[Columns.VF_PREDS], values)
            )
            compare_batches(law, expected, got, where, LAST_BITS)


def it_computes_what_it_is_asked_for(subject: ModuleSubject, episodes: Episodes) -> None:
    """`forward(actor=…, critic=…)` returns the columns of the requested parts only."""
    module = subject.make()
    if not isinstance(module, ActorCritic):
        raise NotApplicableError("it is not an `ActorCritic`")
    law, batch = "it computes what it is asked for", batch_for(subject, LEARNING, episodes)
    with torch.no_grad():
        whole = as_arrays(module.forward(own_copy(batch)))
        for actor, critic in ((True, False), (False, True)):
            part = as_arrays(module.forward(own_copy(batch), actor=actor, critic=critic))
            columns = {
                *((Columns.ACTION_DIST_INPUTS,) if actor else ()),
                *((Columns.VF_PREDS,) if critic else ()),
            }
            where = f"actor={actor}, critic={critic}"
            unwanted = part.keys() & {Columns.ACTION_DIST_INPUTS, Columns.VF_PREDS} - columns
            if unwanted or not columns <= part.keys():
                raise AssertionError(f"{law} ({where}): found the columns {sorted(part)}, expected {sorted(columns)}.")
            expected, found = (without_padding({name: rows[name] for name in columns}, batch) for rows in (whole, part))
            compare_batches(law, expected, found, where, LAST_BITS)


def arrays_do_as_well_as_tensors(subject: ModuleSubject, episodes: Episodes) -> None:
    """A module without weights takes NumPy arrays, so that nothing needs torch, and does the same with tensors."""
    if isinstance(subject.make(), nn.Module):
        raise NotApplicableError("it is a `torch.nn.Module`")
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        expected = outputs_of(subject.make(), which, batch)
        found = outputs_of(subject.make(), which, as_arrays(batch))
        compare_batches("arrays do as well as tensors", expected, found, f"`{which}`, arrays", LAST_BITS)


def columns_are_those_declared(subject: ModuleSubject, episodes: Episodes) -> list[str]:
    """It reads only columns that pipelines know and columns that it declares in `views`."""
    views = set(getattr(subject.make(), "views", None) or ())
    read: set[str] = set()
    for which in PASSES:
        tracked = TrackedBatch(batch_for(subject, which, episodes))
        with torch.no_grad():
            getattr(subject.make(), which)(tracked)
        read |= tracked.read
        unknown = sorted(map(str, tracked.missed - COLUMN_NAMES - views))
        if unknown:
            raise AssertionError(
                f"columns are those declared (`{which}`): found that it asks for {unknown}, expected only columns that exist "
                f"({sorted(tracked.keys())}) or declared. Declare views of these names in `views`."
            )
    unread = sorted(views - read)
    return [f"it declares the views {unread}, and reads none of them"] if unread else []


_NUM_DRAWS = 20


def actions_fit_the_action_space(subject: ModuleSubject, episodes: Episodes) -> None:
    """Each row has one action of the action space, whether it comes from the module or from a distribution."""
    for which in ACTING:
        batch = batch_for(subject, which, episodes)
        for row, action in enumerate(unstack(chosen(subject, which, batch))):
            _check_action(f"actions fit the action space (`{which}`), row {row}", action, subject.action_space)


def chosen(subject: ModuleSubject, which: str, batch: Rows, seed: int = 0) -> Any:
    """Return the actions that a runner would take, as arrays without a time axis."""
    module = subject.make()
    with torch.no_grad():
        outputs = getattr(module, which)(own_copy(batch))
    columns = {**outputs, Columns.OBS: batch[Columns.OBS]}
    if Columns.ACTION_MASK in batch:
        columns[Columns.ACTION_MASK] = batch[Columns.ACTION_MASK]
    generator = torch.Generator().manual_seed(seed)
    explore = which == "forward_exploration"
    made = GetActions()(rl_module=module, batch=columns, episodes=[], explore=explore, generator=generator)
    actions = map_batch(lambda leaf: np.asarray(as_array(leaf)), made[Columns.ACTIONS])
    logp = np.asarray(as_array(made.get(Columns.ACTION_LOGP, 0.0)))
    if not np.isfinite(logp).all():
        raise AssertionError(f"`{which}`: found the log-probabilities {logp}, expected finite ones for chosen actions.")
    return map_batch(lambda leaf: leaf[:, 0], actions) if module.is_stateful() else actions


def _check_action(where: str, action: Any, space: Any) -> None:
    if isinstance(space, spaces.Dict):
        if not isinstance(action, dict) or action.keys() != space.spaces.keys():
            raise AssertionError(f"{where}: found {describe(action)}, expected one of {space}.")
        for key, child in space.spaces.items():
            _check_action(f"{where}[{key!r}]", action[key], child)
    elif isinstance(space, spaces.Tuple):
        if not isinstance(action, tuple) or len(action) != len(space.spaces):
            raise AssertionError(f"{where}: found {describe(action)}, expected one of {space}.")
        for place, child in enumerate(space.spaces):
            _check_action(f"{where}[{place}]", action[place], child)
    elif isinstance(space, spaces.Box):
        # The pipeline after the module may scale actions to the bounds, so bounds are not checked.
        fits = np.shape(action) == space.shape and np.asarray(action).dtype.kind == space.dtype.kind
        if not (fits and np.isfinite(action).all()):
            raise AssertionError(f"{where}: found {describe(np.asarray(action))}, expected a finite one of {space}.")
    elif not space.contains(_as_item(action, space)):
        raise AssertionError(f"{where}: found {action} ({describe(np.asarray(action))}), expected one of {space}.")


def _as_item(action: Any, space: Any) -> Any:
    """Return an integer or a flag with the dtype of the space; floats are returned unchanged."""
    array = np.asarray(action)
    same_kind = array.dtype.kind in "iub" and space.dtype is not None
    return array.astype(space.dtype)[()] if same_kind else action


def masked_actions_are_never_chosen(subject: ModuleSubject, episodes: Episodes) -> None:
    """A module never chooses an action that the mask excludes."""
    space = subject.action_space
    if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        raise NotApplicableError(f"masks are for discrete actions, and these are {type(space).__name__}")
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) != 1:
        raise NotApplicableError("masks are for lists of discrete actions, and these are tables of them")
    for which in ACTING:
        batch = batch_for(subject, which, episodes)
        masks = _random_masks(space, rows_in(batch))
        masked = _with_masks(subject, which, batch, masks)
        for seed in range(_NUM_DRAWS):
            actions = np.asarray(chosen(subject, which, masked, seed))
            for row, action in enumerate(actions):
                if not _allows(masks[row], action, space):
                    raise AssertionError(
                        f"masked actions are never chosen (`{which}`), row {row}: found the action {action}, expected one that "
                        f"the mask {masks[row].tolist()} allows."
                    )


def _random_masks(space: Any, rows: int) -> np.ndarray:
    """Return masks that allow one or more actions of each part."""
    rng = np.random.default_rng(3)
    parts = []
    for count in [space.n] if isinstance(space, spaces.Discrete) else space.nvec:
        part = rng.integers(0, 2, (rows, int(count))).astype(np.int8)
        part[np.arange(rows), rng.integers(0, count, rows)] = 1
        parts.append(part)
    return np.concatenate(parts, axis=1)


def _allows(mask: np.ndarray, action: Any, space: Any) -> bool:
    if isinstance(space, spaces.Discrete):
        return bool(mask[int(action) - int(space.start)])
    ends = np.cumsum(space.nvec)
    return all(
        mask[end - count + part] for end, count, part in zip(ends, space.nvec, action - space.start, strict=True)
    )


def _with_masks(subject: ModuleSubject, which: str, batch: Rows, masks: np.ndarray) -> Rows:
    """Return the batch with masks in the place where the module reads them: in the observations, or in a column."""
    column = torch.from_numpy(masks)
    observations = batch[Columns.OBS]
    if isinstance(observations, dict) and Columns.ACTION_MASK in observations:
        old = next(iter(leaves(observations[Columns.ACTION_MASK])))[1]
        return {**batch, Columns.OBS: {**observations, Columns.ACTION_MASK: column.reshape(old.shape).to(old.dtype)}}
    tracked = TrackedBatch(batch)
    with torch.no_grad():
        outputs = getattr(subject.make(), which)(tracked)
    if Columns.ACTIONS in outputs and Columns.ACTION_MASK not in tracked.missed:
        raise NotApplicableError("its observations have no masks, and it does not read a column `action_mask`")
    if subject.make().is_stateful():
        column = column[:, None]
    return {**batch, Columns.ACTION_MASK: column}
