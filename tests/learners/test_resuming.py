"""A learner that was saved and loaded goes on as if nothing had happened."""

from __future__ import annotations

import json

import pytest
import torch
from gymnasium import spaces

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.connectors import ConnectorV2, PiecewiseLinearSchedule
from episodia.errors import ConnectorStateError, LearnerError
from episodia.learners import (
    A2CConfig,
    AdaptiveKL,
    GradientFunction,
    Learner,
    OptimizerConfig,
    PPOConfig,
    ReinforceConfig,
)
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.modules import LSTMActorCritic, MLPActorCritic
from episodia.trees import leaves
from tables import Table

FALLING = PiecewiseLinearSchedule([(0, 1e-2), (60, 1e-3)])
RMSPROP = OptimizerConfig(components=("critic_head",), optimizer=torch.optim.RMSprop, options={"momentum": 0.5})
REST = OptimizerConfig(components=("actor_head",), optimizer=torch.optim.SGD, options={"momentum": 0.9})
CONFIGS = {
    "reinforce": ReinforceConfig(entropy_coefficient=FALLING),
    "a2c": A2CConfig(learning_rate=FALLING, optimizers=(RMSPROP, REST)),
    "ppo": PPOConfig(learning_rate=FALLING, clip=FALLING, kl_coefficient=AdaptiveKL(target=1e-4)),
}
UPDATES = 4


class CountCalls(ConnectorV2):
    """Remembers how often it was called, and scales rewards by it."""

    reads = writes = frozenset({"rewards"})
    lookback = 0
    is_stateful = True
    calls = 0

    def __call__(self, *, batch, episodes, **kwargs):
        self.calls += 1
        columns = batch["default_policy"]
        columns["rewards"] = columns["rewards"].map(lambda leaf: leaf * self.calls)
        return batch

    def get_state(self, components=None, *, not_components=None, **kwargs):
        return {"calls": self.calls}

    def set_state(self, state):
        self.calls = state["calls"]


def make(config, kind=MLPActorCritic, seed=0):
    sizes = {"cell_size": 4} if kind is LSTMActorCritic else {}
    generator = torch.Generator().manual_seed(seed)
    module = kind(OBSERVATIONS, ACTIONS, hidden=(8,), generator=generator, **sizes)
    pipeline = default_pipeline(config, stateful=module.is_stateful())
    pipeline.insert_after("AddActionMasksFromEpisodes", CountCalls())
    return Learner(module, config, learner_pipeline=pipeline, seed=seed)


def run(learner, updates):
    """Update with other episodes each time; return the metrics of all updates."""
    return [
        learner.update(
            [drive(length, update, stateful=True, end="truncated") for length in (5, 9)], num_epochs=2, minibatch_size=4
        )
        for update in updates
    ]


def assert_same(left, right):
    """Compare states leaf by leaf, bit for bit."""
    ours, theirs = (dict(leaves(normalised(state))) for state in (left, right))
    assert ours.keys() == theirs.keys()
    for path, value in ours.items():
        if torch.is_tensor(value):
            assert torch.equal(value, theirs[path]), path
        else:
            assert value == theirs[path], path


def normalised(state):
    """Return lists as tuples, so that `leaves` looks into them."""
    if isinstance(state, dict):
        return {key: normalised(value) for key, value in state.items()}
    return tuple(map(normalised, state)) if isinstance(state, list) else state


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
@pytest.mark.parametrize("stop", range(UPDATES + 1))
def test_saving_at_any_update_and_resuming_gives_the_same_run(config, kind, stop):
    straight, stopped, resumed = make(config, kind), make(config, kind), make(config, kind, seed=9)
    expected = run(straight, range(UPDATES))

    first = run(stopped, range(stop))
    resumed.set_state(stopped.get_state())
    second = run(resumed, range(stop, UPDATES))

    assert first + second == expected
    assert_same(resumed.get_state(), straight.get_state())


