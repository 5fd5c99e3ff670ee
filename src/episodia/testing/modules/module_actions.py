"""Laws about the actions that come of what a module puts out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from episodia.columns import Columns
from episodia.connectors import GetActions
from episodia.connectors.batches.tracked_batch import TrackedBatch
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import SingleAgentEpisode
from episodia.stacking import unstack
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.testing.modules.module_subject import ACTING, ModuleSubject, Rows, batch_for, own_copy, rows_in
from episodia.trees import describe, leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]

_NUM_DRAWS = 20


def actions_fit_the_action_space(subject: ModuleSubject, episodes: Episodes) -> None:
    """Actions are one item of the action space for each row, whether the module puts them out or a distribution does."""
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
        # Where they lie is a matter of the pipeline behind the module, which may spread them over the bounds.
        fits = np.shape(action) == space.shape and np.asarray(action).dtype.kind == space.dtype.kind
        if not (fits and np.isfinite(action).all()):
            raise AssertionError(f"{where}: found {describe(np.asarray(action))}, expected a finite one of {space}.")
    elif not space.contains(_as_item(action, space)):
        raise AssertionError(f"{where}: found {action} ({describe(np.asarray(action))}), expected one of {space}.")


def _as_item(action: Any, space: Any) -> Any:
    """Return an integer or a flag of another width as the space has it; floats stay, and do not fit."""
    array = np.asarray(action)
    same_kind = array.dtype.kind in "iub" and space.dtype is not None
    return array.astype(space.dtype)[()] if same_kind else action


def masked_actions_are_never_chosen(subject: ModuleSubject, episodes: Episodes) -> None:
    """Where there is a mask of allowed actions, no other action is taken."""
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
    """Return masks that allow one action, or some, of each part."""
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
    """Return the batch with masks where the module expects them: in the observations, or in a column."""
    column = torch.from_numpy(masks)
    observations = batch[Columns.OBS]
    if isinstance(observations, dict) and Columns.ACTION_MASK in observations:
        old = next(iter(leaves(observations[Columns.ACTION_MASK])))[1]
        return {**batch, Columns.OBS: {**observations, Columns.ACTION_MASK: column.reshape(old.shape).to(old.dtype)}}
    tracked = TrackedBatch(batch)
    with torch.no_grad():
        outputs = getattr(subject.make(), which)(tracked)
    if Columns.ACTIONS in outputs and Columns.ACTION_MASK not in tracked.missed:
        raise NotApplicableError(
            "neither are there masks in its observations, nor does it ask for a column `action_mask`"
        )
    if subject.make().is_stateful():
        column = column[:, None]
    return {**batch, Columns.ACTION_MASK: column}
