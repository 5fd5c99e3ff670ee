"""Games and schedules as users have them, each with a picture of who observes when.

In the pictures `o` is an observation, `──` an action that waits for the next one, and `|` an end.
"""

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from turn_taking import columns, play, turns

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe:
    """Two players in turns; at the end both see the board, and win 1, lose 1, or draw."""

    def reset(self):
        self.board = ["."] * 9
        return {"X": "".join(self.board)}

    def step(self, actions):
        ((player, cell),) = actions.items()
        self.board[cell] = player
        other = "O" if player == "X" else "X"
        board = "".join(self.board)
        won = any(all(board[cell] == player for cell in line) for line in LINES)
        if won or "." not in board:
            rewards = {player: 1.0, other: -1.0} if won else {player: 0.0, other: 0.0}
            return {player: board, other: board}, rewards, {"__all__": True}
        return {other: board}, {player: 0.0}, {}


def play_tic_tac_toe(episode, choose):
    """Play a game to its end; return the cells that were taken, in order."""
    game, cells = TicTacToe(), []
    episode.add_env_reset(observations=game.reset())
    while not episode.is_done:
        (player,) = episode.get_agents_to_act()
        cells.append(choose(episode.get_observations(-1)[player]))
        observations, rewards, terminateds = game.step({player: cells[-1]})
        episode.add_env_step(observations, {player: cells[-1]}, rewards, terminateds=terminateds)
    return cells


def test_in_tic_tac_toe_each_player_sees_the_board_when_it_is_its_turn():
    """X wins with its third mark; O is told so with the observation that it waits for.

    environment step   0     1     2     3     4     5
    X                  o───────────o───────────o─────|  +1
    O                        o───────────o───────────|  -1
    """
    cells = [0, 3, 1, 4, 2]
    episode = MultiAgentEpisode()
    play_tic_tac_toe(episode, lambda board: cells[9 - board.count(".")])

    final = "XXXOO...."
    assert columns(episode, "X") == ([".........", "X..O.....", "XX.OO....", final], [0, 1, 2], [0, 0, 1])
    assert columns(episode, "O") == (["X........", "XX.O.....", final], [3, 4], [0, -1])
    assert episode.get_terminateds() == {"X": True, "O": True, "__all__": True}


@pytest.mark.parametrize("seed", range(8))
def test_at_the_end_of_any_game_of_tic_tac_toe_both_returns_are_right(seed):
    """After at most nine turns the marks alternate, and what one wins the other loses.

    environment step   0   1   2   3  ...  n
    X                  o───────o────── ... |
    O                      o───────o── ... |
    """
    rng = np.random.default_rng(seed)
    episode = MultiAgentEpisode()
    cells = play_tic_tac_toe(episode, lambda board: int(rng.choice([cell for cell in range(9) if board[cell] == "."])))

    marks = {"X": cells[0::2], "O": cells[1::2]}
    winners = [player for player in "XO" if any(set(line) <= set(marks[player]) for line in LINES)]
    for player in "XO":
        expected = 0.0 if not winners else 1.0 if player in winners else -1.0
        assert episode.agent_episodes[player].get_actions() == marks[player]
        assert episode.agent_episodes[player].get_return() == expected
    assert episode.get_return() == 0.0
    assert episode.agent_steps() == len(episode) == len(cells)


def test_an_agent_that_acts_every_fourth_step_is_paid_for_all_of_them():
    """The driver acts at once, the planner's four rewards make one.

    environment step   0   1   2   3   4   5   6   7   8
    driver             o───o───o───o───o───o───o───o───o
    planner            o───────────────o───────────────o
    """
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"driver": 0, "planner": 0})
    for t in range(8):
        actors = ["driver", "planner"] if t % 4 == 0 else ["driver"]
        seen = ["driver", "planner"] if t % 4 == 3 else ["driver"]
        episode.add_env_step(
            dict.fromkeys(seen, t + 1),
            dict.fromkeys(actors, t),
            {"driver": 0.5, "planner": 2.0**t},
        )

    assert columns(episode, "driver") == (list(range(9)), list(range(8)), [0.5] * 8)
    assert columns(episode, "planner") == ([0, 4, 8], [0, 4], [1 + 2 + 4 + 8, 16 + 32 + 64 + 128])
    assert episode.env_t_to_agent_t["planner"].get() == [0, "S", "S", "S", 1, "S", "S", "S", 2]
    assert (episode.env_steps(), episode.agent_steps()) == (8, 10)


