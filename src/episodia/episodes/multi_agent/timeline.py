"""Which environment step is which step of one agent.

The environment's clock ticks for all agents together; an agent has an observation only at some of its ticks. A timeline
lists those ticks, one for each observation that the agent's own episode stores, the lookback included:

    environment step     0   1   2   3   4   5
    the agent observes   x           x   x          Timeline([0, 3, 4])
    its own time step    0   S   S   1   2   S      "S": skipped, in RLlib's spelling

An action and its reward stand at the environment step of the observation that they answer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, final

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
