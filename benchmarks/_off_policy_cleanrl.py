"""The loops of CleanRL's `dqn.py` and `sac_continuous_action.py`, written here with their settings; they use SB3's buffer.

CleanRL neither clips gradients nor fuses its optimizers, and DQN's errors are squared.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from _off_policy_sb3 import fill
from _off_policy_settings import (
    AT_ONCE,
    ENVS,
    EPSILON,
    GAMMA,
    LOOP_STEPS,
    RATE,
    STORED,
    TARGET_EVERY,
    TAU,
    WARM_UP,
)
from stable_baselines3.common.buffers import ReplayBuffer
from torch import Tensor, nn
from torch.nn import functional


def _mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class _DQN:
    def __init__(self, env: Any, width: int) -> None:
        self._space, self._rng = env.action_space, random.Random(0)
        self._values = _mlp(env.observation_space.shape[0], width, int(env.action_space.n))
        self._target = copy.deepcopy(self._values)
        self._optimizer = torch.optim.Adam(self._values.parameters(), lr=RATE)

    def learn(self, data: Any, step: int) -> None:
        with torch.no_grad():
            best, _ = self._target(data.next_observations).max(dim=1)
            targets = data.rewards.flatten() + GAMMA * best * (1 - data.dones.flatten())
        taken = self._values(data.observations).gather(1, data.actions).squeeze()
        loss = functional.mse_loss(targets, taken)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        if step % TARGET_EVERY == 0:
            for slow, fast in zip(self._target.parameters(), self._values.parameters(), strict=True):
                slow.data.copy_(fast.data)

    def act(self, obs: np.ndarray) -> np.ndarray:
        if self._rng.random() < EPSILON:
            return np.array([self._space.sample()])
        return torch.argmax(self._values(torch.Tensor(obs)), dim=1).cpu().numpy()


class _Actor(nn.Module):
    """A squashed Gaussian whose deviation lies between e^-5 and e^2."""

    def __init__(self, env: Any, width: int) -> None:
        super().__init__()
        size, actions = env.observation_space.shape[0], env.action_space.shape[0]
        self.first, self.second = nn.Linear(size, width), nn.Linear(width, width)
        self.mean, self.log_std = nn.Linear(width, actions), nn.Linear(width, actions)
        low, high = torch.tensor(env.action_space.low), torch.tensor(env.action_space.high)
        self.register_buffer("scale", (high - low) / 2.0)
        self.register_buffer("middle", (high + low) / 2.0)

    def drawn(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = functional.relu(self.second(functional.relu(self.first(obs))))
        std = (-5.0 + 0.5 * 7.0 * (torch.tanh(self.log_std(hidden)) + 1.0)).exp()
        normal = torch.distributions.Normal(self.mean(hidden), std)
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        logp = normal.log_prob(raw) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale + self.middle, logp.sum(1, keepdim=True)


class _SAC:
    """The actor learns in every second step, then twice."""

    def __init__(self, env: Any, width: int) -> None:
        inputs = env.observation_space.shape[0] + env.action_space.shape[0]
        self._actor = _Actor(env, width)
        self._critics = [_mlp(inputs, width, 1) for _ in range(2)]
        self._targets = copy.deepcopy(self._critics)
        weights = [weight for critic in self._critics for weight in critic.parameters()]
        self._critic_optimizer = torch.optim.Adam(weights, lr=RATE)
        self._actor_optimizer = torch.optim.Adam(self._actor.parameters(), lr=RATE)
        self._wanted = -float(np.prod(env.action_space.shape))
        self._log_alpha = torch.zeros(1, requires_grad=True)
        self._alpha = self._log_alpha.exp().item()
        self._alpha_optimizer = torch.optim.Adam([self._log_alpha], lr=RATE)

    def learn(self, data: Any, step: int) -> None:
        with torch.no_grad():
            later, logp = self._actor.drawn(data.next_observations)
            least = torch.min(*self._valued(self._targets, data.next_observations, later)) - self._alpha * logp
            targets = data.rewards.flatten() + (1 - data.dones.flatten()) * GAMMA * least.view(-1)
        first, second = self._valued(self._critics, data.observations, data.actions)
        loss = functional.mse_loss(first.view(-1), targets) + functional.mse_loss(second.view(-1), targets)
        self._critic_optimizer.zero_grad()
        loss.backward()
        self._critic_optimizer.step()
        if step % 2 == 0:
            for _ in range(2):
                self._improve(data)
        for slow_network, fast_network in zip(self._targets, self._critics, strict=True):
            for slow, fast in zip(slow_network.parameters(), fast_network.parameters(), strict=True):
                slow.data.copy_(TAU * fast.data + (1 - TAU) * slow.data)

    def act(self, obs: np.ndarray) -> np.ndarray:
        return self._actor.drawn(torch.Tensor(obs))[0].detach().cpu().numpy()

    def _improve(self, data: Any) -> None:
        drawn, logp = self._actor.drawn(data.observations)
        loss = (self._alpha * logp - torch.min(*self._valued(self._critics, data.observations, drawn))).mean()
        self._actor_optimizer.zero_grad()
        loss.backward()
        self._actor_optimizer.step()
        with torch.no_grad():
            _, logp = self._actor.drawn(data.observations)
        alpha_loss = (-self._log_alpha.exp() * (logp + self._wanted)).mean()
        self._alpha_optimizer.zero_grad()
        alpha_loss.backward()
        self._alpha_optimizer.step()
        self._alpha = self._log_alpha.exp().item()

    @staticmethod
    def _valued(critics: list[nn.Sequential], obs: Tensor, actions: Tensor) -> list[Tensor]:
        return [critic(torch.cat([obs, actions], 1)) for critic in critics]


_KINDS: dict[str, Any] = {"dqn": _DQN, "sac": _SAC}


def _buffer(env: Any) -> ReplayBuffer:
    return ReplayBuffer(
        2 * STORED, env.observation_space, env.action_space, device="cpu", handle_timeout_termination=False
    )


def updates(algorithm: str, batch: int, width: int) -> Callable[[], None]:
    """Return what takes `AT_ONCE` gradient steps."""
    env = gym.make(ENVS[algorithm])
    learner, buffer = _KINDS[algorithm](env, width), fill(_buffer(env), algorithm)

    def run() -> None:
        for step in range(AT_ONCE):
            learner.learn(buffer.sample(batch), step)

    return run


def loop(algorithm: str, batch: int, width: int) -> Callable[[], int]:
    """Return what plays and learns, one update for each step, and returns the number of steps."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(ENVS[algorithm])], autoreset_mode="SameStep")
    env = gym.make(ENVS[algorithm])
    learner, buffer = _KINDS[algorithm](env, width), _buffer(env)
    obs, _ = envs.reset(seed=0)
    step = 0

    def run(steps: int = LOOP_STEPS) -> int:
        nonlocal obs, step
        for _ in range(steps):
            step += 1
            actions = learner.act(obs) if step > WARM_UP else envs.action_space.sample()
            following, rewards, terminations, truncations, infos = envs.step(actions)
            true_following = following.copy()
            for lane, is_cut in enumerate(truncations):
                if is_cut:
                    true_following[lane] = infos["final_obs"][lane]
            buffer.add(obs, true_following, actions, rewards, terminations, [infos])
            obs = following
            if step > WARM_UP:
                learner.learn(buffer.sample(batch), step)
        return steps

    run(WARM_UP + AT_ONCE)
    return run
