"""Laws for selectors: what a replay buffer relies on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from episodia.episodes import SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.replay import ReplayBuffer, Sampled, Selector, StatefulSelector, Transitions
from episodia.trees import describe, equal


def check_selector(make: Callable[[], Selector], *, num: int = 8) -> None:
    """Check that selectors follow the laws of replay buffers.

    - A selector returns as many rows as it is asked for, and all of them are stored steps that the draw allows: while the
      buffer fills, when old steps are overwritten, and after `clear`.
    - It draws from the random generator that it is given, so the same seed gives the same steps.
    - Its weights, if it has some, are positive and finite, one for each row.
    - `update` accepts values of stored steps, and equal rows.
    - A selector with `get_state` goes on from its state as it would have without.

    Args:
        make: Makes a selector, a new one at each call.
        num: How many steps are drawn at once.

    Raises:
        AssertionError: If a law is broken; it says which one.
        SubjectError: If `make` does not return a selector.

    >>> from episodia.replay import Proportional, Uniform
    >>> check_selector(Uniform)
    >>> check_selector(lambda: Proportional(alpha=0.5))
    """
    selector = make()
    if isinstance(selector, type) or not isinstance(selector, Selector):
        raise SubjectError(
            f"check_selector: found {describe(selector)}, expected a selector: `on_add`, `on_evict`, `select`, `update`. Pass "
            "a function that makes one, such as its class."
        )
    _check_steps(make, num)
    _check_seeds(make, num)
    if isinstance(selector, StatefulSelector):
        _check_state(make, num)


def _episodes(first: int, count: int) -> list[SingleAgentEpisode]:
    """Return episodes of 6 steps whose observations say where they come from."""
    made = []
    for number in range(first, first + count):
        steps = 100 * number + np.arange(7)
        made.append(
            SingleAgentEpisode(
                id_=f"walk {number}",
                observations=steps,
                actions=steps[:-1],
                rewards=np.ones(6),
                truncated=True,
                len_lookback_buffer=0,
            )
        )
    return made


def _check_steps(make: Callable[[], Selector], num: int) -> None:
    """Fill a small buffer several times over, and look at what is drawn."""
    buffer = ReplayBuffer(64, selector=make(), seed=0)
    for first in range(0, 30, 2):
        buffer.add(_episodes(first, 2))
        if len(buffer) >= num:
            sampled = _sampled(buffer, num, "while a buffer fills and overwrites old steps")
            buffer.update_priorities(np.resize(sampled.keys, 2 * num), np.linspace(0.0, 2.0, 2 * num))
    buffer.clear()
    buffer.add(_episodes(100, 4))
    _sampled(buffer, num, "after `clear`")
    sampled = _sampled(buffer, num, "with a lookback", lookback=2)
    assert (sampled.lookbacks == np.minimum(2, sampled.t_started)).all(), (
        f"{make()!r}: found steps without the lookback"
    )


def _sampled(buffer: ReplayBuffer, num: int, when: str, *, lookback: int = 0) -> Sampled:
    try:
        sampled = buffer.sample(num, Transitions(), lookback=lookback)
    except Exception as error:  # whatever the selector raises breaks the law
        raise AssertionError(f"{when}, `select` raised {type(error).__name__}: {error}") from error
    assert isinstance(sampled, Sampled)
    steps = sampled.flat("actions").values
    stored = buffer.episodes().flat("actions").values
    assert len(steps) == num, f"{when}, found {len(steps)} steps, expected {num}"
    assert (sampled.keys >= 0).all(), f"{when}, found negative rows"
    assert np.isin(steps, stored).all(), f"{when}, found steps that are not stored"
    weights = sampled.weights
    if weights is not None:
        assert weights.shape == (num,), f"{when}, found weights of the shape {weights.shape}, expected {num} weights"
        assert np.isfinite(weights).all(), f"{when}, found weights that are not finite"
        assert (weights > 0).all(), f"{when}, found weights that are not positive"
    return sampled


def _check_seeds(make: Callable[[], Selector], num: int) -> None:
    drawn = []
    for _ in range(2):
        buffer = ReplayBuffer(64, selector=make(), seed=5)
        buffer.add(_episodes(0, 4))
        drawn.append([_sampled(buffer, num, "with a seed").flat("actions").values.tolist() for _ in range(2)])
    assert drawn[0] == drawn[1], (
        f"found the steps {drawn[0]} and {drawn[1]} for the same seed, expected the same. Draw from the generator `rng` alone."
    )


def _check_state(make: Callable[[], Selector], num: int) -> None:
    first, second = (ReplayBuffer(64, selector=make(), seed=5) for _ in range(2))
    first.add(_episodes(0, 4))
    first.update_priorities(_sampled(first, num, "before a state").keys, np.arange(float(num)))
    second.set_state(first.get_state())
    for buffer in (first, second):
        buffer.add(_episodes(4, 1))
    drawn = [_sampled(buffer, num, "after a state").flat("keys").values for buffer in (first, second)]
    assert equal(drawn[0], drawn[1]), "found other steps after `set_state`, expected the same as without"
