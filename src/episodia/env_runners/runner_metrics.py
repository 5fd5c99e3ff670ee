"""Metrics of a runner since the last request for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, final

from episodia.errors import EnvRunnerError

_REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
    "min": min,
    "max": max,
}


@final
@dataclass
class LoggedValues:
    """Numbers that callbacks have logged under one name, and what is made of them: their mean, sum, minimum or maximum."""

    reduce: str = "mean"
    values: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.reduce not in _REDUCTIONS:
            raise EnvRunnerError(f"found `reduce={self.reduce!r}`, expected one of {list(_REDUCTIONS)}. Correct it.")

    def __add__(self, other: LoggedValues) -> LoggedValues:
        return LoggedValues(self.reduce, self.values + other.values)

    def reduced(self) -> float:
        """Return the mean, sum, minimum or maximum."""
        return float(_REDUCTIONS[self.reduce](self.values))


@final
@dataclass
class RunnerMetrics:
    """Counts, times and the results of finished episodes. Everything adds up: `merged` is a sum, field by field.

    Times are in seconds. `episode_returns` and `episode_lengths` are of whole episodes, also if they were returned in
    chunks; episodes that never ended are not among them. In a multi-agent episode, the return is the sum over all agents.

    The fields about agents and modules are filled by multi-agent runners. A module has one return for each agent that it
    acts for. `logged` has what callbacks have logged with their `metrics_logger`, by name.

    >>> merged = RunnerMetrics.merged([RunnerMetrics(num_env_steps=3), RunnerMetrics(num_env_steps=4)])
    >>> merged.num_env_steps
    7
    """

    num_env_steps: int = 0
    num_episodes: int = 0  # that ended
    num_env_restarts: int = 0
    num_episodes_dropped: int = 0  # because an environment failed, or returned an invalid step
    num_env_steps_dropped: int = 0  # with them; and one for each lane, where a whole vector step has failed
    sample_time_s: float = 0.0
    env_step_time_s: float = 0.0
    env_to_module_time_s: float = 0.0
    forward_time_s: float = 0.0
    module_to_env_time_s: float = 0.0
    record_time_s: float = 0.0  # single-agent runners count it as part of the step
    episode_returns: list[float] = field(default_factory=list)
    episode_lengths: list[int] = field(default_factory=list)
    episode_durations_s: list[float] = field(default_factory=list)
    num_agent_steps: int = 0
    agent_steps: dict[Any, int] = field(default_factory=dict)
    module_steps: dict[Any, int] = field(default_factory=dict)
    agent_returns: dict[Any, list[float]] = field(default_factory=dict)
    module_returns: dict[Any, list[float]] = field(default_factory=dict)
    logged: dict[str, LoggedValues] = field(default_factory=dict)

    @classmethod
    def merged(cls, parts: Iterable[RunnerMetrics]) -> RunnerMetrics:
        """Return the sum of `parts`: the metrics of several runners together."""
        merged = cls()
        for part in parts:
            for each in fields(cls):
                setattr(merged, each.name, _sum(getattr(merged, each.name), getattr(part, each.name)))
        return merged

    def taken(self) -> RunnerMetrics:
        """Return a copy, and reset all counts."""
        taken = RunnerMetrics()
        # The new one gets all values of this one, which takes those of the new one.
        counted, unused = dict(vars(self)), dict(vars(taken))
        vars(taken).update(counted)
        vars(self).update(unused)
        return taken

    @property
    def env_steps_per_s(self) -> float:
        """Recorded steps per second of sampling; 0 before any sampling."""
        return self.num_env_steps / self.sample_time_s if self.sample_time_s else 0.0

    @property
    def agent_steps_per_s(self) -> float:
        """Steps of agents per second of sampling; 0 before any sampling."""
        return self.num_agent_steps / self.sample_time_s if self.sample_time_s else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return counts, times, logged values, and mean, minimum, maximum of results of episodes; dicts by agent and module.

        Metrics of agents are included if agents have stepped.

        >>> RunnerMetrics(num_episodes=2, episode_returns=[1.0, 4.0]).as_dict()["episode_return_mean"]
        2.5
        """
        numbers: dict[str, Any] = {
            name: value for name, value in vars(self).items() if isinstance(value, (int, float)) and "agent" not in name
        }
        numbers["env_steps_per_s"] = self.env_steps_per_s
        for name, values in (
            ("episode_return", self.episode_returns),
            ("episode_length", self.episode_lengths),
            ("episode_duration_s", self.episode_durations_s),
        ):
            if values:
                numbers |= {f"{name}_mean": sum(values) / len(values), f"{name}_min": min(values)}
                numbers[f"{name}_max"] = max(values)
        numbers |= {name: logged.reduced() for name, logged in self.logged.items()}
        return numbers | (self._of_agents() if self.num_agent_steps else {})

    def _of_agents(self) -> dict[str, Any]:
        return {
            "num_agent_steps": self.num_agent_steps,
            "agent_steps_per_s": self.agent_steps_per_s,
            "agent_steps": dict(self.agent_steps),
            "module_steps": dict(self.module_steps),
            "agent_return_mean": _means(self.agent_returns),
            "module_return_mean": _means(self.module_returns),
        }


def _sum(first: Any, second: Any) -> Any:
    if not isinstance(first, dict):
        return first + second
    return {**first, **{key: first[key] + more if key in first else more for key, more in second.items()}}


def _means(returns: dict[Any, list[float]]) -> dict[Any, float]:
    return {key: sum(values) / len(values) for key, values in returns.items() if values}
