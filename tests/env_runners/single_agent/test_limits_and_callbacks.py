"""Horizons, callbacks and metrics."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.env_runners import Callbacks, RunnerMetrics, SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_episode
from scripted_envs import ScriptedEnv, assert_every_step_once, lengths_of, places


def cartpole(kind=MLPActorCritic, seed=2):
    env = gym.make("CartPole-v1")
    return kind(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(seed))


def runner_for(module=None, **kwargs):
    return SingleAgentEnvRunner("CartPole-v1", module, **{"num_envs": 3, "seed": 7, **kwargs})


def assert_same(left, right):
    assert [episode.id_ for episode in left] == [episode.id_ for episode in right]
    for mine, other in zip(left, right, strict=True):
        assert_same_episode(mine, other, ignore=("times",))


# --- Limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ours", *gym.vector.AutoresetMode])
def test_a_horizon_truncates_and_resets(kind):
    make = partial(ScriptedEnv, 9)
    env = make if kind == "ours" else gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=kind)
    settings = {"num_envs": 3} if kind == "ours" else {}
    with SingleAgentEnvRunner(env, seed=0, horizon=4, **settings) as runner:
        episodes = runner.sample(num_episodes=12)

    lengths = [len(episode) for episode in episodes]
    assert max(lengths) == 4
    assert min(lengths) < 4
    for episode in episodes:
        rows = places(episode)
        assert rows[:, 2].tolist() == list(range(len(episode) + 1))
        assert episode.is_terminated != episode.is_truncated or len(episode) == 4


class Own(gym.Env):
    """Truncates after 4 steps, in its own code."""

    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 4
        return self.observation_space.low, {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.low, 0.0, False, self.left == 0, {}


def test_a_limit_in_the_code_of_an_environment_is_told_once():
    with (
        SingleAgentEnvRunner(Own, num_envs=1, seed=0, horizon=9) as runner,
        pytest.warns(UserWarning, match=r"Own.* truncated an episode after 4 steps, before `horizon=9`") as told,
    ):
        lengths = list(map(len, runner.sample(num_episodes=3)))

    assert lengths == [4, 4, 4]
    assert len(told) == 1


@pytest.mark.parametrize("horizon", [3, 4, None])
def test_a_limit_that_is_no_lower_than_the_horizon_is_not_told(horizon):
    with SingleAgentEnvRunner(Own, num_envs=2, seed=0, horizon=horizon) as runner:
        assert max(map(len, runner.sample(num_episodes=3))) == (horizon or 4)


@pytest.mark.parametrize("kind", ["ours", *gym.vector.AutoresetMode])
def test_a_soft_horizon_truncates_and_the_environment_goes_on(kind):
    make = partial(ScriptedEnv, 9)
    env = make if kind == "ours" else gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=kind)
    settings = {"num_envs": 3} if kind == "ours" else {}
    with SingleAgentEnvRunner(env, seed=0, soft_horizon=2, **settings) as runner:
        episodes = [episode for _ in range(4) for episode in runner.sample(num_timesteps=15)]

    going_on = [episode for episode in episodes if places(episode)[0, 2] in (2, 4, 6) and episode.t_started == 0]
    assert going_on
    for episode in episodes:
        assert episode.t <= 2
        steps = places(episode)[:, 2]
        assert (np.diff(steps) == 1).all()
        assert steps[0] - episode.t_started in (0, 2, 4, 6, 8)


@pytest.mark.filterwarnings("ignore:.* truncated an episode after .* before `horizon")
@pytest.mark.parametrize("soft", [2, 3, 5, 7])
@pytest.mark.parametrize("kind", ["ours", *gym.vector.AutoresetMode])
def test_both_horizons_count_apart(kind, soft):
    make = partial(ScriptedEnv, 9)
    env = make if kind == "ours" else gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=kind)
    settings = {"num_envs": 3} if kind == "ours" else {}
    with SingleAgentEnvRunner(env, seed=0, horizon=5, soft_horizon=soft, **settings) as runner:
        episodes = runner.sample(num_episodes=25)

    for episode in episodes:
        (seed, number), steps = places(episode)[0, :2].astype(int), places(episode)[:, 2]
        stop = min(5, lengths_of(seed, 9)[number])  # of the environment
        assert steps[0] % soft == 0
        assert steps[-1] == min(steps[0] + soft, stop)


def test_a_vector_environment_that_cannot_reset_lanes_has_no_horizon():
    env = gym.make_vec("CartPole-v1", num_envs=2)

    with pytest.raises(EnvRunnerError, match="max_episode_steps"):
        SingleAgentEnvRunner(env, horizon=5)


class Endless(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


class EndlessLanes(gym.vector.VectorEnv):
    """Has a limit of its own, as vectorised entry points do."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs, max_episode_steps):
        self.num_envs, self.limit = num_envs, max_episode_steps
        self.single_observation_space, self.single_action_space = Endless.observation_space, Endless.action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros((self.num_envs, 1), np.float32), {}

    def step(self, actions):
        self.t = self.t + 1 if self.t < self.limit else 0
        none = np.zeros(self.num_envs, np.bool_)
        return np.zeros((self.num_envs, 1), np.float32), none * 1.0, none, none | (self.t == self.limit), {}


