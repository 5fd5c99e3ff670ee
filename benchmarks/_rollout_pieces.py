"""Pieces that are put in front of the module in rollout rows, and a callback: written once for both sides.

Each side passes its library: an object whose attributes are the classes `ConnectorV2`, `SingleAgentObservationPreprocessor`,
`MeanStdFilter`, `FrameStacking`, `PrevActionsPrevRewards` and `FlattenObservations`. This module runs on all sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

UNCHANGED = "plugin that does nothing"
CALLBACK = "on_episode_step callback"
FRAMES = 4
STACKED = f"FrameStacking({FRAMES})"


def _unchanged(library: Any) -> list[Any]:
    class Unchanged(library.ConnectorV2):
        def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, **kwargs: Any) -> Any:
            return batch

    return [Unchanged()]


def _item_by_item(library: Any) -> list[Any]:
    class AddsItems(library.ConnectorV2):
        def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, **kwargs: Any) -> Any:
            for episode in self.single_agent_episode_iterator(episodes):
                self.add_batch_item(batch, "speed", episode.get_observations(-1)[1:2], episode)
            return batch

    return [AddsItems()]


def _preprocessor(library: Any) -> list[Any]:
    class Doubles(library.SingleAgentObservationPreprocessor):
        def preprocess(self, observation: Any, episode: Any) -> Any:
            return observation * 2.0

    return [Doubles()]


# What makes the pieces of a row, by the end of its name.
PIECES: dict[str, Callable[[Any], list[Any]]] = {
    UNCHANGED: _unchanged,
    "MeanStdFilter": lambda library: [library.MeanStdFilter()],
    "plugin with add_batch_item": _item_by_item,
    "observation preprocessor": _preprocessor,
    STACKED: lambda library: [library.FrameStacking(num_frames=FRAMES)],
    "PrevActionsPrevRewards": lambda library: [library.PrevActionsPrevRewards(), library.FlattenObservations()],
    "FlattenObservations": lambda library: [library.FlattenObservations()],
}
# Those with a speed to reach; a quick run has only these.
REQUIRED = (UNCHANGED, "MeanStdFilter", "plugin with add_batch_item", "observation preprocessor")


def counting_callback(base: type) -> type:
    """Return a class of callbacks, derived from `base`, that counts the steps of all episodes."""

    class CountsSteps(base):
        steps = 0

        def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
            self.steps += 1

    return CountsSteps
