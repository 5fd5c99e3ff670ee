"""What a multi-agent runner has done since somebody last asked: for all agents, for each agent and for each module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, final

from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import MultiAgentEpisode


@final
@dataclass
class MultiAgentMetrics:
    """What `RunnerMetrics` has (a return is the sum over all agents there), and the same for agents and modules.

    Returns are of whole episodes, and only of those that ended. For a module there is one for each agent that it acts for.

    >>> metrics = MultiAgentMetrics(module_returns={"shared": [1.0, 4.0]})
    >>> metrics.as_dict()["module_return_mean"]
    {'shared': 2.5}
    """

    common: RunnerMetrics = field(default_factory=RunnerMetrics)
    num_agent_steps: int = 0
    agent_returns: dict[Any, list[float]] = field(default_factory=dict)
    module_returns: dict[Any, list[float]] = field(default_factory=dict)
    agent_steps: dict[Any, int] = field(default_factory=dict)
    module_steps: dict[Any, int] = field(default_factory=dict)

    @classmethod
    def merged(cls, parts: Iterable[MultiAgentMetrics]) -> MultiAgentMetrics:
        """Return what several runners have done together."""
        parts = list(parts)
        merged = cls(RunnerMetrics.merged(part.common for part in parts))
        for part in parts:
            merged.num_agent_steps += part.num_agent_steps
            for name in ("agent_returns", "module_returns", "agent_steps", "module_steps"):
                sums = getattr(merged, name)
                for key, more in getattr(part, name).items():
                    sums[key] = sums[key] + more if key in sums else more
        return merged

    @property
    def agent_steps_per_s(self) -> float:
        """Steps of agents per second of sampling; 0 if there were none."""
        return self.num_agent_steps / self.common.sample_time_s if self.common.sample_time_s else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return numbers, and dicts of numbers by agent or module."""
        return {
            **self.common.as_dict(),
            "num_agent_steps": self.num_agent_steps,
            "agent_steps_per_s": self.agent_steps_per_s,
            "agent_steps": dict(self.agent_steps),
            "module_steps": dict(self.module_steps),
            "agent_return_mean": _means(self.agent_returns),
            "module_return_mean": _means(self.module_returns),
        }


def _means(returns: dict[Any, list[float]]) -> dict[Any, float]:
    return {key: sum(values) / len(values) for key, values in returns.items() if values}


@final
class MultiAgentTotals:
    """Adds up the chunks of one episode until it ends."""

    def __init__(self) -> None:
        self._duration_s = 0.0
        self._returns: dict[Any, float] = {}

    def note(self, chunk: MultiAgentEpisode, metrics: MultiAgentMetrics) -> None:
        """Count a chunk that is handed out; when the episode ends with it, the whole is added to `metrics`."""
        self._duration_s += chunk.get_duration_s()
        metrics.common.num_env_steps += len(chunk)
        for agent, single in chunk.agent_episodes.items():
            steps, module = len(single), single.module_id
            gained = float(single.get_return()) if steps else 0.0
            self._returns[agent] = self._returns.get(agent, 0.0) + gained
            metrics.num_agent_steps += steps
            metrics.agent_steps[agent] = metrics.agent_steps.get(agent, 0) + steps
            metrics.module_steps[module] = metrics.module_steps.get(module, 0) + steps
        if chunk.is_done:
            self._finish(chunk, metrics)

    def _finish(self, chunk: MultiAgentEpisode, metrics: MultiAgentMetrics) -> None:
        common = metrics.common
        common.num_episodes += 1
        common.episode_returns.append(sum(self._returns.values()))
        common.episode_lengths.append(chunk.env_t)
        common.episode_durations_s.append(self._duration_s)
        for agent, total in self._returns.items():
            metrics.agent_returns.setdefault(agent, []).append(total)
            metrics.module_returns.setdefault(chunk.module_for(agent), []).append(total)
