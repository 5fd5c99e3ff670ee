"""What `connector_cases.py` feeds to the pipelines, the networks that it puts behind them, and what must come out.

This module runs on all sides, also in the peers' environments: only NumPy and torch here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

GAMMA, LAMBDA = 0.99, 0.95
UNITS = 32
MAX_SEQ_LEN = 20
STEP_COLUMNS = ("actions", "rewards", "action_logp", "action_dist_inputs")
# What pipelines copy and never compute: it has to be the same to the last bit.
COPIED = ("obs", "terminateds", *STEP_COLUMNS)
# Values are computed in float32 there, and in float64 here.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Trajectory:
    """One CartPole-like episode: T + 1 observations, T steps, and how it ended."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    action_logp: np.ndarray
    action_dist_inputs: np.ndarray
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.actions)


def trajectories(lengths: list[int]) -> list[Trajectory]:
    """Return seeded trajectories of these lengths: two of four terminated, one truncated, one still running."""
    random = np.random.default_rng(0)
    return [_trajectory(random, length, number) for number, length in enumerate(lengths)]


def as_handed_out(data: list[Trajectory]) -> list[Trajectory]:
    """Return `data` in the order in which a recorder hands episodes out: as they end, and running ones last."""
    return sorted(data, key=lambda trajectory: (not (trajectory.terminated or trajectory.truncated), len(trajectory)))


def _trajectory(random: np.random.Generator, length: int, number: int) -> Trajectory:
    logits = random.normal(size=(length, 2)).astype(np.float32)
    actions = random.integers(0, 2, length)
    chances = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return Trajectory(
        obs=random.normal(size=(length + 1, 4)).astype(np.float32),
        actions=actions,
        rewards=random.uniform(-1.0, 1.0, length),
        action_logp=chances[np.arange(length), actions].astype(np.float32),
        action_dist_inputs=logits,
        terminated=number % 4 < 2,
        truncated=number % 4 == 2,
    )


class FlatValues(nn.Module):
    """The value network of the feed-forward rows: one hidden layer of 32 units."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, UNITS), nn.Tanh(), nn.Linear(UNITS, 1))
        _seed_weights(self)

    def values(self, batch: dict[str, Any]) -> Tensor:
        """Return the value of each observation."""
        found: Tensor = self.layers(batch["obs"])
        return found.squeeze(-1)


class RecurrentValues(nn.Module):
    """The value network of the recurrent rows: one LSTM layer of 32 units."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, 1)
        _seed_weights(self)

    def values(self, batch: dict[str, Any]) -> Tensor:
        """Return the value of each observation `[B, T]`."""
        state = batch["state_in"]
        outputs, _ = self.lstm(batch["obs"], (state["h"].unsqueeze(0), state["c"].unsqueeze(0)))
        found: Tensor = self.head(outputs)
        return found.squeeze(-1)

    def states(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Return the states after each of the observations of one episode, as a runner stores them."""
        state, found = None, []
        with torch.no_grad():
            for observation in torch.from_numpy(observations):
                _, state = self.lstm(observation[None, None], state)
                found.append(state)
        return {name: np.stack([pair[place][0, 0].numpy() for pair in found]) for place, name in enumerate("hc")}


def _seed_weights(network: nn.Module) -> None:
    random = np.random.default_rng(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(random.normal(0.0, 0.3, tuple(parameter.shape))))


# --- What must come out ---------------------------------------------------------------------------------------------


def expected(data: list[Trajectory], network: FlatValues | RecurrentValues) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised advantages and value targets of all steps, in float64 and by the book."""
    exact = deepcopy(network).double()
    found = [_estimates(trajectory, _exact_values(exact, trajectory)) for trajectory in data]
    advantages, targets = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return standardized(advantages), targets


def _exact_values(network: Any, trajectory: Trajectory) -> np.ndarray:
    obs = torch.from_numpy(trajectory.obs.astype(np.float64))
    zeros = torch.zeros((1, UNITS), dtype=torch.float64)
    batch = {"obs": obs, "state_in": {"h": zeros, "c": zeros}}
    if isinstance(network, RecurrentValues):
        batch["obs"] = obs[None]
    with torch.no_grad():
        found: np.ndarray = network.values(batch).reshape(-1).numpy()
    return found


def _estimates(trajectory: Trajectory, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    advantages = np.zeros(len(trajectory) + 1)
    for t in reversed(range(len(trajectory))):
        is_end = trajectory.terminated and t == len(trajectory) - 1
        delta = trajectory.rewards[t] + GAMMA * (0.0 if is_end else values[t + 1]) - values[t]
        advantages[t] = delta + GAMMA * LAMBDA * advantages[t + 1]
    return advantages[:-1], advantages[:-1] + values[:-1]


def standardized(values: np.ndarray) -> np.ndarray:
    """Return values with mean 0 and standard deviation 1."""
    found: np.ndarray = (values - values.mean()) / values.std()
    return found


def verified(
    batch: dict[str, Any],
    data: list[Trajectory],
    network: FlatValues | RecurrentValues,
    *,
    counts_artificial_steps: bool = False,
) -> dict[str, np.ndarray]:
    """Return the copied columns of the steps of `batch`, to be compared bit by bit; raise if the computed ones are wrong.

    Args:
        batch: The columns that a pipeline made, as tensors; artificial steps and padding are out of its `loss_mask`.
        data: What the pipeline was given.
        network: The value network.
        counts_artificial_steps: Whether the side counts them in the standardisation, which then is not quite one.
    """
    mask = batch.get("loss_mask")
    valid = {name: _valid(batch[name], mask) for name in (*COPIED, "advantages", "value_targets")}
    advantages, targets = expected(data, network)
    found = valid.pop("advantages")
    if counts_artificial_steps:
        found = standardized(found)
    np.testing.assert_allclose(found, advantages, rtol=TOLERANCE, atol=TOLERANCE, err_msg="advantages")
    np.testing.assert_allclose(valid.pop("value_targets"), targets, rtol=TOLERANCE, atol=TOLERANCE, err_msg="targets")
    return valid


def _valid(column: Tensor, mask: Tensor | None) -> np.ndarray:
    found: np.ndarray = (column if mask is None else column[mask.bool()]).numpy()
    return found
