"""F10: an interrupt at any line of a step that is added by hand stores the step for all agents, or for none."""

import pytest

from episodia import MultiAgentEpisode
from interrupts import interrupted_at


def episode_of(*, is_finalized):
    """Return an episode in which `b` has acted, and waits for its observation."""
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": [0], "b": [0]})
    for t in (1, 2):
        both = {"a": t, "b": t}
        episode.add_env_step({"a": [t], "b": [t]}, both, both, infos={"a": {"t": t}})
    episode.add_env_step({"a": [3]}, {"a": 3, "b": 3}, {"a": 3.0, "b": 6.0})
    return episode.finalize() if is_finalized else episode


def step_of(others, **ends):
    def add(episode):
        episode.add_env_step({"a": [4], **others}, {"a": 4}, {"a": 4.0, "b": 1.0}, **ends)

    return add


STEPS = {
    "answered": step_of({"b": [4]}),
    "waiting": step_of({}),
    "a new agent": step_of({"b": [4], "c": [4]}),
    "an agent ends": step_of({"b": [4]}, terminateds={"b": True}),
    "all end": step_of({"b": [4]}, truncateds={"__all__": True}),
}


def content_of(episode):
    agents = {agent: (single.t, single.is_done) for agent, single in episode.agent_episodes.items()}
    columns = [episode.get_observations(), episode.get_actions(), episode.get_rewards(), episode.get_infos()]
    return repr((episode.env_t, episode.is_terminated, episode.is_truncated, agents, columns))


@pytest.mark.parametrize("is_finalized", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_f10_an_interrupted_step_is_stored_for_all_agents_or_for_none(name, is_finalized):
    before, after = episode_of(is_finalized=is_finalized), episode_of(is_finalized=is_finalized)
    STEPS[name](after)
    number, place = 0, ""
    while place is not None:
        episode = episode_of(is_finalized=is_finalized)
        _, place = interrupted_at(number, lambda: STEPS[name](episode))  # noqa: B023
        number += 5 if is_finalized else 1

        assert content_of(episode) in (content_of(before), content_of(after)), place
        if episode.env_t < after.env_t:
            STEPS[name](episode)
            assert content_of(episode) == content_of(after)
    assert number > 100


def test_f10_finalizing_that_was_interrupted_is_ended_by_the_next_call():
    add_agent = step_of({"b": [4], "c": [4]})  # `c` has no step yet
    expected = episode_of(is_finalized=False)
    add_agent(expected)
    expected.finalize()
    number, place = 0, ""
    while place is not None:
        episode = episode_of(is_finalized=False)
        add_agent(episode)
        _, place = interrupted_at(number, episode.finalize, opcodes=True)
        number += 3
        episode.finalize()

        assert episode.is_finalized, place
        assert content_of(episode) == content_of(expected), place
        assert len(episode.agent_episodes["c"].rewards.data) == 0, place
    assert number > 100
