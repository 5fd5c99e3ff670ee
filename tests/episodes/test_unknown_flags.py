"""Flags of other libraries are named, with what takes their place."""

import pytest

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import EpisodiaError, UnknownArgumentError


def walk():
    return SingleAgentEpisode(observations=[0, 1], actions=[0], rewards=[0.0], len_lookback_buffer=0)


def game():
    return MultiAgentEpisode(observations=[{"a": 0}], len_lookback_buffer=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SingleAgentEpisode(done=True), "SingleAgentEpisode: found the argument `done`.*`terminated=`"),
        (lambda: walk().add_env_step(1, 0, 0.0, done=True), "add_env_step: found the argument `done`.*`truncated=`"),
        (lambda: walk().add_env_step(1, 0, 0.0, terminateds=True), "`terminateds`, expected flags as `terminated=`"),
        (lambda: MultiAgentEpisode(dones={"a": True}), "MultiAgentEpisode: found the argument `dones`.*`terminateds=`"),
        (
            lambda: game().add_env_step({"a": 1}, {"a": 0}, {"a": 0.0}, done=True),
            "`done`, expected flags as `terminateds=`",
        ),
    ],
)
def test_a_flag_of_another_name_raises_with_the_names_of_ours(call, words):
    with pytest.raises(UnknownArgumentError, match=words) as error:
        call()
    assert isinstance(error.value, TypeError)
    assert isinstance(error.value, EpisodiaError)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: SingleAgentEpisode(observation=[1]), "observations"),
        (lambda: walk().add_env_step(1, 0, 0.0, terminateds=True), "terminated"),
        (lambda: MultiAgentEpisode(agent_to_module_mapping=str), "agent_to_module_mapping_fn"),
        (lambda: game().add_env_step({"a": 1}, {"a": 0}, {"a": 0.0}, truncated=True), "truncateds"),
    ],
)
def test_a_misspelt_argument_raises_with_the_nearest_name(call, meant):
    with pytest.raises(UnknownArgumentError, match=rf"Did you mean `{meant}`\?$"):
        call()


def test_a_step_that_is_rejected_is_not_recorded():
    episode = walk()
    with pytest.raises(UnknownArgumentError):
        episode.add_env_step(1, 0, 0.0, done=True)

    assert len(episode) == 1
