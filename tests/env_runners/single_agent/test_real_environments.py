"""Real environments, played at random and with a module: what is recorded is what a plain loop sees."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import Columns
from episodia.env_runners import SingleAgentEnvRunner
from episodia.modules import LSTMActorCritic, MLPActorCritic


class DictEnv(gym.Env):
    """Observes a dict of a vector, a class and a tiny image."""

    observation_space = spaces.Dict(
        speed=spaces.Box(-1, 1, (2,), np.float32),
        room=spaces.Discrete(4),
        image=spaces.Box(0, 255, (4, 4, 3), np.uint8),
    )
    action_space = spaces.Dict(move=spaces.Box(-2, 2, (2,), np.float32), jump=spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._seen(), {}

    def step(self, action):
        self._t += 1
        reward = float(np.sum(action["move"])) + float(action["jump"])
        return self._seen(), reward, self._t == 7, False, {}

    def _seen(self):
        return {
            "speed": self.np_random.uniform(-1, 1, 2).astype(np.float32),
            "room": int(self.np_random.integers(4)),
            "image": self.np_random.integers(0, 256, (4, 4, 3), np.uint8),
        }


class ImageEnv(gym.Env):
    observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._image(), {}

    def step(self, action):
        self._t += 1
        return self._image(), float(action), False, self._t == 5, {}

    def _image(self):
        return self.np_random.integers(0, 256, (16, 16, 3), np.uint8)


# Older versions of gymnasium have no fourth one, newer ones warn of the third.
TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"

ENVS = {
    "CartPole": "CartPole-v1",
    "Pendulum": "Pendulum-v1",
    "MountainCar": "MountainCar-v0",
    "Taxi": TAXI,
    "FrozenLake": "FrozenLake-v1",
    "Dict": DictEnv,
    "image": ImageEnv,
}


def module_for(env, kind=MLPActorCritic):
    made = gym.make(env) if isinstance(env, str) else env()
    return kind(made.observation_space, made.action_space, generator=torch.Generator().manual_seed(1))


def same(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return np.array_equal(left, right)


@pytest.mark.filterwarnings("ignore:.* truncated an episode after .* before `horizon")
@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("kind", [None, MLPActorCritic, LSTMActorCritic])
def test_a_loop_with_the_same_actions_sees_the_same(name, kind):
    env = ENVS[name]
    module = None if kind is None else module_for(env, kind)
    with SingleAgentEnvRunner(env, module, num_envs=1, seed=4, horizon=30) as runner:
        env_seed = type(runner._seeds)(4).next_lanes(1)[0]
        episode = runner.sample(num_episodes=1)[0]
        scaling = runner.module_to_env["NormalizeAndClipActions"]
    actions = {Columns.ACTIONS: episode.get_actions()}
    for_env = actions if kind is None else scaling(rl_module=module, batch=actions, episodes=[])
    received = for_env.get(Columns.ACTIONS_FOR_ENV, for_env[Columns.ACTIONS])

    plain = gym.make(env) if isinstance(env, str) else env()
    observations, _ = plain.reset(seed=env_seed)
    seen, rewards = [observations], []
    for t in range(len(episode)):
        action = {key: value[t] for key, value in received.items()} if isinstance(received, dict) else received[t]
        observations, reward, *_ = plain.step(action)
        seen.append(observations)
        rewards.append(reward)

    assert episode.is_done
    assert same(rewards, episode.get_rewards())
    for t, observation in enumerate(seen):
        row = episode.get_observations(t)
        assert same(observation, row)


@pytest.mark.parametrize("name", ENVS)
def test_log_probabilities_belong_to_the_recorded_actions(name):
    module = module_for(ENVS[name])
    with SingleAgentEnvRunner(ENVS[name], module, num_envs=3, seed=1, action_mask_key=None) as runner:
        episodes = runner.sample(num_timesteps=30)

    for episode in episodes:
        observations = episode.get_observations(slice(0, len(episode)))
        batch = {Columns.OBS: _tensors(observations)}
        with torch.no_grad():
            inputs = module.forward_exploration(batch)[Columns.ACTION_DIST_INPUTS]
            logp = module.get_exploration_action_dist_cls().from_logits(inputs).logp(_tensors(episode.get_actions()))
        np.testing.assert_allclose(logp, episode.get_extra_model_outputs(Columns.ACTION_LOGP), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            inputs, episode.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS), rtol=1e-4, atol=1e-5
        )


def _tensors(batch):
    if isinstance(batch, dict):
        return {key: _tensors(value) for key, value in batch.items()}
    return torch.from_numpy(np.array(batch))


def test_actions_beyond_the_bounds_of_the_environment_are_kept_and_travel():
    module = module_for("Pendulum-v1")
    with torch.no_grad():
        module.actor_head.bias[1] = 3.0  # a standard deviation of 20
    with SingleAgentEnvRunner("Pendulum-v1", module, num_envs=2, seed=0) as runner:
        chunks = [*runner.sample(num_timesteps=20), *runner.sample(num_timesteps=20)]
    first, second = (chunk for chunk in chunks if chunk.id_ == "0-1-0")
    whole = copy.copy(first)
    whole.concat_episode(second)

    actions = whole.get_actions()
    assert np.abs(actions).max() > 2.0
    for episode in (
        pickle.loads(pickle.dumps(whole)),
        whole[:15].finalize(),
        type(whole).from_state(whole.get_state()),
    ):
        np.testing.assert_array_equal(episode.get_actions(), actions[: len(episode)])


@pytest.mark.parametrize("vectorization", ["sync", "vector_entry_point"])
def test_cartpole_is_played_to_the_end_in_both_forms(vectorization):
    with SingleAgentEnvRunner("CartPole-v1", num_envs=4, seed=0, vectorization=vectorization) as runner:
        episodes = runner.sample(num_episodes=20)

    assert len(episodes) == 20
    for episode in episodes:
        last = episode.get_observations(-1)
        assert episode.is_terminated
        assert abs(last[0]) > 2.4 or abs(last[2]) > 0.2095
        assert episode.get_return() == len(episode)


def test_an_env_spec_is_an_environment():
    with SingleAgentEnvRunner(gym.spec("CartPole-v1"), num_envs=2, seed=0) as runner:
        assert len(runner.sample(num_episodes=2)) == 2


def test_a_function_may_make_a_vector_environment():
    with SingleAgentEnvRunner(lambda: gym.make_vec("CartPole-v1", num_envs=3), seed=0) as runner:
        assert runner.num_envs == 3
        assert len(runner.sample(num_episodes=2)) == 2
        assert len(runner.evaluate(2)) == 2


def test_taxi_never_takes_a_step_that_its_infos_forbid():
    module = module_for(TAXI)
    with SingleAgentEnvRunner(TAXI, module, num_envs=3, seed=0, horizon=20) as runner:
        chunks = [*runner.sample(num_timesteps=100), *runner.sample(num_timesteps=100, random_actions=True)]

    for chunk in chunks:
        masks = [info["action_mask"] for info in chunk.get_infos()]
        assert all(mask[action] == 1 for mask, action in zip(masks, chunk.get_actions(), strict=False))
        np.testing.assert_array_equal(chunk.get_extra_model_outputs(Columns.ACTION_MASK), masks[: len(chunk)])


def test_what_a_runner_records_of_real_valued_actions_is_valid():
    env = gym.make("Pendulum-v1")
    module = MLPActorCritic(env.observation_space, env.action_space)
    with SingleAgentEnvRunner("Pendulum-v1", module, seed=1) as runner:
        chunk = runner.sample(num_timesteps=200)[0]
    chunk.validate()

    # What is stored is what was drawn; the environment received it within its bounds.
    assert abs(chunk.get_actions()).max() > env.action_space.high[0]
