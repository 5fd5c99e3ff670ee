"""NaN and infinite observations: only their episode is lost, and the next sample works."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import MeanStdFilter
from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import ConnectorError, EnvError, ModuleError
from episodia.modules import MLPActorCritic

SPACES = spaces.Box(-9.0, 9.0, (2,), np.float32), spaces.Discrete(2)
LENGTH = 9


class Counting(gym.Env):
    """Shows how many steps an episode has; at step 7 of the first one not-a-number, if it is `bad`."""

    observation_space, action_space = SPACES

    def __init__(self, bad=False):
        self._bad, self._number = bad, 0

    def reset(self, *, seed=None, options=None):
        self._t, self._number = 0, self._number + 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self._t += 1
        is_bad = self._bad and self._t == 7 and self._number == 1
        return np.full(2, np.nan if is_bad else self._t, np.float32), 1.0, self._t >= LENGTH, False, {}


class CountingPair(MultiAgentEnv):
    """Two agents, the second of which is never shown anything bad."""

    def __init__(self, bad=False):
        super().__init__()
        self.agents = self.possible_agents = ["first", "second"]
        self.observation_spaces = dict.fromkeys(self.agents, SPACES[0])
        self.action_spaces = dict.fromkeys(self.agents, SPACES[1])
        self._envs = {"first": Counting(bad), "second": Counting()}

    def reset(self, *, seed=None, options=None):
        return {agent: env.reset()[0] for agent, env in self._envs.items()}, {}

    def step(self, actions):
        steps = {agent: env.step(actions[agent]) for agent, env in self._envs.items()}
        observations, rewards = ({agent: step[part] for agent, step in steps.items()} for part in (0, 1))
        return observations, rewards, {"__all__": steps["first"][2]}, {"__all__": False}, {}


def only_the_second(kind):
    made = []

    def make():
        made.append(kind(bad=len(made) == 1))
        return made[-1]

    return make


@pytest.mark.parametrize("pieces", [[], [MeanStdFilter()]], ids=["plain", "filter"])
def test_a_runner_goes_on_after_an_observation_that_its_module_cannot_act_on(pieces):
    make = only_the_second(Counting)
    with SingleAgentEnvRunner(make, MLPActorCritic(*SPACES), num_envs=3, seed=0, env_to_module=pieces) as runner:
        with pytest.raises(EnvError, match=r"environment 1: found NaN .* expected finite numbers"):
            runner.sample(num_timesteps=60)
        chunks = [*runner.sample(num_timesteps=60), *runner.sample(num_timesteps=60)]
        metrics = runner.get_metrics()

    ids = {chunk.id_ for chunk in chunks}
    assert {"0-0-0", "0-2-0"} <= ids
    assert "0-1-0" not in ids
    assert all(np.isfinite(chunk.get_observations()).all() for chunk in chunks)
    assert (metrics.num_episodes_dropped, metrics.num_env_steps_dropped) == (1, 7)


def test_a_multi_agent_runner_loses_only_the_episode_with_such_an_observation():
    with MultiAgentEnvRunner(only_the_second(CountingPair), MLPActorCritic(*SPACES), num_envs=3, seed=0) as runner:
        with pytest.raises(EnvError, match=r"environment 1: found NaN .* expected finite numbers"):
            runner.sample(num_timesteps=60)
        chunks = runner.sample(num_timesteps=60)
        common = runner.get_metrics()

    whole = {chunk.id_ for chunk in chunks if chunk.is_done and chunk.env_t_started == 0}
    assert {"0-0-0", "0-2-0"} <= whole
    assert "0-1-0" not in {chunk.id_ for chunk in chunks}
    assert (common.num_episodes_dropped, common.num_env_steps_dropped) == (1, 7)


def test_a_callback_that_fails_is_not_taken_for_a_failure_to_act():
    def fail(**_):
        raise KeyError("mine")

    with SingleAgentEnvRunner(
        lambda: Counting(bad=True), num_envs=2, seed=0, check_finite=False, callbacks=[{"on_episode_step": fail}]
    ) as runner:
        for _ in range(8):
            with pytest.raises(KeyError, match="mine"):
                runner.sample(num_timesteps=1_000)
        dropped = runner.get_metrics().num_episodes_dropped

    assert dropped == 0


def test_a_bad_observation_while_rewards_are_waited_for_is_told_at_once():
    with SingleAgentEnvRunner(
        only_the_second(Counting), MLPActorCritic(*SPACES), num_envs=3, seed=0, reward_delay=3
    ) as runner:
        with pytest.raises(EnvError, match="environment 1: found NaN"):
            runner.sample(num_timesteps=15)
        chunks = runner.sample(num_timesteps=15)

    assert "0-1-0" not in {chunk.id_ for chunk in chunks if chunk.t >= 7}


def test_numbers_whose_sum_is_too_large_are_finite():
    class Huge(Counting):
        observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

        def step(self, action):
            observation, *rest = super().step(action)
            return observation * 0 + np.float32(3e38), *rest

    with SingleAgentEnvRunner(Huge, num_envs=2, seed=0) as runner:
        chunks = runner.sample(num_timesteps=20)

    assert chunks.lengths.sum() >= 20


def test_what_fails_for_another_reason_is_raised_as_it_is():
    module = MLPActorCritic(*SPACES)
    with SingleAgentEnvRunner(Counting, module, num_envs=2, seed=0) as runner:
        runner.sample(num_timesteps=4)
        module.actor_head.weight.data.fill_(np.nan)
        with pytest.raises(ConnectorError, match="weights or observations have become NaN") as raised:
            runner.sample(num_timesteps=4)

    assert isinstance(raised.value.__cause__, ModuleError)
