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
    IMPALAConfig,
    OffPolicyConfig,
    PPOConfig,
    R2D2Config,
    RainbowConfig,
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
    for config in (ReinforceConfig(), A2CConfig(entropy_coefficient=0.01), PPOConfig(), IMPALAConfig())
    for name, modules in {"default": None, "recurrent": recurrent, "real actions": real_actions, "two": two}.items()
]


def noisy():
    return QNetwork(BOX, CHOICES, hidden=(8,), dueling=True, noisy=True, atoms=5)


# Their losses draw noise for each row.
DRAWING = dict.fromkeys(
    ("parts_average_to_the_whole", "order_of_steps_does_not_matter"),
    "a row gets other noise at another place of the batch",
)
OFF_POLICY = [
    LearnerSubject.of(RainbowConfig(), modules=noisy, label="RainbowConfig"),
    LearnerSubject.of(
        R2D2Config(max_seq_len=3, burn_in=2),
        modules=lambda: QNetwork(BOX, CHOICES, hidden=(8,), recurrent="gru", cell_size=4),
        label="R2D2Config",
    ),
    LearnerSubject.of(
        TD3Config(policy_every=1),
        modules=lambda: ActorWithCritics(BOX, REALS, policy="deterministic", hidden=(8,)),
        label="TD3Config",
        expected_failures=DRAWING,
    ),
    LearnerSubject.of(
        SACConfig(temperature=0.1),
        modules=lambda: ActorWithCritics(BOX, REALS, hidden=(8,)),
        label="SACConfig",
        expected_failures=DRAWING,
    ),
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


@parametrize_with_checks([*SUBJECTS, *OFF_POLICY])
def test_shipped_algorithms_keep_the_law(check):
    check()


def test_every_shipped_algorithm_is_checked():
    kinds = {kind for kind in vars(shipped).values() if isinstance(kind, type) and issubclass(kind, AlgorithmConfig)}

    checked = {type(subject.config) for subject in (*SUBJECTS, *OFF_POLICY)}
    assert kinds - {AlgorithmConfig, OffPolicyConfig} == checked
