"""PPO on CartPole, as a plain loop: collect and update.

python examples/ppo.py --steps 40000
"""

import argparse

import gymnasium as gym
import numpy as np
import torch

from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import default_module


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # One thread is fastest for small networks.
    env = gym.make(options.env)
    module = default_module(
        env.observation_space, env.action_space, generator=torch.Generator().manual_seed(options.seed)
    )
    # Runner and learner share the module, so the runner acts with updated weights at once.
    runner = SingleAgentEnvRunner(options.env, module, num_envs=8, seed=options.seed)
    learner = Learner(module, PPOConfig(), seed=options.seed)

    steps, finished = 0, []
    while steps < options.steps:
        episodes = runner.sample(num_timesteps=1024)
        metrics = learner.update(episodes, num_epochs=10, minibatch_size=128)["default_policy"]
        played = runner.get_metrics()
        finished += played.episode_returns
        if (steps + played.num_env_steps) // 5_000 > steps // 5_000 and finished:
            recent = np.mean(finished[-20:])
            print(f"{steps + played.num_env_steps:>7} steps  return {recent:6.1f}  entropy {metrics['entropy']:.3f}")
        steps += played.num_env_steps

    score = float(np.mean([episode.get_return() for episode in runner.evaluate(20)]))
    runner.close()
    print(f"mean return of 20 evaluation episodes: {score:.1f}")
    return score


if __name__ == "__main__":
    main()
