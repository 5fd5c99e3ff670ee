"""Comparing items and episodes field by field, with a message that names every difference."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from episodia.episodes import LookbackBuffer, SingleAgentEpisode
from episodia.trees import describe

_MOST_DIFFERENCES = 10
_PLAIN_FIELDS = (
    "id_",
    "agent_id",
    "module_id",
    "multi_agent_episode_id",
    "t_started",
    "t",
    "is_terminated",
    "is_truncated",
    "is_finalized",
    "observation_space",
    "action_space",
)
_COLUMNS = ("observations", "infos", "actions", "rewards")


def assert_same_items(found: Any, expected: Any) -> None:
    """Check that two items, lists of items or batches are the same: nesting, types, dtypes, shapes, values.

    NaN is the same as NaN. A NumPy scalar is the same as an array of its dtype without axes.

    Raises:
        AssertionError: Naming the places that differ, and how.

    >>> assert_same_items({"position": np.zeros(2)}, {"position": np.zeros(2)})
    >>> assert_same_items({"position": np.zeros(2)}, {"position": np.zeros(2, np.float32)})
    Traceback (most recent call last):
    ...
    AssertionError: the items differ:
      ['position']: found float64[2], expected float32[2]
    """
    raise_if_any("items", differences_of_items(found, expected, ""))


def assert_same_episode(
    found: SingleAgentEpisode, expected: SingleAgentEpisode, *, ignore: Collection[str] = ()
) -> None:
    """Check that two episodes are the same in every field, the lookback and the form of each column included.

    Compared are all ids, the time steps, the flags of the end, the spaces, `custom_data`, the weights version
    at each step, the times of reset and last step, and every column: its items, its lookback, its space, and
    whether it is finalized.

    Args:
        found: The episode to judge.
        expected: The episode as it should be.
        ignore: Fields that may differ, by name; `"times"` are those of the wall clock.

    Raises:
        AssertionError: Naming the fields that differ, and how.

    >>> episode = SingleAgentEpisode("walk", observations=[0, 1], actions=[5], rewards=[0.5])
    >>> assert_same_episode(SingleAgentEpisode.from_state(episode.get_state()), episode)
    >>> assert_same_episode(episode, SingleAgentEpisode("walk"))
    Traceback (most recent call last):
    ...
    AssertionError: the episodes differ:
      observations.lookback: found 1, expected 0
      observations: found 2 items, expected 0
    ...
    """
    raise_if_any("episodes", differences_of_episodes(found, expected, ignore))


def raise_if_any(what: str, differences: Iterator[str]) -> None:
    """Raise an AssertionError with the first lines of `differences`, if there are any."""
    lines = [line for line, _ in zip(differences, range(_MOST_DIFFERENCES), strict=False)]
    if lines:
        raise AssertionError("\n  ".join([f"the {what} differ:", *lines]))


# --- Episodes -----------------------------------------------------------------------------------------------


def differences_of_episodes(
    found: SingleAgentEpisode, expected: SingleAgentEpisode, ignore: Collection[str]
) -> Iterator[str]:
    """Yield a line for every field in which two episodes differ."""
    for name in _PLAIN_FIELDS:
        if name not in ignore and getattr(found, name) != getattr(expected, name):
            yield f"{name}: found {getattr(found, name)!r}, expected {getattr(expected, name)!r}"
    for name in _COLUMNS:
        if name not in ignore:
            yield from _column_differences(getattr(found, name), getattr(expected, name), name)
    if "extra_model_outputs" not in ignore:
        yield from _extra_differences(found.extra_model_outputs, expected.extra_model_outputs)
    if "custom_data" not in ignore:
        yield from differences_of_items(found.custom_data, expected.custom_data, "custom_data")
    if "weights_version" not in ignore:
        yield from _version_differences(found, expected)
    if "times" not in ignore:
        for name in ("_start_time", "_last_step_time"):
            yield from differences_of_items(getattr(found, name), getattr(expected, name), name)


def _column_differences(found: LookbackBuffer, expected: LookbackBuffer, name: str) -> Iterator[str]:
    for attribute in ("finalized", "lookback", "space"):
        ours, theirs = getattr(found, attribute), getattr(expected, attribute)
        if ours != theirs:
            yield f"{name}.{attribute}: found {ours!r}, expected {theirs!r}"
    yield from differences_of_items(found.data, expected.data, name)


def _extra_differences(found: Mapping[str, LookbackBuffer], expected: Mapping[str, LookbackBuffer]) -> Iterator[str]:
    if found.keys() != expected.keys():
        yield f"extra_model_outputs: found the columns {sorted(found)}, expected {sorted(expected)}"
        return
    for key, column in expected.items():
        yield from _column_differences(found[key], column, f"extra_model_outputs[{key!r}]")


def _version_differences(found: SingleAgentEpisode, expected: SingleAgentEpisode) -> Iterator[str]:
    for t in range(expected.t_started - expected.rewards.lookback, expected.t + 1):
        ours, theirs = found.weights_version_at(t), expected.weights_version_at(t)
        if ours != theirs:
            yield f"weights_version at t={t}: found {ours!r}, expected {theirs!r}"
            return


# --- Items --------------------------------------------------------------------------------------------------


def differences_of_items(found: Any, expected: Any, path: str) -> Iterator[str]:
    """Yield a line for every place at which two nested values differ."""
    if isinstance(found, (np.ndarray, np.generic)) and isinstance(expected, (np.ndarray, np.generic)):
        yield from _array_differences(np.asarray(found), np.asarray(expected), path)
    elif type(found) is not type(expected):
        yield _line(path, f"{describe(found)} ({_kind(found)})", f"{describe(expected)} ({_kind(expected)})")
    elif isinstance(expected, dict):
        yield from _dict_differences(found, expected, path)
    elif isinstance(expected, (list, tuple)):
        if len(found) != len(expected):
            yield _line(path, f"{len(found)} items", f"{len(expected)}")
            return
        for position, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            yield from differences_of_items(ours, theirs, f"{path}[{position}]")
    elif not _same(found, expected):
        yield _line(path, describe(found), describe(expected))


def _dict_differences(found: dict[Any, Any], expected: dict[Any, Any], path: str) -> Iterator[str]:
    if found.keys() != expected.keys():
        yield _line(path, f"the keys {list(found)}", f"{list(expected)}")
        return
    for key, value in expected.items():
        yield from differences_of_items(found[key], value, f"{path}[{key!r}]")


def _array_differences(found: np.ndarray, expected: np.ndarray, path: str) -> Iterator[str]:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        yield _line(path, describe(found), describe(expected))
    elif found.dtype.hasobject:
        for place in np.ndindex(found.shape):
            yield from differences_of_items(found[place], expected[place], f"{path}{list(place)}")
    else:
        unequal = np.argwhere(~((found == expected) | (_is_nan(found) & _is_nan(expected))))
        if len(unequal):
            place = tuple(unequal[0].tolist())
            yield _line(f"{path}{list(place) if place else ''}", repr(found[place]), repr(expected[place]))


def _same(found: Any, expected: Any) -> bool:
    return bool(found == expected or (_is_nan(found) and _is_nan(expected)))


def _is_nan(value: Any) -> Any:
    # Only NaN differs from itself, whatever its type.
    return value != value  # noqa: PLR0124


def _kind(value: Any) -> str:
    return type(value).__name__


def _line(path: str, found: str, expected: str) -> str:
    return f"{path or 'the value'}: found {found}, expected {expected}"
