"""Store what is delivered in one buffer or several shards, and update from them in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from episodia.dataflow.deliveries import Delivery
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.gates import at_least
from episodia.dataflow.flows.sources import NOTHING, Pulled, Source
from episodia.dataflow.runner_group import RunnerGroup
from episodia.dataflow.updates.learner_stages import send_weights
from episodia.errors import WorkerDiedError
from episodia.learners import ReplayUpdates
from episodia.replay import Replay, ReplayBuffer


def store(*buffers: Replay) -> Callable[[Delivery], None]:
    """Return a function that stores a delivery; each runner has one shard, because its chunks continue each other.

    Priorities that were computed where the runner lives are set, see `PrioritiesThere`.
    """

    def add(delivery: Delivery) -> None:
        buffer = buffers[delivery.runner % len(buffers)]
        buffer.add(delivery.episodes)
        if delivery.made is not None:
            buffer.update_newest(delivery.made)

    return add


def replay(
    updates: ReplayUpdates | Sequence[ReplayUpdates],
    group: RunnerGroup | None = None,
    *,
    warm_up: int = 1,
    steps: Callable[[], int] | None = None,
) -> Flow:
    """Return a flow of updates from replay: of the metrics of each, from one shard after the other.

    Args:
        updates: The updates from one buffer, or from each of several shards.
        group: The runners that get the new weights.
        warm_up: How many rows there have to be in each shard before the first update.
        steps: Returns how many steps were played, which schedules then follow.
    """
    shards = [updates] if isinstance(updates, ReplayUpdates) else list(updates)
    gate = at_least(lambda: min(len(own.buffer) for own in shards), warm_up, "rows")
    return Flow(_InTurns(shards, group, steps), gate=gate, name="replay")


@final
class _InTurns(Source):
    def __init__(
        self, shards: Sequence[ReplayUpdates], group: RunnerGroup | None, steps: Callable[[], int] | None
    ) -> None:
        self._shards, self._group, self._steps = shards, group, steps
        self._turn = 0

    def poll(self) -> Any:
        own, self._turn = self._shards[self._turn], (self._turn + 1) % len(self._shards)
        try:
            metrics = own.update(env_steps=None if self._steps is None else self._steps())
        except WorkerDiedError:  # a `ReplayShard` counts what it has lost, and is filled again
            return NOTHING
        if self._group is not None:
            send_weights(own.learner, self._group)
        return metrics

    def get_state(self) -> int:
        return self._turn

    def set_state(self, state: int) -> None:
        self._turn = state


def replayed_lists(buffer: ReplayBuffer, num: int, draw: Any, *, warm_up: int = 1, lookback: int = 0) -> Flow:
    """Return a flow of samples of a buffer, for learners that have no updates from replay of their own, such as A2C.

    Args:
        buffer: The buffer.
        num: The number of rows of a sample.
        draw: What a sample is made of, see `episodia.replay`.
        warm_up: How many rows there have to be before the first sample.
        lookback: How many steps before its first one each part needs: `learner.pipeline.lookback`.
    """
    gate = at_least(lambda: len(buffer), warm_up, "rows")
    return Flow(Pulled(lambda: buffer.sample(num, draw, lookback=lookback)), gate=gate, name="replay")
