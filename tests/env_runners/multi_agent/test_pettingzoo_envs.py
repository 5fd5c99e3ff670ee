"""PettingZoo's environments in the runner: each agent gets what the environment paid it, in turns or at once."""

import importlib
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pettingzoo
import pytest

from episodia.env_runners.envs.pettingzoo_envs import ParallelPettingZooEnv, TurnBasedPettingZooEnv, from_pettingzoo
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.errors import EpisodeError
from episodia.modules import MLPActorCritic


def generated(name, kind):
    """Return a maker of one of PettingZoo's own test environments: agents appear and die at random."""

    def make():
        with warnings.catch_warnings():
            # Their package imports another environment in a way that PettingZoo itself calls deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(f"pettingzoo.test.example_envs.generated_agents_{name}_v0")
        return getattr(module, kind)(max_cycles=4)

    return make


def game(kind, name, **options):
    """Return a maker of one of PettingZoo's environments."""

    def make():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pygame, which these import
            return pettingzoo.make(kind, name, **options)

    return make


TURNS = {
    "tic-tac-toe": game("aec", "classic/tictactoe-v3"),
    "connect four": game("aec", "classic/connect_four-v3"),
    "go": game("aec", "classic/go-v5", board_size=5),
    "rock, paper, scissors": game("aec", "classic/rps-v2", max_cycles=5),
    "generated": generated("env", "raw_env"),
    "generated, with tuples as ids": generated("env_cust_agentid", "raw_env"),
}
PARALLEL = {
    "rock, paper, scissors": game("parallel", "classic/rps-v2", max_cycles=5),
    "generated": generated("parallel", "parallel_env"),
    "generated, with tuples as ids": generated("parallel_cust_agentid", "parallel_env"),
    "knights, archers, zombies": game("parallel", "butterfly/knights_archers_zombies-v11", max_cycles=30),
    "cooperative pong": game("parallel", "butterfly/cooperative_pong-v6", max_cycles=6, render_mode="rgb_array"),
}


def spy(env, paid):
    """Let a turn-based environment note what it pays: `env.last()` adds that up for an agent's turn."""
    step, reset = env.step, env.reset

    def noting(action):
        paid[-1][env.agent_selection] += env.last(observe=False)[1]
        step(action)

    def beginning(*args, **kwargs):
        paid.append(Counter())
        reset(*args, **kwargs)

    env.step, env.reset = noting, beginning
    return env


def assert_paid_in_full(chunks, paid):
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)
    whole.validate()
    found = Counter(whole._hanging_rewards_begin)
    found.update({agent: single.get_return() for agent, single in whole.agent_episodes.items()})

    assert whole.is_done
    assert {agent: total for agent, total in found.items() if total} == pytest.approx(
        {agent: total for agent, total in paid.items() if total}
    )


def finished_episodes(samples):
    """Return the chunks of each episode that is there from its beginning to its end."""
    chunks = {}
    for chunk in samples:
        chunks.setdefault(chunk.id_, []).append(chunk)
    return {id_: own for id_, own in chunks.items() if own[-1].is_done}


