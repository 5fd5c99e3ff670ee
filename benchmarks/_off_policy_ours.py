"""Our side of the off-policy rows, and the same updates in bare torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from _off_policy_settings import (
    AT_ONCE,
    ENVS,
    EPISODE,
    EPSILON,
    GAMMA,
    LOOP_STEPS,
    RATE,
    STORED,
    TARGET_EVERY,
    TAU,
    WARM_UP,
    Solving,
    stored,
)
from torch import Tensor, nn
from torch.nn import functional

from episodia import SingleAgentEpisode
from episodia.learners import DQNConfig, Learner, ReplayUpdates, SACConfig
from episodia.modules import default_module
from episodia.replay import ReplayBuffer
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import Setup
from episodia.training.training import Training as OurTraining


def _config(algorithm: str) -> DQNConfig | SACConfig:
    if algorithm == "dqn":
        return DQNConfig(learning_rate=RATE, gamma=GAMMA, double=False, target_every=TARGET_EVERY)
    return SACConfig(learning_rate=RATE, gamma=GAMMA, tau=TAU)


def updates(algorithm: str, batch: int, width: int) -> Callable[[], Any]:
    """Return what takes `AT_ONCE` gradient steps."""
    found, env = stored(algorithm), gym.make(ENVS[algorithm])
    spaces = env.observation_space, env.action_space
    buffer = ReplayBuffer(2 * STORED, seed=0)
    for number, track in enumerate(found["track"]):
        rows = slice(number * EPISODE, (number + 1) * EPISODE)
        episode = SingleAgentEpisode(
            observations=track,
            actions=found["actions"][rows],
            rewards=found["rewards"][rows],
            truncated=True,
            len_lookback_buffer=0,
        )
        buffer.add([episode.finalize()])
    config = _config(algorithm)
    module = default_module(*spaces, hidden=(width, width), **config.network())
    learner = Learner(module, config, observation_space=spaces[0], action_space=spaces[1], seed=0)
    made = ReplayUpdates(learner, buffer, num=batch)
    return lambda: made.update(num_gradient_steps=AT_ONCE)


def loop(algorithm: str, batch: int, width: int) -> Callable[[], int]:
    """Return what plays and learns, one update for each step, and returns the number of steps."""
    config = _config(algorithm)
    options: dict[str, Any] = {"epsilon": EPSILON} if algorithm == "dqn" else {}
    setup = Setup.of(
        config,
        ENVS[algorithm],
        num_envs=1,
        num_timesteps=AT_ONCE,
        updates_per_step=1.0,
        batch_size=batch,
        warm_up=WARM_UP,
        random_warm_up=True,
        hidden=(width, width),
        seed=0,
        **options,
    )
    training = OurTraining.of(setup)
    training.run(steps=WARM_UP + AT_ONCE)

    def run() -> int:
        before = training.steps
        while training.steps < before + LOOP_STEPS:
            training.step()
        return training.steps - before

    return run


class Training:
    """`train` as users call it, with the settings of SB3's zoo."""

    def __init__(self, setting: Solving, seed: int) -> None:
        options: dict[str, Any] = {"learning_rate": setting.rate, "gamma": GAMMA, "tau": TAU}
        if setting.falling:
            options |= {
                "tau": 1.0,
                "double": False,
                "target_every": setting.target_every,
                "target_unit": "env_steps",
                "epsilon": PiecewiseLinearSchedule([(0, 1.0), (setting.falling, setting.epsilon)]),
            }
        self._training = OurTraining.of(
            Setup.of(
                "dqn" if setting.falling else "sac",
                setting.env,
                num_envs=1,
                num_timesteps=setting.collect,
                updates_per_step=setting.updates / setting.collect,
                batch_size=setting.batch,
                warm_up=setting.warm_up,
                random_warm_up=True,
                capacity=setting.capacity,
                hidden=(setting.width, setting.width),
                seed=seed,
                **options,
            )
        )

    def run(self, steps: int) -> None:
        """See `_off_policy_settings.Training`."""
        self._training.run(steps=steps)

    def act(self, observations: np.ndarray) -> np.ndarray:
        """See `_off_policy_settings.Training`."""
        module = self._training.runner.module
        with torch.no_grad():
            outputs = module.forward_inference({"obs": torch.from_numpy(observations)})["action_dist_inputs"]
            actions = module.distribution.from_logits(outputs).mode().numpy()
        space = module.action_space
        if not isinstance(space, gym.spaces.Box):
            return np.asarray(actions)
        return np.asarray(space.low + (actions + 1.0) * 0.5 * (space.high - space.low))


