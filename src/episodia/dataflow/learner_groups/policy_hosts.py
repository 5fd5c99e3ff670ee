"""`PolicyHosts`: one learner for each module, each in a worker of its own: one after another, in parallel, or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from episodia.dataflow.deliveries import Statistics
from episodia.dataflow.engines.engine import Engine
from episodia.dataflow.flows.sources import NOTHING, Pending, Source, wait_for
from episodia.dataflow.updates.learner_worker import Updated, Updates
from episodia.dataflow.updates.reporting import merged_metrics
from episodia.episodes import EpisodeList
from episodia.errors import EngineError
from episodia.learners import Learner, Metrics


def checked_learners(where: str, learners: Mapping[str, Learner]) -> dict[str, Learner]:
    """Return the learners of several modules.

    Raises:
        EngineError: If there is none, or one has not just the module that it is named for.
    """
    odd = {name: list(learner.modules) for name, learner in learners.items() if list(learner.modules) != [name]}
    if odd or not learners:
        raise EngineError(
            f"{where}: found {odd or 'no learner'}, expected learners with just the module that they are named for. "
            "Make each with `Learner({module_id: module}, ...)`."
        )
    return dict(learners)


@final
class PolicyHosts:
    """Updates each module with what its agents have done, each where its learner lives.

    The engine decides how: with `LocalEngine()` one after another, with `ThreadEngine()` in parallel, and on engines with
    machines elsewhere. The weights are the same. A host that dies or hangs is replaced, see `Updates`.

    Args:
        learners: The learner of each module, made with that module alone, as `{module_id: module}`. Hosts have copies of them.
        engine: Where the hosts live.
        **how: Arguments of `Updates`, and of `Learner.update`.

    Raises:
        EngineError: If a learner has not just the module that it is named for.
    """

    def __init__(self, learners: Mapping[str, Learner], engine: Engine, **how: Any) -> None:
        self._learners = checked_learners("PolicyHosts", learners)
        self._hosts = {name: Updates(learner, engine, **{"depth": 1, **how}) for name, learner in learners.items()}
        self._weights: dict[str, Any] = {}
        for learner in learners.values():
            self._weights |= learner.get_weights()

    def update(self, episodes: EpisodeList[Any], statistics: Statistics | None = None) -> Metrics:
        """Let each host update its module with what its agents have done, wait for all, and return their metrics.

        Args:
            episodes: The episodes.
            statistics: The statistics of filters that they were played with, see `RunnerGroup.acted_with`.
        """
        groups = episodes.groups()
        busy = {name: host for name, host in self._hosts.items() if name in groups}
        for name, host in busy.items():
            host.put(groups[name], statistics)
        found: dict[str, Updated] = {}
        while len(found) < len(busy):
            waiting = _AnyOf({name: host for name, host in busy.items() if name not in found})
            while (arrived := waiting.poll()) is NOTHING:
                wait_for(waiting)
            found |= arrived
        for updated in found.values():
            self._weights |= updated.weights
        return merged_metrics({name: found[name].metrics for name in busy})

    @property
    def num_replaced(self) -> int:
        """The number of hosts that were replaced."""
        return sum(host.num_replaced for host in self._hosts.values())

    def get_weights(self) -> dict[str, Any]:
        """Return the newest weights, by module."""
        return dict(self._weights)

    def get_state(self) -> dict[str, Any]:
        """Return the states of all learners, from which equal hosts go on."""
        return {
            name: {"updates": host.get_state(), "learner": self._learners[name].get_state()}
            for name, host in self._hosts.items()
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        for name, host in self._hosts.items():
            learner = self._learners[name]
            learner.set_state(state[name]["learner"])
            host.set_state(state[name]["updates"])
            self._weights |= learner.get_weights()

    def close(self) -> None:
        """Close all hosts."""
        for host in self._hosts.values():
            host.close()


@final
class _AnyOf(Source):
    """The results of hosts that have one."""

    def __init__(self, hosts: Mapping[str, Updates]) -> None:
        self._hosts = hosts

    def poll(self) -> Any:
        found = {name: host.poll() for name, host in self._hosts.items()}
        return {name: updated for name, updated in found.items() if updated is not NOTHING} or NOTHING

    def pending(self) -> list[Pending]:
        return [one for host in self._hosts.values() for one in host.pending()]
