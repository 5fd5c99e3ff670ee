"""Episodes of environments that people use, compared with what a plain loop writes down."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from episodia import SingleAgentEpisode


class DictEnv(gym.Env):
    """A random walk with nested observations and actions, and infos that differ from step to step."""

    observation_space = spaces.Dict(
        position=spaces.Box(-np.inf, np.inf, (2,), np.float32),
        inventory=spaces.Tuple([spaces.Discrete(5), spaces.MultiBinary(3)]),
        word=spaces.Text(10),
    )
    action_space = spaces.Dict(move=spaces.Box(-1.0, 1.0, (2,), np.float32), mode=spaces.MultiDiscrete([2, 3]))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.zeros(2, np.float32)
        return self._observe(), {"start": True}

    def step(self, action):
        self.position += action["move"]
        done = bool(self.np_random.random() < 0.05)
        return self._observe(), float(self.position.sum()), done, False, {"position": self.position}

    def _observe(self):
        flags = self.np_random.integers(0, 2, 3).astype(np.int8)
        word = "".join(self.np_random.choice(list("abc"), self.np_random.integers(1, 10)))
        inventory = (self.np_random.integers(5), flags)
        return {"position": self.position, "inventory": inventory, "word": word}


ENVIRONMENTS = {
    "CartPole": lambda: gym.make("CartPole-v1"),
    "Pendulum": lambda: gym.make("Pendulum-v1", max_episode_steps=50),
    "FrozenLake": lambda: gym.make("FrozenLake-v1"),
    "Blackjack": lambda: gym.make("Blackjack-v1"),
    "nested": lambda: TimeLimit(DictEnv(), 40),
}


def play(env, lookback=None, chunk_length=7):
    """Return the chunks of one episode, and what a plain loop writes down."""
    env.action_space.seed(1)
    observation, info = env.reset(seed=1)
    chunk = SingleAgentEpisode(observation_space=env.observation_space, action_space=env.action_space)
    chunk.add_env_reset(observation, info)
    log = {"observations": [copied(observation)], "actions": [], "rewards": [], "flags": []}
    chunks = [chunk]
    while not chunks[-1].is_done:
        if lookback is not None and len(chunks[-1]) == chunk_length:
            chunks.append(chunks[-1].cut(lookback))
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        chunks[-1].add_env_step(observation, action, reward, info, terminated=terminated, truncated=truncated)
        log["observations"].append(copied(observation))
        log["actions"].append(copied(action))
        log["rewards"].append(float(reward))
        log["flags"].append((terminated, truncated))
    env.close()
    return chunks, log


def copied(item):
    if isinstance(item, dict):
        return {key: copied(value) for key, value in item.items()}
    return tuple(map(copied, item)) if isinstance(item, tuple) else np.array(item)


def assert_equal(items, expected):
    """Compare lists of nested items leaf by leaf."""
    assert len(items) == len(expected)
    for item, wanted in zip(items, expected, strict=True):
        if isinstance(wanted, dict):
            assert item.keys() == wanted.keys()
            assert_equal(list(item.values()), [wanted[key] for key in item])
        elif isinstance(wanted, tuple):
            assert_equal(item, wanted)
        else:
            assert np.array_equal(item, wanted)


def rows(batch, count):
    """Return the rows of a nested batch, by plain indexing."""
    if isinstance(batch, dict):
        parts = {key: rows(value, count) for key, value in batch.items()}
        return [{key: parts[key][row] for key in batch} for row in range(count)]
    if isinstance(batch, tuple):
        return list(zip(*(rows(value, count) for value in batch), strict=True))
    return [batch[row] for row in range(count)]


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_episode_holds_what_a_plain_loop_writes_down(make):
    (episode,), log = play(make())

    assert_equal(episode.get_observations(), log["observations"])
    assert_equal(episode.get_actions(), log["actions"])
    assert list(map(float, episode.get_rewards())) == log["rewards"]
    assert (episode.is_terminated, episode.is_truncated) == log["flags"][-1]
    assert episode.get_return() == pytest.approx(sum(log["rewards"]))
    assert len(episode) == len(log["rewards"]) == len(episode.get_infos()) - 1


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_finalizing_keeps_every_value_and_the_dtypes_of_the_space(make):
    env = make()
    (episode,), log = play(env)

    episode.finalize().validate()

    assert_equal(rows(episode.get_observations(), len(episode) + 1), log["observations"])
    assert_equal(rows(episode.get_actions(), len(episode)), log["actions"])
    assert episode.get_rewards().tolist() == log["rewards"]
    if isinstance(env.observation_space, spaces.Box):
        assert episode.get_observations().dtype == env.observation_space.dtype


@pytest.mark.parametrize("lookback", [0, 1, 10])
@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_chunks_joined_again_are_the_whole_episode(make, lookback):
    chunks, log = play(make(), lookback)
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)

    assert_equal(whole.get_observations(), log["observations"])
    assert_equal(whole.get_actions(), log["actions"])
    assert list(map(float, whole.get_rewards())) == log["rewards"]
    assert (whole.is_terminated, whole.is_truncated) == log["flags"][-1]
