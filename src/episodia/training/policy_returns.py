"""A policy in an environment, step by step, as whoever uses it would write it."""

from __future__ import annotations

from typing import Any

from episodia.errors import EnvError, EpisodiaError, TrainingError
from episodia.policies import Policy


def returns_of(policy: Policy, env: Any, num_episodes: int, *, seed: int = 0) -> list[float]:
    """Return the return of each of `num_episodes` episodes that `policy` plays in the gymnasium environment `env`.

    Raises:
        TrainingError: If the environment has other spaces than the policy was made for.
        EnvError: If it fails.

    >>> import gymnasium as gym
    >>> from episodia.modules import RandomModule
    >>> env = gym.make("CartPole-v1")
    >>> len(returns_of(Policy(RandomModule(env.observation_space, env.action_space, seed=0)), env, 2))
    2
    """
    for name in ("observation_space", "action_space"):
        made_for, found = getattr(policy, name), getattr(env, name, None)
        if made_for is not None and made_for != found:
            raise TrainingError(
                f"environment: found {found} as its {name}, expected that of the policy, {made_for}. Choose an environment "
                "with the same spaces."
            )
    try:
        return [_return_of(policy, env, seed + episode) for episode in range(num_episodes)]
    except EpisodiaError:
        raise
    except Exception as error:  # whatever an environment of someone else raises
        raise EnvError(
            f"environment: found that {env} failed ({type(error).__name__}: {error}), expected that it plays. Correct it."
        ) from error


def _return_of(policy: Policy, env: Any, seed: int) -> float:
    policy.reset()
    observation, _ = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        policy.observe(float(reward))
        total, is_over = total + float(reward), terminated or truncated
    return total
