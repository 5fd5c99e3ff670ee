"""Rewards that add up are what the environment paid, whatever kind of numbers it paid in."""

import numpy as np
import pytest

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.columns.rewards import added, total_of

KINDS = {
    "int8": [np.int8(100), np.int8(100), np.int8(100)],
    "uint8 and a negative number": [np.uint8(200), np.uint8(100), -5],
    "NumPy's booleans": [np.True_, np.True_, np.True_],
    "booleans": [True, True, True],
    "float16": [np.float16(60000), np.float16(60000), np.float16(60000)],
    "arrays of one number": [np.array(100, np.int8), np.array(100, np.int8), np.array(27, np.int8)],
    "floats": [0.25, 0.5, 1.0],
}
each_kind = pytest.mark.parametrize("paid", KINDS.values(), ids=KINDS)


def new_game(**policy):
    game = MultiAgentEpisode("game", **policy)
    game.add_env_reset(observations={"a": 0, "b": 0})
    return game


def step(game, reward, **more):
    game.add_env_step({"b": 1}, {"b": 0}, {"a": reward, "b": 0.0}, **more)


@each_kind
def test_a_pending_action_earns_what_was_paid(paid):
    game = new_game()
    game.add_env_step({}, {"a": 0}, {"a": paid[0]})
    game.add_env_step({}, {}, {"a": paid[1]})
    game.add_env_step({"a": 1}, {}, {"a": paid[2]})

    assert game.agent_episodes["a"].get_rewards() == [sum(map(float, paid))]


@each_kind
@pytest.mark.parametrize("finalized", [False, True])
def test_the_last_step_earns_what_was_paid_after_the_end(paid, finalized):
    game = new_game(rewards_after_done="add")
    game.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": paid[0], "b": 0.0}, terminateds={"a": True})
    if finalized:
        game.finalize()
    step(game, paid[1])
    step(game, paid[2])

    assert list(game.agent_episodes["a"].get_rewards()) == [sum(map(float, paid))]


@each_kind
@pytest.mark.parametrize("finalized", [False, True])
def test_joining_adds_what_was_paid_after_the_cut(paid, finalized):
    game = new_game(rewards_after_done="add")
    game.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": paid[0], "b": 0.0}, terminateds={"a": True})
    rest = game.cut()
    step(rest, paid[1])
    step(rest, paid[2])
    if finalized:
        game.finalize()

    assert rest.get_return(include_hanging_rewards=True) == sum(map(float, paid[1:]))
    game.concat_episode(rest)
    assert list(game.agent_episodes["a"].get_rewards()) == [sum(map(float, paid))]


@each_kind
def test_what_was_paid_before_an_agent_came_is_kept_whole(paid):
    game = MultiAgentEpisode("game")
    game.add_env_reset(observations={"b": 0})
    for reward in paid:
        step(game, reward)

    assert game._hanging_rewards_begin == {"a": sum(map(float, paid))}


@each_kind
def test_the_return_has_what_many_agents_wait_for(paid):
    game = MultiAgentEpisode("game")
    game.add_env_reset(observations={0: 0, 1: 0, 2: 0})
    game.add_env_step({}, {}, dict(enumerate(paid)))

    assert game.get_return(include_hanging_rewards=True) == sum(map(float, paid))


def test_sums_that_do_not_fit_into_64_bits_are_floats():
    assert added(2**63 - 1, 1) == 2.0**63
    assert isinstance(added(2**63 - 1, 1), float)
    assert total_of([]) == 0.0


def test_joining_that_fails_at_a_delayed_reward_leaves_the_episode_as_it_was(monkeypatch):
    game = new_game(rewards_after_done="add")
    game.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 1.0, "b": 0.0}, terminateds={"a": True})
    rest = game.cut()
    step(rest, 5.0, infos={"a": {"told": 1}})
    before = game.get_state()

    def fail(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SingleAgentEpisode, "set_rewards", fail)
        with pytest.raises(KeyboardInterrupt):
            game.concat_episode(rest)

    assert game.get_state() == before
