"""How much `sample` returns, and of what: steps of environments or agents, whole episodes, horizons, resets."""

from collections import Counter

import numpy as np
import pytest

from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import EnvRunnerError, EpisodiaError
from scripted_agents import KINDS, Echo, ScriptedEnv, makers


def runner_of(num_envs=2, seed=5, **options):
    """Return a runner, and its environments."""
    own = {key: options.pop(key) for key in ("kind", "longest", "num_agents") if key in options}
    make, envs = makers(**own)
    return MultiAgentEnvRunner(make, options.pop("modules", Echo()), num_envs=num_envs, seed=seed, **options), envs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("wanted", [1, 4, 17])
def test_as_many_environment_steps_as_wanted_rounded_up_to_whole_vector_steps(kind, num_envs, wanted):
    runner, _ = runner_of(num_envs, kind=kind)

    for _ in range(4):
        found = sum(len(chunk) for chunk in runner.sample(num_timesteps=wanted))
        assert found == -(-wanted // num_envs) * num_envs


@pytest.mark.parametrize("kind", KINDS)
def test_steps_can_be_counted_by_agents(kind):
    runner, _ = runner_of(kind=kind, count_steps_by="agent_steps")

    for wanted in (1, 5, 20):
        samples = runner.sample(num_timesteps=wanted)
        # One step of two environments completes at most one step of each of their three agents.
        assert wanted <= sum(chunk.agent_steps() for chunk in samples) < wanted + 6


def test_without_a_number_each_environment_plays_a_fragment():
    runner, _ = runner_of(3, rollout_fragment_length=7)

    assert sum(len(chunk) for chunk in runner.sample()) == 21


def test_a_fragment_that_ends_right_after_a_reset_returns_no_empty_chunk():
    runner, _ = runner_of(1, longest=1)

    assert [len(chunk) for chunk in runner.sample(num_timesteps=3)] == [1, 1, 1]


def test_whole_episodes_are_those_that_began_first():
    """Half of the episodes last 2 steps, half of them 40; neither are preferred."""

    class Coin(ScriptedEnv):
        def reset(self, *, seed=None, options=None):
            result = super().reset(seed=seed, options=options)
            self.length = 40 if seed % 2 else 2
            return result

    runner = MultiAgentEnvRunner(lambda: Coin(kind="simultaneous"), Echo(), num_envs=8, seed=1)
    lengths = Counter(len(episode) for _ in range(12) for episode in runner.sample(num_episodes=8))

    assert set(lengths) == {2, 40}
    assert 30 <= lengths[40] <= 66


def test_whole_episodes_come_in_the_order_in_which_they_began():
    runner, _ = runner_of(2)
    samples = runner.sample(num_episodes=5)

    assert [episode.id_ for episode in samples[:2]] == ["5-0-0", "5-1-0"]
    assert len({episode.id_ for episode in samples}) == 5


def test_a_forced_reset_begins_new_episodes_everywhere():
    runner, _ = runner_of(2, longest=30)
    runner.sample(num_timesteps=2)
    samples = runner.sample(num_timesteps=2, force_reset=True)

    assert all(chunk.env_t_started == 0 for chunk in samples)


@pytest.mark.parametrize("kind", KINDS)
def test_the_horizon_truncates_and_never_terminates(kind):
    runner, _ = runner_of(kind=kind, longest=1, horizon=4)
    for env in runner.envs:
        env.longest = 10_000
    episodes = [episode for episode in runner.sample(num_episodes=12) if len(episode) == 4]

    assert episodes
    for episode in episodes:
        assert episode.is_truncated
        assert all(single.is_done for single in episode.agent_episodes.values())


@pytest.mark.filterwarnings("ignore:.* truncated an episode after .* before `horizon")
def test_an_episode_that_ends_at_the_horizon_by_itself_is_as_the_environment_says():
    runner, envs = runner_of(1, kind="simultaneous", longest=3, horizon=3)
    episodes = runner.sample(num_episodes=30)
    last = [log[-1][1] for log in envs[0].log]

    assert [episode.is_terminated for episode in episodes] == ["__all__" in step[2] for step in last]


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_timesteps": -1},
        {"num_episodes": 0},
        {"num_episodes": -1},
        {"num_timesteps": 2, "num_episodes": 2},
        {"num_timesteps": 1.5},
        {"num_timesteps": 3, "count_steps_by": "seconds"},
    ],
)
def test_senseless_wishes_are_rejected(arguments):
    runner, _ = runner_of()

    with pytest.raises(EnvRunnerError, match="expected"):
        runner.sample(**arguments)


@pytest.mark.parametrize(
    ("env", "options"),
    [
        (ScriptedEnv, {"num_envs": 0}),
        (ScriptedEnv(), {"num_envs": 2}),
        ("CartPole-v1", {}),
        (object, {}),
        (ScriptedEnv, {"on_env_error": "ignore"}),
        (ScriptedEnv, {"horizon": 0}),
    ],
)
def test_senseless_runners_are_rejected(env, options):
    with pytest.raises(EpisodiaError, match="expected"):
        MultiAgentEnvRunner(env, Echo(), **options)


def test_without_modules_agents_act_at_random_within_their_spaces():
    runner, _ = runner_of(modules=None, kind="simultaneous")
    samples = runner.sample(num_timesteps=300)
    actions = np.concatenate([single.get_actions() for chunk in samples for single in chunk.agent_episodes.values()])

    assert set(actions.tolist()) == set(range(5))
    assert [chunk.agent_episodes["agent 0"].module_id for chunk in samples[:1]] == ["agent 0"]


def test_returned_chunks_do_not_change_any_more():
    runner, _ = runner_of(longest=50, kind="simultaneous")
    chunk = runner.sample(num_timesteps=10)[0]
    observations = {agent: single.get_observations().copy() for agent, single in chunk.agent_episodes.items()}
    runner.sample(num_timesteps=50)

    assert len(chunk) == 5
    for agent, single in chunk.agent_episodes.items():
        assert np.array_equal(single.get_observations(), observations[agent])


def test_complete_episodes_are_what_is_sampled_without_a_number_if_so_wished():
    runner, _ = runner_of(3, batch_mode="complete_episodes")

    assert [episode.is_done for episode in runner.sample()] == [True] * 3
