"""Policies in runners: each environment has a memory of its own, and the actions are those of the policy alone."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import collect
from episodia.connectors import FlattenObservations, FrameStacking, MeanStdFilter, PrevActionsPrevRewards, defaults
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import EnvRunnerError, ModuleError
from episodia.modules import RuleModule, default_module
from episodia.policies import MultiAgentPolicy, Policy
from scripted_agents import ACTIONS, OBSERVATIONS, ScriptedEnv

MEMORIES = {
    "none": list,
    "stacked frames": lambda: [FrameStacking(num_frames=3), FlattenObservations()],
    "the past": lambda: [PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=3), FlattenObservations()],
    "a filter": lambda: [MeanStdFilter()],
}


def decided(module, seed=5):
    """Return the module with other weights, so that observations decide what it does."""
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        weight.data += 0.5 * torch.randn(weight.shape, generator=generator)
    return module


def policy_for(env_id, memory="none", recurrent=None, **options):
    env = gym.make(env_id)
    sides = env.observation_space, env.action_space
    to_module = defaults.env_to_module(*sides, custom=MEMORIES[memory](), stateful=recurrent is not None)
    generator = torch.Generator().manual_seed(0)
    module = default_module(
        to_module.observation_space, sides[1], hidden=(8,), recurrent=recurrent, generator=generator
    )
    return Policy(decided(module), to_module, **options)


def alone(policy, episode):
    """Return what a policy does by itself where the environment does what it did in `episode`."""
    policy.reset()
    actions = []
    for observation, reward in zip(episode.get_observations(slice(0, -1)), episode.get_rewards(), strict=True):
        actions.append(policy(observation))
        policy.observe(reward)
    return np.array(actions)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("recurrent", [None, "lstm", "gru"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_policy_acts_in_a_runner_as_alone(env_id, recurrent, memory, num_envs):
    policy = policy_for(env_id, memory, recurrent)

    episodes = collect(env_id, policy, episodes=4, num_envs=num_envs, seed=1, horizon=30)

    for episode in episodes:
        actions = episode.get_actions()
        # Pendulum is given twice what a module says, within its bounds.
        for_env = actions if env_id == "CartPole-v1" else 2 * np.clip(actions, -1.0, 1.0)
        assert np.allclose(alone(policy, episode), for_env, atol=1e-4)
    assert env_id == "CartPole-v1" or len(np.unique(episodes[0].get_actions())) > 10


def test_a_saved_policy_acts_in_a_runner_as_alone(tmp_path):
    policy_for("CartPole-v1", "the past", "lstm").save(tmp_path / "run")
    policy = Policy.load(tmp_path / "run")

    episodes = collect("CartPole-v1", policy, timesteps=100, num_envs=2, seed=0, horizon=20)

    whole = [episode for episode in episodes if episode.is_done]
    assert whole
    assert all(np.array_equal(alone(policy, episode), episode.get_actions()) for episode in whole)


def test_what_a_filter_had_noted_when_its_policy_was_made_never_takes_effect():
    env = gym.make("CartPole-v1")
    sides = env.observation_space, env.action_space
    to_module = defaults.env_to_module(*sides, custom=[MeanStdFilter()])
    module = decided(default_module(*sides, hidden=(8,), generator=torch.Generator().manual_seed(0)))
    with SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0, env_to_module=to_module) as training:
        training.sample(num_timesteps=200)
        policy = Policy(module, training.env_to_module)  # its filter has noted the observations after this sample

    with SingleAgentEnvRunner("CartPole-v1", policy, num_envs=2, seed=0) as runner:
        before = runner.env_to_module.get_state()
        episodes = [episode for _ in range(3) for episode in runner.sample(num_episodes=2)]

    assert str(runner.env_to_module.get_state()["MeanStdFilter"]["delta"]) == str(before["MeanStdFilter"]["delta"])
    assert all(np.array_equal(alone(policy, episode), episode.get_actions()) for episode in episodes)


def test_acting_in_a_runner_leaves_the_policy_as_it_is():
    policy = policy_for("CartPole-v1", "stacked frames", "lstm")
    observations = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    untouched = [policy(observation) for observation in observations]
    policy.reset()
    before = [policy(observation) for observation in observations[:2]]

    with SingleAgentEnvRunner("CartPole-v1", policy, seed=0) as runner:
        runner.sample(num_timesteps=20)
        runner.set_weights({name: 0 * weight for name, weight in runner.get_weights().items()})

    assert before + [policy(observation) for observation in observations[2:]] == untouched


@pytest.mark.parametrize(
    ("of_policy", "given", "draws"),
    [(False, "auto", False), (True, "auto", True), (False, True, True), (True, False, False)],
)
def test_a_runner_explores_as_the_policy_does_unless_told_otherwise(of_policy, given, draws):
    policy = policy_for("Pendulum-v1", explore=of_policy)

    first, again = (collect("Pendulum-v1", policy, timesteps=1, seed=0, explore=given)[0] for _ in range(2))

    most_probable = policy_for("Pendulum-v1")(first.get_observations(0))
    is_drawn = not np.allclose(2 * np.clip(first.get_actions(0), -1.0, 1.0), most_probable, atol=1e-4)
    assert is_drawn is draws
    assert np.array_equal(first.get_actions(), again.get_actions())  # the seed of the runner decides the draws


def test_evaluation_of_a_runner_with_a_policy_acts_as_the_policy():
    policy = policy_for("CartPole-v1", "the past", "gru")
    with SingleAgentEnvRunner("CartPole-v1", policy, num_envs=2, seed=0) as runner:
        runner.sample(num_timesteps=10)
        episodes = runner.evaluate(3)

    assert all(np.array_equal(alone(policy, episode), episode.get_actions()) for episode in episodes)


@pytest.mark.parametrize("side", ["env_to_module", "module_to_env"])
def test_pipelines_beside_a_policy_are_rejected(side):
    with pytest.raises(EnvRunnerError, match="pipelines of its own"):
        SingleAgentEnvRunner("CartPole-v1", policy_for("CartPole-v1"), **{side: []})


# --- Several agents -------------------------------------------------------------------------------------------------


def scripted():
    return ScriptedEnv(kind="simultaneous", tells_infos=False, tells_episode=False)


def agents_policy(memory="none", recurrent=None):
    stacked = [FrameStacking(num_frames=3, multi_agent=True), FlattenObservations(multi_agent=True)]
    custom, size = (stacked, 12) if memory == "stacked frames" else ([], 4)
    space = OBSERVATIONS if size == 4 else spaces.Box(-np.inf, np.inf, (size,), np.float32)
    generator = torch.Generator().manual_seed(0)
    modules = {
        name: decided(default_module(space, ACTIONS, hidden=(8,), recurrent=recurrent, generator=generator), seed)
        for seed, name in enumerate(["even", "odd"])
    }
    with MultiAgentEnvRunner(scripted, modules, agent_to_module_mapping_fn=by_parity, env_to_module=custom) as runner:
        return MultiAgentPolicy(modules, runner.env_to_module, agent_to_module_mapping_fn=by_parity)


def by_parity(agent, _):
    return ["even", "odd"][int(str(agent)[-1]) % 2]


@pytest.mark.parametrize("recurrent", [None, "lstm"])
@pytest.mark.parametrize("memory", ["none", "stacked frames"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_policy_of_several_agents_acts_in_a_runner_as_alone(num_envs, memory, recurrent):
    policy = agents_policy(memory, recurrent)

    with MultiAgentEnvRunner(scripted, policy, num_envs=num_envs, seed=3) as runner:
        episodes = runner.sample(num_episodes=4)

    assert runner.explore is False
    for episode in episodes:
        policy.reset()
        for step in range(len(episode)):
            shown, acted = episode.get_observations(step), episode.get_actions(step)
            assert policy({agent: shown[agent] for agent in acted}) == acted


def test_a_policy_of_the_other_kind_is_rejected():
    one, several = policy_for("CartPole-v1"), agents_policy()

    with pytest.raises(EnvRunnerError, match="MultiAgentPolicy"):
        collect("CartPole-v1", several)
    with pytest.raises(EnvRunnerError, match="MultiAgentPolicy"):
        MultiAgentEnvRunner(ScriptedEnv, one)
    with pytest.raises(ModuleError, match="a"):
        MultiAgentEnvRunner(ScriptedEnv, {"a": one})


def test_a_function_still_acts_on_one_observation_after_the_other():
    episodes = collect("CartPole-v1", lambda observation: int(observation[2] > 0), episodes=2, num_envs=2, seed=0)
    module = RuleModule(lambda rows: (rows[:, 2] > 0).astype(int))
    same = collect("CartPole-v1", module, episodes=2, num_envs=2, seed=0)

    assert [episode.get_return() for episode in episodes] == [episode.get_return() for episode in same]
