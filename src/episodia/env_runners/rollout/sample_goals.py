"""The goal of a call of `sample`: so many steps, or so many episodes, those that began first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, final

from episodia.arguments import checked_whole
from episodia.env_runners.runner_settings import BatchMode
from episodia.errors import EnvRunnerError

CountStepsBy: TypeAlias = Literal["env_steps", "agent_steps"]


class SampleMode(NamedTuple):
    """The mode of a call of `sample`: random actions, or modules that explore or do not."""

    at_random: bool
    explore: bool


class Goal(NamedTuple):
    """The amount to sample: so many steps, or so many whole episodes; the other one is None."""

    steps: int | None
    episodes: int | None
    count_steps_by: CountStepsBy = "env_steps"


def goal_of(
    num_timesteps: int | None, num_episodes: int | None, batch_mode: BatchMode, fragment_steps: int, num_lanes: int
) -> Goal:
    """Return what is to be sampled, by the arguments of `sample` or else by the settings of the runner.

    Raises:
        EnvRunnerError: If both are given, or one is too small: 0 steps are nothing, 0 episodes a mistake.

    >>> goal_of(None, None, "truncate_episodes", 20, 4)
    Goal(steps=80, episodes=None, count_steps_by='env_steps')
    """
    if num_timesteps is not None and num_episodes is not None:
        raise EnvRunnerError(
            f"sample: found `num_timesteps={num_timesteps}` and `num_episodes={num_episodes}`, expected one of them."
        )
    for name, number, least in (("num_timesteps", num_timesteps, 0), ("num_episodes", num_episodes, 1)):
        if number is not None:
            checked_whole(EnvRunnerError, "sample", name, number, least)
    if num_timesteps is None and num_episodes is None:
        return Goal(fragment_steps * num_lanes, None) if batch_mode == "truncate_episodes" else Goal(None, num_lanes)
    return Goal(num_timesteps, num_episodes)


def checked_count(count_steps_by: Any) -> CountStepsBy:
    """Return which steps are counted.

    Raises:
        EnvRunnerError: If it is neither `"env_steps"` nor `"agent_steps"`.
    """
    if count_steps_by not in ("env_steps", "agent_steps"):
        raise EnvRunnerError(f"found count_steps_by={count_steps_by!r}, expected one of ('env_steps', 'agent_steps').")
    counted: CountStepsBy = count_steps_by
    return counted


@final
class EpisodeOrder:
    """Episodes that were begun and not returned, in the order in which they began.

    A sample of n episodes has the n that began first, and waits for the slowest of them. Whether an episode is among them
    does not depend on how long it is. To take those that *end* first would prefer short ones.

    >>> order = EpisodeOrder()
    >>> for id_ in ("long", "short", "shorter"):
    ...     order.begin(id_)
    >>> order.end("short"), order.is_ready(1)
    (None, False)
    >>> order.end("long"), order.is_ready(1), order.first(1)
    (None, True, ['long'])
    """

    def __init__(self) -> None:
        self._begun: dict[str, bool] = {}  # whether it has ended

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, id_: str) -> None:
        """Take note that an episode has begun."""
        self._begun[id_] = False

    def begin_with(self, ids: Iterable[str]) -> None:
        """Take note of episodes that have begun some time ago, those of which are not known yet."""
        for id_ in ids:
            self._begun.setdefault(id_, False)

    def end(self, id_: str) -> None:
        """Take note that it has ended."""
        if id_ in self._begun:
            self._begun[id_] = True

    def is_ready(self, count: int) -> bool:
        """Tell whether the first `count` episodes have ended."""
        first = list(self._begun.values())[:count]
        return len(first) == count and all(first)

    def first(self, count: int) -> list[str]:
        """Return the first `count` episodes."""
        return list(self._begun)[:count]

    def keep_only(self, ids: Iterable[str]) -> None:
        """Forget all episodes but these."""
        kept = set(ids)
        self._begun = {id_: ended for id_, ended in self._begun.items() if id_ in kept}

    def forget(self, ids: Iterable[str]) -> None:
        """Forget episodes that will never end."""
        for id_ in ids:
            self._begun.pop(id_, None)
