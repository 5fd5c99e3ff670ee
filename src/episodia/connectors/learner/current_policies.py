"""Log-probabilities of recorded actions under the policy as it is now, computed in one forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.sequences import sequences, unpadded
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import max_seq_len_of, padded_columns
from episodia.connectors.common.numpy_to_tensor import as_tensor
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.episodes import EpisodeList
from episodia.errors import BatchError
from episodia.modules import DistributionSpec
from episodia.modules.modes import mode
from episodia.trees import map_batch


def current_logp(
    module: Any, columns: Batch, rows: EpisodeList, max_seq_len: int | None, device: str | torch.device | None
) -> np.ndarray:
    """Return the log-probability that the module now gives to each recorded action, `[N]`.

    Raises:
        BatchError: If the distributions of the module are not those of a `DistributionSpec`.
    """
    if not len(rows):
        return np.empty(0)
    spec = module.get_train_action_dist_cls()
    if not isinstance(spec, DistributionSpec):
        raise BatchError(
            f"found {spec!r} as the distributions of {type(module).__name__}, expected a `DistributionSpec`. Return one from "
            "`get_train_action_dist_cls`."
        )
    home = torch.device("cpu" if device is None else device)
    cut = sequences(rows.row_counts, max_seq_len_of(module, max_seq_len)) if module.is_stateful() else None
    given = (
        {name: as_ragged(column, rows).body().values for name, column in columns.items()}
        if cut is None
        else padded_columns(columns, cut, rows)
    )
    batch = {name: map_batch(lambda leaf: as_tensor(leaf, home), value) for name, value in given.items()}
    with torch.no_grad(), mode([module], training=False):
        inputs = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
        logp = spec.from_logits(inputs, batch.get(Columns.ACTION_MASK)).logp(batch[Columns.ACTIONS])
    found: np.ndarray = as_array(logp)
    return found if cut is None else unpadded(found, cut)