@pytest.mark.parametrize("fragment", [1, 7, 40])
@pytest.mark.parametrize("make", TURNS.values(), ids=TURNS)
def test_agents_that_take_turns_get_what_the_environment_paid(make, fragment):
    paid = []
    runner = MultiAgentEnvRunner(spy(make(), paid), seed=3)
    samples = [chunk for _ in range(120 // fragment) for chunk in runner.sample(num_timesteps=fragment)]
    finished = finished_episodes(samples)

    assert finished
    for id_, chunks in finished.items():
        assert_paid_in_full(chunks, paid[int(id_.split("-")[-1])])


@pytest.mark.filterwarnings("ignore:environment. found that:UserWarning")  # some have limits below the horizon
@pytest.mark.parametrize("make", PARALLEL.values(), ids=PARALLEL)
def test_agents_that_act_at_once_get_what_the_environment_paid(make):
    env, paid = make(), []
    step, reset = env.step, env.reset

    def noting(actions):
        result = step(actions)
        paid[-1].update(result[1])
        return result

    def beginning(*args, **kwargs):
        paid.append(Counter())
        return reset(*args, **kwargs)

    env.step, env.reset = noting, beginning
    # Some of the generated environments have no end of their own.
    runner = MultiAgentEnvRunner(env, seed=3, horizon=30)
    finished = finished_episodes([chunk for _ in range(8) for chunk in runner.sample(num_timesteps=9)])

    assert finished
    for id_, chunks in finished.items():
        assert_paid_in_full(chunks, paid[int(id_.split("-")[-1])])


@pytest.mark.parametrize("at_random", [False, True])
def test_a_module_plays_only_legal_moves(at_random):
    env = pettingzoo.make("aec", "classic/connect_four-v3")
    module = MLPActorCritic(env.observation_space("player_0"), env.action_space("player_0"))
    runner = MultiAgentEnvRunner(TURNS["connect four"], module, num_envs=3, seed=0)
    games = runner.sample(num_episodes=6, random_actions=at_random)

    for game_ in games:
        for single in game_.agent_episodes.values():
            masks = single.get_observations()["action_mask"][: len(single)]
            assert masks[np.arange(len(single)), single.get_actions()].all()
        # Who makes an illegal move loses at once, and the other one gets nothing.
        assert sorted(single.get_return() for single in game_.agent_episodes.values()) in ([-1, 1], [0, 0])


def test_each_move_is_the_difference_between_two_boards():
    games = MultiAgentEnvRunner(TURNS["tic-tac-toe"], num_envs=2, seed=1).sample(num_episodes=4)

    for single in (single for game_ in games for single in game_.agent_episodes.values()):
        marks = single.get_observations()["observation"][..., 0].reshape(-1, 9)
        moves = [np.flatnonzero(after != before).tolist() for before, after in pairwise(marks)]
        assert moves == [[move] for move in single.get_actions()]


def test_both_players_are_shown_the_last_board():
    games = MultiAgentEnvRunner(TURNS["tic-tac-toe"], num_envs=2, seed=1).sample(num_episodes=4)

    for game_ in games:
        last = game_.get_observations(-1)
        assert set(last) == {"player_1", "player_2"}
        assert all(game_.get_terminateds().values())


def test_one_network_for_all_paddles_sees_images():
    env = PARALLEL["cooperative pong"]()
    space = env.observation_space("paddle_0")
    module = MLPActorCritic(space, env.action_space("paddle_0"), (4,))
    chunk = MultiAgentEnvRunner(PARALLEL["cooperative pong"], module, seed=0).sample(num_timesteps=3)[0]

    observations = chunk.agent_episodes["paddle_1"].get_observations()
    assert observations.shape == (4, *space.shape)
    assert observations.dtype == np.uint8


def test_the_same_seed_plays_the_same_games():
    games = [
        [game_.get_actions() for game_ in MultiAgentEnvRunner(TURNS["go"], num_envs=2, seed=5).sample(num_episodes=2)]
        for _ in range(2)
    ]

    np.testing.assert_equal(*games)


def test_a_wrong_agent_is_rejected():
    env = from_pettingzoo(TURNS["tic-tac-toe"]())
    env.reset(seed=0)

    with pytest.raises(EpisodeError, match="'player_1', whose turn it is"):
        env.step({"player_2": 0})


def test_environments_are_recognised():
    assert isinstance(from_pettingzoo(PARALLEL["rock, paper, scissors"]()), ParallelPettingZooEnv)
    assert isinstance(from_pettingzoo(TURNS["rock, paper, scissors"]()), TurnBasedPettingZooEnv)
    assert from_pettingzoo(object()) is None


def test_entries_that_are_not_agents_are_left_out():
    env = PARALLEL["rock, paper, scissors"]()
    reset = env.reset
    env.reset = lambda **kwargs: tuple({**part, "common": {}} for part in reset(**kwargs))
    observations, infos = from_pettingzoo(env).reset(seed=0)

    assert list(observations) == list(infos) == ["player_0", "player_1"]
