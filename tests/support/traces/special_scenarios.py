"""Scenarios in environments of their own: action masks, shaped rewards, faults, ready vector environments, views."""

from functools import partial

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import episodia
from episodia import Columns
from episodia.connectors import (
    ActionDecoder,
    AddViews,
    EnvToModulePipeline,
    FlattenObservations,
    FrameStacking,
    MultiAgentObservationPreprocessor,
    PrevActionsPrevRewards,
    RewardShaper,
    SingleAgentObservationPreprocessor,
    View,
)
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.learners import Learner, PPOConfig, default_pipeline
from traces.games import ACTIONS, CartPoles, Turns
from traces.networks import SEED, network
from traces.recorded_columns import of_episodes, of_games


class Masked(gym.Env):
    """Two of three actions are allowed; masks are in the observations, or in the infos."""

    action_space = spaces.Discrete(3)

    def __init__(self, in_infos=False):
        self.in_infos = in_infos
        board = spaces.Box(-1.0, 9.0, (2,), np.float32)
        self.observation_space = board if in_infos else spaces.Dict(board=board, action_mask=spaces.MultiBinary(3))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.shown()

    def step(self, action):
        self.t += 1
        observation, info = self.shown()
        return observation, float(action), self.t >= 7, False, info

    def shown(self):
        mask = np.ones(3, np.int8)
        mask[self.np_random.integers(3)] = 0
        board = np.array([self.t, mask[0]], np.float32)
        return (board, {"action_mask": mask.tolist()}) if self.in_infos else ({"board": board, "action_mask": mask}, {})


