"""Comparisons of items, episodes and batches, with messages that name the differences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from episodia.episodes import LookbackBuffer, MultiAgentEpisode, SingleAgentEpisode
from episodia.trees import describe, equal, leaves
from episodia.types import Item

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


def assert_same_items(found: Item, expected: Item) -> None:
    """Check that two items, lists of items or batches are the same: nesting, types, dtypes, shapes, values.

    NaN is the same as NaN. A NumPy scalar is the same as an array of its dtype without axes.

    Raises:
        AssertionError: If they differ; it names the places and the differences.

    >>> assert_same_items({"position": np.zeros(2)}, {"position": np.zeros(2)})
    >>> assert_same_items({"position": np.zeros(2)}, {"position": np.zeros(2, np.float32)})
    Traceback (most recent call last):
    ...
    AssertionError: the items differ:
      ['position']: found float64[2], expected float32[2]
    """
    _raise_if_any("items", _differences_of_items(found, expected, ""))


def assert_same_episode(
    found: SingleAgentEpisode, expected: SingleAgentEpisode, *, ignore: Collection[str] = ()
) -> None:
    """Check that two episodes are the same in every field, the lookback and the form of each column included.

    Compared are all ids, the time steps, the flags of the end, the spaces, `custom_data`, the weights version
    at each step, the times of reset and last step, and every column: its items, its lookback, its space, and
    whether it is finalized.

    Args:
        found: The episode to check.
        expected: The correct episode.
        ignore: Fields that may differ, by name; `"times"` are wall-clock times.

    Raises:
        AssertionError: If they differ; it names the fields and the differences.

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
    _raise_if_any("episodes", _differences_of_episodes(found, expected, ignore))


def _raise_if_any(what: str, differences: Iterator[str]) -> None:
    """Raise an AssertionError with the first lines of `differences`, if there are any."""
    lines = [line for line, _ in zip(differences, range(_MOST_DIFFERENCES), strict=False)]
    if lines:
        raise AssertionError("\n  ".join([f"the {what} differ:", *lines]))


# --- Episodes -----------------------------------------------------------------------------------------------


