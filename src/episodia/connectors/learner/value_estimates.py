"""Values of all observations of all episodes, and the columns that targets are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, mapped_rows, missing_column
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.module_outputs import (
    check_some_known,
    is_container,
    learns,
    members,
    module_of,
    needed_module,
)
from episodia.connectors.batches.sequences import first_rows, padded, sequences, unpadded
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import max_seq_len_of, rows_of_sequences
from episodia.connectors.common.finite_numbers import check_made
from episodia.connectors.common.numpy_to_tensor import as_tensor
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import as_track
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import PipelineError
from episodia.modules.modes import mode
from episodia.modules.protocol import Modules, ValueModule, has_values
from episodia.trees import leaves, map_batch

# A batch of more bytes than this goes to the module in parts, to save the memory of its device.
BYTES_AT_ONCE = 2**28


def check_values(piece: str, rl_module: Modules) -> None:
    """Check that every module that may learn computes values.

    Raises:
        PipelineError: If there is no module, if one that may learn has no `compute_values`, or if no member has it.
    """
    modules = members(needed_module(piece, rl_module))
    valued = {module_id for module_id, module in modules.items() if has_values(module)}
    missing = [name for name in modules if name not in valued and (not valued or learns(rl_module, name))]
    if not missing:
        return
    names = ", ".join(f"{module_id!r} ({type(modules[module_id]).__name__})" for module_id in missing)
    found = f"the modules {names}" if is_container(rl_module) else f"a module ({missing[0]})"
    remedy = ", or freeze what does not learn: `MultiModule(..., frozen=[...])`" if is_container(rl_module) else ""
    raise PipelineError(
        f"{piece}: found {found} without `compute_values`, expected a module that computes values: advantages are differences "
        f"to these values. Give it `compute_values(batch)`, see `episodia.modules.ValueModule`{remedy}; or use targets "
        "that need no values, such as `ComputeReturnsToGo`."
    )


class ValuedSteps(NamedTuple):
    """The steps of a module, with what advantages are computed from.

    Attributes:
        module: The module.
        columns: The columns of its batch.
        rows: Its episodes.
        rewards: The rewards.
        values: The value of each step's observation: [N].
        bootstraps: The value of the observation after the last step of each episode: [B].
        terminated: True for each episode that ends in a terminal state: bool [B].
    """

    module: Any
    columns: Batch
    rows: EpisodeList
    rewards: Ragged
    values: np.ndarray
    bootstraps: np.ndarray
    terminated: np.ndarray

    def add(self, piece: str, advantages: np.ndarray, targets: np.ndarray, also: Mapping[str, Ragged]) -> None:
        """Add advantages and value targets to the batch, if they are finite; `also` are their further sources."""
        last = Ragged(np.where(self.terminated, 0.0, self.bootstraps), np.arange(len(self.rows) + 1))
        sources = {
            Columns.REWARDS: self.rewards,
            "values": self.rewards.with_values(self.values),
            **also,
            "values after the last step": last,
        }
        for name, made in ((Columns.ADVANTAGES, advantages), (Columns.VALUE_TARGETS, targets)):
            self.columns[name] = made_column(piece, name, made, sources, self.rows)


def valued_steps(
    piece: str, run: Run, max_seq_len: int | None, device: str | torch.device | None
) -> Iterator[ValuedSteps]:
    """Yield the steps of each module that computes values; other modules do not learn.

    Raises:
        PipelineError: If a module that may learn computes no values, see `check_values`.
    """
    check_values(piece, run.rl_module)
    check_some_known(run.rl_module, EpisodeList.of(run.episodes))
    for module_id, columns, rows in mapped_rows(run):
        module = module_of(run.rl_module, module_id)
        if has_values(module):
            values, bootstraps = values_and_bootstraps(module, columns, rows, max_seq_len, device)
            rewards = flat_column(columns, Columns.REWARDS, rows)
            terminated = ends(flat_column(columns, Columns.TERMINATEDS, rows))
            yield ValuedSteps(module, columns, rows, rewards, values, bootstraps, terminated)


def values_and_bootstraps(
    module: ValueModule, columns: Batch, rows: EpisodeList, max_seq_len: int | None, device: str | torch.device | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each step's observation `[N]`, and of the one after the last step of each episode `[B]`.

    The columns stay on their device; only copies go to the device of the module. Batches of more than `BYTES_AT_ONCE` go to
    the module in parts.
    """
    target = torch.device("cpu" if device is None else device)
    tracks = {name: column for name, column in columns.items() if isinstance(column, Ragged) and column.tail}
    as_track(columns.get(Columns.OBS), "the bootstrap value")
    if not len(rows):
        # Without observations their shape is unknown, so no module could take them.
        return np.empty(0), np.empty(0)
    is_large = _num_bytes({name: track.values for name, track in tracks.items()}) > BYTES_AT_ONCE
    home = torch.device("cpu") if is_large else target
    tracks = {name: track.map(lambda leaf: as_tensor(leaf, home)) for name, track in tracks.items()}
    # On the CPU the same memory as arrays, because NumPy takes rows several times as fast as torch.
    if home.type == "cpu":
        columns.update({name: track.map(as_array) for name, track in tracks.items()})
    with torch.no_grad(), mode([module], training=False):
        if module.is_stateful():
            return _recurrent_values(module, tracks, rows, max_seq_len, target)
        return _flat_values(module, tracks, target)