# --- Bare torch, with the same optimizer ------------------------------------------------------------------------------


def updates_by_hand(algorithm: str, batch: int, width: int) -> Callable[[], None]:
    """Return `AT_ONCE` gradient steps of a loop without any library."""
    found, rng = stored(algorithm), np.random.default_rng(0)
    columns = [found[name] for name in ("obs", "next_obs", "actions", "rewards")]
    step = (_BareDQN if algorithm == "dqn" else _BareSAC)(width).step

    def run() -> None:
        for _ in range(AT_ONCE):
            rows = rng.integers(0, STORED, batch)
            step(*(torch.from_numpy(column[rows]) for column in columns))

    return run


def _mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class _BareDQN:
    def __init__(self, width: int) -> None:
        self.values, self.target = _mlp(4, width, 2), _mlp(4, width, 2)
        self.weights = list(self.values.parameters())
        self.optimizer = torch.optim.Adam(self.weights, lr=RATE, fused=True)

    def step(self, obs: Tensor, next_obs: Tensor, actions: Tensor, rewards: Tensor) -> None:
        with torch.no_grad():
            targets = rewards + GAMMA * self.target(next_obs).amax(1)
        loss = functional.smooth_l1_loss(self.values(obs).gather(1, actions[:, None]).squeeze(1), targets)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 10.0)
        self.optimizer.step()


class _BareSAC:
    def __init__(self, width: int) -> None:
        self.actor = _mlp(3, width, 2)
        self.critics, self.targets = ([_mlp(4, width, 1) for _ in range(2)] for _ in range(2))
        self.log_temperature = torch.zeros((), requires_grad=True)
        self.followed = [weight for critic in self.critics for weight in critic.parameters()]
        self.following = [weight for critic in self.targets for weight in critic.parameters()]
        groups: list[list[Tensor]] = [self.followed, list(self.actor.parameters()), [self.log_temperature]]
        self.optimizers = [torch.optim.Adam(weights, lr=RATE, fused=True) for weights in groups]

    def step(self, obs: Tensor, next_obs: Tensor, actions: Tensor, rewards: Tensor) -> None:
        temperature = self.log_temperature.detach().exp()
        with torch.no_grad():
            later, logp = self._drawn(next_obs)
            targets = rewards + GAMMA * (self._smallest(self.targets, next_obs, later) - temperature * logp)
        both = torch.cat([obs, actions], 1)
        self._descend(0, sum(functional.mse_loss(critic(both).squeeze(1), targets) for critic in self.critics))
        drawn, logp = self._drawn(obs)
        self._descend(1, (temperature * logp - self._smallest(self.critics, obs, drawn)).mean())
        self._descend(2, -(self.log_temperature * (logp.detach() - 1.0)).mean())
        with torch.no_grad():
            torch._foreach_lerp_(self.following, self.followed, TAU)

    def _drawn(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20.0, 2.0).exp(), validate_args=False)
        raw = normal.rsample()
        drawn = raw.tanh()
        return drawn, (normal.log_prob(raw) - torch.log(1.0 - drawn.square() + 1e-6)).sum(1)

    @staticmethod
    def _smallest(critics: list[nn.Sequential], obs: Tensor, actions: Tensor) -> Tensor:
        both = torch.cat([obs, actions], 1)
        return torch.minimum(*(critic(both).squeeze(1) for critic in critics))

    def _descend(self, which: int, loss: Any) -> None:
        optimizer = self.optimizers[which]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
