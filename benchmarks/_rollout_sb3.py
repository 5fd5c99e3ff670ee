"""Stable-Baselines3's side of the rollout rows: PPO's `collect_rollouts`.

It computes values along with the actions, and advantages at the end, which the other sides leave to their learners.
"""

from __future__ import annotations

from collections.abc import Callable

from _rollout_settings import ENV, FRAGMENTS, HIDDEN, SEED
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

# It has no vector environments that step all at once.
KINDS = ("sync",)


def single(_kind: str, num_envs: int) -> Callable[[], int]:
    """Return what collects a rollout, and returns the number of steps."""
    steps = FRAGMENTS[num_envs]
    algorithm = PPO(
        "MlpPolicy",
        make_vec_env(ENV, num_envs, seed=SEED),
        n_steps=steps,
        batch_size=steps * num_envs,
        policy_kwargs={"net_arch": list(HIDDEN)},
        device="cpu",
        seed=SEED,
    )
    _, callback = algorithm._setup_learn(total_timesteps=10**9)

    def collect() -> int:
        algorithm.collect_rollouts(algorithm.env, callback, algorithm.rollout_buffer, n_rollout_steps=steps)
        return steps * num_envs

    return collect