def test_an_agent_that_dies_on_another_s_turn_completes_its_step():
    """The sheep has moved and waits; the wolf's move ends it. Nobody shows it anything any more.

    environment step   0   1   2   3   4
    sheep              o───────|                its last observation is repeated
    wolf                   o───o───o───o
    """
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"sheep": "grass"})
    episode.add_env_step({"wolf": "tracks"}, {"sheep": "graze"}, {"sheep": 0.5})
    episode.add_env_step(
        {"wolf": "a sheep"}, {"wolf": "jump"}, {"wolf": 5.0, "sheep": -1.0}, terminateds={"sheep": True}
    )
    for t in (3, 4):
        episode.add_env_step({"wolf": f"dusk {t}"}, {"wolf": "rest"}, {"wolf": 0.0})

    assert columns(episode, "sheep") == (["grass", "grass"], ["graze"], [-0.5])
    assert episode.agent_episodes["sheep"].is_terminated
    assert not episode.is_done
    # The repeated observation stands at no environment step: nobody observed it.
    assert episode.get_observations(return_list=True)[2:] == [
        {"wolf": "a sheep"},
        {"wolf": "dusk 3"},
        {"wolf": "dusk 4"},
    ]
    assert episode.get_agents_to_act() == {"wolf"}


def test_a_high_level_agent_waits_while_low_level_agents_act():
    """Each goal is pursued by a low-level agent of its own, for two steps; all that is earned adds up above.

    environment step   0   1   2   3   4   5   6
    high               o───────────o───────────o
    low 0                  o───o───|
    low 1                              o───o───|
    """
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"high": "room 0"})
    for goal in (0, 1):
        low = f"low {goal}"
        episode.add_env_step({low: "far"}, {"high": f"goal {goal}"}, {"high": 0.0})
        episode.add_env_step({low: "near"}, {low: "run"}, {low: -0.5, "high": 1.0})
        episode.add_env_step(
            {low: "there", "high": f"room {goal + 1}"},
            {low: "walk"},
            {low: 1.0, "high": 10.0 * (goal + 1)},
            terminateds={low: True},
        )

    assert columns(episode, "high") == (["room 0", "room 1", "room 2"], ["goal 0", "goal 1"], [11.0, 21.0])
    for low in ("low 0", "low 1"):
        assert columns(episode, low) == (["far", "near", "there"], ["run", "walk"], [-0.5, 1.0])
    assert episode.get_agents_to_act() == {"high"}
    assert not episode.is_done


@pytest.mark.parametrize("lookback", [0, 1, 3])
def test_a_reward_that_comes_after_a_cut_still_belongs_to_the_pending_action(lookback):
    """The action A4 was taken in one chunk and is answered in the next, to which the whole step belongs.

    environment step   0    1    2    3    4    5 ┊  6
    a                  o─────────o─────────o──────┊──o     A4 earns 5 before the cut and 6 after it
    b                       o─────────o─────────o─┊─────
    """
    first = turns(5)
    second = first.cut(len_lookback_buffer=lookback)
    play(second, 1)

    assert columns(first, "a") == (["a0", "a2", "a4"], ["A0", "A2"], [3.0, 7.0])
    assert first._hanging_actions_end == {"a": "A4"}
    assert columns(second, "a") == (["a4", "a6"], ["A4"], [5.0 + 6.0])
    assert second.agent_episodes["a"].get_extra_model_outputs("x") == ["Xa4"]
    assert second._hanging_actions_end == {"b": "B5"}


