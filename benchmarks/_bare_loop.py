"""The learner's batch, made by hand from plain arrays: what an expert writes who needs nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from _connector_data import GAMMA, LAMBDA, MAX_SEQ_LEN, STEP_COLUMNS, FlatValues, RecurrentValues, Trajectory

Arrays = dict[str, np.ndarray]


def flat_batch(data: list[Trajectory], network: FlatValues) -> dict[str, torch.Tensor]:
    """Concatenate columns, compute all values in one forward pass, then GAE for all episodes at once."""
    tracks = np.concatenate([episode.obs for episode in data])
    with torch.no_grad():
        values = network.values({"obs": torch.from_numpy(tracks)}).numpy()
    batch = _columns(data)
    _add_estimates(batch, data, values)
    return {name: _tensor(column) for name, column in batch.items()}


def recurrent_batch(
    data: list[Trajectory], states: list[Arrays], network: RecurrentValues
) -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
    """Do the same with sequences for an LSTM: values of whole sequences, the last ones from the last states."""
    lengths = [len(episode) for episode in data]
    state_in = _first_states(states, lengths)
    obs = _padded(np.concatenate([episode.obs[:-1] for episode in data]), lengths)
    last = {name: torch.from_numpy(np.stack([state[name][-1] for state in states])) for name in state_in}
    mask = _padded(np.ones(sum(lengths), np.bool_), lengths)
    with torch.no_grad():
        steps = network.values({"obs": torch.from_numpy(obs), "state_in": state_in}).numpy()[mask]
        ends = torch.from_numpy(np.stack([episode.obs[-1] for episode in data]))[:, None]
        after = network.values({"obs": ends, "state_in": last}).numpy()[:, 0]
    batch = _columns(data)
    _add_estimates(batch, data, np.insert(steps, np.cumsum(lengths), after))
    made: dict[str, Any] = {name: _tensor(_padded(column, lengths)) for name, column in batch.items()}
    return {**made, "state_in": state_in, "loss_mask": torch.from_numpy(mask)}


def _columns(data: list[Trajectory]) -> Arrays:
    batch = {name: np.concatenate([getattr(episode, name) for episode in data]) for name in STEP_COLUMNS}
    batch["obs"] = np.concatenate([episode.obs[:-1] for episode in data])
    ends = np.cumsum([len(episode) for episode in data]) - 1
    for name in ("terminated", "truncated"):
        flags = np.zeros(len(batch["rewards"]), np.bool_)
        flags[ends] = [getattr(episode, name) for episode in data]
        batch[f"{name}s"] = flags
    return batch


def _add_estimates(batch: Arrays, data: list[Trajectory], values: np.ndarray) -> None:
    """Add advantages and targets, from the values of all T + 1 observations of each episode."""
    lengths = np.array([len(episode) for episode in data])
    is_step = np.ones(len(values), np.bool_)
    is_step[np.cumsum(lengths + 1) - 1] = False
    following = np.append(values[1:], 0.0)[is_step]
    following[batch["terminateds"]] = 0.0
    values = values[is_step]
    place = np.arange(lengths.max()) < lengths[:, None]
    sums = np.zeros(place.shape)
    sums[place] = batch["rewards"] + GAMMA * following - values
    for t in reversed(range(place.shape[1] - 1)):
        sums[:, t] += GAMMA * LAMBDA * sums[:, t + 1]
    advantages = sums[place]
    batch["value_targets"] = advantages + values
    batch["advantages"] = (advantages - advantages.mean()) / max(1e-4, advantages.std())


def _padded(column: np.ndarray, lengths: list[int]) -> np.ndarray:
    pieces = sum(-(-length // MAX_SEQ_LEN) for length in lengths)
    made = np.zeros((pieces, MAX_SEQ_LEN, *column.shape[1:]), column.dtype)
    row = start = 0
    for length in lengths:
        whole, rest = divmod(length, MAX_SEQ_LEN)
        stop = start + whole * MAX_SEQ_LEN
        made[row : row + whole] = column[start:stop].reshape(whole, MAX_SEQ_LEN, *column.shape[1:])
        row, start = row + whole, start + length
        if rest:
            made[row, :rest] = column[stop:start]
            row += 1
    return made


def _first_states(states: list[Arrays], lengths: list[int]) -> dict[str, torch.Tensor]:
    """Return the state before each sequence; before the first one of an episode there is none."""
    return {
        name: torch.from_numpy(
            np.concatenate(
                [part for state, length in zip(states, lengths, strict=True) for part in _firsts(state[name], length)]
            )
        )
        for name in states[0]
    }


def _firsts(column: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((1, column.shape[1]), column.dtype), column[MAX_SEQ_LEN - 1 : length - 1 : MAX_SEQ_LEN]


def _tensor(column: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(column.astype(np.float32) if column.dtype == np.float64 else column)
