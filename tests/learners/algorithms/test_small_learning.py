"""Each algorithm learns games that take seconds: alone, with memory, with another agent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns, SingleAgentEpisode
from episodia.connectors import FlattenObservations
from episodia.learners import (
    A2CConfig,
    AdaptiveKL,
    AddActionMasksFromEpisodes,
    Learner,
    OptimizerConfig,
    PPOConfig,
    ReinforceConfig,
)
from episodia.modules import LSTMActorCritic, MLPActorCritic, MultiModule
from recall_games import ACTIONS, OBSERVATIONS, mean_return, play, play_together

CONFIGS = {
    "reinforce": ReinforceConfig(learning_rate=3e-2),
    "a2c": A2CConfig(learning_rate=3e-2),
    "ppo": PPOConfig(learning_rate=2e-2),
    "ppo with a penalty": PPOConfig(learning_rate=1e-2, clip=None, kl_coefficient=AdaptiveKL(target=0.02)),
}


def mlp(seed=0):
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(16,), generator=torch.Generator().manual_seed(seed))


def epochs_of(config):
    # REINFORCE and A2C are meant for one gradient step with each batch.
    return {"num_epochs": 4, "minibatch_size": 32} if isinstance(config, PPOConfig) else {}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_is_shown_is_said(config):
    module = mlp()
    learner = Learner(module, config, seed=0)

    for update in range(15):
        learner.update(play(module, games=64, seed=update), **epochs_of(config))

    assert mean_return(play(mlp(), games=200, seed=1000)) < 0.65
    assert mean_return(play(module, games=200, seed=1000)) > 0.95


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_was_shown_before_is_said_by_modules_with_memory(config):
    generator = torch.Generator().manual_seed(0)
    module = LSTMActorCritic(OBSERVATIONS, ACTIONS, hidden=(), cell_size=8, generator=generator)
    learner = Learner(module, config, seed=0)

    for update in range(30):
        learner.update(play(module, games=64, length=2, seed=update), num_epochs=epochs_of(config).get("num_epochs", 1))

    assert mean_return(play(module, games=200, length=2, seed=1000)) > 0.9


def test_modules_without_memory_cannot_say_what_was_shown_before():
    module = mlp()
    learner = Learner(module, CONFIGS["ppo"], seed=0)

    for update in range(15):
        learner.update(play(module, games=64, length=2, seed=update), num_epochs=4)

    assert mean_return(play(module, games=400, length=2, seed=1000)) < 0.65


def returns_of(modules):
    games = play_together(modules, games=200, seed=1000)
    return {
        name: float(np.mean([game.agent_episodes[name].get_return() for game in games])) for name in ("left", "right")
    }


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_two_modules_learn_side_by_side(config):
    modules = MultiModule({"left": mlp(0), "right": mlp(1)})
    learner = Learner(modules, config, seed=0)

    for update in range(15):
        learner.update(play_together(modules, games=64, seed=update), **epochs_of(config))

    assert min(returns_of(modules).values()) > 0.9


def test_a_module_without_an_optimizer_does_not_learn_beside_one_that_does():
    modules = MultiModule({"left": mlp(0), "right": mlp(1)})
    frozen = {name: value.clone() for name, value in modules["right"].state_dict().items()}
    config = PPOConfig(learning_rate=1e-2, optimizers=(OptimizerConfig(components=("left",)),))
    learner = Learner(modules, config, seed=0)

    for update in range(15):
        metrics = learner.update(play_together(modules, games=64, seed=update), num_epochs=4, minibatch_size=32)

    assert "right" not in metrics
    assert returns_of(modules)["left"] > 0.9
    assert all(torch.equal(value, frozen[name]) for name, value in modules["right"].state_dict().items())


class AlwaysFirst:
    """A rule: the first action, whatever is shown; it needs no torch, and has no weights."""

    observation_space, action_space = OBSERVATIONS, ACTIONS

    def forward_inference(self, batch):
        return {Columns.ACTIONS: np.zeros(len(batch[Columns.OBS]), np.int64)}

    forward_exploration = forward_train = forward_inference

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


def test_a_module_learns_beside_a_rule_that_the_learner_knows_or_not():
    for known in (True, False):
        modules = MultiModule({"left": mlp(0), "right": AlwaysFirst()})
        learned = modules if known else {"left": modules["left"]}
        learner = Learner(learned, CONFIGS["ppo"], seed=0)

        for update in range(15):
            metrics = learner.update(play_together(modules, games=64, seed=update), num_epochs=4, minibatch_size=32)

        assert "right" not in metrics
        assert returns_of(modules)["left"] > 0.9


def test_a_shared_module_learns_from_all_agents():
    shared = mlp(0)
    modules = MultiModule({"left": shared, "right": shared})
    learner = Learner(modules, CONFIGS["ppo"], seed=0)

    for update in range(15):
        learner.update(play_together(modules, games=64, seed=update), num_epochs=4, minibatch_size=32)

    assert min(returns_of(modules).values()) > 0.9


@pytest.mark.parametrize("pieces", [[], [FlattenObservations]])
def test_masks_in_observations_reach_the_loss_also_if_a_piece_makes_vectors_of_these(pieces):
    space = spaces.Dict(board=OBSERVATIONS, action_mask=spaces.MultiBinary(2))
    episode = SingleAgentEpisode(observation_space=space)
    masks = np.array([[1, 0], [1, 1], [0, 1]], np.int8)
    episode.add_env_reset({"board": np.zeros(2, np.float32), "action_mask": masks[0]})
    for t in range(2):
        observation = {"board": np.zeros(2, np.float32), "action_mask": masks[t + 1]}
        episode.add_env_step(observation, 0, 1.0, extra_model_outputs={Columns.ACTION_LOGP: 0.0}, truncated=t == 1)
    learner = Learner(mlp(), ReinforceConfig(), observation_space=space, action_space=ACTIONS)
    for piece in pieces:
        learner.pipeline.prepend(piece())

    found = learner.batch_of([episode])["default_policy"]

    assert any(isinstance(piece, AddActionMasksFromEpisodes) for piece in learner.pipeline)
    assert found[Columns.ACTION_MASK].tolist() == masks[:2].tolist()
    assert isinstance(found[Columns.OBS], torch.Tensor) == bool(pieces)
