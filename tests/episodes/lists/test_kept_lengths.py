"""Lengths are counted once for all columns, and again as soon as somebody could have changed them."""

from __future__ import annotations

from episodia import Columns, SingleAgentEpisode
from episodia.episodes import EpisodeList


def _walk(steps: int) -> SingleAgentEpisode:
    return SingleAgentEpisode(
        observations=list(range(steps + 1)), actions=[0] * steps, rewards=[1.0] * steps, len_lookback_buffer=0
    )


def test_a_step_added_to_a_fork_shows_in_its_list() -> None:
    forked = EpisodeList([_walk(2), _walk(3)]).forked()
    before = forked.lengths.tolist()
    forked[0].add_env_step(9, 1, 0.5)

    assert (before, forked.lengths.tolist()) == ([2, 3], [3, 3])
    assert forked.flat(Columns.REWARDS).values.tolist() == [1.0, 1.0, 0.5, 1.0, 1.0, 1.0]


def test_a_step_added_to_a_fork_returned_before_shows_in_its_list() -> None:
    forked = EpisodeList([_walk(2)]).forked()
    fork = forked[0]
    before = forked.lengths.tolist()
    fork.add_env_step(9, 1, 0.5)

    assert (before, forked.lengths.tolist()) == ([2], [3])


def test_a_step_added_to_a_fork_shows_in_the_group_of_its_module() -> None:
    forked = EpisodeList([_walk(2)]).forked()
    (group,) = forked.groups().values()
    before = group.lengths.tolist()
    forked[0].add_env_step(9, 1, 0.5)

    assert (before, group.lengths.tolist()) == ([2], [3])
    assert group.flat(Columns.OBS, tail=True).values.tolist() == [0, 1, 2, 9]


def test_a_step_added_to_an_episode_shows_in_the_lists_that_hold_it() -> None:
    walk = _walk(2)
    episodes = EpisodeList([walk])
    before = episodes.lengths.tolist()
    walk.add_env_step(9, 1, 0.5)

    assert (before, episodes.lengths.tolist()) == ([2], [3])
