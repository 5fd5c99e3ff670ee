"""Sample, learn, and give errors back as priorities."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import LearnerError
from episodia.learners import DQNConfig, Learner, LearnerHook, LossOutputs, PPOConfig, ReplayUpdates
from episodia.modules import MLPActorCritic, QNetwork
from episodia.replay import ReplayBuffer, Uniform
from episodia.replay.selectors.selector import Selector

BOX, TWO = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)


class Remembering(Uniform):
    """Draws uniformly, and remembers what it was told."""

    def __init__(self):
        super().__init__()
        self.told = []

    def __deepcopy__(self, memo):
        # The buffer gives each module a selector of its own.
        return self

    def update(self, rows, values):
        self.told.append(np.array(values))


def buffer(selector=None):
    made = ReplayBuffer(100, selector=selector, seed=0)
    rng = np.random.default_rng(0)
    made.add(
        [
            SingleAgentEpisode(
                observations=list(rng.random((11, 2)).astype(np.float32)),
                actions=[0, 1] * 5,
                rewards=[1.0] * 10,
                terminated=True,
                len_lookback_buffer=0,
            )
        ]
    )
    return made


def learner(*hooks):
    network = QNetwork(BOX, TWO, hidden=(8,), generator=torch.Generator().manual_seed(0))
    return Learner(network, DQNConfig(), hooks=hooks, seed=0)


def test_the_sizes_of_errors_become_priorities_in_the_order_of_rows():
    selector = Remembering()

    metrics = ReplayUpdates(learner(), buffer(selector), num=6).update()

    assert isinstance(selector, Selector)
    np.testing.assert_allclose(selector.told[0], metrics.rows["default_policy"]["td_error"])


def test_errors_that_are_not_finite_are_counted_and_not_written():
    class Spoil(LearnerHook):
        def after_loss(self, module_id, outputs):
            errors = outputs.rows["td_error"].clone()
            errors[0] = np.nan
            return LossOutputs(outputs.losses, outputs.metrics, {"td_error": errors})

    selector = Remembering()

    metrics = ReplayUpdates(learner(Spoil()), buffer(selector), num=6).update()

    assert metrics["default_policy"]["num_bad_rows"] == 1
    assert len(selector.told[0]) == 5
    assert np.isfinite(selector.told[0]).all()


def test_schedules_follow_the_environment_steps_that_are_passed():
    updates = ReplayUpdates(learner(), buffer(), num=4)

    updates.update(env_steps=17)

    assert updates.learner.num_schedule_steps == 17


def test_an_algorithm_without_a_draw_needs_one():
    on_policy = Learner(MLPActorCritic(BOX, TWO), PPOConfig())

    with pytest.raises(LearnerError, match="draw=Transitions"):
        ReplayUpdates(on_policy, buffer())


def test_each_module_gets_its_own_priorities():
    selector = Remembering()
    both = ReplayBuffer(100, selector=selector, seed=0)
    game = MultiAgentEpisode("game", agent_to_module_mapping_fn=lambda agent, _: agent)
    see = {name: np.zeros(2, np.float32) for name in ("left", "right")}
    game.add_env_reset(observations=see)
    for reward in (1.0, 2.0, 3.0):
        game.add_env_step(see, {"left": 0, "right": 1}, {"left": reward, "right": -reward})
    both.add([game])
    networks = {name: QNetwork(BOX, TWO, hidden=(8,)) for name in ("left", "right")}

    metrics = ReplayUpdates(Learner(networks, DQNConfig(), seed=0), both, num=6).update()

    for told, name in zip(selector.told, networks, strict=True):
        np.testing.assert_allclose(told, metrics.rows[name]["td_error"])


def test_modules_of_other_learners_are_left_alone():
    """Another learner may train the other modules of the buffer, or nobody."""
    both = ReplayBuffer(100, seed=0)
    game = MultiAgentEpisode("game", agent_to_module_mapping_fn=lambda agent, _: agent)
    see = {name: np.zeros(2, np.float32) for name in ("left", "right")}
    game.add_env_reset(observations=see)
    game.add_env_step(see, {"left": 0, "right": 1}, {"left": 1.0, "right": 2.0})
    both.add([game])

    metrics = ReplayUpdates(Learner({"left": QNetwork(BOX, TWO)}, DQNConfig(), seed=0), both, num=6).update()

    assert list(metrics.rows) == ["left"]


def test_several_gradient_steps_at_once_equal_as_many_updates_with_the_same_rows():
    at_once, singly = (learner() for _ in range(2))
    updates = ReplayUpdates(at_once, buffer(), num=6)

    metrics = updates.update(num_gradient_steps=3, env_steps=10)

    drawn = ReplayUpdates(singly, buffer(), num=18)
    batch = singly.batch_of(drawn.buffer.sample(18, drawn.draw))["default_policy"]
    for start in (0, 6, 12):
        singly.update_batch({"default_policy": {name: rows[start : start + 6] for name, rows in batch.items()}})
    for name, weights in at_once.get_weights()["default_policy"].items():
        np.testing.assert_array_equal(weights, singly.get_weights()["default_policy"][name])
    assert metrics["__all_modules__"]["num_gradient_steps"] == 3
    assert metrics.rows["default_policy"]["td_error"].shape == (18,)


def test_uniform_samples_have_no_priorities_and_subclasses_may():
    assert not ReplayBuffer(100).has_priorities
    assert ReplayBuffer(100, selector=Remembering()).has_priorities


def test_the_number_of_gradient_steps_is_a_positive_integer():
    with pytest.raises(LearnerError, match="num_gradient_steps"):
        ReplayUpdates(learner(), buffer(), num=4).update(num_gradient_steps=0)
