"""What `add_env_step` takes besides plain arrays and numbers, and what it makes of it."""

import math
import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.errors import SpaceError
from refusals import BOX, both_forms, plain, running, same, step

VALUES = np.array([0.25, -0.5], np.float32)


def read_only(array):
    array.setflags(write=False)
    return array


SAME_OBSERVATION = {
    "contiguous": VALUES,
    "not contiguous": np.stack([VALUES, VALUES * 0], axis=1)[:, 0],
    "reversed": VALUES[::-1].copy()[::-1],
    "big-endian": VALUES.astype(">f4"),
    "read-only": read_only(VALUES.copy()),
    "of another memory": np.frombuffer(VALUES.tobytes(), np.float32),
    "a subclass": VALUES.view(np.memmap),
    "a list": [0.25, -0.5],
    "a tuple": (0.25, -0.5),
    "half precision": VALUES.astype(np.float16),
}


@both_forms
@pytest.mark.parametrize("observation", SAME_OBSERVATION.values(), ids=SAME_OBSERVATION)
def test_an_observation_in_another_layout_is_the_same_observation(form, observation):
    episode = form(running())

    step(episode, observation=observation)

    stored = episode.finalize().get_observations()
    assert stored.dtype == np.float32
    assert stored.dtype.isnative
    assert np.array_equal(stored[-1], VALUES)


@both_forms
def test_a_list_is_rounded_to_the_float_dtype_of_the_space(form):
    episode = form(running())

    step(episode, observation=[0.1, 1 / 3])

    assert same(np.array(episode.get_observations(-1)), np.array([0.1, 1 / 3], np.float32))


def test_a_growing_column_without_a_space_takes_anything_and_promotes_when_finalized():
    episode = running(space=None)

    step(episode, observation=np.array([1e300, 2.0]))
    step(episode, observation=np.array([3, 4]))

    observations = episode.finalize().get_observations()
    assert observations.dtype == np.float64
    assert observations[-2:].tolist() == [[1e300, 2.0], [3.0, 4.0]]


def test_a_finalized_column_without_a_space_promotes_and_never_casts():
    episode = SingleAgentEpisode(observations=np.zeros((1, 2), np.uint8)).finalize()

    episode.add_env_step(np.array([300, -1]), 0, 0.0)
    episode.add_env_step(np.array([0.5, 2.0]), 0, 0.0)

    assert episode.get_observations().tolist() == [[0.0, 0.0], [300.0, -1.0], [0.5, 2.0]]


REWARDS = {
    "float": (1.5, 1.5),
    "int": (3, 3.0),
    "bool": (True, 1.0),
    "np.bool_": (np.bool_(True), 1.0),
    "np.float16": (np.float16(0.5), 0.5),
    "np.float32": (np.float32(0.1), float(np.float32(0.1))),
    "np.float64": (np.float64(-2.5), -2.5),
    "np.int8": (np.int8(-3), -3.0),
    "np.uint64": (np.uint64(7), 7.0),
    "array without axes": (np.array(2.5), 2.5),
    "infinite": (math.inf, math.inf),
    "nearly zero": (5e-324, 5e-324),
}


@both_forms
@pytest.mark.parametrize(("reward", "number"), REWARDS.values(), ids=REWARDS)
def test_every_kind_of_real_number_is_a_reward(form, reward, number):
    episode = form(running())

    step(episode, reward=reward)

    assert float(episode.get_rewards(-1)) == number
    assert episode.get_return() == 3.0 + number
    assert same(episode.finalize().get_rewards(), np.array([0.0, 1.0, 2.0, number]))


def test_a_growing_episode_gives_rewards_back_as_they_came():
    episode = running()

    for reward in (1, np.float32(0.5), np.float64(0.25), True):
        step(episode, reward=reward)

    assert same(episode.get_rewards(slice(3, None)), [1, np.float32(0.5), np.float64(0.25), True])


@both_forms
@pytest.mark.parametrize("flag", [True, np.bool_(True), 1, np.int64(1), np.array(True)], ids=repr)
def test_flags_may_come_from_numpy_and_are_stored_as_bools(form, flag):
    episode = form(running())

    step(episode, terminated=flag, truncated=flag)

    assert episode.is_terminated is True
    assert episode.is_truncated is True


@both_forms
def test_an_episode_may_be_terminated_and_truncated_at_once(form):
    episode = form(running())

    step(episode, terminated=True, truncated=True)

    assert episode.is_terminated
    assert episode.is_truncated
    assert list(episode.get_data_dict()["terminateds"]) == [False, False, False, True]
    assert list(episode.get_data_dict()["truncateds"]) == [False, False, False, True]


ACTIONS = {
    "int": 2,
    "np.int64": np.int64(2),
    "np.uint8": np.uint8(2),
    "np.uint64": np.uint64(2),
    "0-d": np.array(2),
}


@both_forms
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_every_kind_of_integer_is_a_discrete_action(form, action):
    episode = form(running())

    step(episode, action=action)

    assert same(episode.finalize().get_actions(), np.array([0, 1, 2, 2]))


NOT_FINITE = {
    "NaN": np.array([np.nan, 0.0], np.float32),
    "infinite": np.array([np.inf, -np.inf], np.float32),
    "negative zero": np.array([-0.0, 0.0], np.float32),
    "denormal": np.array([1e-45, 0.0], np.float32),
}


