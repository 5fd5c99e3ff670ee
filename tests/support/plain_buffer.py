"""The oracle: a replay buffer as plain Python lists. It shares no code with the library.

Episodes are walks: the observation of time step t of walk e is `100_000 * e + t`, the action is the same number, the reward
is a small number that depends on both. So each number that is sampled tells where it came from.
"""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from episodia import SingleAgentEpisode

FAR = 100_000


def place(walk, t):
    return FAR * walk + t


def reward(walk, t):
    return float((7 * walk + 3 * t) % 11)


@dataclass
class Walk:
    number: int
    length: int = 0  # steps that were added
    end: str = ""  # "terminated", "truncated" or ""


@dataclass
class PlainBuffer:
    walks: dict = field(default_factory=dict)

    def chunk(self, number, length, end="", **settings):
        """Add the next `length` steps of a walk, and return them as an episode."""
        walk = self.walks.setdefault(number, Walk(number))
        t = walk.length
        walk.length, walk.end = t + length, end
        return SingleAgentEpisode(
            id_=f"walk {number}",
            observations=np.array([place(number, t + i) for i in range(length + 1)], np.int64),
            actions=np.array([place(number, t + i) for i in range(length)], np.int64),
            rewards=np.array([reward(number, t + i) for i in range(length)], np.float64),
            terminated=end == "terminated",
            truncated=end == "truncated",
            t_started=t,
            len_lookback_buffer=0,
            **settings,
        )

    def steps(self):
        """All steps that were added, as pairs of walk and time."""
        return {(number, t) for number, walk in self.walks.items() for t in range(walk.length)}

    def is_end(self, number, t, end):
        walk = self.walks[number]
        return walk.end == end and t == walk.length - 1

    def n_step(self, number, t, n, gamma):
        """The macro step of n steps: next observation, sum of rewards, discount, terminated, truncated."""
        count = min(n, self.walks[number].length - t)
        total = sum(gamma**i * reward(number, t + i) for i in range(count))
        terminated = self.is_end(number, t + count - 1, "terminated")
        truncated = self.is_end(number, t + count - 1, "truncated")
        return place(number, t + count), total, 0.0 if terminated else gamma**count, terminated, truncated


def located(numbers):
    """Walk and time of each number."""
    return [divmod(int(number), FAR) for number in np.asarray(numbers).reshape(-1)]


def columns(episodes, *names):
    """Columns of a list of episodes as plain lists of steps."""
    return [episodes.flat(name).values.tolist() for name in names]


def next_observations(episodes):
    """The observation after each step, as a plain list."""
    track = episodes.flat("obs", tail=True)
    return track.values[track.step_rows() + 1].tolist()


ENDS = st.sampled_from(["", "", "", "terminated", "truncated"])
# Lists of chunks that are added together: which of the open walks, how many steps, how it ends.
CHUNKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), ENDS), min_size=1, max_size=5)
HISTORIES = st.lists(CHUNKS, min_size=1, max_size=40)


def played(buffer, history):
    """Add a history of chunks; return the oracle."""
    plain, open_walks, begun = PlainBuffer(), {}, 0
    for chunks in history:
        episodes = []
        for lane, length, end in chunks:
            if lane not in open_walks:
                open_walks[lane], begun = begun, begun + 1
            number = open_walks[lane]
            episodes.append(plain.chunk(number, length, end))
            if end:
                del open_walks[lane]
        buffer.add(episodes)
    return plain


def check_steps(episodes, plain):
    """Each step of `episodes` is as it was added; return walk and time of all steps."""
    actions, rewards, terminated, truncated = columns(episodes, "actions", "rewards", "terminateds", "truncateds")
    steps = located(actions)
    assert episodes.flat("obs").values.tolist() == actions
    assert [reward(*step) for step in steps] == rewards
    assert [place(number, t + 1) for number, t in steps] == next_observations(episodes)
    assert [plain.is_end(*step, "terminated") for step in steps] == terminated
    assert [plain.is_end(*step, "truncated") for step in steps] == truncated
    return steps
