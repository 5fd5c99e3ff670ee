"""Laws about weights, states, copies, random numbers and gradients of a module, and about sequences."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from episodia.columns import Columns
from episodia.connectors.batches.tracked_batch import fingerprint
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import SingleAgentEpisode
from episodia.modules import Module
from episodia.testing.comparing import compare_batches
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
    needs_a_state,
    needs_to_be_repeatable,
    outputs_of,
    own_copy,
    rows_in,
    some_rows,
    without_padding,
)
from episodia.testing.pickled_copies import pickled_copy, require_importable
from episodia.trees import describe, leaves, map_batch

Episodes = Sequence[SingleAgentEpisode]


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed the global generators of torch, NumPy and Python, and restore them afterwards."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002  # the global generator is restored
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # as above
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])  # noqa: NPY002  # as above


def state_of(module: Module) -> dict[str, Any]:
    """Return the declared state of a module: weights, buffers, and the result of `get_state`."""
    state: dict[str, Any] = {}
    if isinstance(module, nn.Module):
        state["weights"] = {name: value.detach().clone() for name, value in module.state_dict().items()}
    if hasattr(module, "get_state"):
        state["state"] = module.get_state()
    return state


def acting_changes_no_weights(subject: ModuleSubject, episodes: Episodes) -> None:
    """Forward passes for acting do not change weights and buffers, so that runners and learners stay equal."""
    if not isinstance(subject.make(), nn.Module):
        raise NotApplicableError("it is not a `torch.nn.Module`")
    for which in ACTING:
        module = subject.make()
        before = state_of(module)["weights"]
        outputs_of(module, which, batch_for(subject, which, episodes))
        after = state_of(module)["weights"]
        changed = [name for name in before if not torch.equal(before[name], after[name])]
        if changed:
            raise AssertionError(
                f"acting changes no weights (`{which}`): found {changed} changed, expected nothing. If it is a normalisation "
                "over batches, normalise in a connector instead."
            )


def passes_leave_no_trace(subject: ModuleSubject, episodes: Episodes) -> None:
    """The same batch gives the same outputs again, unless `get_state` shows a changed state."""
    for which in PASSES:
        module, batch = subject.make(), batch_for(subject, which, episodes)
        before = fingerprint(state_of(module))
        with global_seed(0):
            expected = outputs_of(module, which, batch)
        changed = fingerprint(state_of(module)) != before
        with global_seed(0):
            found = outputs_of(module, which, batch)
        if not changed:
            compare_batches("passes leave no trace", expected, found, f"`{which}`, a second time")
        elif which == PASSES[-1]:
            raise NotApplicableError("it remembers something, and says so: see `restored_modules_go_on_alike`")


def same_state_gives_same_outputs(subject: ModuleSubject, episodes: Episodes) -> None:
    """Copies in the same state have the same outputs; acting does not use global generators."""
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        # Runners have their own generators; learning may use the global generator of torch.
        seeds = (0, 0) if which == LEARNING else (0, 1)
        outputs = []
        for seed in seeds:
            with global_seed(seed):
                outputs.append(outputs_of(subject.make(), which, batch))
        where = f"`{which}`, another copy" + ("" if which == LEARNING else ", other global seeds")
        compare_batches("the same state gives the same outputs", outputs[0], outputs[1], where)


# --- Copies -----------------------------------------------------------------------------------------------------------


def restored_modules_go_on_alike(subject: ModuleSubject, episodes: Episodes) -> None:
    """A module with the state of another has the same outputs; all weights are in the state."""
    law = "restored modules go on alike"
    original = subject.make()
    if isinstance(original, nn.Module):
        _check_registered(law, original)
    if not state_of(original):
        raise NotApplicableError("it has neither weights nor `get_state`")
    batches = {which: batch_for(subject, which, episodes) for which in PASSES}
    # The state must also be right after a forward pass.
    for which in ACTING:
        outputs_of(original, which, batches[which])
    twin = _other(subject, original)
    state = state_of(original)
    if "weights" in state and isinstance(twin, nn.Module):
        twin.load_state_dict(state["weights"])
    if "state" in state:
        twin.set_state(pickled_copy(state["state"], law))
    for which in PASSES:
        with global_seed(0):
            expected = outputs_of(original, which, batches[which])
        with global_seed(0):
            found = outputs_of(twin, which, batches[which])
        compare_batches(law, expected, found, f"`{which}`, after its state was set")


def _other(subject: ModuleSubject, original: Any) -> Any:
    """Return a module of the same kind in another state: a new one if possible, else a copy with other weights."""
    if subject.remake is not None:
        return subject.remake()
    if hasattr(original, "get_config"):
        with global_seed(7):
            return type(original)(original.observation_space, original.action_space, **original.get_config())
    twin = subject.make()
    if isinstance(twin, nn.Module):
        with torch.no_grad():
            for value in twin.state_dict().values():
                if value.is_floating_point():
                    value.add_(1.0)
    return twin


def _check_registered(law: str, module: nn.Module) -> None:
    known = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    hidden = [path for path, tensor in _weights_in(module, type(module).__name__, set()) if id(tensor) not in known]
    if hidden:
        raise AssertionError(
            f"{law}: found the weights {hidden[:3]}, which `state_dict()` and `parameters()` do not have, expected all to be "
            "registered. Put layers in a list or a dict into `nn.ModuleList` or `nn.ModuleDict`."
        )


def _weights_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors with `requires_grad`, and their paths through attributes, lists and dicts."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            yield path, value
    elif isinstance(value, nn.Module):
        for name, part in vars(value).items():
            yield from _weights_in(part, f"{path}.{name}", seen)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _weights_in(part, f"{path}[{key!r}]", seen)
    elif isinstance(value, (list, tuple)):
        for place, part in enumerate(value):
            yield from _weights_in(part, f"{path}[{place}]", seen)


def it_pickles(subject: ModuleSubject, episodes: Episodes) -> None:
    """A pickled copy, as in another process, has the same outputs."""
    module = subject.make()
    require_importable(type(module))
    twin = pickled_copy(module, "it pickles")
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        with global_seed(0):
            expected = outputs_of(module, which, batch)
        with global_seed(0):
            found = outputs_of(twin, which, batch)
        compare_batches("it pickles", expected, found, f"`{which}`, the copy")


# --- Gradients --------------------------------------------------------------------------------------------------------


def learning_reaches_the_weights(subject: ModuleSubject, episodes: Episodes) -> list[str]:
    """The outputs of `forward_train` have gradients of the weights; weights without gradients are a remark."""
    module = subject.make()
    weights = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
    wanted = {name: weight for name, weight in weights.items() if weight.requires_grad}
    if not wanted:
        raise NotApplicableError("it has no weights that want gradients")
    outputs: dict[str, Any] = module.forward_train(own_copy(batch_for(subject, LEARNING, episodes)))
    sums = [leaf.sum() for _, leaf in leaves(outputs) if isinstance(leaf, Tensor) and leaf.requires_grad]
    if not sums:
        raise AssertionError(
            "learning reaches the weights: found nothing that has gradients in what `forward_train` puts out, expected "
            "something. Do not call it under `torch.no_grad()`, and do not detach what the loss needs."
        )
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        torch.stack([part.float() for part in sums]).sum(), list(wanted.values()), allow_unused=True
    )
    unreached = [name for name, gradient in zip(wanted, found, strict=True) if gradient is None]
    return [f"no output of `forward_train` depends on {unreached}"] if unreached else []


def states_look_like_the_first_one(subject: ModuleSubject, episodes: Episodes) -> None:
    """`get_initial_state` returns nested arrays without a batch axis; `state_out` is the same nesting with one."""
    law, module = "states look like the first one", subject.make()
    first = module.get_initial_state()
    if not module.is_stateful():
        if first:
            raise AssertionError(f"{law}: found {describe(first)} as the initial state, expected none without a state.")
        needs_a_state(subject)
    wanted = _form(first)
    if not wanted:
        raise AssertionError(f"{law}: found the initial state {first!r}, expected a dict of NumPy arrays.")
    for path, leaf in leaves(first):
        if not isinstance(leaf, np.ndarray):
            raise AssertionError(
                f"{law}: found {type(leaf).__name__} as the initial state{path}, expected a NumPy array."
            )
    for which in PASSES:
        outputs = outputs_of(module, which, batch_for(subject, which, episodes))
        if Columns.STATE_OUT not in outputs:
            raise AssertionError(
                f"{law} (`{which}`): found the columns {sorted(outputs)}, expected `state_out` among them."
            )
        found = _form(map_batch(lambda leaf: leaf[0], outputs[Columns.STATE_OUT]))
        if found != wanted:
            raise AssertionError(f"{law} (`{which}`): found rows of `state_out` {found}, expected {wanted}.")


def _form(state: Any) -> dict[str, str]:
    return {path: describe(np.asarray(leaf)) for path, leaf in leaves(state)}


def steps_give_what_sequences_give(subject: ModuleSubject, episodes: Episodes) -> None:
    """Single steps, with each state passed to the next step, have the outputs of whole sequences."""
    needs_a_state(subject)
    batch = batch_for(subject, LEARNING, episodes)
    for which in PASSES:
        needs_to_be_repeatable(subject, which, batch)
        expected = without_padding(outputs_of(subject.make(), which, batch), batch)
        found = without_padding(_step_by_step(subject, which, batch), batch)
        law = "steps give what sequences give"
        compare_batches(law, expected, found, f"`{which}`, step by step", LAST_BITS)


def _step_by_step(subject: ModuleSubject, which: str, batch: Rows) -> Rows:
    module, state, outputs = subject.make(), batch[Columns.STATE_IN], []
    axes = _axes(batch)
    for t in range(axes[1]):
        step = {
            name: map_batch(partial(_at, t=t), column)
            for name, column in batch.items()
            if name not in (Columns.STATE_IN, Columns.SEQ_LENS) and _has_axes(column, axes)
        }
        outputs.append(outputs_of(module, which, {**step, Columns.STATE_IN: state}))
        state = map_batch(torch.from_numpy, outputs[-1][Columns.STATE_OUT])
    joined = {
        name: map_batch(lambda *steps: np.concatenate(steps, axis=1), *(step[name] for step in outputs))
        for name in outputs[0]
        if name != Columns.STATE_OUT
    }
    return {**joined, Columns.STATE_OUT: _last_states(batch, [step[Columns.STATE_OUT] for step in outputs])}


def _at(leaf: Any, t: int) -> Any:
    return leaf[:, t : t + 1]


def _last_states(batch: Rows, states: list[Any]) -> Any:
    """Return for each sequence the state after its last valid step."""
    last = np.asarray(as_array(batch[Columns.SEQ_LENS])) - 1
    return map_batch(lambda *steps: np.stack(steps)[last, np.arange(len(last))], *states)


def _axes(batch: Rows) -> tuple[int, int]:
    rows, steps = next(iter(leaves(batch[Columns.OBS])))[1].shape[:2]
    return rows, steps


def _has_axes(column: Any, axes: tuple[int, int]) -> bool:
    return all(tuple(leaf.shape[:2]) == axes for _, leaf in leaves(column))


def padding_changes_nothing(subject: ModuleSubject, episodes: Episodes) -> None:
    """Padded steps affect neither the outputs of valid steps nor `state_out`."""
    needs_a_state(subject)
    law, batch = "padding changes nothing", batch_for(subject, LEARNING, episodes)
    lengths = np.asarray(as_array(batch[Columns.SEQ_LENS]))
    for which in PASSES:
        needs_to_be_repeatable(subject, which, batch)
        for row in range(rows_in(batch)):
            # The same sequence without padding.
            padded = some_rows(batch, slice(row, row + 1))
            bare = _cut(padded, int(lengths[row]))
            expected = outputs_of(subject.make(), which, bare)
            found = _cut_outputs(outputs_of(subject.make(), which, _disturbed(padded)), int(lengths[row]))
            compare_batches(law, expected, found, f"`{which}`, sequence {row}, other numbers there", LAST_BITS)


def _cut(batch: Rows, length: int) -> Rows:
    axes = _axes(batch)
    return {
        name: map_batch(lambda leaf: leaf[:, :length], column)
        if name != Columns.STATE_IN and _has_axes(column, axes)
        else column
        for name, column in batch.items()
    }


def _cut_outputs(outputs: Rows, length: int) -> Rows:
    return {
        name: column if name == Columns.STATE_OUT else map_batch(lambda leaf: leaf[:, :length], column)
        for name, column in as_arrays(outputs).items()
    }


def _disturbed(batch: Rows) -> Rows:
    """Return the batch with observations of valid steps, reversed, in place of the padding."""
    length = int(batch[Columns.SEQ_LENS][0])

    def other(leaf: Any) -> Any:
        made = leaf.clone()
        steps = leaf.shape[1] - length
        source = leaf[:, :length].flip(1)
        made[:, length:] = source.repeat(1, steps // length + 1, *[1] * (leaf.dim() - 2))[:, :steps]
        return made

    return {**batch, Columns.OBS: map_batch(other, batch[Columns.OBS])}
