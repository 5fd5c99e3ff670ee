"""TorchRL's side of the rollout rows: its synchronous collector with a probabilistic actor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from _rollout_settings import ENV, FRAGMENTS, HIDDEN, SEED
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, SerialEnv
from torchrl.modules import MLP, ProbabilisticActor

KINDS = ("sync",)


def single(_kind: str, num_envs: int) -> Callable[[], int]:
    """Return what collects, and returns the number of steps."""
    steps = num_envs * FRAGMENTS[num_envs]
    env = SerialEnv(num_envs, lambda: GymEnv(ENV, categorical_action_encoding=True, device="cpu"))
    network = MLP(in_features=4, out_features=2, num_cells=list(HIDDEN), activation_class=nn.Tanh)
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=Categorical,
        return_log_prob=True,
        spec=env.action_spec,
    )
    collector = Collector(env, actor, frames_per_batch=steps, total_frames=-1, device="cpu")
    collector.set_seed(SEED)
    batches: Iterator[Any] = iter(collector)
    return lambda: int(next(batches).numel())
