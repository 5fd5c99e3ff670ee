"""A joint step has the steps of all agents at one environment step, as a log of the environment says."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import defaults
from episodia.errors import ReplayError
from episodia.replay import JointSteps, Proportional, ReplayBuffer

AGENTS = ("red", "blue", "green")
MODULES = {"red": "shared", "blue": "shared", "green": "own"}


def number(game, agent, t):
    """The observation of an agent, and its action on it; each number tells where it came from."""
    return 100_000 * game + 1_000 * AGENTS.index(agent) + t


def moment(seen):
    """Game, agent and environment step of a number."""
    game, rest = divmod(int(seen), 100_000)
    return game, AGENTS[rest // 1_000], rest % 1_000


def in_order(flags):
    return [agent for agent, is_in in zip(AGENTS, flags, strict=True) if is_in]


@dataclass
class Game:
    """A game that is played by a script; `shown_at` is the log: at which environment steps agents see something."""

    index: int
    first: list
    shown_at: dict = field(default_factory=dict)
    ended: set = field(default_factory=set)
    t: int = 0

    def __post_init__(self):
        self.episode = MultiAgentEpisode(
            id_=f"game {self.index}", agent_to_module_mapping_fn=lambda agent, _: MODULES[agent]
        )
        self.shown = self.first
        self.episode.add_env_reset(observations=self.seen())

    def seen(self):
        for agent in self.shown:
            self.shown_at.setdefault(agent, []).append(self.t)
        return {agent: number(self.index, agent, self.t) for agent in self.shown}

    def step(self, shown, ending):
        """All that were shown something act; then others are, and some end."""
        actions = {agent: number(self.index, agent, self.t) for agent in self.shown}
        self.t += 1
        self.shown = [agent for agent in shown if agent not in self.ended]
        seen = self.seen()
        ending = [agent for agent in ending if agent in self.shown]
        self.episode.add_env_step(
            observations=seen,
            actions=actions,
            rewards=dict.fromkeys(actions, 1.0),
            terminateds=dict.fromkeys(ending, True),
        )
        self.ended.update(ending)
        self.shown = [agent for agent in self.shown if agent not in ending]

    def take(self):
        """Return what was played since the last call, as a chunk."""
        chunk = self.episode
        self.episode = chunk if chunk.is_done else chunk.cut()
        return chunk

    def next_observation(self, agent, t):
        times = self.shown_at[agent]
        return number(self.index, agent, times[times.index(t) + 1])


FLAGS = st.tuples(*[st.booleans()] * 3)
RARELY = st.tuples(*[st.sampled_from([False] * 6 + [True])] * 3)
# Which game, who is shown something, who ends then, whether a chunk is added.
TURNS = st.lists(st.tuples(st.integers(0, 2), FLAGS, RARELY, st.booleans()), min_size=1, max_size=60)


def played(buffer, turns):
    """Play games side by side, and add their chunks; a game that is over makes room for the next one."""
    games, lanes = [], {}
    for lane, shown, ending, is_cut in turns:
        game = lanes.get(lane)
        if game is None or game.episode.is_done:
            game = lanes[lane] = Game(len(games), in_order(shown) or ["red"])
            games.append(game)
            continue
        game.step(in_order(shown), in_order(ending))
        if is_cut or game.episode.is_done:
            buffer.add([game.take()])
    return games


def stored_steps(buffer):
    """Which agents have a step in the buffer, by game and environment step."""
    found = {}
    for part in buffer.episodes().groups().values():
        for action in part.flat("actions").values.tolist():
            game, agent, t = moment(action)
            found.setdefault((game, t), set()).add(agent)
    return found


def joint_rows(sampled):
    """For each environment step of a sample, what its present rows tell: agent, action, next observation."""
    found = {}
    for part in sampled.groups().values():
        actions, is_present = part.flat("actions").values, part.flat("loss_mask").values
        track = part.flat("obs", tail=True)
        after = track.values[track.step_rows() + 1]
        assert part.flat("obs").values.tolist() == actions.tolist()
        assert (part.keys >= 0).tolist() == is_present.tolist()
        for row in np.flatnonzero(is_present).tolist():
            agent = part.agents[row % len(part.agents)]
            found.setdefault(row // len(part.agents), []).append((agent, int(actions[row]), int(after[row])))
    return found


ALL, NO = (True, True, True), (False, False, False)


@settings(max_examples=40)
@given(turns=TURNS, capacity=st.sampled_from([16, 40, 400]), evict=st.sampled_from(["steps", "episodes", "reservoir"]))
@example([(0, ALL, NO, False)] * 30 + [(0, ALL, NO, True)] * 20, 16, "steps")
def test_joint_steps_have_all_agents_of_an_environment_step(turns, capacity, evict):
    buffer = ReplayBuffer(capacity, evict=evict, seed=0)
    try:
        games = played(buffer, turns)
    except ReplayError:  # a chunk that is too long for a small buffer
        return
    stored = stored_steps(buffer)
    if not stored:
        return

    rows = joint_rows(buffer.sample(20, JointSteps()))

    assert sorted(rows) == list(range(20))
    for found in rows.values():
        (game, t), *others = {(moment(action)[0], moment(action)[2]) for _, action, _ in found}
        assert not others
        assert {agent for agent, _, _ in found} == stored[game, t]
        assert all(action == number(game, agent, t) for agent, action, _ in found)
        assert all(after == games[game].next_observation(agent, t) for agent, _, after in found)


def three_agents(selector=None):
    buffer = ReplayBuffer(400, selector=selector, seed=0)
    game = Game(0, list(AGENTS))
    for _ in range(10):
        game.step(AGENTS, [])
    buffer.add([game.take()])
    return buffer


def test_environment_steps_with_all_agents_are_drawn_uniformly():
    sampled = three_agents().sample(4000, JointSteps())

    drawn = np.bincount(sampled.groups()["own"].flat("t").values, minlength=10)
    assert ((drawn - 400) ** 2 / 400).sum() < 27.9  # chi-square with 9 degrees of freedom, p = 0.001


def test_rows_of_one_module_are_aligned_with_those_of_others():
    batch = defaults.learner()(rl_module=None, episodes=three_agents().sample(8, JointSteps()))

    pairs, own = batch["shared"]["obs"].reshape(8, 2), batch["own"]["obs"].reshape(8, 1)
    assert (pairs[:, 1] - pairs[:, 0] == 1_000).all()
    assert (own[:, 0] - pairs[:, 0] == 2_000).all()


def test_keys_of_absent_agents_are_left_out_of_updates():
    buffer = ReplayBuffer(100, selector=Proportional(), seed=0)
    game = Game(0, ["red"])
    for turn in range(8):
        game.step(["blue"] if turn % 2 == 0 else ["red"], [])
    buffer.add([game.take()])
    sampled = buffer.sample(8, JointSteps())

    assert sampled.agents == ["red", "blue"]
    assert (sampled.keys < 0).sum() == 8
    assert buffer.update_priorities(sampled.keys, np.ones(16)) == 0
    assert sampled.load().keys.tolist() == sampled.keys.tolist()


def test_joint_steps_of_a_restored_buffer_are_the_same():
    first, second = three_agents(), ReplayBuffer(400, seed=3)
    second.set_state(first.get_state())

    assert joint_rows(first.sample(9, JointSteps())) == joint_rows(second.sample(9, JointSteps()))


def test_joint_steps_of_single_agent_episodes_are_their_steps():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([SingleAgentEpisode(observations=[0, 1, 2], actions=[0, 1], rewards=[0.0, 0.0], len_lookback_buffer=0)])

    sampled = buffer.sample(5, JointSteps(), lookback=1)

    assert sampled.flat("loss_mask").values.all()
    assert sampled.flat("obs").values.tolist() == sampled.flat("actions").values.tolist()


def test_agents_that_were_added_alone_have_no_joint_steps():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add(list(three_agents().episodes().groups()["own"]))

    with pytest.raises(ReplayError, match="without their environment steps"):
        buffer.sample(2, JointSteps())
