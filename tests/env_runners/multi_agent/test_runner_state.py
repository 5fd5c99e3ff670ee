"""Seeds, weights, states, metrics, callbacks, evaluation: what stands beside sampling."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import EpsilonGreedy, MeanStdFilter, defaults
from episodia.env_runners.callbacks import Callbacks
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.errors import EnvRunnerError
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_multi_agent_episode
from scripted_agents import ACTIONS, KINDS, OBSERVATIONS, Echo, makers


def network():
    return MLPActorCritic(OBSERVATIONS, ACTIONS, (8,), generator=torch.Generator().manual_seed(3))


def runner_of(kind="random", module=None, **options):
    make, _ = makers(kind=kind, tells_episode=False)
    return MultiAgentEnvRunner(make, module or network(), **{"num_envs": 2, "seed": 11, **options})


def filtered():
    """Return pipelines with statistics and random numbers of their own."""
    agents = [f"agent {number}" for number in range(3)]
    joint = spaces.Dict(dict.fromkeys(agents, OBSERVATIONS)), spaces.Dict(dict.fromkeys(agents, ACTIONS))
    return {
        "env_to_module": defaults.env_to_module(*joint, custom=[MeanStdFilter(multi_agent=True)], multi_agent=True),
        "module_to_env": defaults.module_to_env(*joint, custom=[EpsilonGreedy(epsilon=0.3, seed=1)], multi_agent=True),
    }


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_same_multi_agent_episode(one, other, ignore=["times"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_random", [False, True])
def test_the_same_seed_gives_the_same_episodes_ids_included(kind, at_random):
    runners = [runner_of(kind) for _ in range(2)]
    torch.manual_seed(0)
    first = [chunk for _ in range(4) for chunk in runners[0].sample(num_timesteps=9, random_actions=at_random)]
    torch.manual_seed(1)
    second = [chunk for _ in range(4) for chunk in runners[1].sample(num_timesteps=9, random_actions=at_random)]

    assert_same(first, second)


def test_another_seed_gives_other_episodes_and_no_seed_other_ids():
    one, other = runner_of(seed=1).sample(num_episodes=4), runner_of(seed=2).sample(num_episodes=4)
    ids = [episode.id_ for _ in range(2) for episode in runner_of(seed=None).sample(num_episodes=3)]

    assert [episode.get_return() for episode in one] != [episode.get_return() for episode in other]
    assert len(set(ids)) == 6


def test_global_random_states_are_left_alone():
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002  # that is the point
    runner_of().sample(num_timesteps=20)

    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before  # noqa: NPY002


def test_a_restored_runner_plays_what_the_other_one_plays_after_a_reset():
    runner = runner_of(**filtered())
    runner.sample(num_timesteps=30)
    runner.set_weights(runner.get_weights(), version=4)
    runner.sample(num_timesteps=5, random_actions=True)
    other = runner_of(**filtered())
    other.set_state(pickle.loads(pickle.dumps(runner.get_state())))
    wanted = {"num_timesteps": 30, "force_reset": True}
    first, second = runner.sample(**wanted), other.sample(**wanted)

    assert second[0].weights_version == 4
    assert_same(first, second)


def test_a_state_of_another_number_of_environments_is_rejected():
    with pytest.raises(EnvRunnerError, match="3 environments"):
        runner_of().set_state(runner_of(num_envs=3).get_state())


def test_weights_of_unknown_modules_are_rejected():
    runner = runner_of()

    with pytest.raises(EnvRunnerError, match="stranger"):
        runner.set_weights({"stranger": {}})


def test_weights_are_copies():
    runner = runner_of()
    weights = runner.get_weights()
    before = {name: array.copy() for name, array in weights["default_policy"].items()}
    for array in weights["default_policy"].values():
        array[...] = 0.0

    for name, array in runner.get_weights()["default_policy"].items():
        assert np.array_equal(array, before[name])


def test_every_chunk_carries_the_version_of_its_weights():
    runner = runner_of("simultaneous")
    versions = []
    for version in (None, 7, None):
        versions.append({chunk.weights_version for chunk in runner.sample(num_timesteps=8)})
        runner.set_weights(runner.get_weights(), version=version)

    assert versions == [{0}, {1}, {7}]
    assert runner.weights_version == 8


def test_a_runner_without_a_seed_has_one_with_which_its_episodes_can_be_played_again():
    one, other = runner_of("turns", seed=None), runner_of("turns", seed=None)
    episodes = one.sample(num_timesteps=20)
    again = runner_of("turns", seed=one.seed).sample(num_timesteps=20)

    assert one.seed != other.seed
    assert [episode.id_ for episode in episodes] == [episode.id_ for episode in again]
    for mine, its in zip(episodes, again, strict=True):
        assert_same_multi_agent_episode(mine, its, ignore=["times"])


def test_a_runner_goes_on_from_the_state_of_one_with_another_seed_as_that_one():
    one, other = runner_of("turns", seed=1), runner_of("turns", seed=2)
    one.sample(num_timesteps=20)
    other.set_state(one.get_state())
    expected, found = one.sample(num_timesteps=20, force_reset=True), other.sample(num_timesteps=20)

    assert [episode.id_ for episode in found] == [episode.id_ for episode in expected][-len(found) :]
    assert [episode.get_return() for episode in found] == [episode.get_return() for episode in expected][-len(found) :]


def test_evaluating_leaves_training_alone():
    one, other = runner_of(**filtered()), runner_of(**filtered())
    first = [*one.sample(num_timesteps=11)]
    state = one.env_to_module.get_state(), one.module_to_env.get_state()
    evaluation = one.evaluate(num_episodes=5)
    one.evaluate(num_episodes=2, explore=True)

    assert len(evaluation) == 5
    assert all(episode.is_done for episode in evaluation)
    assert {episode.id_ for episode in evaluation}.isdisjoint(chunk.id_ for chunk in first)
    np.testing.assert_equal((one.env_to_module.get_state(), one.module_to_env.get_state()), state)
    assert_same(
        [*first, *one.sample(num_timesteps=11)], [*other.sample(num_timesteps=11), *other.sample(num_timesteps=11)]
    )
    assert one.get_metrics().num_env_steps == other.get_metrics().num_env_steps


def test_evaluating_needs_environments_of_its_own():
    make, _ = makers()

    with pytest.raises(EnvRunnerError, match="callable"):
        MultiAgentEnvRunner(make(), Echo()).evaluate(num_episodes=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 7])
def test_metrics_are_those_of_whole_episodes_of_agents_and_of_modules(kind, steps):
    runner = runner_of(kind)
    chunks = [chunk for _ in range(20) for chunk in runner.sample(num_timesteps=steps)]
    metrics = runner.get_metrics()
    ended = {chunk.id_: chunk.env_t for chunk in chunks if chunk.is_done}
    returns = {}
    for chunk in chunks:
        for agent, single in chunk.agent_episodes.items():
            if chunk.id_ in ended:
                returns[chunk.id_, agent] = returns.get((chunk.id_, agent), 0.0) + single.get_return()

    assert sorted(metrics.episode_lengths) == sorted(ended.values())
    assert sum(metrics.episode_returns) == sum(returns.values())
    assert sorted(metrics.module_returns["default_policy"]) == sorted(returns.values())
    for agent, found in metrics.agent_returns.items():
        assert sorted(found) == sorted(value for (_, owner), value in returns.items() if owner == agent)
    assert metrics.num_env_steps == sum(map(len, chunks))
    assert metrics.num_agent_steps == sum(chunk.agent_steps() for chunk in chunks) == sum(metrics.agent_steps.values())
    assert metrics.module_steps == {"default_policy": metrics.num_agent_steps}
    assert runner.get_metrics().num_env_steps == 0


def test_metrics_of_several_runners_merge():
    parts = []
    for seed in range(3):
        runner = runner_of(seed=seed)
        runner.sample(num_episodes=4)
        parts.append(runner.get_metrics())
    merged = RunnerMetrics.merged(parts)

    assert merged.num_episodes == 12
    assert merged.num_agent_steps == sum(part.num_agent_steps for part in parts)
    assert sum(map(len, merged.agent_returns.values())) == sum(
        len(returns) for part in parts for returns in part.agent_returns.values()
    )
    assert merged.as_dict()["agent_steps_per_s"] > 0


class Listener(Callbacks):
    def __init__(self):
        self.events = []

    def on_episode_start(self, *, episode, env_index, **kwargs):
        assert (episode.env_t, episode.id_.split("-")[1]) == (0, str(env_index))
        self.events.append(("start", episode.id_))

    def on_episode_step(self, *, episode, **kwargs):
        self.events.append(("step", episode.id_))

    def on_episode_end(self, *, episode, env_runner, env, **kwargs):
        assert episode.env_t_started == 0
        assert episode.is_done
        self.events.append(("end", episode.id_, len(episode), env.t))

    def on_sample_end(self, *, samples, **kwargs):
        self.events.append(("sample", len(samples)))


@pytest.mark.parametrize("kind", KINDS)
def test_callbacks_are_called_for_each_step_and_see_whole_episodes(kind):
    listener = Listener()
    runner = runner_of(kind, callbacks=[listener])
    samples = [runner.sample(num_timesteps=5) for _ in range(6)]
    chunks = [chunk for sample in samples for chunk in sample]
    ends = [event for event in listener.events if event[0] == "end"]

    assert [event[1] for event in listener.events if event[0] == "sample"] == list(map(len, samples))
    assert sum(event[0] == "step" for event in listener.events) == sum(map(len, chunks))
    assert {event[1] for event in ends} == {chunk.id_ for chunk in chunks if chunk.is_done}
    assert all(length == t for _, _, length, t in ends)


def test_samples_can_be_pickled():
    samples = runner_of(kind="turns").sample(num_timesteps=20)
    copies = pickle.loads(pickle.dumps(samples))

    assert_same(copies, samples)
