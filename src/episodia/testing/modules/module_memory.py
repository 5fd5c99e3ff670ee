"""Laws about what a module remembers: its weights, its copies, chance, and gradients."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from episodia.connectors.batches.fingerprints import fingerprint
from episodia.episodes import SingleAgentEpisode
from episodia.testing.connectors.batch_comparing import compare_batches
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.testing.modules.module_subject import (
    ACTING,
    LEARNING,
    PASSES,
    ModuleSubject,
    batch_for,
    outputs_of,
    own_copy,
)
from episodia.testing.pickled_copies import pickled_copy, require_importable
from episodia.trees import leaves

Episodes = Sequence[SingleAgentEpisode]


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Let the global generators of torch, NumPy and Python begin at `seed`, and afterwards be as they were."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002  # the global one is what is looked after here
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # as above
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])  # noqa: NPY002  # as above


def state_of(module: Any) -> dict[str, Any]:
    """Return what a module says that it remembers: its weights and buffers, and what `get_state` returns."""
    state: dict[str, Any] = {}
    if isinstance(module, nn.Module):
        state["weights"] = {name: value.detach().clone() for name, value in module.state_dict().items()}
    if hasattr(module, "get_state"):
        state["state"] = module.get_state()
    return state


def acting_changes_no_weights(subject: ModuleSubject, episodes: Episodes) -> None:
    """Forward passes for acting leave all weights and buffers alone: runners and learners would drift apart."""
    if not isinstance(subject.make(), nn.Module):
        raise NotApplicableError("it is no `torch.nn.Module`")
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
    """The same batch a second time gives the same, unless `get_state` shows that something is remembered."""
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
    """Copies in the same state put out the same; while acting, no global generator is drawn from."""
    for which in PASSES:
        batch = batch_for(subject, which, episodes)
        # Runners have generators of their own; for learning, a seed of torch may be needed.
        seeds = (0, 0) if which == LEARNING else (0, 1)
        outputs = []
        for seed in seeds:
            with global_seed(seed):
                outputs.append(outputs_of(subject.make(), which, batch))
        where = f"`{which}`, another copy" + ("" if which == LEARNING else ", other global seeds")
        compare_batches("the same state gives the same outputs", outputs[0], outputs[1], where)


# --- Copies -----------------------------------------------------------------------------------------------------------


def restored_modules_go_on_alike(subject: ModuleSubject, episodes: Episodes) -> None:
    """A module with other weights that is given the state puts out what the first one does; no weights are elsewhere."""
    law = "restored modules go on alike"
    original = subject.make()
    if isinstance(original, nn.Module):
        _check_registered(law, original)
    if not state_of(original):
        raise NotApplicableError("it has neither weights nor `get_state`")
    batches = {which: batch_for(subject, which, episodes) for which in PASSES}
    # Something may have happened before the state is asked for.
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
    """Return a module of the same kind, in another state: made anew if that is possible, else a copy with other numbers."""
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
            "registered. Put layers that stand in a list or a dict into `nn.ModuleList` or `nn.ModuleDict`."
        )


def _weights_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors that want gradients, with the way to them, through attributes, lists and dicts."""
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
    """A copy that went through pickle, as to another process, puts out the same."""
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
    """What `forward_train` puts out has gradients with regard to the weights; those without any are a remark."""
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
