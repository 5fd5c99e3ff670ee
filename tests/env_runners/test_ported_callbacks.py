"""Callbacks with the signatures of RLlib's: every event gets what they name, and logs metrics."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnvRunner, RunnerMetrics, SingleAgentEnvRunner
from episodia.env_runners.metrics_logger import MetricsLogger
from episodia.errors import EnvRunnerError
from episodia.rllib import MultiAgentEnv, RLlibCallback


class Pair(MultiAgentEnv):
    possible_agents = agents = ("red", "blue")
    observation_spaces = action_spaces = dict.fromkeys(agents, spaces.Discrete(3))

    def reset(self, *, seed=None, options=None):
        self.left = 2
        return dict.fromkeys(self.agents, self.left), {}

    def step(self, actions):
        self.left -= 1
        return dict.fromkeys(self.agents, self.left), dict.fromkeys(actions, 1.0), {"__all__": self.left == 0}, {}, {}


def one(**options):
    return SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0, **options)


def many(**options):
    return MultiAgentEnvRunner(Pair, num_envs=2, seed=0, **options)


class Ported(RLlibCallback):
    """Has the signatures of RLlib's, without `**kwargs`."""

    def __init__(self):
        self.told = []

    def on_environment_created(self, *, env_runner, metrics_logger=None, env, env_context):
        self.told.append(("environment", dict(env_context)))

    def on_episode_created(self, *, episode, env_runner, metrics_logger=None, env, env_index, rl_module):
        self.told.append(("created", episode.id_))

    def on_episode_start(self, *, episode, env_runner, metrics_logger, env, env_index, rl_module):
        self.told.append(("start", episode.id_))
        metrics_logger.log_value("begun", 1, reduce="sum")

    def on_episode_end(self, *, episode, prev_episode_chunks, env_runner, metrics_logger, env, env_index, rl_module):
        self.told.append(("end", episode.id_, sum(map(len, [*prev_episode_chunks, episode]))))
        metrics_logger.log_dict({"length": len(episode), "nested": {"twice": 2 * len(episode)}}, key="mine", window=100)

    def on_sample_end(self, *, env_runner, metrics_logger, samples):
        self.told.append(("sample", len(samples)))

    def on_evaluate_start(self, *, algorithm, metrics_logger):
        self.told.append(("evaluate", algorithm))

    def on_evaluate_end(self, *, algorithm, metrics_logger, evaluation_metrics):
        self.told.append(("evaluated", evaluation_metrics.num_episodes))


@pytest.mark.parametrize("kind", [one, many])
def test_every_event_gets_what_rllib_names(kind):
    callback = Ported()
    with kind(callbacks=[callback]) as runner:
        episodes = runner.sample(num_episodes=3)
        runner.evaluate(num_episodes=1)
        metrics = runner.get_metrics()

    lengths = {line[1]: line[2] for line in callback.told if line[0] == "end"}
    begun = [line[1] for line in callback.told if line[0] == "start"]
    assert {episode.id_: len(episode) for episode in episodes}.items() <= lengths.items()
    assert [line[1] for line in callback.told if line[0] == "created"] == begun
    assert callback.told[0] == ("environment", {})
    assert [line for line in callback.told if line[0] in ("sample", "evaluate")] == [("sample", 3), ("evaluate", None)]
    assert metrics.as_dict()["begun"] == len(begun)
    assert metrics.as_dict()["mine/nested/twice"] == pytest.approx(2 * np.mean(list(lengths.values())))


@pytest.mark.parametrize("kind", [one, many])
def test_an_episode_is_created_right_before_it_starts(kind):
    callback = Ported()
    with kind(callbacks=[callback]) as runner:
        runner.sample(num_timesteps=30)

    events = [line for line in callback.told if line[0] in ("created", "start")]
    assert events[::2] == [("created", id_) for _, id_ in events[1::2]]
    assert len(events) > 2


@pytest.mark.parametrize("kind", [one, many])
def test_a_method_for_no_event_is_an_error(kind):
    class Misspelt(RLlibCallback):
        def on_episode_ended(self, **kwargs):
            raise AssertionError

    with pytest.raises(
        EnvRunnerError, match=r"found the methods \['on_episode_ended'\] .*'on_episode_end'.*`TrainingCallback`"
    ):
        kind(callbacks=[Misspelt()])


def test_what_is_no_method_may_have_any_name():
    class WithFlag(RLlibCallback):
        on_gpu = False

    one(callbacks=[WithFlag()]).close()


def test_functions_get_the_keywords_that_they_name():
    ended = []
    with one(callbacks=[{"on_episode_end": lambda env_index: ended.append(int(env_index))}]) as runner:
        runner.sample(num_episodes=2)

    assert set(ended) <= {0, 1}
    assert ended


# --- The logger -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reduce", "expected"), [("mean", 2.0), ("sum", 6.0), ("min", 1.0), ("max", 3.0)])
def test_values_are_reduced(reduce, expected):
    logger = MetricsLogger(RunnerMetrics())
    for value in (3, np.float32(1.0), torch.tensor(2)):
        logger.log_value("x", value, reduce=reduce)

    assert logger.peek("x") == expected


def test_a_window_keeps_the_last_values():
    logger = MetricsLogger(RunnerMetrics())
    for value in range(5):
        logger.log_value(("a", "b"), value, window=2)

    assert logger.peek("a/b") == 3.5


def test_times_are_logged():
    logger = MetricsLogger(RunnerMetrics())
    with logger.log_time("slow"):
        pass

    assert 0.0 <= logger.peek("slow") < 60.0


def test_logged_values_of_several_runners_add_up():
    parts = [RunnerMetrics(), RunnerMetrics()]
    for value, part in enumerate(parts):
        MetricsLogger(part).log_value("x", value)

    assert RunnerMetrics.merged(parts).logged["x"].values == [0.0, 1.0]
    assert parts[0].taken().logged["x"].values == [0.0]
    assert parts[0].logged == {}


@pytest.mark.parametrize("value", ["a", None, [1, 2], np.zeros(2)])
def test_only_numbers_are_logged(value):
    with pytest.raises(EnvRunnerError, match="expected a number"):
        MetricsLogger(RunnerMetrics()).log_value("x", value)


def test_a_name_has_one_way_of_reducing():
    logger = MetricsLogger(RunnerMetrics())
    logger.log_value("x", 1)

    with pytest.raises(EnvRunnerError, match="found `reduce='sum'` for 'x', expected 'mean'"):
        logger.log_value("x", 1, reduce="sum")
    with pytest.raises(EnvRunnerError, match="found `reduce='median'`"):
        logger.log_value("y", 1, reduce="median")
    with pytest.raises(EnvRunnerError, match="found no values of 'z'"):
        logger.peek("z")
