"""Memories, teams and mixed algorithms that learn from replay, with steps and levels.

One seed of each runs with the other tests; all of them with `pytest -m learning`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from episodia.connectors import EpsilonGreedy
from episodia.env_runners import MultiAgentEnvRunner
from episodia.learners import DQNConfig, Learner, PPOConfig, ReplayUpdates
from episodia.modules import MultiModule
from episodia.replay import ReplayBuffer
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import ReplayRecipe, Training, train
from examples import example
from meeting_agents import FALLING, Meet, network

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.learning) for seed in (1, 2, 3, 4))]
DELAY = 4
DQN = DQNConfig(gamma=0.0, learning_rate=5e-3)

MEMORY = {
    "num_envs": 8,
    "num_timesteps": 40,
    "updates_per_step": 0.25,
    "batch_size": 32,
    "hidden": (32,),
    "epsilon": PiecewiseLinearSchedule([(0, 1.0), (2_000, 0.05)]),
    "learning_rate": 3e-3,
    "target_every": 50,
    "gamma": 0.97,
    "progress": False,
}


def recall():
    return example("recurrent_ppo").Recall(DELAY)


@pytest.mark.parametrize("seed", SEEDS)
def test_r2d2_recalls_a_cue_seen_4_steps_ago_within_4_000_steps(seed):
    memory = {"recurrent": "gru", "max_seq_len": DELAY + 1, "burn_in": 0}
    with train("r2d2", recall, steps=3_900, seed=seed, **MEMORY, **memory) as training:
        assert np.mean(training.evaluate(200)) >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_without_memory_stays_at_chance(seed):
    with train("dqn", recall, steps=3_900, seed=seed, **MEMORY) as training:
        # 200 games: chance is 50 %, and three standard deviations are 11 %.
        assert 0.39 < np.mean(training.evaluate(200)) < 0.61


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", [("left", "right"), ("both",)], ids=["own networks", "a shared network"])
def test_two_dqn_agents_meet_in_95_percent_of_all_games_within_2_000_steps(names, seed):
    generator = torch.Generator().manual_seed(seed)
    modules = MultiModule({name: network("q", generator) for name in names})
    recipe = ReplayRecipe(num_timesteps=20, warm_up=100, batch_size=32, updates_per_step=0.25, epsilon=FALLING)
    runner = MultiAgentEnvRunner(
        Meet,
        modules,
        num_envs=4,
        module_to_env=recipe.connectors(seed),
        agent_to_module_mapping_fn=lambda agent, _: agent if agent in names else "both",
        seed=seed,
    )
    with Training(runner, Learner(modules, DQN, seed=seed), recipe) as training:
        training.run(steps=1_900)

        assert np.mean(training.evaluate(100)) / 2 >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dqn_agent_and_a_ppo_agent_meet_in_95_percent_of_all_games_within_4_000_steps(seed):
    """One runner plays; each learner has its own module and takes what belongs to it."""
    generator = torch.Generator().manual_seed(seed)
    modules = {"left": network("q", generator), "right": network("actor_critic", generator)}
    exploration = EpsilonGreedy(epsilon=FALLING, seed=seed)
    dqn = Learner({"left": modules["left"]}, DQN, seed=seed)
    ppo = Learner({"right": modules["right"]}, PPOConfig(gamma=0.0, learning_rate=5e-3), seed=seed)
    buffer = ReplayBuffer(5_000, seed=seed)
    updates, num_steps = ReplayUpdates(dqn, buffer, num=32), 0
    with MultiAgentEnvRunner(Meet, MultiModule(modules), num_envs=4, module_to_env=[exploration], seed=seed) as runner:
        while num_steps < 3_900:
            episodes = runner.sample(num_timesteps=80)
            num_steps += len(episodes)
            buffer.add(episodes)
            ppo.update(episodes, num_epochs=4)
            for _ in range(20):
                updates.update(env_steps=num_steps)
        games = runner.evaluate(100)

    assert np.mean([game.agent_episodes["left"].get_return() for game in games]) >= 0.95
