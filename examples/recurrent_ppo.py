"""Recurrent PPO on a memory task: the agent sees a cue once and has to name it ten steps later.

A network without a memory stays at chance, which is 50 %:

python examples/recurrent_ppo.py
python examples/recurrent_ppo.py --memory none
"""

import argparse

import gymnasium as gym
import numpy as np
import torch

from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import default_module


class Recall(gym.Env):
    """Shows one of two cues, then no cue for `delay` steps; the last action should be the cue."""

    observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, delay=10):
        self.delay = delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(2)), 0
        return self._shown(), {}

    def step(self, action):
        is_over = self.t == self.delay
        reward = float(is_over and action == self.cue)
        self.t += 1
        return self._shown(), reward, is_over, False, {}

    def _shown(self):
        shown = np.zeros(3, np.float32)
        if self.t == 0:
            shown[self.cue] = 1.0
        shown[2] = float(self.t == self.delay)  # Marks the step at which the cue has to be named.
        return shown


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", choices=["gru", "lstm", "none"], default="gru")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    module = default_module(
        Recall.observation_space,
        Recall.action_space,
        hidden=(32,),
        recurrent=None if options.memory == "none" else options.memory,
        generator=torch.Generator().manual_seed(options.seed),
    )
    runner = SingleAgentEnvRunner(Recall, module, num_envs=16, seed=options.seed)
    # Sequences are as long as an episode, so gradients from the end reach the cue.
    learner = Learner(module, PPOConfig(max_seq_len=11, entropy_coefficient=0.01), seed=options.seed)

    steps, right = 0, []
    while steps < options.steps:
        learner.update(runner.sample(num_episodes=48), num_epochs=8)
        played = runner.get_metrics()
        right += played.episode_returns
        steps += played.num_env_steps
        if len(right) % (48 * 20) == 0:
            print(f"{steps:>7} steps  {np.mean(right[-480:]):4.0%} right")

    score = float(np.mean([episode.get_return() for episode in runner.evaluate(200)]))
    runner.close()
    print(f"200 evaluation episodes: {score:.1%} right")
    return score


if __name__ == "__main__":
    main()
