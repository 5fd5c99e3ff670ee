"""Whether something is a batch: the columns of each module, with a row for each step or sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import BatchError
from episodia.trees import leaves

ModuleBatch: TypeAlias = dict[str, Any]


def check_batch(batch: Mapping[str, ModuleBatch]) -> None:
    """Check that `batch` is a dict of modules, each of which has a dict of columns with rows.

    Raises:
        BatchError: If it is not.

    >>> check_batch({"default_policy": {"obs": torch.zeros(3, 2)}})
    """
    if not isinstance(batch, Mapping):
        raise BatchError(
            f"batch: found {describe_column(batch)}, expected a dict of modules, `{{module_id: {{column: rows}}}}`. Pass what "
            "`Learner.batch_of` returns."
        )
    for module_id, columns in batch.items():
        check_columns(module_id, columns)


def check_columns(module_id: str, columns: ModuleBatch) -> None:
    """Check that `columns` is a dict of columns with rows.

    Raises:
        BatchError: If it is not.
    """
    check_is_dict(module_id, columns)
    for path, leaf in leaves(columns):
        if not _has_rows(leaf):
            raise BatchError(
                f"batch of {module_id!r}: found {describe_column(leaf)} in the column {path}, expected a tensor, an array or "
                "a list with one row for each step or sequence. Correct the piece of the learner pipeline that writes it."
            )


def check_is_dict(module_id: str, columns: ModuleBatch) -> None:
    """Check that `columns` is a dict, and look at none of them."""
    if not isinstance(columns, dict):
        raise BatchError(
            f"batch of {module_id!r}: found {describe_column(columns)}, expected a dict of columns. Pass what the "
            "learner pipeline makes of episodes."
        )


def _has_rows(leaf: object) -> bool:
    return leaf.ndim > 0 if isinstance(leaf, (torch.Tensor, np.ndarray)) else isinstance(leaf, list)
