"""The environment's clock, and the timelines that say which of its ticks are steps of one agent.

The clock ticks for all agents together; an agent has an observation only at some of its ticks. A timeline lists those
ticks, one for each observation that the agent's own episode stores, the lookback included:

    environment step     0   1   2   3   4   5
    the agent observes   x           x   x          Timeline([0, 3, 4])
    its own time step    0   S   S   1   2   S      "S": skipped, in RLlib's spelling

An action and its reward stand at the environment step of the observation that they answer.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any, Final, final

from episodia.episodes.single_agent import weights_versions as versions

SKIPPED: Final = "S"


@final
class Timeline:
    """The environment steps at which one agent had its observations, ascending.

    >>> timeline = Timeline([0, 3, 4])
    >>> timeline.position_at(3), timeline.position_at(2)
    (1, None)
    >>> timeline.positions_between(1, 5), timeline.count_before(3), timeline.part(1)
    (range(1, 3), 1, Timeline([3, 4]))
    """

    __slots__ = ("env_steps",)

    def __init__(self, env_steps: list[int]) -> None:
        """Adopt a list of ascending environment steps."""
        self.env_steps = env_steps

    def __len__(self) -> int:
        return len(self.env_steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeline) and self.env_steps == other.env_steps

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Timeline({self.env_steps})"

    def position_at(self, env_t: int) -> int | None:
        """Return which of the agent's observations stands at environment step `env_t`, None if it had none there."""
        steps = self.env_steps
        if steps and steps[-1] == env_t:
            return len(steps) - 1
        position = bisect_left(steps, env_t)
        return position if position < len(steps) and steps[position] == env_t else None

    def count_before(self, env_t: int) -> int:
        """Return how many of the agent's observations stand before environment step `env_t`."""
        return bisect_left(self.env_steps, env_t)

    def positions_between(self, start: int, stop: int) -> range:
        """Return which of the agent's observations stand at the environment steps from `start` to just before `stop`."""
        return range(bisect_left(self.env_steps, start), bisect_left(self.env_steps, stop))

    def part(self, start: int, stop: int | None = None) -> Timeline:
        """Return the timeline of the agent's observations from position `start` to just before `stop`."""
        return Timeline(self.env_steps[start:stop])

    def entries(self, start: int, stop: int, first_agent_t: int) -> list[int | str]:
        """Return, for each environment step from `start` to just before `stop`, the agent's time step or "S".

        Args:
            start: The first environment step.
            stop: The environment step after the last.
            first_agent_t: The agent's own time step at its first observation.

        >>> Timeline([0, 3, 4]).entries(0, 6, first_agent_t=0)
        [0, 'S', 'S', 1, 2, 'S']
        """
        entries: list[int | str] = [SKIPPED] * max(0, stop - start)
        for position in self.positions_between(start, stop):
            entries[self.env_steps[position] - start] = first_agent_t + position
        return entries


@final
@dataclass(slots=True)
class Clock:
    """The environment steps of a multi-agent episode or of a chunk of it.

    Attributes:
        env_t_started: The environment step at which the chunk begins, after its lookback.
        env_t: The current environment step.
        env_lookback: The number of environment steps before `env_t_started` that the chunk can look back to.
        was_reset: Whether the episode has been reset.
        start_time: The wall-clock time of the reset or the cut; None if it is not known.
        last_step_time: The wall-clock time of the last step; None before the first.
        weights_versions: Which version of the weights was in use from which environment step on.

    >>> clock = Clock(env_t=7)
    >>> clock.cut(lookback=3)
    Clock(env_t_started=7, env_t=7, env_lookback=3, was_reset=False, start_time=None, last_step_time=None, weights_versions=())
    """

    env_t_started: int = 0
    env_t: int = 0
    env_lookback: int = 0
    was_reset: bool = False
    start_time: float | None = None
    last_step_time: float | None = None
    weights_versions: versions.Versions = ()

    @property
    def first_env_t(self) -> int:
        """The first environment step that is stored, the lookback included."""
        return self.env_t_started - self.env_lookback

    @property
    def duration_s(self) -> float:
        """The seconds from the reset, or the cut, to the last step; 0.0 if they are not known."""
        if self.start_time is None or self.last_step_time is None:
            return 0.0
        return self.last_step_time - self.start_time

    @property
    def weights_version(self) -> int | None:
        """The version of the weights in use now; None if it is not known."""
        return versions.version_at(self.weights_versions, self.env_t)

    def use_version(self, version: int) -> None:
        """Let `version` be in use from the current environment step on."""
        self.weights_versions = versions.with_version(self.weights_versions, self.env_t, version)

    def tick(self) -> None:
        """Advance by an environment step, now."""
        self.env_t += 1
        self.last_step_time = perf_counter()

    def fork(self) -> Clock:
        """Return an equal clock that runs on its own."""
        return replace(self)

    def cut(self, lookback: int) -> Clock:
        """Return the clock of the chunk that begins now, with up to `lookback` environment steps of the past."""
        kept = min(lookback, self.env_t - self.first_env_t)
        seen = versions.between(self.weights_versions, self.env_t - kept, self.env_t + 1)
        return Clock(self.env_t, self.env_t, kept, self.was_reset, self.last_step_time, None, seen)

    def part(self, start: int, stop: int, lookback: int) -> Clock:
        """Return the clock of the environment steps from `start` to `stop`, with up to `lookback` steps of the past."""
        kept = min(lookback, start - self.first_env_t)
        # The version that is set at the last environment step is for the action that follows.
        seen = versions.between(self.weights_versions, start - kept, stop + (stop == self.env_t))
        return Clock(start, stop, kept, self.was_reset, self.start_time, self.last_step_time, seen)

    def joined(self, other: Clock) -> Clock:
        """Return the clock of this chunk and of the chunk with the clock `other`, which continues it."""
        seen = versions.joined(self.weights_versions, other.weights_versions, self.env_t)
        last = self.last_step_time if other.last_step_time is None else other.last_step_time
        return replace(self, env_t=other.env_t, last_step_time=last, weights_versions=seen)

    def get_state(self) -> dict[str, Any]:
        """Return the clock as plain data."""
        return {**asdict(self), "weights_versions": [list(entry) for entry in self.weights_versions]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Clock:
        """Return the clock that `get_state` described."""
        return cls(**{**state, "weights_versions": tuple((t, version) for t, version in state["weights_versions"])})