def test_a_state_does_not_change_when_the_learner_goes_on():
    learner = make(CONFIGS["ppo"])
    run(learner, [0])
    state = learner.get_state()
    before = str(normalised(state))

    run(learner, [1])
    other = make(CONFIGS["ppo"], seed=1)
    other.set_state(state)
    run(other, [1])

    assert str(normalised(state)) == before


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_state_is_made_of_tensors_and_json_values(config):
    learner = make(config)
    run(learner, [0])

    def plain(value):
        if torch.is_tensor(value):
            return value.tolist()
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            return {key: plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list) else value

    state = plain(learner.get_state())
    assert json.loads(json.dumps(state)) == state


def test_a_part_of_a_state_can_be_asked_for_and_loaded():
    learner, other = make(CONFIGS["a2c"]), make(CONFIGS["a2c"], seed=1)
    run(learner, [0])
    before = other.get_state(["optimizers", "progress"])

    other.set_state(learner.get_state(["weights"]))

    assert_same(other.get_weights(), learner.get_weights())
    assert_same(other.get_state(["optimizers", "progress"]), before)


def wrong(state, **parts):
    return {**state, **parts}


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("weights", {"default_policy": {}}, "weights of 'default_policy'"),
        ("weights", {}, "weights of 'default_policy'"),
        ("optimizers", [{"class": "SGD", "parameters": {}}], "found .*SGD.*expected .*Adam"),
        ("optimizers", [{"class": "Adam", "parameters": {"x": {}}}], r"found memories of \['x'\]"),
        ("coefficients", {"default_policy": {"kl": 1.0}}, "state of coefficients"),
        ("progress", {"num_updates": 1}, "as `progress`"),
        ("generator", {"bit_generator": "MT19937"}, "found a `generator`"),
        ("extra", 1, r"found the parts \['extra'\]"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(part, value, message):
    learner, other = make(CONFIGS["ppo"]), make(CONFIGS["ppo"], seed=1)
    run(learner, [0])
    before = other.get_state()

    with pytest.raises(LearnerError, match=message):
        other.set_state(wrong(learner.get_state(), **{part: value}))

    assert_same(other.get_state(), before)


def test_a_pipeline_state_that_does_not_fit_changes_nothing():
    learner, other = make(CONFIGS["ppo"]), make(CONFIGS["ppo"], seed=1)
    before = other.get_state()

    with pytest.raises(ConnectorStateError):
        other.set_state(wrong(learner.get_state(), pipeline={"Unknown": {}}))

    assert_same(other.get_state(), before)


def test_weights_of_another_shape_are_named():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())

    with pytest.raises(LearnerError, match=r"found \[\('logits', \(1, 3\)\)\], expected \[\('logits', \(1, 2\)\)\]"):
        learner.set_weights({"default_policy": {"logits": torch.zeros(1, 3), "values": torch.zeros(1)}})


@pytest.mark.parametrize("part", ["weights", "optimizers", "coefficients", "progress", "generator", "pipeline"])
@pytest.mark.parametrize("junk", [3, None, {"a": 1}])
def test_a_part_of_another_kind_is_named_and_changes_nothing(part, junk):
    learner = Learner(MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), hidden=()), PPOConfig(), seed=0)
    before = repr(learner.get_state())

    with pytest.raises((LearnerError, ConnectorStateError)):
        learner.set_state({part: junk})

    assert repr(learner.get_state()) == before


def test_a_state_or_a_config_of_another_kind_is_an_error():
    module = MLPActorCritic(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), hidden=())
    gradients_of = GradientFunction(module, PPOConfig())

    with pytest.raises(LearnerError, match="get_state"):
        gradients_of(3, {})
    with pytest.raises(LearnerError, match="PPOConfig"):
        Learner(module, 3)
    with pytest.raises(LearnerError, match="'foo'"):
        Learner(module, PPOConfig(optimizers=(OptimizerConfig(options={"foo": 1}),)))
