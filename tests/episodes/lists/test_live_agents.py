"""The list of agents that are to act: how long it holds, and what is left of it as agents end."""

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.episodes.lists.live_agents import LiveAgents

MODULES = {"a": "left", "b": "right", "c": "left"}


def begun() -> MultiAgentEpisode:
    episode = MultiAgentEpisode("game", agent_to_module_mapping_fn=lambda agent, _: MODULES[agent])
    episode.add_env_reset(observations=dict.fromkeys(MODULES, 0))
    return episode


def step(episode: MultiAgentEpisode, agents: str, ended: str = "") -> None:
    given = dict.fromkeys(agents, 1)
    episode.add_env_step(given, given, dict.fromkeys(agents, 1.0), terminateds=dict.fromkeys(ended, True))


@pytest.fixture
def after_an_end() -> tuple[list[MultiAgentEpisode], LiveAgents]:
    """Two episodes, and the list of their agents after one of them has ended, made of the list before."""
    episodes = [begun(), begun()]
    agents = LiveAgents(episodes)
    agents.show([("left", np.array([0, 2, 3, 5])), ("right", np.array([1, 4]))])
    step(episodes[0], "abc", ended="a")
    step(episodes[1], "abc")
    return episodes, agents.without({(0, "a")})


def test_a_list_without_agents_that_ended_equals_a_new_list(after_an_end):
    episodes, agents = after_an_end

    new = LiveAgents(episodes)

    assert agents.holds(episodes)
    assert agents.num_acting == new.num_acting == [2, 3]
    assert agents.row_owners() == new.row_owners()
    assert agents.owners_by_module() == new.owners_by_module()


def test_what_the_other_agents_are_shown_is_kept(after_an_end):
    _, agents = after_an_end

    assert agents.groups()["left"].shown.tolist() == [2, 3, 5]
    assert agents.groups()["right"].shown.tolist() == [1, 4]


def test_a_list_holds_after_the_step_behind_an_end_once_its_moment_is_noted(after_an_end):
    episodes, agents = after_an_end
    step(episodes[0], "bc")  # the agent that ended is not shown this step
    step(episodes[1], "abc")

    assert not agents.holds(episodes)
    agents.note_moment()

    assert agents.holds(episodes)
    assert agents.row_owners() == LiveAgents(episodes).row_owners()
