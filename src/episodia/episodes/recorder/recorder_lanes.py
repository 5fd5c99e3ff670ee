"""What happens to the lanes of a recorder beside resets and steps: episodes that stop where they are, and their ids."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from episodia.episodes.recorder.recorded_episode import growing_episode
from episodia.episodes.recorder.recorder import Recorder
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError


def truncate_lanes(recorder: Recorder, lanes: Iterable[int]) -> list[str]:
    """End the running episodes of `lanes` with the last step that they have: truncated. The lanes are idle then.

    Return the ids of those that leave something to hand out; an episode without a step since the last time does not.

    >>> import numpy as np
    >>> recorder = Recorder(None, None, num_lanes=1, seed=0)
    >>> recorder.reset(np.zeros(1))
    >>> recorder.step(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1, bool), np.zeros(1, bool))
    >>> truncate_lanes(recorder, [0])
    ['0-0-0']
    >>> recorder.idle_lanes, recorder.take()
    ([0], ...)
    """
    left = []
    for lane in lanes:
        if lane not in recorder._idle:
            chunk = recorder._up_to_date(lane)
            chunk.is_truncated = True
            if chunk.num_steps:
                recorder._finished.append(chunk)
                left.append(chunk.id_)
            recorder._idle.add(lane)
    return left


def drop_lanes(recorder: Recorder, lanes: Iterable[int]) -> dict[str, int]:
    """Forget the running episodes of `lanes`, which are idle then; return for the id of each how many steps are lost.

    Steps that were handed out before are not among them.
    """
    lost = {}
    for lane in lanes:
        if lane not in recorder._idle:
            chunk = recorder._up_to_date(lane)
            lost[chunk.id_] = chunk.num_steps
            recorder._idle.add(lane)
    return lost


def episode_id(recorder: Recorder, lane: int) -> str:
    """Return the id of the episode of `lane`, the last one if it is idle."""
    return recorder._up_to_date(lane).id_


def steps_waiting(recorder: Recorder) -> int:
    """Return how many steps were recorded and not handed out yet."""
    if not recorder._has_steps:
        return 0
    chunks = [*recorder._finished, *recorder._running()]
    return sum(chunk.num_steps for chunk in chunks)


def episodes_here(recorder: Recorder) -> dict[str, SingleAgentEpisode]:
    """Return the episodes by their ids that are running, or have ended and not been handed out, in list form."""
    chunks = [*recorder._finished, *recorder._running()]
    return {chunk.id_: growing_episode(chunk, recorder._layout) for chunk in chunks}


def is_surely_finite(recorder: Recorder) -> bool:
    """Tell whether there is no NaN or infinite number in the observations and rewards since the last hand-out.

    A look at whole blocks, which costs little. It may say no although there is none: what was never written is in them, too.
    """
    tape, layout = recorder._tape, recorder._layout
    if tape.cursor is None or tape.has_chained or layout.observations is None or layout.rewards is None:
        return False
    # A sum may overflow where all terms are finite: then somebody takes a closer look.
    with np.errstate(all="ignore"):
        return all(
            leaf.is_object or leaf.array.dtype.kind != "f" or math.isfinite(leaf.array[:, : tape.cursor + ahead].sum())
            for column, ahead in ((layout.observations, 1), (layout.rewards, 0))
            for leaf in tape.block.leaves(column)
        )


def is_whole(recorder: Recorder, lane: int) -> bool:
    """Tell whether nothing of the running episode of `lane` was handed out yet."""
    return lane not in recorder._idle and recorder._up_to_date(lane).t_started == 0


def episode_numbers(recorder: Recorder) -> list[int]:
    """Return for each lane how many episodes it has begun: part of the id of the next one."""
    return list(recorder._numbers)


def set_episode_numbers(recorder: Recorder, seed: int, numbers: list[int]) -> None:
    """Let the ids of the next episodes consist of `seed`, their lane, and the number of that lane.

    Raises:
        EpisodeError: If there is not one number for each lane.
    """
    if len(numbers) != recorder.num_lanes:
        raise EpisodeError(
            f"recorder: found {len(numbers)} numbers, expected one for each of {recorder.num_lanes} lanes."
        )
    recorder._seed = str(seed)
    recorder._numbers = [int(number) for number in numbers]
