"""A runner records the same episodes, whatever recorder it is given."""

import pickle
from functools import partial

import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from episodia import EpisodeList, Recorder, SingleAgentEnvRunner, SingleAgentEpisode
from episodia.env_runners.callbacks import Callbacks
from episodia.errors import EnvRunnerError
from episodia.modules import LSTMActorCritic
from episodia.testing import FAKE_ACTIONS, FAKE_OBSERVATIONS, FakeEnv, FakeEnvs, FakeModule, assert_same_episode
from list_recorder import ListRecorder


def envs(**settings):
    return lambda: SyncVectorEnv([partial(FakeEnv, number) for number in range(3)], **settings)


SETTINGS = {
    "next step": {},
    "same step": {"env": envs(autoreset_mode=AutoresetMode.SAME_STEP)},
    "disabled": {"env": envs(autoreset_mode=AutoresetMode.DISABLED)},
    "a long lookback": {"lookback": 4},
    "a soft horizon": {"soft_horizon": 3},
    "a horizon": {"horizon": 2},
    "delayed rewards": {"reward_delay": 2},
    "random actions": {"module": None},
    "rewards that are not checked": {"check_finite": False},
}


def runner_of(recorder, **settings):
    given = {"env": FakeEnvs(FakeEnv), "module": FakeModule(), "seed": 3, "recorder": recorder, **settings}
    return SingleAgentEnvRunner(num_envs=None if callable(settings.get("env")) else 3, **given)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert_same_episode(mine, theirs, ignore=["times"])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_episodes_are_those_of_the_shipped_recorder(settings):
    with runner_of(ListRecorder, **settings) as mine, runner_of(Recorder, **settings) as shipped:
        for call in ({"num_timesteps": 7}, {"num_timesteps": 10}, {"num_episodes": 4}, {"num_timesteps": 1}):
            assert_same(mine.sample(**call), shipped.sample(**call))
        assert_same(mine.evaluate(num_episodes=2), shipped.evaluate(num_episodes=2))


def test_a_pickled_runner_keeps_its_recorder():
    with runner_of(ListRecorder) as mine, pickle.loads(pickle.dumps(mine)) as copied:
        assert type(copied._loop.recorder) is ListRecorder


def test_the_weights_version_is_recorded():
    with runner_of(ListRecorder) as mine, runner_of(Recorder) as shipped:
        for runner in (mine, shipped):
            runner.sample(num_timesteps=4)
            runner.set_weights(runner.get_weights(), version=5)

        found, expected = mine.sample(num_timesteps=6), shipped.sample(num_timesteps=6)
        assert {episode.weights_version for episode in found} == {5}
        assert_same(found, expected)


def test_episodes_have_the_class_of_the_runner():
    class Named(SingleAgentEpisode):
        pass

    with runner_of(ListRecorder, episode_class=Named) as runner:
        assert {type(episode) for episode in runner.sample(num_timesteps=9)} == {Named}


class Ends(Callbacks):
    def __init__(self):
        self.seen = []

    def on_episode_end(self, *, episode, **_):
        self.seen.append((episode.id_, len(episode), episode.get_return(), episode.get_observations(-1).tolist()))


def test_callbacks_are_told_the_same():
    told = [Ends(), Ends()]
    for recorder, ends in zip((ListRecorder, Recorder), told, strict=True):
        with runner_of(recorder, callbacks=[ends]) as runner:
            runner.sample(num_episodes=5)

    assert told[0].seen
    assert told[0].seen == told[1].seen


def test_modules_with_memory_act_the_same():
    module = LSTMActorCritic(FAKE_OBSERVATIONS, FAKE_ACTIONS)

    with runner_of(ListRecorder, module=module) as mine, runner_of(Recorder, module=module) as shipped:
        for _ in range(2):
            assert_same(mine.sample(num_timesteps=9), shipped.sample(num_timesteps=9))


@pytest.mark.parametrize("on_env_error", ["drop", "truncate"])
def test_episodes_of_environments_that_fail_are_settled_alike(on_env_error):
    class Fails(FakeEnv):
        def step(self, action):
            if len(self.log[-1]) == 3 and len(self.log) == 2:
                raise RuntimeError("broken")
            return super().step(action)

    settings = {"env": Fails, "on_env_error": on_env_error}
    with (
        runner_of(ListRecorder, **settings) as mine,
        runner_of(Recorder, **settings) as shipped,
    ):
        assert_same(mine.sample(num_timesteps=20), shipped.sample(num_timesteps=20))
        found, expected = mine.get_metrics(), shipped.get_metrics()
        assert found.num_env_restarts == expected.num_env_restarts > 0
        assert found.num_episodes_dropped == expected.num_episodes_dropped


def test_something_else_than_a_recorder_is_rejected():
    with pytest.raises(EnvRunnerError, match="expected a subclass of `EpisodeRecorder`"):
        runner_of(lambda *_, **__: EpisodeList())


@pytest.mark.parametrize("recorder", [list, EpisodeList, lambda: None, 5], ids=["list", "lists", "no arguments", "5"])
def test_what_cannot_make_a_recorder_is_rejected_with_the_name_of_the_argument(recorder):
    with pytest.raises(EnvRunnerError, match=r"`recorder=.*expected a subclass of `EpisodeRecorder`, or a function"):
        runner_of(recorder)
