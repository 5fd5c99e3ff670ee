"""Subclasses of episodes: what they add travels with the episode."""

import copy
import pickle

import pytest

from episodia import MultiAgentEpisode, SingleAgentEpisode


class NotedEpisode(SingleAgentEpisode):
    """A subclass whose constructor takes other arguments."""

    def __init__(self, note):
        super().__init__("walk")
        self.note = note
        self.add_env_reset(0)
        self.add_env_step(1, 0, 1.0)


class NotedMultiAgentEpisode(MultiAgentEpisode):
    """The same with agents."""

    def __init__(self, note):
        super().__init__("walk")
        self.note = note
        self.add_env_reset(observations={"a": 0})
        self.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0})


class TaggedEpisode(SingleAgentEpisode):
    """A subclass with a default, which can be made as its base can."""

    tag = "none"


WAYS = {
    "cut": lambda episode: episode.cut(),
    "sliced": lambda episode: episode[:1],
    "fork": copy.copy,
    "deep copy": copy.deepcopy,
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
}
both_kinds = pytest.mark.parametrize("kind", [NotedEpisode, NotedMultiAgentEpisode])


@both_kinds
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_attributes_of_a_subclass_travel_with_the_episode(kind, way):
    other = way(kind({"seed": 3}))

    assert type(other) is kind
    assert other.note == {"seed": 3}


@both_kinds
def test_a_chunk_of_a_subclass_can_be_joined_to_it(kind):
    episode = kind("first")
    episode.concat_episode(episode.cut())

    assert (len(episode), episode.note) == (1, "first")


@both_kinds
def test_attributes_are_shared_with_a_chunk_and_not_with_a_deep_copy(kind):
    episode = kind(["shared"])

    assert episode.cut().note is episode.note
    assert copy.deepcopy(episode).note is not episode.note


def test_a_state_restores_a_subclass_by_its_constructor():
    episode = TaggedEpisode("walk")
    episode.tag = "mine"

    restored = TaggedEpisode.from_state(episode.get_state())
    assert (type(restored), restored.tag) == (TaggedEpisode, "none")
