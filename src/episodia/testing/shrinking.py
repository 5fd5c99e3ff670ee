"""Making the inputs smaller on which a law is broken, so that a failure can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from episodia.episodes import SingleAgentEpisode

Episodes = Sequence[SingleAgentEpisode]

# Enough to reach two steps from a few episodes; long ones are cut in halves first.
_MOST_TRIES = 80
_LONGEST_TEXT = 300


def smallest_failure(
    law: Callable[[Any], Any],
    inputs: Sequence[Any],
    error: Exception,
    smaller: Callable[[list[Any]], Iterator[list[Any]]],
) -> tuple[list[Any], Exception]:
    """Return fewer and smaller inputs on which `law` still fails in the same way, and how.

    Args:
        law: Raises if it is broken on the inputs that it is given.
        inputs: On which it was broken.
        error: What it raised then.
        smaller: Yields inputs with a little less than the given ones.

    >>> def no_two_steps(episodes):
    ...     assert all(len(episode) < 2 for episode in episodes)
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2, 3], actions=[5, 6, 7], rewards=[0, 0, 1], len_lookback_buffer=0)
    >>> [len(episode) for episode in smallest_failure(no_two_steps, [walk, walk], AssertionError(), shorter)[0]]
    [2]
    """
    found, tries = list(inputs), 0
    improved = True
    while improved:
        improved = False
        for fewer in smaller(found):
            tries += 1
            if tries > _MOST_TRIES:
                return found, error
            failure = _failure_of(law, fewer)
            if type(failure) is type(error) and failure is not None:
                found, error, improved = fewer, failure, True
                break
    return found, error


def _failure_of(law: Callable[[Any], Any], inputs: Sequence[Any]) -> Exception | None:
    try:
        law(inputs)
    except Exception as error:  # noqa: BLE001  # whatever a piece raises
        return error
    return None


def shorter(episodes: list[SingleAgentEpisode]) -> Iterator[list[SingleAgentEpisode]]:
    """Yield the same episodes with one of them left out or cut shorter; an episode keeps its first step."""
    if len(episodes) > 1:
        yield from ([*episodes[:place], *episodes[place + 1 :]] for place in range(len(episodes)))
    for place, episode in enumerate(episodes):
        for length in sorted({len(episode) // 2, len(episode) - 1} - {len(episode), 0, -1}):
            yield [*episodes[:place], episode[:length], *episodes[place + 1 :]]


def described(episodes: Episodes) -> str:
    """Return what there is to know about the smallest episodes that show a failure, one line for each.

    >>> walk = SingleAgentEpisode("w", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)
    >>> print(described([walk]))
    The smallest episodes that show it:
    SingleAgentEpisode(len=1, return=0.5, id_='w'): observations [0, 1], actions [5], rewards [0.5]
    """
    return "\n".join(["The smallest episodes that show it:", *map(_described, episodes)])


def _described(episode: SingleAgentEpisode) -> str:
    columns = {
        "observations": episode.get_observations(),
        "actions": episode.get_actions(),
        "rewards": episode.get_rewards(),
    }
    text = ", ".join(f"{name} {' '.join(repr(items).split())}" for name, items in columns.items())
    short = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
    return f"{episode!r}: {short}"
