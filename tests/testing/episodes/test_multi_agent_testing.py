"""What is drawn, named and compared for several agents is what it says."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.testing import (
    AGENT_IDS,
    ITEM_KINDS,
    MULTI_AGENT_EPISODES,
    MULTI_AGENT_TRAJECTORIES,
    Content,
    MultiAgentTrajectory,
    assert_same_multi_agent_episode,
    multi_agent_episodes,
    multi_agent_trajectories,
    pictured,
)

QUICKLY = settings(max_examples=30)
# The first one found will do, however large.
SEARCH = settings(max_examples=5_000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
NUMBERS = {"content": st.just(Content())}


# --- Trajectories ---


def statuses(trajectory, agent):
    return [trajectory.until(t).status(agent) for t in range(len(trajectory) + 1)]


FEATURES = {
    "a late joiner": lambda s: any(statuses(s, agent)[0] == "unseen" for agent in s.agents),
    "an agent that waits for several steps": lambda s: any(
        statuses(s, agent)[t : t + 2] == ["pending"] * 2 for agent in s.agents for t in range(len(s))
    ),
    "a reward for an agent that waits": lambda s: any(
        s.until(t - 1).status(agent) == "pending" for t in range(1, len(s) + 1) for agent in s.entry(t)["rewards"]
    ),
    "an observation that is not acted on": lambda s: any(
        s.until(t - 1).status(agent) == "idle" and agent not in s.entry(t)["actions"]
        for t in range(1, len(s) + 1)
        for agent in s.entry(t)["observations"]
    ),
    "a death while others live": lambda s: {"done", "idle"} <= {s.status(agent) for agent in s.agents},
    "an end of all": lambda s: "__all__" in s.entry(-1)["terminateds"],
    "a truncation of all": lambda s: "__all__" in s.entry(-1)["truncateds"],
    "a last observation that is missing": lambda s: any(
        s.until(-2).status(agent) == "pending" and agent not in s.entry(-1)["observations"]
        for agent in s.entry(-1)["truncateds"]
    ),
    "a reward after the end": lambda s: any(
        s.until(len(s) - 1).status(agent) == "done" for agent in s.entry(-1)["rewards"] if len(s)
    ),
    "no agent at the reset": lambda s: not s.entry(0)["observations"] and s.agents,
    "ids of several types": lambda s: len({type(agent) for agent in s.agents}) == 3,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_trajectories_of_every_kind_are_drawn(feature):
    assert FEATURES[feature](find(multi_agent_trajectories(**NUMBERS), FEATURES[feature], settings=SEARCH))


@QUICKLY
@given(trajectory=multi_agent_trajectories(lengths=st.integers(1, 4), max_agents=2, done=True))
def test_trajectories_are_drawn_as_they_were_asked_for(trajectory):
    assert trajectory.is_over
    assert 1 <= len(trajectory) <= 5
    assert len(trajectory.agents) <= 2
    assert set(trajectory.agents) <= set(AGENT_IDS)


@QUICKLY
@given(trajectory=multi_agent_trajectories(done=False, choices=st.just(("error", "error"))))
def test_a_trajectory_that_must_not_end_makes_an_episode_that_runs(trajectory):
    assert not trajectory.stepped().is_done
    assert (trajectory.missing_final_observation, trajectory.rewards_after_done) == ("error", "error")


@QUICKLY
@given(trajectory=multi_agent_trajectories())
def test_a_trajectory_knows_when_its_episode_is_over_and_who_can_act(trajectory):
    episode = trajectory.stepped()

    assert trajectory.is_over == episode.is_done
    assert set(trajectory.agents) == episode.agent_ids
    assert {agent for agent in trajectory.agents if trajectory.status(agent) == "idle"} >= episode.get_agents_to_act()


@QUICKLY
@given(episode=multi_agent_episodes(finalized=True, lengths=st.just(2)))
def test_episodes_are_drawn_in_the_form_that_was_asked_for(episode):
    assert episode.is_finalized
    assert len(episode) <= 2


@pytest.mark.parametrize("kind", ITEM_KINDS)
def test_items_of_a_kind_lie_in_its_space(kind):
    record = Content(kind=kind).record({"walker": "AO"}, 3)

    assert ITEM_KINDS[kind].contains(record["observations"]["walker"])
    assert ITEM_KINDS[kind].contains(record["actions"]["walker"])


@pytest.mark.parametrize(
    "log", [[], [{"observation": {}}], [{"actions": {"a": 1}}]], ids=["no reset", "unknown name", "action at the reset"]
)
def test_a_trajectory_rejects_what_is_no_log(log):
    with pytest.raises(ValueError, match="expected a reset"):
        MultiAgentTrajectory(log=log)


def test_a_picture_with_rows_of_different_lengths_is_rejected():
    with pytest.raises(ValueError, match="expected one length"):
        pictured("white: O A", "black: O")


# --- Named episodes ---


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_named_episodes_are_new_each_time_and_valid(name):
    episode, other = MULTI_AGENT_EPISODES[name](), MULTI_AGENT_EPISODES[name]()

    episode.validate()
    assert episode is not other
    assert episode.is_finalized == name.startswith("finalized")


@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_named_trajectories_are_also_named_episodes(name):
    expected = MULTI_AGENT_TRAJECTORIES[name]().stepped()

    assert_same_multi_agent_episode(MULTI_AGENT_EPISODES[name](), expected, ignore=["times"])


# --- Comparing ---

PICTURE = ("white: O AR OR A", "black: . O AR R")
BASE = pictured(*PICTURE, extras=("logp",))
CHANGES = {
    "id_": lambda: replace(BASE, id_="other").stepped(),
    "env_t:": lambda: BASE.then({}).stepped(),
    "env_t_started": lambda: BASE.built(1),
    "env_lookback": lambda: BASE.built(1),
    "is_terminated": lambda: BASE.then({"terminateds": {"__all__": True}}).stepped(),
    "is_finalized": lambda: BASE.stepped().finalize(),
    "missing_final_observation": lambda: replace(BASE, missing_final_observation="repeat").stepped(),
    "rewards_after_done": lambda: replace(BASE, rewards_after_done="add").stepped(),
    "observation_space": lambda: replace(BASE, observation_space={"white": ITEM_KINDS["numbers"]}).stepped(),
    "agent_ids": lambda: pictured(*PICTURE, "grey: . . . O", extras=("logp",)).stepped(),
    "_hanging_rewards_end['black']": lambda: pictured(
        "white: O AR OR A", "black: . O AR .", extras=("logp",)
    ).stepped(),
    "_hanging_rewards_begin": lambda: pictured(*PICTURE, "grey: . R . .", extras=("logp",)).stepped(),
    "_hanging_extra_model_outputs_end": lambda: pictured(*PICTURE).stepped(),
    "env_t_to_agent_t['black']": lambda: pictured("white: O AR OR A", "black: . O O A", extras=("logp",)).stepped(),
    "get_agents_that_stepped()": lambda: pictured("white: O AR OR A", "black: . O AR O", extras=("logp",)).stepped(),
    "agent 'white': rewards[0]": lambda: pictured("white: O AR O A", "black: . O AR R", extras=("logp",)).stepped(),
    "custom_data": lambda: replace(BASE, custom_data={"note": 1}).stepped(),
    "module_for('white')": lambda: with_modules({"white": "first", "black": "default_policy"}),
    "weights_version": lambda: with_weights_version(7),
}


def with_modules(modules):
    episode = MultiAgentEpisode(BASE.id_, agent_module_ids=modules)
    reset, *steps = BASE.entries()
    episode.add_env_reset(observations=reset["observations"])
    for step in steps:
        episode.add_env_step(**step)
    return episode


def with_weights_version(version):
    episode = BASE.stepped()
    episode.weights_version = version
    return episode


@pytest.mark.parametrize("field", CHANGES)
def test_a_difference_in_any_field_is_named(field):
    with pytest.raises(AssertionError, match="the multi-agent episodes differ") as caught:
        assert_same_multi_agent_episode(CHANGES[field](), BASE.stepped(), ignore=["times"])

    assert any(line.strip().startswith(field) for line in str(caught.value).splitlines())


def test_times_are_a_difference_unless_they_are_ignored():
    with pytest.raises(AssertionError, match="get_duration_s"):
        assert_same_multi_agent_episode(BASE.stepped(), BASE.stepped())
    assert_same_multi_agent_episode(BASE.stepped(), BASE.stepped(), ignore=["times"])
