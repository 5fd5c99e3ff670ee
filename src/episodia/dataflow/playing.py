"""A policy in an environment, step by step, as whoever uses it would write it."""

from __future__ import annotations

from typing import Any

from episodia.connectors import Policy


def returns_of(policy: Policy, env: Any, num_episodes: int, *, seed: int = 0) -> list[float]:
    """Return the return of each of `num_episodes` episodes that `policy` plays in the gymnasium environment `env`.

    >>> import gymnasium as gym
    >>> from episodia.modules import RandomModule
    >>> env = gym.make("CartPole-v1")
    >>> len(returns_of(Policy(RandomModule(env.observation_space, env.action_space, seed=0)), env, 2))
    2
    """
    found = []
    for episode in range(num_episodes):
        policy.reset()
        observation, _ = env.reset(seed=seed + episode)
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            policy.observe(float(reward))
            total, is_over = total + float(reward), terminated or truncated
        found.append(total)
    return found
