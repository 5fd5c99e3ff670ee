"""Interrupts at a chosen line or byte code of the library, and environments that keep a record of their own."""

import signal
import sys
from collections import defaultdict
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import episodia
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv

_LIBRARY = str(Path(episodia.__file__).parent)


def interrupted_at(number, call, *, opcodes=False, only="", by_signal=False):
    """Call `call` with a KeyboardInterrupt at the line (or byte code) of the library with this number.

    With `by_signal`, a real SIGINT comes there, which the library may defer.

    Return what it returns, and where the interrupt was; None if there are fewer lines.
    """
    left, event_name, place = number, "opcode" if opcodes else "line", None

    def local(frame, event, _):
        nonlocal left, place
        if event == event_name and frame.f_code.co_name != "_given":  # the moment at which episodes are returned
            left -= 1
            if left < 0 and place is None:
                place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                if not by_signal:
                    raise KeyboardInterrupt
                signal.raise_signal(signal.SIGINT)
        return local if place is None else None

    def trace(frame, *_):
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARY) or only not in name:
            return None
        frame.f_trace_opcodes = opcodes
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), place
    except KeyboardInterrupt:
        return None, place
    finally:
        sys.settrace(before)


def moments_of(call):
    """Call `call`, and return the numbers of the moments at which each line of the library runs first and last."""
    first, last, number = {}, {}, 0

    def local(frame, event, _):
        nonlocal number
        if event == "line" and frame.f_code.co_name != "_given":
            place = frame.f_code.co_filename, frame.f_lineno
            first.setdefault(place, number)
            last[place] = number
            number += 1
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: local if frame.f_code.co_filename.startswith(_LIBRARY) else None)
    try:
        call()
    finally:
        sys.settrace(before)
    return sorted({*first.values(), *last.values()})


def length_of(uid):
    """Return how many steps the episode `uid` has."""
    return 1 + uid * 7919 % 5


class Book:
    """What environments have done: by the uid of an episode, how many steps it has taken."""

    def __init__(self):
        self.steps = defaultdict(int)

    @property
    def ended(self):
        return {uid for uid, steps in self.steps.items() if steps == length_of(uid)}


class Certified(gym.Env):
    """Shows the uid of its episode and the time step; both determine reward and end."""

    observation_space = spaces.Box(0, 2**40, (2,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, book=None):
        self.book = Book() if book is None else book
        self._first = self._uid = self._t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._uid = self._uid + 1 if seed is None else seed % 2**20 * 1000
        self._t = 0
        self.book.steps[self._uid] = 0
        return self._seen(), {}

    def _seen(self):
        return np.array([self._uid, self._t], np.int64)

    def step(self, action):
        self._t += 1
        self.book.steps[self._uid] = self._t
        return self._seen(), reward_of(self._uid, self._t), self._t == length_of(self._uid), False, {"t": self._t}


def reward_of(uid, t):
    return float(uid % 1000 * 10 + t)


class CertifiedAgents(MultiAgentEnv):
    """The same for agents of whom some, by `turns`, observe at each step only, or one after another."""

    possible_agents = ["a", "b"]  # noqa: RUF012  # as in the base

    def __init__(self, book=None, *, turns=False):
        self._one = Certified(book)
        self._turns = turns

    def get_observation_space(self, agent_id):
        return Certified.observation_space

    def get_action_space(self, agent_id):
        return Certified.action_space

    def _who(self):
        return ["ab"[self._one._t % 2]] if self._turns and self._one._t != length_of(self._one._uid) else ["a", "b"]

    def reset(self, *, seed=None, options=None):
        seen, _ = self._one.reset(seed=seed)
        return dict.fromkeys(self._who(), seen), {}

    def step(self, actions):
        seen, reward, ended, _, _ = self._one.step(None)
        who = self._who()
        return dict.fromkeys(who, seen), dict.fromkeys(actions, reward), {"__all__": ended}, {"__all__": False}, {}


def assert_right(chunks, before=None):
    """Check each chunk by what its observations certify, and return how many steps there are of each episode, by uid.

    `before` are the steps of earlier chunks, if there were any.
    """
    steps, done = defaultdict(int) if before is None else before, set()
    ids = {}
    for chunk in chunks:
        seen = chunk.get_observations()
        uid, start = int(seen[0][0]), int(seen[0][1])
        times = list(range(start, start + len(chunk) + 1))

        assert [tuple(map(int, row)) for row in seen] == [(uid, t) for t in times]
        assert start == chunk.t_started == steps[uid]
        assert ids.setdefault(chunk.id_, uid) == uid
        assert list(map(float, chunk.get_rewards())) == [reward_of(uid, t) for t in times[1:]]
        assert [info.get("t", 0) for info in chunk.get_infos()] == times
        assert chunk.is_terminated == (times[-1] == length_of(uid))
        assert not chunk.is_truncated
        assert len(chunk)
        steps[uid] += len(chunk)
        if chunk.is_done:
            done.add(uid)
    return steps, done


def assert_agents_right(chunks):
    """Do the same for multi-agent chunks, as far as observations of agents certify something."""
    steps, done = defaultdict(int), set()
    for chunk in chunks:
        uids = set()
        for episode in chunk.agent_episodes.values():
            seen = [tuple(map(int, row)) for row in episode.get_observations()]
            uids |= {uid for uid, _ in seen}

            assert [t for _, t in seen] == sorted({t for _, t in seen})
            assert len(episode.get_rewards()) == len(seen) - 1
        assert len(uids) == 1
        (uid,) = uids
        assert chunk.env_t_started == steps[uid]
        assert chunk.is_terminated == (chunk.env_t == length_of(uid))
        assert not chunk.is_truncated
        assert len(chunk)
        rewards = sum(reward_of(uid, t) for t in range(chunk.env_t_started + 1, chunk.env_t + 1))
        total = sum(map(float, (sum(each.get_rewards()) for each in chunk.agent_episodes.values() if len(each))))
        assert total <= 2 * rewards
        steps[uid] += len(chunk)
        if chunk.is_done:
            done.add(uid)
    return steps, done


def assert_nothing_lost(book, ended, steps, done, metrics):
    """Check that each episode that has ended was returned as a whole, apart from those that were left or are counted."""
    missing = [uid for uid in ended if uid not in done]
    short = [uid for uid in missing if book.steps[uid] - steps[uid] > 1]
    assert len(short) <= metrics.num_episodes_dropped, (short, metrics.num_episodes_dropped)
    # The others lack the step that was under way when the interrupt came.
    assert len(missing) - len(short) <= NUM_LANES, missing


NUM_LANES = 3
