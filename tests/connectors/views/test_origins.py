"""Views of where a row comes from: its environment, agent, version of the weights and fragment."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drives import drive
from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import AddViews, EnvToModulePipeline, View, ViewRequirement
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import DroppedHistoryError, PipelineError
from episodia.rllib import SampleBatch
from piece_calls import called
from scripted_agents import ScriptedEnv

ORIGINS = ("env_index", "agent_index", "weights_version", "fragment_id")


def seen(episodes, *names, **kwargs):
    """Return what views of `names` show of the steps of `episodes`, by name."""
    made = called(AddViews({name: View(name, **kwargs) for name in names}), EpisodeList.of(episodes))
    columns = next(iter(made.values())) if "default_policy" in made else made
    return {name: columns[name].body().values.tolist() for name in names}


def marked(length=5, env_index=2):
    episode = drive(length, finalized=False)
    episode.env_index = env_index
    episode._weights_versions = ((0, 3), (2, 4))
    return episode


def test_rows_say_from_which_environment_weights_and_fragment_they_come():
    ended = []
    with SingleAgentEnvRunner(
        "CartPole-v1", num_envs=3, seed=0, callbacks=[{"on_episode_end": lambda **told: ended.append(told)}]
    ) as runner:
        chunks = []
        for version in (5, 6, 8):
            runner.set_weights({}, version=version)
            chunks.append(runner.sample(num_timesteps=60))

    environments = {told["episode"].id_: told["env_index"] for told in ended}
    assert len(set(environments.values())) == 3
    fragments = []
    for version, listed in zip((5, 6, 8), chunks, strict=True):
        found = seen(listed, *ORIGINS)
        owners = [chunk for chunk in listed for _ in range(len(chunk))]
        for column, expected in (("weights_version", version), ("agent_index", 0)):
            assert set(found[column]) == {expected}
        for chunk, index, fragment in zip(owners, found["env_index"], found["fragment_id"], strict=True):
            assert index == environments.get(chunk.id_, index)
            assert fragment == f"{chunk.id_}:{chunk.t_started}"
        fragments += dict.fromkeys(found["fragment_id"])
    assert len(set(fragments)) == len(fragments) == sum(map(len, chunks))


def test_what_is_not_known_is_minus_one():
    assert seen([drive(2)], "env_index", "weights_version") == {"env_index": [-1, -1], "weights_version": [-1, -1]}


def test_outside_of_the_episode_and_of_the_fragment_stand_fills():
    found = seen([marked(3)], *ORIGINS, shift=[-1, 0])

    assert found["env_index"] == [[-1, 2], [2, 2], [2, 2]]
    assert found["weights_version"] == [[-1, 3], [3, 3], [3, 4]]
    assert found["fragment_id"] == [[None, "drive-0-3:0"], *[["drive-0-3:0"] * 2] * 2]
    running = called(AddViews({"w": View("weights_version", [-2, -1])}), EpisodeList([marked(3).cut(2)]).current())
    assert running["w"].values.tolist() == [[3, 4]]


def test_the_version_of_an_action_is_not_known_before_it_is_chosen_nor_is_its_fragment_ever():
    for name, known in (
        ("weights_version", "looks into the future.*known up to the shift -1"),
        ("fragment_id", r"View\('fragment_id'\), whose items are not known when a module acts"),
    ):
        with pytest.raises(PipelineError, match=known):
            EnvToModulePipeline(connectors=[AddViews({name: View(name)})])
        EnvToModulePipeline(connectors=[AddViews({name: View(name, infer=False)})])


def test_a_version_that_a_chunk_has_dropped_is_an_error():
    chunk = marked(4).cut(1)
    piece = AddViews({"weights": View("weights_version", -2)})

    with pytest.raises(DroppedHistoryError):
        called(piece, EpisodeList([chunk]).current())


ways = {
    "copied": lambda episode, _: copy.copy(episode),
    "deeply copied": lambda episode, _: copy.deepcopy(episode),
    "pickled": lambda episode, _: pickle.loads(pickle.dumps(episode)),
    "pickled in a list": lambda episode, _: pickle.loads(pickle.dumps(EpisodeList([episode])))[0],
    "from its state": lambda episode, _: type(episode).from_state(episode.get_state()),
    "cut": lambda episode, _: episode.cut(2),
    "sliced": lambda episode, at: episode[at:],
    "joined again": lambda episode, at: joined(episode[:at], episode[at:]),
}


def joined(first, second):
    first.concat_episode(second)
    return first


@pytest.mark.parametrize("way", ways)
@given(at=st.integers(1, 4))
def test_an_episode_keeps_its_place_however_it_is_made(way, at):
    made = ways[way](marked(), at)

    assert (made.env_index, made.agent_index) == (2, 0)


def team(steps=5):
    episode = MultiAgentEpisode("game")
    episode.env_index = 2
    episode.add_env_reset(observations={"b": 0})
    for t in range(steps):
        # Agent "a" comes later, and "b" pauses once.
        shown = {"b": t} if t < 2 else {"a": t} if t == 2 else {"a": t, "b": t}
        episode.add_env_step(shown, dict.fromkeys(episode.get_agents_to_act(), 1), dict.fromkeys(shown, 0.0))
    return episode


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("at", [1, 3])
def test_agents_keep_their_indices_however_their_episode_is_made(way, at):
    made = ways[way](team(), at)

    assert made.env_index == 2
    assert {agent: single.agent_index for agent, single in made.agent_episodes.items()} == {"b": 0, "a": 1}
    assert {single.env_index for single in made.agent_episodes.values()} == {2}


@pytest.mark.parametrize("steps", [3, 20])
def test_agents_of_a_runner_have_one_index_in_all_chunks_of_an_episode(steps):
    with MultiAgentEnvRunner(lambda: ScriptedEnv(kind="random", num_agents=3, longest=8), num_envs=2, seed=3) as runner:
        chunks = [chunk for _ in range(12) for chunk in runner.sample(num_timesteps=steps)]

    indices = {}
    for chunk in chunks:
        assert chunk.env_index == int(chunk.id_.split("-")[1])
        for agent, single in chunk.agent_episodes.items():
            assert single.env_index == chunk.env_index
            assert indices.setdefault((chunk.id_, agent), single.agent_index) == single.agent_index
    for id_ in {chunk.id_ for chunk in chunks}:
        own = [index for (game, _), index in indices.items() if game == id_]
        assert sorted(own) == list(range(len(own)))


def test_the_names_of_the_older_stack_stand_for_these_sources():
    views = {"env": ViewRequirement(SampleBatch.ENV_ID), "unroll": ViewRequirement(SampleBatch.UNROLL_ID)}
    found = called(AddViews(views), EpisodeList([marked(1)]))

    assert found["env"].body().values.tolist() == [2]
    assert found["unroll"].body().values.tolist() == ["drive-0-1:0"]
    assert SampleBatch.AGENT_INDEX == Columns.AGENT_INDEX


def test_a_state_with_an_index_that_is_not_number_is_rejected():
    state = marked().get_state()

    with pytest.raises(ValueError, match="env_index"):
        SingleAgentEpisode.from_state({**state, "env_index": "two"})


def test_indices_are_integers():
    [episode] = [marked(2).finalize()]
    made = called(AddViews({name: View(name) for name in ORIGINS[:3]}), EpisodeList([episode]))

    assert {column.values.dtype for column in made.values()} == {np.dtype(np.int64)}