@both_forms
@pytest.mark.parametrize("observation", NOT_FINITE.values(), ids=NOT_FINITE)
def test_unusual_numbers_are_stored_bit_for_bit(form, observation):
    episode = form(running(space=None))

    step(episode, observation=observation, reward=math.nan, extra_model_outputs={"logp": -math.inf})

    assert episode.finalize().get_observations()[-1].tobytes() == observation.tobytes()
    assert math.isnan(episode.get_rewards(-1))
    assert episode.get_extra_model_outputs("logp", -1) == -math.inf


def test_nan_violates_no_bounds_but_infinity_does():
    episode = running()
    step(episode, observation=np.array([np.nan, 0.0], np.float32))
    episode.validate()

    step(episode, observation=np.array([np.inf, 0.0], np.float32))

    with pytest.raises(SpaceError, match="inf"):
        episode.validate()


def test_strings_of_any_length_are_kept_whole():
    episode = SingleAgentEpisode(action_space=spaces.Text(50, min_length=0))
    episode.add_env_reset("a")
    for action in ("go", "toTheVeryEnd", ""):
        episode.add_env_step("b" * 30, action, 0.0)

    assert episode.finalize().get_actions().tolist() == ["go", "toTheVeryEnd", ""]
    assert episode.get_observations().tolist() == ["a", "b" * 30, "b" * 30, "b" * 30]
    episode.add_env_step("c" * 40, "andFurtherThanThat", 0.0)
    assert episode.get_actions(-1) == "andFurtherThanThat"
    assert episode.get_observations(-1) == "c" * 40


def test_keys_of_mixed_types_are_keys():
    episode = SingleAgentEpisode()
    episode.add_env_reset({0: 1.0, "a": (2, 3)})
    episode.add_env_step({"a": (4, 5), 0: 6.0}, 0, 0.0)

    observations = episode.finalize().get_observations()

    assert observations[0].tolist() == [1.0, 6.0]
    assert [part.tolist() for part in observations["a"]] == [[2, 4], [3, 5]]


# --- Environments that reuse their memory -----------------------------------------------------------------

MEMORY = np.zeros(2, np.float32)

REUSED = {
    "the same array": (BOX, lambda: MEMORY, lambda observation: observation),
    "a view of it": (BOX, lambda: MEMORY[:], lambda observation: observation),
    "a buffer of it": (BOX, lambda: np.frombuffer(MEMORY, np.float32), lambda observation: observation),
    "a leaf of a dict": (spaces.Dict(x=BOX), lambda: {"x": MEMORY}, lambda observation: observation["x"]),
    "a leaf of a tuple": (spaces.Tuple([BOX]), lambda: (MEMORY,), lambda observation: observation[0]),
}


@pytest.mark.parametrize("declared", [True, False], ids=["with a space", "without a space"])
@pytest.mark.parametrize(("space", "observe", "leaf"), REUSED.values(), ids=REUSED)
def test_an_environment_may_reuse_its_observation_buffer(space, observe, leaf, declared):
    episode = SingleAgentEpisode(observation_space=space if declared else None)
    MEMORY[:] = plain(0)
    episode.add_env_reset(observe(), {"position": MEMORY})
    for t in range(1, 6):
        MEMORY[:] = plain(t)
        episode.add_env_step(observe(), 0, 0.0, {"position": MEMORY, "deep": [{"position": MEMORY}]})
    MEMORY[:] = 99

    expected = [plain(t).tolist() for t in range(6)]
    assert leaf(episode.finalize().get_observations()).tolist() == expected
    assert [info["position"].tolist() for info in episode.get_infos()] == expected
    assert [info["deep"][0]["position"].tolist() for info in episode.get_infos(slice(1, None))] == expected[1:]


class ReusingEnv(gym.Env):
    """Counts in one array that it returns again and again."""

    observation_space = BOX
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.memory = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        self.memory[:] = 0
        return self.memory, {"memory": self.memory}

    def step(self, action):
        self.memory += 0.125
        return self.memory, float(self.memory[0]), bool(self.memory[0] >= 0.5), False, {"memory": self.memory}


def test_an_episode_of_a_reusing_environment_is_the_one_of_a_copying_one():
    env, episode = ReusingEnv(), SingleAgentEpisode(observation_space=BOX, action_space=spaces.Discrete(2))
    observation, info = env.reset()
    episode.add_env_reset(observation, info)
    while not episode.is_done:
        observation, reward, terminated, truncated, info = env.step(1)
        episode.add_env_step(observation, 1, reward, info, terminated=terminated, truncated=truncated)
        observation *= 1  # what an environment may do at any time
    env.reset()

    counts = [0.0, 0.125, 0.25, 0.375, 0.5]
    assert [observation.tolist() for observation in episode.get_observations()] == [[x, x] for x in counts]
    assert episode.get_rewards() == counts[1:]
    assert [info["memory"][0] for info in episode.get_infos()] == counts


@pytest.mark.slow
def test_a_long_episode_takes_little_more_memory_than_its_arrays():
    episode = SingleAgentEpisode(observation_space=BOX, action_space=spaces.Discrete(2))
    episode.add_env_reset(np.zeros(2, np.float32))
    episode.finalize()
    tracemalloc.start()
    for t in range(200_000):
        episode.add_env_step(plain(t % 10), t % 2, 1.0)
    arrays = (episode.get_observations(), episode.get_actions(), episode.get_rewards())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    infos = 200_001 * (64 + 8)  # an empty dict and its place in a list
    assert len(episode) == 200_000
    assert peak < 3 * sum(array.nbytes for array in arrays) + 2 * infos
