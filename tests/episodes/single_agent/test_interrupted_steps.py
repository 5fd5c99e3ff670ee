"""F10: an interrupt at any byte code of a step that is added by hand stores the step or not, never half of it."""

import pytest

from episodia import SingleAgentEpisode
from interrupts import interrupted_at

LONG = 3


def episode_of(num_steps, *, is_finalized=False):
    episode = SingleAgentEpisode()
    episode.add_env_reset([0], {"t": 0})
    for t in range(1, num_steps + 1):
        add_step(episode, t, terminated=False)
    return episode.finalize() if is_finalized else episode


def add_step(episode, t, *, terminated):
    episode.add_env_step([t], t - 1, float(t), {"t": t}, terminated=terminated, extra_model_outputs={"extra": -t})


def assert_whole(episode):
    times = list(range(len(episode) + 1))

    assert episode.t == len(episode)
    assert [observation[0] for observation in episode.get_observations()] == times
    assert [info["t"] for info in episode.get_infos()] == times
    assert list(episode.get_actions()) == times[:-1]
    assert list(episode.get_rewards()) == times[1:]
    assert [-extra for extra in episode.get_extra_model_outputs("extra")] == times[1:]


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("is_finalized", [False, True])
def test_f10_an_interrupted_step_is_stored_or_not(is_last, is_finalized):
    number, place = 0, ""
    while place is not None:
        episode = episode_of(LONG, is_finalized=is_finalized)
        _, place = interrupted_at(number, lambda: add_step(episode, LONG + 1, terminated=is_last), opcodes=True)  # noqa: B023
        number += 11 if is_finalized else 1

        assert_whole(episode)
        assert episode.is_terminated == (is_last and len(episode) > LONG)
        if len(episode) == LONG:
            add_step(episode, LONG + 1, terminated=is_last)
            assert_whole(episode)
    assert len(episode) == LONG + 1
