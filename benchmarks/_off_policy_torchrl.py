"""TorchRL's side of the off-policy rows: its losses, target updaters and buffer in the loop of its examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
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
    stored,
)
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv
from torchrl.modules import MLP, EGreedyModule, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import DQNLoss, HardUpdate, SACLoss, SoftUpdate


class _DQN:
    def __init__(self, env: Any, width: int) -> None:
        network = MLP(in_features=4, out_features=2, num_cells=[width, width], activation_class=nn.ReLU)
        self.actor = QValueActor(network, in_keys=["observation"], spec=env.action_spec)
        noise = EGreedyModule(env.action_spec, eps_init=EPSILON, eps_end=EPSILON, annealing_num_steps=1)
        self.explores = TensorDictSequential(self.actor, noise)
        self.loss = DQNLoss(self.actor, loss_function="smooth_l1", delay_value=True)
        self.loss.make_value_estimator(gamma=GAMMA)
        self.follows = HardUpdate(self.loss, value_network_update_interval=TARGET_EVERY)
        self.weights = list(self.loss.parameters())
        self.optimizer = torch.optim.Adam(self.weights, lr=RATE)

    def learn(self, sample: Any) -> None:
        loss = self.loss(sample)["loss"]
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 10.0)
        self.optimizer.step()
        self.follows.step()


class _SAC:
    def __init__(self, env: Any, width: int) -> None:
        policy = nn.Sequential(
            MLP(in_features=3, out_features=2, num_cells=[width, width], activation_class=nn.ReLU),
            NormalParamExtractor(),
        )
        self.actor = self.explores = ProbabilisticActor(
            TensorDictModule(policy, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            spec=env.action_spec,
            distribution_class=TanhNormal,
            distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high},
        )
        critic = MLP(in_features=4, out_features=1, num_cells=[width, width], activation_class=nn.ReLU)
        self.loss = SACLoss(
            self.actor, ValueOperator(critic, in_keys=["action", "observation"]), num_qvalue_nets=2, loss_function="l2"
        )
        self.loss.make_value_estimator(gamma=GAMMA)
        self.follows = SoftUpdate(self.loss, tau=TAU)
        groups = [
            self.loss.qvalue_network_params.flatten_keys().values(),
            self.loss.actor_network_params.flatten_keys().values(),
            [self.loss.log_alpha],
        ]
        self.optimizers = [torch.optim.Adam(list(weights), lr=RATE) for weights in groups]

    def learn(self, sample: Any) -> None:
        losses = self.loss(sample)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        (losses["loss_qvalue"] + losses["loss_actor"] + losses["loss_alpha"]).backward()
        for optimizer in self.optimizers:
            optimizer.step()
        self.follows.step()


_KINDS: dict[str, Any] = {"dqn": _DQN, "sac": _SAC}


def _env(algorithm: str) -> GymEnv:
    return GymEnv(ENVS[algorithm], categorical_action_encoding=True, device="cpu")


def _buffer(size: int, batch: int) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=batch)


def updates(algorithm: str, batch: int, width: int) -> Callable[[], None]:
    """Return what takes `AT_ONCE` gradient steps."""
    found = {name: torch.from_numpy(rows) for name, rows in stored(algorithm).items()}
    following = {
        "observation": found["next_obs"],
        "reward": found["rewards"][:, None],
        "done": found["ends"][:, None],
        "terminated": torch.zeros_like(found["ends"][:, None]),
        "truncated": found["ends"][:, None],
    }
    content = {"observation": found["obs"], "action": found["actions"], "next": TensorDict(following, [STORED])}
    buffer = _buffer(STORED, batch)
    buffer.extend(TensorDict(content, [STORED]))
    learner = _KINDS[algorithm](_env(algorithm), width)

    def run() -> None:
        for _ in range(AT_ONCE):
            learner.learn(buffer.sample())

    return run


def loop(algorithm: str, batch: int, width: int) -> Callable[[], int]:
    """Return what plays and learns, one update for each step, and returns the number of steps."""
    env = _env(algorithm)
    learner, buffer = _KINDS[algorithm](env, width), _buffer(2 * STORED, batch)
    collector = Collector(
        env, learner.explores, frames_per_batch=AT_ONCE, total_frames=-1, init_random_frames=WARM_UP, device="cpu"
    )
    batches: Iterator[Any] = iter(collector)

    def run() -> int:
        steps = 0
        while steps < LOOP_STEPS:
            played = next(batches)
            buffer.extend(played.reshape(-1))
            steps += int(played.numel())
            if len(buffer) > WARM_UP:
                for _ in range(AT_ONCE):
                    learner.learn(buffer.sample())
        return steps

    while len(buffer) <= WARM_UP:
        run()
    return run