class Moody(gym.Env):
    """Fails now and then."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1, np.float32), {}

    def step(self, action):
        if self.np_random.random() < 0.1:
            raise RuntimeError("not today")
        return (
            self.np_random.random(1, np.float32),
            1.0,
            bool(self.np_random.random() < 0.2),
            False,
            {"told": int(action)},
        )


class Angle(SingleAgentObservationPreprocessor):
    """Shows the angle and the speed of the pendulum."""

    space = spaces.Box(-np.pi, np.pi, (2,), np.float64)

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return self.space

    def preprocess(self, observation, episode):
        return np.array([np.arctan2(observation[1], observation[0]), observation[2] / 8], np.float64)


class Push(ActionDecoder):
    """Turns one of three choices into a force."""

    def decode(self, action, episode):
        return np.array([2.0 * (action - 1)], np.float32)


class CalmSoon(RewardShaper):
    """Pays for a low speed some steps after the action."""

    def reward(self, episode, age):
        return -abs(float(episode.get_observations(-1)[1]))


class Together(MultiAgentObservationPreprocessor):
    """Adds the mean over all agents that see something to what each of them sees."""

    def preprocess(self, observations, episode):
        mean = np.mean(list(observations.values()), axis=0, dtype=np.float32)
        return {agent: observation + mean for agent, observation in observations.items()}


def played(env, module, num_timesteps=60, **settings):
    with SingleAgentEnvRunner(env, module, **{"num_envs": 3, "seed": SEED, **settings}) as runner:
        return {f"sample {number}": of_episodes(runner.sample(num_timesteps=num_timesteps)) for number in range(2)}


def masked(in_infos, kind="default"):
    env = Masked(in_infos)
    module = network(kind, env.observation_space, env.action_space)
    learner = Learner(module, PPOConfig(), seed=SEED)
    with SingleAgentEnvRunner(partial(Masked, in_infos), module, num_envs=2, seed=SEED) as runner:
        first = runner.sample(num_timesteps=40)
        at_random = runner.sample(num_timesteps=20, random_actions=True)
        batch, metrics = learner.batch_of(first), learner.update(first, num_epochs=2)
    return {
        "episodes": of_episodes(first),
        "random": of_episodes(at_random),
        "batch": batch,
        "learned": metrics["default_policy"]["num_steps"],
    }


def flattened_masks():
    """Return what a learner finds behind a piece that makes vectors of dicts with masks."""
    env, config = Masked(), PPOConfig()
    space = EnvToModulePipeline(env.observation_space, env.action_space, connectors=[FlattenObservations()])
    module = network("MLP", space.observation_space, env.action_space)
    pipeline = default_pipeline(
        config, env.observation_space, env.action_space, custom=[FlattenObservations()], module=module
    )
    learner = Learner(module, config, learner_pipeline=pipeline)
    with SingleAgentEnvRunner(Masked, module, num_envs=2, seed=SEED, env_to_module=[FlattenObservations()]) as runner:
        return {f"batch {number}": learner.batch_of(runner.sample(num_timesteps=30)) for number in range(2)}


def shaped():
    choices = spaces.Discrete(3)
    pieces = {"env_to_module": [Angle(), CalmSoon(delay=2)], "module_to_env": [Push(module_action_space=choices)]}
    return played("Pendulum-v1", network("MLP", Angle.space, choices), **pieces)


def ready(mode):
    env = gym.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    return played(env, network("MLP", env.single_observation_space, env.single_action_space), num_envs=None)


def viewed():
    """Return what views of the past add, for a runner and for a learner."""
    views = {"last_reward": View(Columns.REWARDS, shift=-1), "window": View(Columns.OBS, shift=range(-2, 1))}
    env = gym.make("CartPole-v1")
    module, config = network("MLP", env.observation_space, env.action_space), PPOConfig()
    pipeline = default_pipeline(
        config, env.observation_space, env.action_space, custom=[AddViews(views)], module=module
    )
    learner = Learner(module, config, learner_pipeline=pipeline)
    runner = SingleAgentEnvRunner("CartPole-v1", module, num_envs=3, seed=SEED, env_to_module=[AddViews(views)])
    with runner:
        return {f"batch {number}": learner.batch_of(runner.sample(num_timesteps=60)) for number in range(2)}


def team(game, *pieces):
    made = game(3)
    of_agents = (spaces.Dict(made.observation_spaces), spaces.Dict(made.action_spaces))
    shown = EnvToModulePipeline(*of_agents, connectors=[make() for make in pieces]).observation_space
    module = network("MLP", shown["agent_0"], ACTIONS)
    settings = {"num_envs": 2, "seed": SEED, "lookback": 1, "env_to_module": [make() for make in pieces]}
    with MultiAgentEnvRunner(partial(game, 3), module, **settings) as runner:
        return {f"sample {number}": of_games(runner.sample(num_timesteps=30)) for number in range(2)}


def collected():
    return {
        "random": of_episodes(episodia.collect("CartPole-v1", episodes=3, seed=SEED)),
        "rule": of_episodes(episodia.collect("CartPole-v1", lambda obs: int(obs[2] > 0), episodes=2, seed=SEED)),
    }


MOODY = partial(network, "MLP", Moody.observation_space, Moody.action_space)
STACK = (
    partial(FrameStacking, num_frames=3, multi_agent=True),
    partial(FlattenObservations, multi_agent=True),
)
PAST = (
    partial(PrevActionsPrevRewards, n_prev_actions=2, multi_agent=True),
    partial(FlattenObservations, multi_agent=True),
)
SPECIAL = {
    "masks in observations": partial(masked, False),
    "masks in infos": partial(masked, True, "MLP"),
    "masks behind FlattenObservations": flattened_masks,
    "shaped states, actions and rewards": shaped,
    "environments that fail, episodes dropped": lambda: played(Moody, MOODY()),
    "environments that fail, episodes truncated": lambda: played(Moody, MOODY(), on_env_error="truncate"),
    **{f"ready vector environment, {mode.name}": partial(ready, mode) for mode in gym.vector.AutoresetMode},
    "views": viewed,
    "many agents, MultiAgentObservationPreprocessor": partial(team, CartPoles, Together),
    "many agents, FrameStacking": partial(team, CartPoles, *STACK),
    "many agents, PrevActionsPrevRewards": partial(team, CartPoles, *PAST),
    "many agents in turns, PrevActionsPrevRewards": partial(team, Turns, *PAST),
    "collect": collected,
}