def _differences_of_episodes(
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
        yield from _differences_of_items(found.custom_data, expected.custom_data, "custom_data")
    if "weights_version" not in ignore:
        yield from _version_differences(found, expected)
    if "times" not in ignore:
        for name in ("_start_time", "_last_step_time"):
            yield from _differences_of_items(getattr(found, name), getattr(expected, name), name)


def _column_differences(found: LookbackBuffer, expected: LookbackBuffer, name: str) -> Iterator[str]:
    for attribute in ("finalized", "lookback", "space"):
        ours, theirs = getattr(found, attribute), getattr(expected, attribute)
        if ours != theirs:
            yield f"{name}.{attribute}: found {ours!r}, expected {theirs!r}"
    yield from _differences_of_items(found.data, expected.data, name)


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


def _differences_of_items(found: Item, expected: Item, path: str) -> Iterator[str]:
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
            yield from _differences_of_items(ours, theirs, f"{path}[{position}]")
    elif not _same(found, expected):
        yield _line(path, describe(found), describe(expected))


def _dict_differences(found: dict[Any, Any], expected: dict[Any, Any], path: str) -> Iterator[str]:
    if found.keys() != expected.keys():
        yield _line(path, f"the keys {list(found)}", f"{list(expected)}")
        return
    for key, value in expected.items():
        yield from _differences_of_items(found[key], value, f"{path}[{key!r}]")


def _array_differences(found: np.ndarray, expected: np.ndarray, path: str) -> Iterator[str]:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        yield _line(path, describe(found), describe(expected))
    elif found.dtype.hasobject:
        for place in np.ndindex(found.shape):
            yield from _differences_of_items(found[place], expected[place], f"{path}{list(place)}")
    else:
        unequal = np.argwhere(~((found == expected) | (_is_nan(found) & _is_nan(expected))))
        if len(unequal):
            place = tuple(unequal[0].tolist())
            yield _line(f"{path}{list(place) if place else ''}", repr(found[place]), repr(expected[place]))


def _same(found: Any, expected: Any) -> bool:
    return bool(found == expected or (_is_nan(found) and _is_nan(expected)))


def _is_nan(value: Any) -> Any:
    # Only NaN differs from itself.
    return value != value  # noqa: PLR0124


def _kind(value: Any) -> str:
    return type(value).__name__


def _line(path: str, found: str, expected: str) -> str:
    return f"{path or 'the value'}: found {found}, expected {expected}"


_MULTI_AGENT_FIELDS = (
    "id_",
    "env_t_started",
    "env_t",
    "env_lookback",
    "is_reset",
    "is_terminated",
    "is_truncated",
    "is_finalized",
    "observation_space",
    "action_space",
    "missing_final_observation",
    "rewards_after_done",
    "weights_version",
    "agent_to_module_mapping_fn",
)
_HANGING = (
    "_hanging_actions_end",
    "_hanging_rewards_end",
    "_hanging_extra_model_outputs_end",
    "_hanging_rewards_begin",
)


def assert_same_multi_agent_episode(
    found: MultiAgentEpisode, expected: MultiAgentEpisode, *, ignore: Collection[str] = ()
) -> None:
    """Check that two multi-agent episodes are the same: clock, timelines, pending steps, and the episode of each agent.

    Agents' episodes are compared as by `assert_same_episode`. The order of the agents is not compared.

    Args:
        found: The episode to check.
        expected: The correct episode.
        ignore: Fields that may differ, by name, also those of agents' episodes; `"times"` are wall-clock times.

    Raises:
        AssertionError: If they differ; it names the fields and the differences.

    >>> episode = MultiAgentEpisode("game", observations=[{"a": 0}, {"b": 1}], actions=[{"a": 5}])
    >>> assert_same_multi_agent_episode(MultiAgentEpisode.from_state(episode.get_state()), episode)
    >>> other = MultiAgentEpisode("game", observations=[{"a": 0}, {"b": 1}], actions=[{"a": 6}])
    >>> assert_same_multi_agent_episode(episode, other, ignore=["times"])
    Traceback (most recent call last):
    ...
    AssertionError: the multi-agent episodes differ:
      _hanging_actions_end['a']: found 5, expected 6
    """
    _raise_if_any("multi-agent episodes", _differences(found, expected, ignore))


def _differences(found: MultiAgentEpisode, expected: MultiAgentEpisode, ignore: Collection[str]) -> Iterator[str]:
    for name in _MULTI_AGENT_FIELDS:
        ours, theirs = getattr(found, name), getattr(expected, name)
        if name not in ignore and ours != theirs:
            yield f"{name}: found {ours!r}, expected {theirs!r}"
    if found.agent_ids != expected.agent_ids:
        yield f"agent_ids: found {list(found.agent_episodes)}, expected {list(expected.agent_episodes)}"
        return
    for name in _HANGING:
        if name not in ignore:
            yield from _differences_of_items(getattr(found, name), getattr(expected, name), name)
    if "custom_data" not in ignore:
        yield from _differences_of_items(found.custom_data, expected.custom_data, "custom_data")
    if "times" not in ignore:
        yield from _differences_of_items(found.get_duration_s(), expected.get_duration_s(), "get_duration_s()")
    if found.get_agents_that_stepped() != expected.get_agents_that_stepped():
        yield (
            f"get_agents_that_stepped(): found {found.get_agents_that_stepped()}, "
            f"expected {expected.get_agents_that_stepped()}"
        )
    for agent in expected.agent_episodes:
        yield from _agent_differences(found, expected, agent, ignore)


def _agent_differences(
    found: MultiAgentEpisode, expected: MultiAgentEpisode, agent: Any, ignore: Collection[str]
) -> Iterator[str]:
    if "env_t_to_agent_t" not in ignore:
        ours, theirs = (episode.env_t_to_agent_t[agent].data for episode in (found, expected))
        yield from _differences_of_items(ours, theirs, f"env_t_to_agent_t[{agent!r}]")
    if "module_for" not in ignore and found.module_for(agent) != expected.module_for(agent):
        yield f"module_for({agent!r}): found {found.module_for(agent)!r}, expected {expected.module_for(agent)!r}"
    for line in _differences_of_episodes(found.agent_episodes[agent], expected.agent_episodes[agent], ignore):
        yield f"agent {agent!r}: {line}"


def compare_batches(
    law: str, expected: Mapping[str, Any], found: Mapping[str, Any], where: str, tolerance: float = 0.0
) -> None:
    """Check that two batches have the same columns with the same rows; columns without rows may have any dtype.

    Args:
        law: The law that is broken if they differ.
        expected: The correct batch.
        found: The batch to check.
        where: How `found` was made.
        tolerance: The absolute and relative tolerance of numbers.

    Raises:
        AssertionError: If they differ; it names the law, the column and the row.

    >>> compare_batches("cutting changes nothing", {"x": np.array([1, 2])}, {"x": np.array([1, 3])}, "cut at 1")
    Traceback (most recent call last):
    ...
    AssertionError: cutting changes nothing (cut at 1), column 'x', row 1: found 3, expected 2.
    """
    if expected.keys() != found.keys():
        raise AssertionError(f"{law} ({where}): found the columns {sorted(found)}, expected {sorted(expected)}.")
    for column in expected:
        wanted, got = dict(leaves(expected[column])), dict(leaves(found[column]))
        if wanted.keys() != got.keys():
            raise AssertionError(f"{law} ({where}), column {column!r}: found {list(got)}, expected {list(wanted)}.")
        for path, leaf in wanted.items():
            _compare_leaves(f"{law} ({where}), column {column!r}{path}", leaf, got[path], tolerance)


def _compare_leaves(where: str, expected: Any, found: Any, tolerance: float) -> None:
    expected, found = np.asarray(expected), np.asarray(found)
    if len(expected) == len(found) == 0:
        return
    if expected.shape != found.shape or (expected.size and expected.dtype != found.dtype):
        raise AssertionError(f"{where}: found {describe(found)}, expected {describe(expected)}.")
    same = same_numbers(expected, found, tolerance)
    if not same.all():
        row = int(np.argwhere(~same.reshape(len(same), -1).all(axis=1))[0, 0])
        raise AssertionError(f"{where}, row {row}: found {found[row]}, expected {expected[row]}.")


def same_numbers(expected: np.ndarray, found: np.ndarray, tolerance: float) -> np.ndarray:
    """Return where two arrays of one shape are equal; NaN equals NaN."""
    if expected.dtype.hasobject or found.dtype.hasobject:
        pairs = zip(expected.flat, found.flat, strict=True)
        return np.array([equal(left, right) for left, right in pairs], np.bool_).reshape(expected.shape)
    if tolerance and expected.dtype.kind in "fc":
        return np.asarray(np.isclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True))
    return np.asarray((expected == found) | ((expected != expected) & (found != found)))  # noqa: PLR0124  # NaN
