"""Laws about what a learner remembers: frozen weights, seeds, states, and updates with little in them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from episodia.checkpoints import load_state, save_state
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.testing.learners.learner_subject import (
    LearnerSubject,
    changed_weights,
    compare_weights,
    needs,
    weights_of,
)
from episodia.testing.modules.module_memory import global_seed
from episodia.testing.pickled_copies import pickled_copy, require_importable

# In several gradient steps chance and order have a say.
_EPOCHS = {"num_epochs": 2, "minibatch_size": 4}


def frozen_weights_stay(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Weights that want no gradients (`requires_grad_(False)`) are the same after an update; others still learn."""
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
        raise AssertionError(f"frozen weights stay: found {wrong} changed, expected them to stay as they were.")
    if not changed:
        raise AssertionError(
            "frozen weights stay: found that the others did not change either, expected them to learn."
        )


def _named_modules(modules: Any) -> Iterator[tuple[str, nn.Module]]:
    named = modules.items() if isinstance(modules, Mapping) else [("default_policy", modules)]
    return ((module_id, module) for module_id, module in named if isinstance(module, nn.Module))


def same_seed_gives_same_weights(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Learners with the same weights and the same seed come to the same weights; nothing is drawn elsewhere."""
    found = []
    for elsewhere in (1, 2):
        learner = subject.learner()
        with global_seed(elsewhere):
            learner.update(episodes, **_EPOCHS)
        found.append(weights_of(learner))
    compare_weights("same seed gives same weights", found[0], found[1], "other global seeds")


def restored_learners_go_on_alike(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """A learner that was given the state, which went through a file, does the same update as the first one."""
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
    """The config of an algorithm can be sent to another process, and is the same there."""
    if subject.config is None:
        raise NotApplicableError("it is not made of an algorithm's config")
    require_importable(type(subject.config))
    twin = pickled_copy(subject.config, "it pickles")
    if twin != subject.config:
        raise AssertionError(f"it pickles: found {twin!r}, expected {subject.config!r}.")


# --- Little to learn from ---------------------------------------------------------------------------------------------


def it_learns_from_single_steps(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """An episode or a chunk of one step is enough for an update, after which weights are finite."""
    for episode in episodes:
        if len(episode):
            learner = subject.learner()
            learner.update([episode[:1]])
            broken = [name for name, value in weights_of(learner).items() if not bool(torch.isfinite(value).all())]
            if broken:
                raise AssertionError(
                    f"it learns from single steps: found NaN in {broken[:3]}, expected finite weights."
                )


def nothing_comes_of_nothing(subject: LearnerSubject, episodes: Sequence[Any]) -> None:
    """Without episodes, and with episodes without steps, an update runs, and weights stay."""
    for given, where in (([], "no episodes"), ([episode[:0] for episode in episodes], "episodes without steps")):
        learner = subject.learner()
        before = weights_of(learner)
        learner.update(given)
        compare_weights("nothing comes of nothing", before, weights_of(learner), where)
