"""Runners make episodes of a class that a user gives: its methods are there, and what is set on an episode stays with it."""

import pickle

import pytest

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from scripted_agents import ScriptedEnv


class Scored:
    """Adds a method, and an attribute with a default."""

    bonus = 0.0

    def score(self):
        return float(self.get_return()) + self.bonus


class ScoredEpisode(Scored, SingleAgentEpisode):
    pass


class ScoredGame(Scored, MultiAgentEpisode):
    pass


KINDS = {
    "one agent": (SingleAgentEnvRunner, "CartPole-v1", ScoredEpisode),
    "several agents": (MultiAgentEnvRunner, lambda: ScriptedEnv(kind="turns"), ScoredGame),
}
both = pytest.mark.parametrize("kind", KINDS)


def runner_of(kind, **settings):
    cls, env, episode_class = KINDS[kind]
    return cls(env, num_envs=2, seed=0, **{"episode_class": episode_class, **settings})


@both
def test_all_episodes_are_of_the_class_of_the_user(kind):
    episode_class = KINDS[kind][2]
    told = []
    callbacks = {event: lambda *, episode, **_: told.append(type(episode)) for event in EVENTS}
    with runner_of(kind, callbacks=[callbacks]) as runner:
        chunks = [*runner.sample(num_timesteps=30), *runner.sample(num_timesteps=30), *runner.sample(num_episodes=3)]
        evaluated = runner.evaluate(2)

    assert {type(episode) for episode in (*chunks, *evaluated)} == {episode_class} == set(told)
    assert [episode.score() for episode in chunks] == [float(episode.get_return()) for episode in chunks]


EVENTS = ("on_episode_start", "on_episode_step", "on_episode_end")


@both
def test_what_a_callback_sets_on_an_episode_goes_on_with_its_next_chunk(kind):
    def reward(*, episode, env_index, **_):
        episode.bonus = 10.0 + env_index

    with runner_of(kind, callbacks=[{"on_episode_start": reward}]) as runner:
        chunks = [episode for _ in range(8) for episode in runner.sample(num_timesteps=5)]

    assert any(chunk.t_started if kind == "one agent" else chunk.env_t_started for chunk in chunks)
    assert all(chunk.bonus == 10.0 + chunk.env_index for chunk in chunks)


@both
def test_lists_of_them_can_be_pickled_and_forked(kind):
    with runner_of(kind) as runner:
        episodes = runner.sample(num_timesteps=20)
        again = pickle.loads(pickle.dumps(episodes))

    episode_class = KINDS[kind][2]
    assert {type(episode) for episode in (*again, *EpisodeList(episodes).forked())} == {episode_class}
    assert [len(episode) for episode in again] == [len(episode) for episode in episodes]


class WithConstructor(SingleAgentEpisode):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class GameWithConstructor(MultiAgentEpisode):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


@both
@pytest.mark.parametrize("found", [None, dict, int, "ScoredEpisode", WithConstructor, GameWithConstructor])
def test_a_class_that_a_runner_cannot_make_is_rejected(kind, found):
    with pytest.raises(EnvRunnerError, match="episode_class"):
        runner_of(kind, episode_class=found)
