"""Requests to a runner of a group, and deliveries that come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

from episodia.env_runners import RunnerMetrics

# The arguments of `sample`, such as `{"num_timesteps": 64}`.
Wanted: TypeAlias = Mapping[str, Any]

# States of pieces that collect statistics, by their paths in the env-to-module pipeline.
Statistics: TypeAlias = Mapping[str, Any]


@final
@dataclass(frozen=True)
class Request:
    """All that a runner needs for one sample: weights and statistics ride along, so none is lost, delayed or out of order.

    Attributes:
        number: Counts the requests to one runner.
        wanted: How much to play.
        version: The version of the weights.
        weights: A handle of the engine with them; None if the runner keeps its own.
        statistics: A handle with the statistics that all runners have in common; None if there are none.
        clock: How many steps the training has taken, which schedules of exploration follow; None if it is not known.
    """

    number: int
    wanted: Wanted
    version: int
    weights: Any = None
    statistics: Any = None
    clock: int | None = None


class WithEpisodes(NamedTuple):
    """The result of `then` together with the episodes."""

    episodes: Any
    made: Any


@final
@dataclass(frozen=True)
class Delivery:
    """The episodes that a runner has played: delivered once, or counted as lost.

    Attributes:
        runner: Which runner of the group.
        incarnation: The number of runners that have died in its place before.
        number: That of the request.
        version: The version of the weights that it was played with.
        episodes: An `EpisodeList`, or what `then` has made of it.
        metrics: What has happened in the runner since its last delivery.
        statistics: What its pieces have collected with this delivery.
        acted_with: The statistics that its pieces acted with: those of the request.
        made: What `then` has made beside the episodes, see `WithEpisodes`; else None.
    """

    runner: int
    incarnation: int
    number: int
    version: int
    episodes: Any
    metrics: RunnerMetrics = field(default_factory=RunnerMetrics)
    statistics: Statistics = field(default_factory=dict)
    acted_with: Statistics = field(default_factory=dict)
    made: Any = None

    @property
    def num_steps(self) -> int:
        """The number of steps; in multi-agent episodes, of steps of agents."""
        return int(self.episodes.lengths.sum())
