"""A picture of many episodes: how much each of them brought, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episodia import plotting
from episodia.episodes.display.episode_plots import ending_of

_MARKERS = {"terminated": "o", "truncated": "s", "not ended": "."}


def plot(episodes: Sequence[Any], ax: Any) -> Any:
    """Draw the return and the length of each episode, with how it ended, and return the figure.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure, (returns, lengths) = plotting.panels(["returns", "lengths"], ax)
    endings = [ending_of(episode).split(",")[0] or "not ended" for episode in episodes]
    for axes, title, values in (
        (returns, "return", [episode.get_return() for episode in episodes]),
        (lengths, "length", [len(episode) for episode in episodes]),
    ):
        axes.plot(values, color="0.7", linewidth=0.8)
        for number, (ending, marker) in enumerate(_MARKERS.items()):
            places = [place for place, found in enumerate(endings) if found == ending]
            if places:
                axes.plot(
                    places, [values[place] for place in places], marker, color=f"C{number}", markersize=5, label=ending
                )
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        plotting.count(axes.xaxis)
    if episodes:
        returns.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7, frameon=False)
    lengths.set_xlabel("episode")
    if ax is None:
        steps = sum(len(episode) for episode in episodes)
        figure.suptitle(f"{len(episodes)} episodes, {steps} steps", fontsize=11)
    return figure
