"""Deliveries that have arrived and were not handed over, as plain data for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from episodia.dataflow.deliveries import Delivery
from episodia.env_runners import RunnerMetrics
from episodia.env_runners.runner_metrics import LoggedValues
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import EngineError


def kept_state(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as plain data.

    Raises:
        EngineError: If it has something else than episodes.
    """
    if not isinstance(delivery.episodes, EpisodeList):
        raise EngineError(
            "get_state: found deliveries that are not episodes, which cannot be saved; expected none. Take them with `poll` "
            "before."
        )
    return {
        "place": [delivery.runner, delivery.incarnation, delivery.number, delivery.version],
        "is_multi_agent": delivery.episodes.is_multi_agent,
        "episodes": [episode.get_state() for episode in delivery.episodes],
        "metrics": asdict(delivery.metrics),
        "statistics": dict(delivery.statistics),
    }


def kept_from(state: Mapping[str, Any]) -> Delivery:
    """Return the delivery that `kept_state` described."""
    kind = MultiAgentEpisode if state["is_multi_agent"] else SingleAgentEpisode
    metrics = RunnerMetrics(**state["metrics"])
    metrics.logged = {name: LoggedValues(**logged) for name, logged in state["metrics"]["logged"].items()}
    episodes = EpisodeList([kind.from_state(own) for own in state["episodes"]])
    runner, incarnation, number, version = state["place"]
    return Delivery(runner, incarnation, number, version, episodes, metrics, state["statistics"])