def test_cutting_at_every_step_pays_every_reward_once():
    """Chunks of one environment step each: most agents have no step of their own in most of them.

    environment step   0 ┊  1 ┊  2 ┊  3 ┊  4 ┊  5 ┊  6
    a                  o─┊────┊──o─┊────┊──o─┊────┊──o
    b                    ┊  o─┊────┊──o─┊────┊──o─┊────
    """
    whole, running = turns(6), turns(0)
    chunks = [running]
    for _ in range(6):
        play(chunks[-1], 1)
        chunks.append(chunks[-1].cut())

    for agent in "ab":
        singles = [chunk.agent_episodes[agent] for chunk in chunks if agent in chunk.agent_ids]
        rewards = [reward for single in singles for reward in single.get_rewards()]
        assert rewards == whole.agent_episodes[agent].get_rewards()
    for chunk in chunks[1:]:
        running.concat_episode(chunk)
    for agent in "ab":
        assert columns(running, agent) == columns(whole, agent)


def test_agents_join_late_and_leave_early():
    """The host stays; each guest is there for two steps of its own and is shown how it went.

    environment step   0   1   2   3   4
    host               o───o───o───o───o
    guest 0                o───o───|
    guest 1                    o───o───|
    """
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"host": 0})
    for t in range(4):
        here = ["host", *(f"guest {n}" for n in (0, 1) if n + 1 <= t <= n + 2)]
        seen = ["host", *(f"guest {n}" for n in (0, 1) if n <= t <= n + 2)]
        episode.add_env_step(
            dict.fromkeys(seen, t + 1),
            dict.fromkeys(here, t),
            dict.fromkeys(here, 1.0),
            truncateds={f"guest {t - 2}": t >= 2},
        )

    assert columns(episode, "guest 0") == ([1, 2, 3], [1, 2], [1.0, 1.0])
    assert columns(episode, "guest 1") == ([2, 3, 4], [2, 3], [1.0, 1.0])
    assert episode.get_truncateds() == {"host": False, "guest 0": True, "guest 1": True, "__all__": False}
    # A chunk knows only who is still there; the others stay ended.
    assert episode.cut().agent_ids == {"host"}


def test_an_agent_that_never_acts_has_its_latest_observation_and_no_step():
    """A spectator is shown things and paid, but has no action that this could belong to.

    environment step   0   1   2   3
    player             o───o───o───o
    spectator          o       o            the second takes the place of the first
    """
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"player": 0, "spectator": "start"})
    for t in range(3):
        watched = {"spectator": "half-time"} if t == 1 else {}
        episode.add_env_step({"player": t + 1, **watched}, {"player": t}, {"player": 1.0, "spectator": 0.5})

    assert columns(episode, "spectator") == (["half-time"], [], [])
    assert episode._hanging_rewards_end == {"spectator": 1.5}
    assert (episode.get_return(), episode.get_return(include_hanging_rewards=True)) == (3.0, 4.5)
    assert episode.get_agents_to_act() == {"player"}


def test_ids_of_agents_may_be_of_any_kind_in_one_episode():
    """A string, an integer and a tuple share the clock.

    environment step   0   1   2   3
    "cart"             o───o───o───o
    7                  o───────o───|
    ("arm", 0)             o───o───o
    """
    arm = ("arm", 0)
    episode = MultiAgentEpisode("mixed")
    episode.add_env_reset(observations={"cart": 0, 7: 0})
    episode.add_env_step({"cart": 1, arm: 1}, {"cart": 0, 7: 0}, {"cart": 1.0, 7: 1.0})
    episode.add_env_step({"cart": 2, 7: 2, arm: 2}, {"cart": 1, arm: 1}, {"cart": 1.0, 7: 1.0, arm: 1.0})
    ends = {7: True}
    episode.add_env_step(
        {"cart": 3, 7: 3, arm: 3}, {"cart": 2, 7: 2, arm: 2}, {"cart": 1, 7: 1, arm: 1}, terminateds=ends
    )

    assert columns(episode, 7) == ([0, 2, 3], [0, 2], [2.0, 1.0])
    assert episode.get_observations(1) == {"cart": 1, arm: 1}
    assert episode.get_observations(1, agent_ids=arm) == {arm: 1}
    assert episode.get_observations(2, agent_ids=[7, arm]) == {7: 2, arm: 2}
    assert episode.get_terminateds() == {"cart": False, 7: True, arm: False, "__all__": False}
    assert MultiAgentEpisode.from_state(episode.get_state()).agent_ids == {"cart", 7, arm}
    assert episode.finalize()[1:].cut(1).agent_ids == {"cart", arm}
