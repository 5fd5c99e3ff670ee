"""Records of flows: the counters of group and stages beside metrics, and what happens every n items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

from episodia.arguments import checked_whole
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.runner_group import RunnerGroup
from episodia.errors import FlowError
from episodia.learners import ALL_MODULES, Metrics
from episodia.learners.update_metrics import mean_of_updates

# Returns numbers for each record, by name.
Collector: TypeAlias = Callable[[], Mapping[str, float]]


def counters_of(group: RunnerGroup) -> dict[str, float]:
    """Return the number of runners, the counts and the lags of a group, as numbers for a record."""
    found: dict[str, float] = {"runners/alive": group.num_alive}
    found |= {f"runners/{name}": count for name, count in sorted(group.counts.items())}
    handed_over = sum(group.lags.values())
    if handed_over:
        found["runners/lag_mean"] = sum(lag * count for lag, count in group.lags.items()) / handed_over
        found["runners/lag_max"] = max(group.lags)
    return found


def flat_metrics(metrics: Metrics, *, many: bool) -> dict[str, float]:
    """Return metrics by name; names begin with the module id if `many` modules learn.

    >>> flat_metrics({"red": {"loss": 0.5}, "__all_modules__": {"num_steps": 3}}, many=True)
    {'red/loss': 0.5}
    """
    return {
        f"{module_id}/{name}" if many else name: value
        for module_id, measured in metrics.items()
        if module_id != ALL_MODULES
        for name, value in measured.items()
        if name != "num_steps"
    }


def merged_metrics(found: Mapping[str, Metrics]) -> Metrics:
    """Return the metrics of the learners of several modules as those of one learner; counts of all modules are sums.

    >>> merged_metrics({"red": {"red": {"loss": 0.5}, "__all_modules__": {"num_steps": 3}}})
    {'red': {'loss': 0.5}, '__all_modules__': {'num_steps': 3}}
    """
    totals = mean_of_updates([{"all": metrics[ALL_MODULES]} for metrics in found.values()])
    return {**{name: metrics[name] for name, metrics in found.items()}, ALL_MODULES: totals.get("all", {})}


@final
class Report:
    """A function from the metrics of an update to one record of numbers, with all counters.

    Args:
        group: Whose episodes, requests and lags are counted.
        flows: Flows whose stages are counted.
        collectors: Functions that return more numbers.
    """

    def __init__(self, group: RunnerGroup, *, flows: Sequence[Flow] = (), collectors: Sequence[Collector] = ()) -> None:
        self._group, self._flows, self._collectors = group, flows, collectors
        self.iteration = self.num_steps = self.num_episodes = 0

    def __call__(self, metrics: Metrics) -> dict[str, float]:
        """Return the record of this update."""
        played = self._group.get_metrics()
        self.iteration += 1
        self.num_steps += played.num_env_steps
        self.num_episodes += played.num_episodes
        returns = played.episode_returns
        record: dict[str, float] = {"iteration": self.iteration, "steps": self.num_steps, "episodes": self.num_episodes}
        if returns:
            record["return_mean"] = sum(returns) / len(returns)
        record |= flat_metrics(metrics, many=len(metrics) > 2) | counters_of(self._group)  # one and all
        for flow in self._flows:
            for place, (name, count, time_s) in enumerate(flow.drawn().stages):
                record |= {f"{flow.name}/{place} {name}": count, f"{flow.name}/{place} {name}_s": time_s}
        for collector in self._collectors:
            record |= collector()
        return record

    def get_state(self) -> list[int]:
        """Return what was counted."""
        return [self.iteration, self.num_steps, self.num_episodes]

    def set_state(self, state: Sequence[int]) -> None:
        """Go on from these counts."""
        self.iteration, self.num_steps, self.num_episodes = state


@final
class Every:
    """A function that calls another one with every n-th item, for `tap`: an evaluation, or a checkpoint.

    >>> found = []
    >>> for item in range(6):
    ...     Every(1, found.append)(item)
    >>> len(found)
    6
    """

    def __init__(self, count: int, function: Callable[[Any], object]) -> None:
        self._count = checked_whole(FlowError, "Every", "count", count, 1)
        self._function = function
        self._num_seen = 0

    def __call__(self, item: Any) -> None:
        """Count the item."""
        self._num_seen += 1
        if self._num_seen % self._count == 0:
            self._function(item)

    def get_state(self) -> int:
        """Return how many items were seen."""
        return self._num_seen

    def set_state(self, state: int) -> None:
        """Go on from this number."""
        self._num_seen = state
