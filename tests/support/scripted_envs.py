"""Environments that say in every observation where and when it was, and a check that every step is there exactly once."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# Where they stand after the observation, and what they are.
_BAD_PARTS: dict[str, tuple[int, Any]] = {
    "nan reward": (0, float("nan")),
    "text reward": (0, "much"),
    "huge reward": (0, 10**400),
    "text flag": (1, "no"),
    "two flags": (1, np.array([True, False])),
    "list info": (3, [1]),
}

LOW, HIGH = -1.0, 2.0**31


def lengths_of(seed: int, longest: int) -> np.ndarray:
    """Return how long the episodes are that an environment with this seed plays."""
    return np.random.default_rng(seed).integers(1, longest + 1, 500)


class ScriptedEnv(gym.Env[Any, Any]):
    """Observes `[seed, number of the episode, step, last action]`; the reward is `1000 * episode + step`.

    Episodes with an even number terminate, those with an odd one are truncated.
    """

    def __init__(
        self, longest: int = 5, *, reuses_buffer: bool = False, kind: str = "box", infos: bool = False
    ) -> None:
        self._longest = longest
        self._reuses_buffer = reuses_buffer
        self._kind = kind
        self._infos = infos
        self._buffer = np.zeros(4)
        self._info_buffer = np.zeros(1, np.int64)
        self._seed, self._episode, self._step, self._action = 0, -1, 0, -1
        box = spaces.Box(LOW, HIGH, (4,), np.float64)
        nested = {
            "dict": spaces.Dict(place=box, odd=spaces.Discrete(2)),
            "tuple": spaces.Tuple([box, spaces.Discrete(2)]),
        }
        self.observation_space: spaces.Space[Any] = nested.get(kind, box)
        self.action_space = spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._seed = seed
            self._lengths = lengths_of(seed, self._longest)
        self._episode, self._step, self._action = self._episode + 1, 0, -1
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step, self._action = self._step + 1, int(action)
        is_over = self._step >= self._lengths[self._episode]
        is_odd = self._episode % 2 == 1
        reward = 1000.0 * self._episode + self._step
        return self._observation(), reward, bool(is_over and not is_odd), bool(is_over and is_odd), self._info()

    def _observation(self) -> Any:
        numbers = (self._seed, self._episode, self._step, self._action)
        if self._reuses_buffer:
            self._buffer[:] = numbers
        place = self._buffer if self._reuses_buffer else np.array(numbers, np.float64)
        if self._kind == "dict":
            return {"place": place, "odd": self._step % 2}
        return (place, self._step % 2) if self._kind == "tuple" else place

    def _info(self) -> dict[str, Any]:
        if not self._infos:
            return {}
        if self._reuses_buffer:
            self._info_buffer[:] = self._step
        steps = self._info_buffer if self._reuses_buffer else np.array([self._step])
        return {"step": self._step, "half": self._step / 2 if self._step % 2 else self._step, "steps": steps}


class FaultyEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Misbehaves in a given step of a given episode; counted over all environments that one function has made."""

    def __init__(self, env: gym.Env[Any, Any], at: Any, what: str = "raise") -> None:
        super().__init__(env)
        self._at, self._what = at, what

    def step(self, action: Any) -> Any:
        inner: Any = self.env
        observation, *rest = inner.step(action)
        if self._at(inner._seed, inner._episode, inner._step):
            if self._what == "raise":
                raise RuntimeError("the scripted fault")
            if self._what == "hang":
                time.sleep(3600)
            observation = self._spoiled(observation)
            if self._what == "four parts":
                return observation, *rest[:3]
            if self._what in _BAD_PARTS:
                place, part = _BAD_PARTS[self._what]
                rest[place] = part
        return observation, *rest

    def _spoiled(self, observation: Any) -> Any:
        if self._what == "shape":
            return observation[:3]
        if self._what == "dtype":
            return observation.astype(np.complex128)
        if self._what == "nan":
            return observation * np.nan
        return observation


def places(episode: Any) -> np.ndarray:
    """Return the observations of an episode as rows of four numbers."""
    observations = episode.get_observations()
    if isinstance(observations, dict):
        return np.asarray(observations["place"])
    return np.asarray(observations[0] if isinstance(observations, tuple) else observations)


def assert_every_step_once(chunks: Any, *, longest: int, gaps: bool = False) -> dict[tuple[int, int], int]:
    """Check that chunks are made of real steps, in order, and that no step between them is missing.

    Args:
        chunks: Episodes and chunks, as they were returned.
        longest: As of the environments.
        gaps: Whether whole episodes, or the ends of episodes, may be missing.

    Returns:
        For each environment and episode how many steps there are.
    """
    steps: dict[tuple[int, int], int] = defaultdict(int)
    for chunk in chunks:
        rows = places(chunk)
        seed, number = int(rows[0, 0]), int(rows[0, 1])
        length = lengths_of(seed, longest)[number]
        start, stop = steps[seed, number], steps[seed, number] + len(chunk)
        assert (rows[:, 0] == seed).all()
        assert (rows[:, 1] == number).all()
        assert rows[:, 2].tolist() == list(range(start, stop + 1))
        assert chunk.t_started == start
        assert (start == 0) == (rows[0, 3] == -1)
        np.testing.assert_array_equal(chunk.get_actions(), rows[1:, 3])
        np.testing.assert_array_equal(chunk.get_rewards(), 1000.0 * number + rows[1:, 2])
        assert chunk.is_terminated == (stop == length and number % 2 == 0)
        assert chunk.is_truncated == (stop == length and number % 2 == 1)
        steps[seed, number] = stop
    if not gaps:
        _assert_no_gaps(steps, longest)
    return dict(steps)


def _assert_no_gaps(steps: dict[tuple[int, int], int], longest: int) -> None:
    for seed in {seed for seed, _ in steps}:
        numbers = sorted(number for other, number in steps if other == seed)
        assert numbers == list(range(len(numbers)))
        whole = [steps[seed, number] == lengths_of(seed, longest)[number] for number in numbers]
        assert all(whole[:-1])