def _values(module: ValueModule, batch: Batch, device: torch.device) -> np.ndarray:
    """Return the values of all rows of a batch; a large batch goes to the device in parts of about `BYTES_AT_ONCE`."""
    num_pieces = -(-_num_bytes(batch) // BYTES_AT_ONCE)
    lengths = {leaf.shape[0] for _, leaf in leaves(batch)} if num_pieces > 1 else set()
    # Columns that do not have a row for each step cannot be cut with the others.
    if len(lengths) != 1:
        return _values_at_once(module, batch, device)
    num_rows = lengths.pop()
    bounds = range(0, num_rows, -(-num_rows // num_pieces))
    parts = (map_batch(lambda leaf, part=slice(start, start + bounds.step): leaf[part], batch) for start in bounds)
    return np.concatenate([_values_at_once(module, part, device) for part in parts])


def _values_at_once(module: ValueModule, batch: Batch, device: torch.device) -> np.ndarray:
    values: np.ndarray = as_array(module.compute_values(map_batch(lambda leaf: as_tensor(leaf, device), batch)))
    return values


def _num_bytes(batch: Batch) -> int:
    return sum(getattr(leaf, "nbytes", 0) for _, leaf in leaves(batch))


def _flat_values(module: ValueModule, tracks: dict[str, Ragged], device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    values = _values(module, {name: track.values for name, track in tracks.items()}, device)
    track = tracks[Columns.OBS].with_values(values)
    return track.body().values, track.tails()


def _recurrent_values(
    module: ValueModule, tracks: dict[str, Ragged], rows: EpisodeList, max_seq_len: int | None, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    cut = sequences(rows.row_counts, max_seq_len_of(module, max_seq_len))
    batch = {
        name: rows_of_sequences(name, track, cut) if track.every > 1 else padded(track, cut)
        for name, track in tracks.items()
        if name != Columns.STATE_IN
    }
    batch[Columns.STATE_IN] = first_rows(tracks[Columns.STATE_IN], cut)
    batch[Columns.SEQ_LENS] = as_tensor(cut.lengths, device)
    last = {
        name: track.tails() if track.every > 1 else map_batch(lambda leaf: leaf[:, None], track.tails())
        for name, track in tracks.items()
        if name != Columns.STATE_IN
    }
    last[Columns.STATE_IN] = tracks[Columns.STATE_IN].tails()
    values = unpadded(_values(module, batch, device), cut)
    return values, _values(module, last, device)[:, 0]


def ends(flags: Ragged) -> np.ndarray:
    """Return the flag at the last step of each stretch; False for one without steps."""
    stops = flags.offsets[1:]
    # A stretch without steps stops at its start, and index -1 of no rows at all is out of range.
    at_ends = flags.values[stops - 1].astype(np.bool_) if len(flags.values) else np.zeros(len(flags), np.bool_)
    return np.asarray(at_ends & (stops > flags.offsets[:-1]))


def made_column(piece: str, name: str, made: np.ndarray, of: Mapping[str, Ragged], rows: EpisodeList) -> Ragged:
    """Return values computed from the columns `of`, for the steps of the first column, if they are finite as float32."""
    with np.errstate(over="ignore"):
        as_stored = made.astype(np.float32)
    check_made(piece, name, as_stored, of, rows)
    return next(iter(of.values())).with_values(as_stored)


def flat_column(columns: Batch, name: str, rows: EpisodeList) -> Ragged:
    """Return the column `name` with one row per step."""
    if name not in columns:
        raise missing_column(name, columns)
    return as_ragged(columns[name], rows).body()
