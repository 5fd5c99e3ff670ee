"""No shipped module raises a false alarm: each of them keeps all laws that apply to it."""

import numpy as np
import torch
from gymnasium import spaces

from episodia import modules as shipped
from episodia.connectors import View
from episodia.modules import (
    ActorCritic,
    DefaultActorCritic,
    LSTMActorCritic,
    MLPActorCritic,
    RandomModule,
    Rule,
    RuleModule,
    default_module,
    each_row,
)
from episodia.testing import ModuleSubject, parametrize_with_checks

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (12, 12, 3), np.uint8)
NESTED = spaces.Dict({"seen": BOX, "felt": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])})
MASKED = spaces.Dict({"board": BOX, "action_mask": spaces.MultiBinary(4)})
CHOICES = spaces.Discrete(4, start=2)
REALS = spaces.Box(-1.0, 3.0, (2,), np.float32)
MIXED = spaces.Dict({"turn": spaces.MultiDiscrete([3, 2]), "push": REALS, "flags": spaces.MultiBinary(2)})


def seeded():
    return torch.Generator().manual_seed(3)


def lean(observations):
    return (observations[:, 0] > 0).astype(np.int64) + 2


def lean_once(observation):
    return np.int64(2 + (observation[0] > 0))


class Patient(Rule):
    """Does what it did before."""

    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.views = {"last_actions": View("actions", shift=-1)}

    def act(self, batch):
        return np.clip(batch["last_actions"], 2, 5)


def of(module, label, **options):
    return ModuleSubject.of(module, label=label, **options)


SUBJECTS = [
    of(MLPActorCritic(BOX, CHOICES, hidden=(8,), generator=seeded()), "MLP"),
    of(MLPActorCritic(NESTED, MIXED, hidden=(8,), generator=seeded()), "MLP nested"),
    of(LSTMActorCritic(BOX, CHOICES, hidden=(8,), cell_size=4, generator=seeded()), "LSTM"),
    of(default_module(BOX, REALS, hidden=(8,), squashed=True, generator=seeded()), "default squashed"),
    of(default_module(MASKED, CHOICES, hidden=(8,), shared=True, generator=seeded()), "default masked"),
    of(default_module(BOX, spaces.MultiDiscrete([3, 2]), hidden=(8,), generator=seeded()), "default several choices"),
    of(default_module(IMAGE, CHOICES, hidden=(8,), generator=seeded()), "default image"),
    of(default_module(BOX, CHOICES, hidden=(8,), recurrent="lstm", generator=seeded()), "default LSTM"),
    of(default_module(NESTED, REALS, hidden=(8,), recurrent="gru", shared=True, generator=seeded()), "default GRU"),
    of(RandomModule(BOX, CHOICES, seed=1), "random"),
    of(RandomModule(MASKED, CHOICES, seed=1), "random masked"),
    of(RandomModule(NESTED, MIXED, seed=1), "random nested"),
    of(RuleModule(lean, BOX, CHOICES), "rule"),
    of(RuleModule(each_row(lean_once)), "rule of rows", observation_space=BOX, action_space=CHOICES),
    of(Patient(BOX, CHOICES), "rule with views"),
]


@parametrize_with_checks(SUBJECTS)
def test_shipped_modules_keep_the_law(check):
    check()


def test_every_shipped_module_is_checked():
    kinds = {
        kind for kind in vars(shipped).values() if isinstance(kind, type) and issubclass(kind, (ActorCritic, Rule))
    }
    checked = {type(subject.make()) for subject in SUBJECTS}

    assert kinds - {ActorCritic, Rule} <= checked
    assert DefaultActorCritic in checked