class Twice(gym.Wrapper):
    """Takes two steps for each one."""

    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


@pytest.fixture
def endless():
    name = "EpisodiaEndless-v0"
    gym.register(name, Endless, vector_entry_point=EndlessLanes, max_episode_steps=5)
    yield name
    del gym.registry[name]


def lengths_in(env, horizon, num_episodes=4, **settings):
    with SingleAgentEnvRunner(env, seed=0, horizon=horizon, **settings) as runner:
        return {len(episode) for episode in runner.sample(num_episodes=num_episodes)}


@pytest.mark.parametrize("horizon", [3, 5, 8])
@pytest.mark.parametrize("vectorization", ["sync", "async", "vector_entry_point"])
def test_the_horizon_replaces_the_limit_of_a_registered_environment(endless, vectorization, horizon):
    assert lengths_in(gym.spec(endless), horizon, num_envs=2, vectorization=vectorization) == {horizon}
    if vectorization != "async":  # other processes do not know the id
        assert lengths_in(endless, horizon, num_envs=2, vectorization=vectorization) == {horizon}


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.wrappers.TimeLimit(Endless(), 5),
        lambda: gym.wrappers.TimeLimit(Twice(gym.wrappers.TimeLimit(Endless(), 6)), 4),
    ],
    ids=["one", "nested"],
)
def test_the_horizon_replaces_the_limits_of_wrappers(make, vectorization):
    assert lengths_in(make, 9, num_envs=2, vectorization=vectorization) == {9}


def test_without_a_horizon_the_limit_of_the_environment_holds(endless):
    assert lengths_in(endless, None, num_envs=2) == {5}


def test_the_horizon_holds_in_evaluations_and_at_pendulum():
    with SingleAgentEnvRunner("Pendulum-v1", seed=0, horizon=300) as runner:
        assert [len(episode) for episode in runner.sample(num_episodes=1)] == [300]
        assert [len(episode) for episode in runner.evaluate(num_episodes=1)] == [300]


@pytest.mark.parametrize("is_ready", [True, False])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_horizon_above_the_limit_of_a_ready_vector_environment_is_rejected(endless, vectorization, is_ready):
    make = partial(gym.make_vec, endless, num_envs=2, vectorization_mode=vectorization)
    env = make()

    with pytest.raises(EnvRunnerError, match=r"`horizon=6`.* own limit is 5 .*cannot raise the limit"):
        SingleAgentEnvRunner(env if is_ready else make, horizon=6)
    env.close()


@pytest.mark.parametrize("horizon", [3, 5])
def test_a_horizon_up_to_the_limit_of_a_ready_vector_environment_is_kept(endless, horizon):
    assert lengths_in(gym.make_vec(endless, num_envs=2, vectorization_mode="sync"), horizon) == {horizon}


def test_the_limit_of_lanes_without_a_common_spec_counts_too(endless):
    env = gym.vector.SyncVectorEnv([partial(gym.make, endless)] * 2)

    with pytest.raises(EnvRunnerError, match="own limit is 5"):
        SingleAgentEnvRunner(env, horizon=6)


# --- Callbacks --------------------------------------------------------------------------------------------------------


class Diary(Callbacks):
    def __init__(self):
        self.lines = []

    def on_environment_created(self, *, env, **kwargs):
        self.lines.append(("created", env.num_envs))

    def on_episode_start(self, *, episode, env_index, **kwargs):
        self.lines.append(("start", episode.id_, len(episode), env_index))

    def on_episode_step(self, *, episode, **kwargs):
        self.lines.append(("step", episode.id_, episode.t))

    def on_episode_end(self, *, episode, **kwargs):
        self.lines.append(("end", episode.id_, len(episode), episode.is_done, float(episode.get_return())))

    def on_sample_end(self, *, samples, **kwargs):
        self.lines.append(("sample", len(samples)))


