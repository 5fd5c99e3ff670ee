"""`ConcatSteps`: deliveries are held until they have enough steps, and come out as one list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, final

from episodia.arguments import checked_choice, checked_whole, names_nearest_argument
from episodia.dataflow.deliveries import Delivery
from episodia.dataflow.kept_deliveries import kept_from, kept_state
from episodia.dataflow.runner_group import episodes_of
from episodia.episodes import EpisodeList
from episodia.errors import FlowError


@names_nearest_argument
@final
class ConcatSteps:
    """A stage of lists of episodes with at least so many steps, made of whole deliveries.

    Args:
        min_steps: How many steps.
        count_by: Steps of environments, or of agents: `"env_steps"` or `"agent_steps"`.

    Raises:
        FlowError: If an argument is invalid.
    """

    def __init__(self, min_steps: int, *, count_by: str = "env_steps") -> None:
        self._min_steps = checked_whole(FlowError, "ConcatSteps", "min_steps", min_steps, 1)
        self._counts_agents = (
            checked_choice(FlowError, "ConcatSteps", "count_by", count_by, ("env_steps", "agent_steps"))
            == "agent_steps"
        )
        self._held: list[Delivery] = []
        self._num_steps = 0

    def __repr__(self) -> str:
        return f"ConcatSteps({self._min_steps}, count_by={'agent_steps' if self._counts_agents else 'env_steps'!r})"

    def __call__(self, delivery: Delivery) -> Iterable[EpisodeList[Any]]:
        """Hold the delivery, and return a list when there are enough steps."""
        self._hold(delivery)
        if self._num_steps < self._min_steps:
            return ()
        held, self._held, self._num_steps = self._held, [], 0
        return (episodes_of(held),)

    def _hold(self, delivery: Delivery) -> None:
        if not isinstance(cast("object", delivery), Delivery):
            raise FlowError(
                f"ConcatSteps: found {type(delivery).__name__}, expected a delivery. Put `flatten()` before it if it is a list."
            )
        listed = delivery.episodes
        is_counted = self._counts_agents or not listed.is_multi_agent
        self._num_steps += delivery.num_steps if is_counted else sum(map(len, listed))
        self._held.append(delivery)

    def get_state(self) -> list[dict[str, Any]]:
        """Return the deliveries that are held, as plain data."""
        return [kept_state(delivery) for delivery in self._held]

    def set_state(self, state: list[dict[str, Any]]) -> None:
        """Hold these deliveries."""
        self._held, self._num_steps = [], 0
        for own in state:
            self._hold(kept_from(own))
