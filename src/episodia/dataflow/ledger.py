"""The ledger of chunks: each one came once, and none is missing before it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, final

from episodia.episodes import EpisodeList
from episodia.errors import LedgerError

# So many ended episodes are remembered: a chunk that comes twice comes soon.
_MOST_ENDED = 100_000


@final
class Ledger:
    """Checks that the chunks of each episode are contiguous and come once.

    Chunks carry what is needed: the id of the episode, their first time step, their length, and whether the
    episode has ended. No episode is made for it.

    Args:
        num_steps: The number of steps that were counted before.

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode("walk", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)
    >>> ledger = Ledger()
    >>> ledger.enter(EpisodeList([walk]))
    >>> ledger.enter(EpisodeList([walk]))
    Traceback (most recent call last):
    ...
    episodia.errors.LedgerError: episode 'walk': found a chunk from t=0, expected t=1. ...
    """

    def __init__(self, num_steps: int = 0) -> None:
        self._next: dict[Any, tuple[int, Any]] = {}
        self._ended: OrderedDict[Any, None] = OrderedDict()
        self.num_steps = num_steps

    def enter(self, episodes: EpisodeList, owner: Any = None) -> None:
        """Enter the chunks of a list.

        Args:
            episodes: The list.
            owner: The runner that plays them, see `break_off`.

        Raises:
            LedgerError: If a chunk came before, or does not follow the chunk that came before it.
        """
        facts = episodes.facts()
        starts, lengths, ends = facts.t_started.tolist(), facts.lengths.tolist(), facts.ends.tolist()
        following, ended = self._next, self._ended
        for id_, start, length, end in zip(facts.origins, starts, lengths, ends, strict=True):
            known = following.get(id_)
            if start != (0 if known is None else known[0]) or (known is None and length and id_ in ended):
                raise self._wrong(id_, start)
            self.num_steps += length
            if not end:
                following[id_] = start + length, owner
                continue
            if known is not None:
                del following[id_]
            ended[id_] = None
            if len(ended) > _MOST_ENDED:
                ended.popitem(last=False)

    def _wrong(self, id_: Any, start: int) -> LedgerError:
        if id_ in self._ended:
            return LedgerError(f"episode {id_!r}: found a chunk from t={start} after its end, expected no more of it.")
        expected, _ = self._next.get(id_, (0, None))
        return LedgerError(
            f"episode {id_!r}: found a chunk from t={start}, expected t={expected}. A chunk came twice or is missing, or "
            "two runners have the same seed."
        )

    def break_off(self, owner: Any) -> list[Any]:
        """Forget the running episodes of `owner`, which no runner continues, and return their ids."""
        broken = [id_ for id_, (_, who) in self._next.items() if who == owner]
        for id_ in broken:
            del self._next[id_]
        return broken