@pytest.mark.parametrize("kind", ["ours", *gym.vector.AutoresetMode])
def test_callbacks_are_told_everything_in_order_and_see_whole_episodes(kind):
    make = partial(ScriptedEnv, 4)
    env = make if kind == "ours" else gym.vector.SyncVectorEnv([make] * 2, autoreset_mode=kind)
    diary = Diary()
    settings = {"num_envs": 2} if kind == "ours" else {}
    with SingleAgentEnvRunner(env, seed=0, callbacks=[diary], **settings) as runner:
        chunks = [chunk for _ in range(5) for chunk in runner.sample(num_timesteps=5)]

    steps = assert_every_step_once(chunks, longest=4)
    ends = [line for line in diary.lines if line[0] == "end"]
    assert diary.lines[0] == ("created", 2)
    assert sum(line[0] == "step" for line in diary.lines) == sum(map(len, chunks))
    assert sum(line[0] == "sample" for line in diary.lines) == 5
    assert len(ends) == sum(chunk.is_done for chunk in chunks)
    for id_ in {chunk.id_ for chunk in chunks}:
        told = [line[0] for line in diary.lines if line[1] == id_]
        length = sum(len(chunk) for chunk in chunks if chunk.id_ == id_)
        is_done = any(chunk.is_done for chunk in chunks if chunk.id_ == id_)
        assert told == ["start", *["step"] * length, *(["end"] if is_done else [])]
    for _, id_, length, is_done, gained in ends:
        of_it = [chunk for chunk in chunks if chunk.id_ == id_]
        assert is_done
        assert length == sum(map(len, of_it))
        assert gained == sum(chunk.get_return() for chunk in of_it)
    assert steps


def test_functions_are_callbacks_too():
    ended = []
    with runner_for(callbacks=[{"on_episode_end": lambda *, episode, **_: ended.append(episode.id_)}]) as runner:
        episodes = runner.sample(num_episodes=4)

    assert {episode.id_ for episode in episodes} <= set(ended)


# --- Metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_are_those_of_whole_episodes():
    with runner_for(cartpole()) as runner:
        chunks = [chunk for _ in range(6) for chunk in runner.sample(num_timesteps=20)]
        metrics = runner.get_metrics()
        after = runner.get_metrics()

    lengths = [chunk.t for chunk in chunks if chunk.is_done]
    assert metrics.num_env_steps == sum(map(len, chunks))
    assert sorted(metrics.episode_lengths) == sorted(lengths)
    assert metrics.episode_returns == [float(length) for length in metrics.episode_lengths]
    assert metrics.num_episodes == len(lengths) > 3
    parts = metrics.env_step_time_s + metrics.forward_time_s + metrics.env_to_module_time_s
    assert 0 < parts + metrics.module_to_env_time_s < metrics.sample_time_s
    assert after == RunnerMetrics()


def test_merged_metrics_add_up():
    with runner_for() as runner:
        parts = []
        for _ in range(3):
            runner.sample(num_timesteps=30)
            parts.append(runner.get_metrics())

    merged = RunnerMetrics.merged(parts)
    assert merged.num_env_steps == sum(part.num_env_steps for part in parts)
    assert merged.episode_returns == [value for part in parts for value in part.episode_returns]
    assert merged.as_dict()["episode_return_max"] == max(merged.episode_returns)


@pytest.mark.parametrize("kind", ["ours", *gym.vector.AutoresetMode])
def test_ignored_terminations_are_truncations_and_all_else_stays(kind):
    played = []
    for ignored in (False, True):
        make = partial(ScriptedEnv, 5)
        env = make if kind == "ours" else gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=kind)
        settings = {"num_envs": 3} if kind == "ours" else {}
        with SingleAgentEnvRunner(env, seed=0, ignore_terminations=ignored, **settings) as runner:
            played.append(runner.sample(num_timesteps=60))
    plain, ignoring = played

    assert any(episode.is_terminated for episode in plain)
    for mine, other in zip(plain, ignoring, strict=True):
        assert not other.is_terminated
        assert other.is_truncated == mine.is_done
        assert (places(mine) == places(other)).all()
