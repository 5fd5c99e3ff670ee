"""`MixedReplay`: several buffers that are sampled together, each with a share of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, final

import numpy as np

from episodia.arguments import checked_each, checked_number, checked_whole, is_number, is_whole, names_nearest_argument
from episodia.errors import ReplayError
from episodia.replay.buffer import ReplayBuffer
from episodia.replay.draws.draw import Draw
from episodia.replay.draws.transitions import Transitions
from episodia.replay.rows.keys import as_priorities
from episodia.replay.samples.joined_sample import JoinedSample
from episodia.trees import describe
from episodia.types import State


@names_nearest_argument
@final
class MixedReplay:
    """Samples from several buffers by fixed shares, such as demonstrations beside fresh data.

    The shares are exact in the long run and differ by less than one in each sample: what a sample lacks, a later one gets.

    Args:
        buffers: The buffers; they are filled on their own, and all have steps of one module.
        shares: The share of each buffer, in any unit; 0 leaves a buffer out.

    >>> from episodia import SingleAgentEpisode
    >>> demonstrations, fresh = ReplayBuffer(100, seed=0), ReplayBuffer(100, seed=1)
    >>> for buffer, reward in ((demonstrations, 1.0), (fresh, 0.0)):
    ...     walk = SingleAgentEpisode(observations=[0, 1], actions=[5], rewards=[reward], len_lookback_buffer=0)
    ...     added = buffer.add([walk])
    >>> mixed = MixedReplay([demonstrations, fresh], [1, 3])
    >>> mixed.sample(8).flat("rewards").values.tolist()
    [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, buffers: Sequence[ReplayBuffer], shares: Sequence[float]) -> None:
        where = "MixedReplay"
        self._buffers = checked_each(
            ReplayError, where, "buffers", buffers, lambda one: isinstance(one, ReplayBuffer), "replay buffers"
        )
        numbers = checked_each(ReplayError, where, "shares", shares, is_number, "numbers")
        if len(numbers) != len(self._buffers) or not self._buffers:
            raise ReplayError(
                f"{where}: found {len(numbers)} shares of {len(self._buffers)} buffers, expected one for each, and at least "
                "one buffer. Pass `[demonstrations, fresh], [1, 3]`, for example."
            )
        parts = [Fraction(checked_number(ReplayError, where, "shares", share, 0.0, 1e9)) for share in numbers]
        if not sum(parts):
            raise ReplayError(f"{where}: found `shares={list(shares)}`, expected one above 0. Correct it.")
        self._shares = [part / sum(parts) for part in parts]
        self._num_asked = 0
        self._num_sampled = [0] * len(parts)

    @property
    def buffers(self) -> list[ReplayBuffer]:
        """The buffers."""
        return list(self._buffers)

    def sample(self, num: int, draw: Draw = Transitions(), *, lookback: int = 0) -> JoinedSample:  # noqa: B008  # frozen
        """Return `num` stretches, those of the first buffer first; see `ReplayBuffer.sample`.

        Raises:
            ReplayError: If a buffer has no step that can be drawn, or if their modules or columns differ.
        """
        num = checked_whole(ReplayError, "MixedReplay.sample", "num", num, 1)
        counts = self._counts(num)
        parts = [
            buffer.sample(count, draw, lookback=lookback) if count else None
            for buffer, count in zip(self._buffers, counts, strict=True)
        ]
        made = JoinedSample(parts)
        self._num_asked += num
        self._num_sampled = [before + count for before, count in zip(self._num_sampled, counts, strict=True)]
        return made

    def _counts(self, num: int) -> list[int]:
        """Return how many stretches each buffer gets, so that totals are as close to the shares as they can be."""
        due = [
            share * (self._num_asked + num) - before
            for share, before in zip(self._shares, self._num_sampled, strict=True)
        ]
        counts = [max(0, int(part)) for part in due]
        # The largest remainders get what is left.
        order = sorted(range(len(due)), key=lambda place: counts[place] - due[place])
        missing = num - sum(counts)
        for place in order[:missing] if missing > 0 else order[::-1][:-missing]:
            counts[place] += 1 if missing > 0 else -1
        return counts

    def update_priorities(self, keys: Sequence[np.ndarray], values: Any) -> int:
        """Tell each buffer the new values of its sampled steps, see `ReplayBuffer.update_priorities`.

        Args:
            keys: `sampled.keys`: the keys of each buffer.
            values: A number for each key, in the order of the sample.

        Returns:
            How many keys were stale, and ignored.

        Raises:
            ReplayError: If a value is not finite, or there are more or fewer values than keys; nothing is changed then.
        """
        given = checked_each(ReplayError, "MixedReplay.update_priorities", "keys", keys, _is_keys, "arrays of keys")
        if len(given) != len(self._buffers):
            raise ReplayError(
                f"MixedReplay.update_priorities: found the keys of {len(given)} buffers, expected those of "
                f"{len(self._buffers)}. Pass `sampled.keys`."
            )
        numbers = as_priorities(values, sum(map(len, keys)))
        parts = np.split(numbers, np.cumsum([len(part) for part in keys])[:-1])
        return sum(
            buffer.update_priorities(part, new)
            for buffer, part, new in zip(self._buffers, keys, parts, strict=True)
            if len(part)
        )

    def get_state(self) -> State:
        """Return the counts; the buffers have states of their own."""
        return {"num_asked": self._num_asked, "num_sampled": list(self._num_sampled)}

    def set_state(self, state: State) -> None:
        """Continue with the counts that `get_state` returned.

        Raises:
            ReplayError: If they are not the counts of as many buffers.
        """
        where = "MixedReplay.set_state"
        found: object = state
        if not isinstance(found, dict) or found.keys() != {"num_asked", "num_sampled"}:
            raise ReplayError(f"{where}: found {describe(state)}, expected what `get_state()` returned.")
        given = checked_each(ReplayError, where, "num_sampled", found["num_sampled"], is_whole, "counts")
        if len(given) != len(self._buffers):
            raise ReplayError(
                f"{where}: found {len(given)} counts, expected one for each of {len(self._buffers)} buffers."
            )
        counts = [checked_whole(ReplayError, where, "num_sampled", count, 0) for count in given]
        self._num_asked = checked_whole(ReplayError, where, "num_asked", state["num_asked"], 0)
        self._num_sampled = counts

    def __repr__(self) -> str:
        shares = ", ".join(f"{float(share):.3g}" for share in self._shares)
        return f"MixedReplay({len(self._buffers)} buffers, shares {shares})"


def _is_keys(part: object) -> bool:
    return isinstance(part, np.ndarray) and part.ndim == 1
