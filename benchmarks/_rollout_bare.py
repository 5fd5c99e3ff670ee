"""Collecting by hand, as an expert writes it who needs nothing else: the limit that a runner is measured against.

The same environments, network and way to draw actions as those of the runner; arrays of all columns are made once and
written in place. Nothing is checked, there are no callbacks, an environment that fails ends everything, and the results are
arrays `[time, lanes]`, which the next call overwrites: no episodes. Only real transitions count: in gymnasium's mode
NEXT_STEP the step after the last one of an episode is none.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from _rollout_settings import ENV, SEED
from torch import Tensor, nn

Columns = dict[str, np.ndarray]


class BareLoop:
    """Plays in a vector environment, or in a list of environments that are reset as their episodes end.

    Args:
        env: The environments.
        network: From observations to logits.
        steps: How many steps one call plays in each lane.
    """

    def __init__(self, env: Any, network: nn.Module, steps: int) -> None:
        self._env = env
        self._network = network
        self._generator = torch.Generator().manual_seed(SEED)
        lanes = env.num_envs if isinstance(env, gym.vector.VectorEnv) else len(env)
        shape = (steps, lanes)
        self._obs = np.zeros((steps + 1, lanes, 4), np.float32)
        self.columns: Columns = {
            "obs": self._obs,
            "actions": np.zeros(shape, np.int64),
            "rewards": np.zeros(shape),
            "terminateds": np.zeros(shape, np.bool_),
            "truncateds": np.zeros(shape, np.bool_),
            "action_logp": np.zeros(shape, np.float32),
            "action_dist_inputs": np.zeros((*shape, 2), np.float32),
        }

    def act(self, t: int) -> np.ndarray:
        """Return the actions at `t`, and store what belongs to them."""
        return self._drawn_and_stored(t, self._network(torch.from_numpy(self._obs[t])))

    def _drawn_and_stored(self, t: int, logits: Tensor) -> np.ndarray:
        columns = self.columns
        logps = torch.log_softmax(logits, -1)
        chosen = drawn(logps, self._generator)
        actions = chosen.numpy()
        columns["actions"][t] = actions
        columns["action_dist_inputs"][t] = logits.numpy()
        columns["action_logp"][t] = logps.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).numpy()
        return actions


def drawn(logps: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one class per row, as the library does it: faster than `torch.multinomial` or a `Categorical`."""
    rates = logps.exp()
    return rates.div_(torch.empty_like(rates).exponential_(generator=generator)).argmax(-1)


class BareVector(BareLoop):
    """The loop over a vector environment of gymnasium."""

    def __init__(self, env: Any, network: nn.Module, steps: int) -> None:
        super().__init__(env, network, steps)
        self._obs[-1], _ = env.reset(seed=SEED)
        self._resets = np.zeros(env.num_envs, np.bool_)
        self.columns["is_reset"] = np.zeros((steps, env.num_envs), np.bool_)

    def __call__(self) -> int:
        """Play, and return how many real transitions there were."""
        obs, columns, step = self._obs, self.columns, self._env.step
        rewards, is_reset = columns["rewards"], columns["is_reset"]
        terminateds, truncateds = columns["terminateds"], columns["truncateds"]
        obs[0] = obs[-1]
        resets = self._resets
        with torch.no_grad():
            for t in range(len(rewards)):
                is_reset[t] = resets
                obs[t + 1], rewards[t], terminateds[t], truncateds[t], _ = step(self.act(t))
                resets = terminateds[t] | truncateds[t]
        self._resets = resets
        return int(is_reset.size - is_reset.sum())


class BareList(BareLoop):
    """The loop over environments one by one, without anything between them and the arrays."""

    def __init__(self, env: Any, network: nn.Module, steps: int) -> None:
        super().__init__(env, network, steps)
        for lane, one in enumerate(env):
            self._obs[-1, lane], _ = one.reset(seed=SEED + lane)
        # The observation after the last step of an episode; the next one stands in its place already.
        self.final_obs: dict[tuple[int, int], np.ndarray] = {}

    def __call__(self) -> int:
        """Play, and return how many transitions there were."""
        obs, columns, envs = self._obs, self.columns, self._env
        rewards, terminateds, truncateds = columns["rewards"], columns["terminateds"], columns["truncateds"]
        obs[0] = obs[-1]
        self.final_obs = {}
        with torch.no_grad():
            for t in range(len(rewards)):
                after, reward_of, terminated_of, truncated_of = obs[t + 1], rewards[t], terminateds[t], truncateds[t]
                # As all vector environments do, hand over NumPy's integers.
                for lane, action in enumerate(self.act(t)):
                    observation, reward, terminated, truncated, _ = envs[lane].step(action)
                    reward_of[lane], terminated_of[lane], truncated_of[lane] = reward, terminated, truncated
                    if terminated or truncated:
                        self.final_obs[t, lane] = observation
                        observation, _ = envs[lane].reset()
                    after[lane] = observation
        return rewards.size


class BareLSTM(BareList):
    """The same with a recurrent network, whose states are stored as well, and are reset with each episode.

    Args:
        env: The environments.
        module: With a trunk of linear layers and an LSTM, and a head for the actions.
        steps: How many steps one call plays in each lane.
    """

    def __init__(self, env: Any, module: Any, steps: int) -> None:
        super().__init__(env, nn.Sequential(*module.trunk.tower), steps)
        self._lstm, self._head = module.trunk.memory, module.actor_head
        size = (1, len(env), self._lstm.hidden_size)
        self._state = torch.zeros(size), torch.zeros(size)
        self.columns |= {name: np.zeros((steps, *size[1:]), np.float32) for name in ("h", "c")}

    def act(self, t: int) -> np.ndarray:
        """Return the actions at `t`, and store what belongs to them."""
        columns = self.columns
        if t:
            ended = columns["terminateds"][t - 1] | columns["truncateds"][t - 1]
        else:
            ended = columns["terminateds"][-1] | columns["truncateds"][-1]
        if ended.any():
            for part in self._state:
                part[:, torch.from_numpy(ended)] = 0.0
        features = self._network(torch.from_numpy(self._obs[t]))
        embeddings, self._state = self._lstm(features.unsqueeze(1), self._state)
        columns["h"][t], columns["c"][t] = self._state[0][0].numpy(), self._state[1][0].numpy()
        return self._drawn_and_stored(t, self._head(embeddings.squeeze(1)))


def sync_envs(num_envs: int) -> list[gym.Env]:
    """Return environments as `gym.make` makes them."""
    return [gym.make(ENV) for _ in range(num_envs)]


def vectorised_env(num_envs: int, mode: str = "vector_entry_point") -> Any:
    """Return gymnasium's vectorised CartPole."""
    return gym.make_vec(ENV, num_envs=num_envs, vectorization_mode=mode)
