"""The items that a flow holds between two items, as plain data for checkpoints: deliveries, lists of episodes, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from episodia.dataflow.deliveries import Delivery
from episodia.env_runners import RunnerMetrics
from episodia.env_runners.runner_metrics import LoggedValues
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.learners import MeasuredGradients

# The key that says what a dict describes.
_KIND = "held"


def kept_state(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as plain data."""
    return {
        "place": [delivery.runner, delivery.incarnation, delivery.number, delivery.version],
        "episodes": held_state(delivery.episodes),
        "made": held_state(delivery.made),
        "metrics": metrics_state(delivery.metrics),
        "statistics": dict(delivery.statistics),
        "acted_with": dict(delivery.acted_with),
    }


def kept_from(state: Mapping[str, Any]) -> Delivery:
    """Return the delivery that `kept_state` described."""
    runner, incarnation, number, version = state["place"]
    metrics = metrics_from(state["metrics"])
    parts = held_from(state["episodes"]), metrics, state["statistics"], state["acted_with"], held_from(state["made"])
    return Delivery(runner, incarnation, number, version, *parts)


def metrics_state(metrics: RunnerMetrics) -> dict[str, Any]:
    """Return the metrics of a runner as plain data."""
    return asdict(metrics)


def metrics_from(state: Mapping[str, Any]) -> RunnerMetrics:
    """Return the metrics that `metrics_state` described."""
    logged = {name: LoggedValues(**values) for name, values in state["logged"].items()}
    return RunnerMetrics(**{**state, "logged": logged})


def _episodes_state(episodes: EpisodeList[Any]) -> dict[str, Any]:
    return {"is_multi_agent": episodes.is_multi_agent, "episodes": [episode.get_state() for episode in episodes]}


def _episodes_from(state: Mapping[str, Any]) -> EpisodeList[Any]:
    kind = MultiAgentEpisode if state["is_multi_agent"] else SingleAgentEpisode
    return EpisodeList([kind.from_state(own) for own in state["episodes"]])


def _gradients_from(state: Mapping[str, Any]) -> MeasuredGradients:
    return MeasuredGradients(state["gradients"], state["metrics"])


_MADE_OF: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "delivery": kept_from,
    "episodes": _episodes_from,
    "gradients": _gradients_from,
}


def held_state(item: Any) -> Any:
    """Return an item of a flow as plain data, if it is made of deliveries, episodes, metrics and plain data.

    >>> held_state([{"loss": 0.5}, (1, None)])
    [{'loss': 0.5}, (1, None)]
    """
    if isinstance(item, Delivery):
        return {_KIND: "delivery", **kept_state(item)}
    if isinstance(item, EpisodeList):
        return {_KIND: "episodes", **_episodes_state(item)}
    if isinstance(item, MeasuredGradients):
        return {_KIND: "gradients", "gradients": dict(item), "metrics": item.metrics}
    if isinstance(item, dict):
        return {name: held_state(own) for name, own in item.items()}
    return type(item)(map(held_state, item)) if type(item) in (list, tuple) else item


def held_from(state: Any) -> Any:
    """Return the item that `held_state` described."""
    if isinstance(state, Mapping):
        made = _MADE_OF.get(state.get(_KIND, ""))
        return {name: held_from(own) for name, own in state.items()} if made is None else made(state)
    return type(state)(map(held_from, state)) if type(state) in (list, tuple) else state
