"""A learned player against a rule: rock, paper, scissors against an opponent that always beats your last move.

The opponent has no weights and does not need torch. A random player scores 0; the best possible score is 10.

python examples/rule_based_opponent.py
"""

import argparse

import numpy as np
import torch
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import MultiModule, RuleModule, default_module

ROUNDS = 10


class RockPaperScissors(MultiAgentEnv):
    """Ten rounds; each player sees both last moves: 0 is rock, 1 paper, 2 scissors, 3 no move yet."""

    possible_agents = agents = ("player", "opponent")
    observation_spaces = dict.fromkeys(agents, spaces.MultiDiscrete([4, 4]))  # own last move, the other's last move
    action_spaces = dict.fromkeys(agents, spaces.Discrete(3))

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return dict.fromkeys(self.agents, np.array([3, 3])), {}

    def step(self, actions):
        own, other = int(actions["player"]), int(actions["opponent"])
        won = {0: 0.0, 1: 1.0, 2: -1.0}[(own - other) % 3]
        self.t += 1
        shown = {"player": np.array([own, other]), "opponent": np.array([other, own])}
        return shown, {"player": won, "opponent": -won}, {"__all__": self.t == ROUNDS}, {}, {}


def beat_the_last(observations):
    """Return, for each row, the move that beats the other player's last move; rock at first."""
    return (observations[:, 1] + 1) % 4 % 3


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    env = RockPaperScissors()
    generator = torch.Generator().manual_seed(options.seed)
    learned = default_module(
        env.observation_spaces["player"], env.action_spaces["player"], hidden=(32,), generator=generator
    )
    modules = MultiModule({"player": learned, "opponent": RuleModule(beat_the_last)})
    runner = MultiAgentEnvRunner(RockPaperScissors, modules, num_envs=8, seed=options.seed)
    learner = Learner(modules, PPOConfig(entropy_coefficient=0.01), seed=options.seed)

    steps = 0
    while steps < options.steps:
        learner.update(runner.sample(num_timesteps=400), num_epochs=10, minibatch_size=200)
        played = runner.get_metrics()
        if (steps + played.num_env_steps) // 5_000 > steps // 5_000:
            print(f"{steps + played.num_env_steps:>7} steps  return {np.mean(played.agent_returns['player']):5.2f}")
        steps += played.num_env_steps

    games = runner.evaluate(50)
    score = float(np.mean([game.agent_episodes["player"].get_return() for game in games]))
    runner.close()
    print(f"50 evaluation games: {score:.2f} rounds more won than lost, of {ROUNDS}")
    return score


if __name__ == "__main__":
    main()
