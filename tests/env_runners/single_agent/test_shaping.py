"""Shaping of states, decoding of actions and shaping of rewards, all three together: an environment wrapper as connectors."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import ActionDecoder, RewardShaper, SingleAgentObservationPreprocessor
from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import PipelineError
from episodia.modules import MLPActorCritic

FORCES = np.array([[-2.0], [0.0], [2.0]], np.float32)


class Angle(SingleAgentObservationPreprocessor):
    """Shows the angle and the speed of a pendulum."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return spaces.Box(-np.pi, np.pi, (2,), np.float64)

    def preprocess(self, observation, episode):
        cosine, sine, speed = observation
        return np.array([np.arctan2(sine, cosine), speed / 8.0])


class Force(ActionDecoder):
    """Turns one of three choices into a force."""

    def decode(self, action, episode):
        return FORCES[action]


class Calm(RewardShaper):
    """Pays for a small speed after three steps."""

    def reward(self, episode, age):
        return -abs(float(episode.get_observations(-1)[1]))


def pendulum_runner(**settings):
    module = MLPActorCritic(spaces.Box(-np.pi, np.pi, (2,), np.float64), spaces.Discrete(3))
    return SingleAgentEnvRunner(
        "Pendulum-v1",
        module,
        num_envs=2,
        seed=0,
        env_to_module=[Angle(), Calm(delay=2)],
        module_to_env=[Force(module_action_space=spaces.Discrete(3))],
        **settings,
    )


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_environment_wrapper_is_three_connectors(at_random, vectorization):
    with pendulum_runner(vectorization=vectorization) as runner:
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=50, random_actions=at_random)]

    whole = chunks[0]
    for chunk in chunks[2::2]:
        whole.concat_episode(chunk)
    observations, actions, rewards = whole.get_observations(), whole.get_actions(), whole.get_rewards()
    assert observations.shape == (76, 2)
    assert actions.dtype == np.int64
    assert set(actions.tolist()) <= {0, 1, 2}
    np.testing.assert_allclose(rewards[:-2], -np.abs(observations[3:, 1]))


def test_the_environment_receives_what_was_decoded():
    received = []

    class Ears(gym.Wrapper):
        def step(self, action):
            received.append(np.array(action))
            return super().step(action)

    module = MLPActorCritic(gym.make("Pendulum-v1").observation_space, spaces.Discrete(3))
    decoder = Force(module_action_space=spaces.Discrete(3))
    with SingleAgentEnvRunner(lambda: Ears(gym.make("Pendulum-v1")), module, seed=0, module_to_env=[decoder]) as runner:
        (chunk,) = runner.sample(num_timesteps=30)

    assert FORCES[chunk.get_actions()].tolist() == [force.tolist() for force in received]


class Order:
    """What an environment may want that is made of no numbers."""

    def __init__(self, amount):
        self.amount = amount


class Warehouse(MultiAgentEnv):
    """Two shops order; goods arrive two ticks later."""

    possible_agents = agents = ("east", "west")
    observation_spaces = dict.fromkeys(agents, spaces.Box(0.0, 100.0, (1,)))
    action_spaces = dict.fromkeys(agents, spaces.Box(0.0, 40.0, ()))

    def reset(self, *, seed=None, options=None):
        self.t, self.stock, self.under_way = 0, dict.fromkeys(self.agents, 5.0), []
        return self.seen(), {}

    def step(self, actions):
        assert all(isinstance(order, Order) for order in actions.values())
        self.under_way.append({agent: order.amount for agent, order in actions.items()})
        arrived = self.under_way.pop(0) if len(self.under_way) > 2 else {}
        for agent in self.agents:
            self.stock[agent] = max(0.0, self.stock[agent] + arrived.get(agent, 0.0) - 1.0)
        self.t += 1
        return self.seen(), dict.fromkeys(self.agents, 0.0), {"__all__": self.t == 12}, {}, {}

    def seen(self):
        return {agent: np.array([stock], np.float32) for agent, stock in self.stock.items()}


class Buy(ActionDecoder):
    def decode(self, action, episode):
        return Order(float(action) * (2.0 if episode.agent_id == "east" else 1.0))


class StockLater(RewardShaper):
    def reward(self, episode, age):
        return float(episode.get_observations(-1)[0])


@pytest.mark.parametrize("at_random", [False, True])
def test_many_agents_order_objects_and_are_paid_later(at_random):
    module = MLPActorCritic(Warehouse.observation_spaces["east"], spaces.Discrete(4))
    with MultiAgentEnvRunner(
        Warehouse,
        module,
        num_envs=2,
        seed=0,
        env_to_module=[StockLater(delay=2)],
        module_to_env=[Buy(module_action_space=spaces.Discrete(4))],
    ) as runner:
        games = [game for _ in range(6) for game in runner.sample(num_timesteps=10, random_actions=at_random)]

    first = [game for game in games if game.id_ == games[0].id_]
    for agent in Warehouse.agents:
        stock = [float(row[0]) for game in first for row in game.agent_episodes[agent].get_observations()[1:]]
        rewards = [float(reward) for game in first for reward in game.agent_episodes[agent].get_rewards()]
        actions = [int(action) for game in first for action in game.agent_episodes[agent].get_actions()]
        assert rewards == [*stock[2:], stock[-1], stock[-1]]
        assert set(actions) <= {0, 1, 2, 3}


def test_a_decoder_needs_the_space_of_the_module():
    with pytest.raises(PipelineError, match="module_action_space"):
        Force(module_action_space=3)
