"""No shipped algorithm raises a false alarm, whatever modules it learns with."""

import numpy as np
from gymnasium import spaces

from episodia import learners as shipped
from episodia.learners import (
    A2CConfig,
    AlgorithmConfig,
    DDPGConfig,
    DiscreteSACConfig,
    DQNConfig,
    OffPolicyConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from episodia.modules import ActorWithCritics, LSTMActorCritic, MLPActorCritic, QNetwork, default_module
from episodia.testing import LearnerSubject, parametrize_with_checks

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)
CHOICES = spaces.Discrete(3)
REALS = spaces.Box(-1.0, 3.0, (2,), np.float32)


def recurrent():
    return LSTMActorCritic(BOX, CHOICES, hidden=(8,), cell_size=4)


def real_actions():
    return default_module(BOX, REALS, hidden=(8,), shared=True)


def two():
    return {"left": MLPActorCritic(BOX, CHOICES, hidden=(8,)), "right": MLPActorCritic(BOX, REALS, hidden=(8,))}


SUBJECTS = [
    LearnerSubject.of(config, modules=modules, label=f"{type(config).__name__} {name}")
    for config in (ReinforceConfig(), A2CConfig(entropy_coefficient=0.01), PPOConfig())
    for name, modules in {"default": None, "recurrent": recurrent, "real actions": real_actions, "two": two}.items()
]
OFF_POLICY = [
    LearnerSubject.of(DQNConfig(), modules=lambda: QNetwork(BOX, CHOICES, hidden=(8,)), label="DQNConfig"),
    LearnerSubject.of(
        DDPGConfig(),
        modules=lambda: ActorWithCritics(BOX, REALS, policy="deterministic", hidden=(8,)),
        label="DDPGConfig",
    ),
    # With a fixed temperature: a component whose only weight is frozen cannot have an optimizer.
    LearnerSubject.of(
        DiscreteSACConfig(temperature=0.1),
        modules=lambda: ActorWithCritics(BOX, CHOICES, hidden=(8,)),
        label="DiscreteSACConfig",
    ),
]

# Their losses draw noise for each row, so that a part of the rows gets other noise than the whole.
DRAWING = {SACConfig, TD3Config}


@parametrize_with_checks([*SUBJECTS, *OFF_POLICY])
def test_shipped_algorithms_keep_the_law(check):
    check()


def test_every_shipped_algorithm_is_checked():
    kinds = {kind for kind in vars(shipped).values() if isinstance(kind, type) and issubclass(kind, AlgorithmConfig)}

    checked = {type(subject.config) for subject in (*SUBJECTS, *OFF_POLICY)}
    assert kinds - {AlgorithmConfig, OffPolicyConfig} == checked | DRAWING
