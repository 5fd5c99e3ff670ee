"""Multi-agent PPO: two agents share one network and learn to meet; each sees the positions of both.

python examples/multi_agent_ppo.py
"""

import argparse

import numpy as np
import torch
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import default_module

SIZE = 7


class Meeting(MultiAgentEnv):
    """Two agents on a line of seven fields; in each of eight steps both get 1 if they end on the same field."""

    possible_agents = agents = ("left", "right")
    observation_spaces = dict.fromkeys(agents, spaces.Box(-1.0, 1.0, (2,), np.float32))
    action_spaces = dict.fromkeys(agents, spaces.Discrete(3))  # to the left, stay, to the right

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.places = {"left": int(self.rng.integers(3)), "right": int(self.rng.integers(4, SIZE))}
        self.t = 0
        return self._shown(), {}

    def step(self, actions):
        for agent, action in actions.items():
            self.places[agent] = int(np.clip(self.places[agent] + action - 1, 0, SIZE - 1))
        self.t += 1
        have_met = float(self.places["left"] == self.places["right"])
        return self._shown(), dict.fromkeys(actions, have_met), {"__all__": self.t == 8}, {}, {}

    def _shown(self):
        places = {agent: place / (SIZE - 1) * 2.0 - 1.0 for agent, place in self.places.items()}
        return {
            "left": np.array([places["left"], places["right"]], np.float32),
            "right": np.array([places["right"], places["left"]], np.float32),
        }


def best_return(game):
    """Return the best possible sum of both agents' rewards from their first positions."""
    left, right = game.agent_episodes["left"].get_observations(0)
    distance = round((right - left) / 2.0 * (SIZE - 1))
    # The agents meet after half of the way, rounded up; from then on each step pays both.
    return 2.0 * (8 - (distance + 1) // 2 + 1)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(options.seed)
    module = default_module(
        Meeting.observation_spaces["left"], Meeting.action_spaces["left"], hidden=(32, 32), generator=generator
    )
    # One module acts for both agents and learns from both.
    runner = MultiAgentEnvRunner(Meeting, module, num_envs=8, seed=options.seed)
    learner = Learner(module, PPOConfig(entropy_coefficient=0.01), seed=options.seed)

    steps = 0
    while steps < options.steps:
        learner.update(runner.sample(num_timesteps=512), num_epochs=10, minibatch_size=256)
        played = runner.get_metrics()
        if (steps + played.num_env_steps) // 5_000 > steps // 5_000:
            print(f"{steps + played.num_env_steps:>7} steps  return {np.mean(played.episode_returns):5.2f}")
        steps += played.num_env_steps

    games = runner.evaluate(200)
    earned = sum(one.get_return() for game in games for one in game.agent_episodes.values())
    score = float(earned / sum(map(best_return, games)))
    runner.close()
    print(f"200 evaluation games: {score:.1%} of the best possible")
    return score


if __name__ == "__main__":
    main()
