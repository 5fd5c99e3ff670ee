"""Checks of what the functions that plugins call are given: batches, names of columns, functions, episodes."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError


def check_batch(where: str, batch: object) -> None:
    """Raise a `BatchError` if `batch` is not a dict that can be changed."""
    if type(batch) is not dict and not isinstance(batch, MutableMapping):  # the first is fast, and common
        raise BatchError(
            f"{where}: found {describe_column(batch)} as the batch, expected a dict of columns. Pass the `batch` that the "
            "piece was called with."
        )


def check_column_name(where: str, column: object) -> None:
    """Raise a `BatchError` if `column` is not a text."""
    if not isinstance(column, str):
        raise BatchError(
            f"{where}: found {describe_column(column)} as the name of a column, expected a text, such as 'obs'. "
            "Correct the name."
        )


def check_function(where: str, name: str, value: object) -> None:
    """Raise a `BatchError` if `value` cannot be called."""
    if not callable(value):
        raise BatchError(
            f"{where}: found `{name}={describe_column(value)}`, expected a function. Pass the function itself."
        )


def checked_stretches(where: str, name: str, result: object, num_stretches: int) -> Ragged:
    """Return `result` if it is a `Ragged` with so many stretches.

    Raises:
        BatchError: If it is not.
    """
    if not isinstance(result, Ragged) or len(result) != num_stretches:
        raise BatchError(
            f"{where}: found {describe_column(result)} as the result of `{name}`, expected a `Ragged` with one stretch for "
            f"each of {num_stretches} episodes. Return `rows.flat(...)`, or `column.map(...)` or `column.with_values(...)`."
        )
    return result


def not_an_episode(where: str, value: Any) -> BatchError:
    """Return the error to raise if `value` was passed as a single-agent episode."""
    return BatchError(
        f"{where}: found {describe_column(value)} as `single_agent_episode`, expected a `SingleAgentEpisode` or None. Pass an "
        "episode of `single_agent_episode_iterator`."
    )
