"""Chunks whose last rewards were set after they were cut."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from episodia.connectors import RewardShaper
from episodia.episodes.multi_agent.delayed_rewards import take_over_rewards


def settle(
    chunks: Iterable[Any], running: Mapping[str, Any], shapers: Sequence[RewardShaper], unseen_ends: set[str]
) -> None:
    """Give `chunks`, which are about to be returned, the rewards that were set after they were cut.

    Those are in the lookbacks of the chunks that follow. An episode that is not continued is settled as at its end.

    Args:
        chunks: Those of one episode in the order of time.
        running: By the ids of the episodes that go on or have a last chunk elsewhere: that chunk.
        shapers: What sets rewards.
        unseen_ends: The ids of episodes whose end no pipeline has seen; those that are settled are taken out.
    """
    by_id: dict[str, list[Any]] = {}
    for chunk in chunks:
        by_id.setdefault(chunk.id_, []).append(chunk)
    for id_, parts in by_id.items():
        later = [*parts, running[id_]] if id_ in running else parts
        last = later[-1]
        if id_ in unseen_ends or not (id_ in running or last.is_done):
            unseen_ends.discard(id_)
            for shaper in shapers:
                shaper.settle(last)
        # What a later chunk says was said later.
        for position in range(1, len(later)):
            for earlier in later[:position]:
                take_over_rewards(earlier, later[position])


def joined(chunks: Sequence[Any]) -> Any:
    """Return the whole episode of `chunks`, which are in order, with all delayed rewards.

    It is a copy, unless there is one chunk only.
    """
    if len(chunks) == 1:
        return chunks[0]
    whole = copy.copy(chunks[0])
    for chunk in chunks[1:]:
        take_over_rewards(whole, chunk)
        whole.concat_episode(chunk)
    return whole
