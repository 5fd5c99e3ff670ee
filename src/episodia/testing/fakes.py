"""Fake environments, a fake module and a fake connector, which record and verify how they are used.

Each observation of a fake environment tells environment, agent, episode and step, and the `log` has all that happened, so
that tests can compare recorded episodes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.connectors.module_to_env.tensor_to_numpy import as_array
from episodia.env_runners import MultiAgentEnv
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.modules import Rule
from episodia.trees import describe
from episodia.types import Item

#: `[number of the environment, number of the agent, number of the episode, step, last action of the agent]`.
FAKE_OBSERVATIONS = spaces.Box(-1.0, 2.0**20, (5,), np.float32)
FAKE_ACTIONS = spaces.Discrete(5)

# The step of the last observation of the guest of `FakeMultiAgentEnv`.
_GUEST_LEAVES = 3

AnyFake = TypeVar("AnyFake", bound="FakeEnv | FakeMultiAgentEnv")


def fake_action(observation: Item) -> int:
    """Return the action of `FakeModule` for an observation of a fake environment.

    >>> fake_action([0, 1, 0, 2, -1])
    0
    """
    number, agent, episode, step = (int(part) for part in observation[:4])
    return (number + 3 * agent + 2 * episode + step) % int(FAKE_ACTIONS.n)


@dataclass
class _Usage:
    """The calls of one environment, and the problems with them."""

    number: int
    problems: list[str]
    raises: bool = True
    seed: int | None = None
    since_seed: int = 0
    was_reset: bool = False
    is_over: bool = True
    is_closed: bool = False

    def on_reset(self, seed: int | None) -> None:
        """Record a reset; the first one must have a seed."""
        if self.is_closed:
            self._reject("a reset after `close`")
        if seed is not None:
            self.seed, self.since_seed = int(seed), 0
        elif not self.was_reset:
            self._reject("the first reset without a seed")
        self.was_reset, self.is_over = True, False
        self.since_seed += 1

    def on_step(self, action: Any, space: spaces.Discrete) -> int:
        """Record an action, and return it as an integer."""
        if self.is_closed:
            self._reject("a step after `close`")
        if self.is_over:
            self._reject("a step before a reset" if not self.was_reset else "a step after the end of an episode")
        if not space.contains(action):
            self._reject(f"the action {action!r}, which is not in {space}")
        return int(action)

    def on_actions(self, actions: dict[Any, Any], expected: list[Any]) -> None:
        """Record the agents that act."""
        if sorted(actions) != sorted(expected):
            self._reject(f"a step with actions of {sorted(actions)}, where {sorted(expected)} have to act")

    def _reject(self, what: str) -> None:
        text = f"environment {self.number}: found {what}, expected none."
        self.problems.append(text)
        if self.raises:
            raise AssertionError(text)

    def length(self, longest: int) -> int:
        """Return the length of the new episode, which depends on the seed and the number of resets since then."""
        return int(np.random.default_rng([self.seed or 0, self.since_seed]).integers(1, longest + 1))


class FakeEnv(gym.Env[np.ndarray, Any]):
    """An environment with observations `[number, 0, episode, step, last action]` and rewards `1000 * episode + step`.

    Episodes with an even number terminate, those with an odd number are truncated; their lengths depend on the seed. All
    observations are the same array, which each step overwrites, so callers must copy it.

    It verifies that the first call is a reset with a seed, that it is not stepped after the end of an episode or after
    `close`, and that actions are in its space. Problems are recorded in `problems`, and raised.

    Args:
        number: The number of the environment in its observations.
        longest: The largest number of steps of an episode.
        problems: The list of problems, if several environments share one.
        raises: Whether to raise problems, too.

    >>> env = FakeEnv(3)
    >>> env.reset(seed=0)[0].tolist(), env.step(4)[0].tolist()
    ([3.0, 0.0, 0.0, 0.0, -1.0], [3.0, 0.0, 0.0, 1.0, 4.0])
    >>> FakeEnv().step(0)
    Traceback (most recent call last):
    ...
    AssertionError: environment 0: found a step before a reset, expected none.
    """

    def __init__(
        self, number: int = 0, *, longest: int = 5, problems: list[str] | None = None, raises: bool = True
    ) -> None:
        self.observation_space, self.action_space = FAKE_OBSERVATIONS, FAKE_ACTIONS
        self.usage = _Usage(number, [] if problems is None else problems, raises)
        self.longest = longest
        #: For each episode a list: `(observation, action, reward, terminated, truncated)` of each step, the reset first.
        self.log: list[list[tuple[list[float], int, float, bool, bool]]] = []
        self._buffer = np.zeros(5, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin the next episode."""
        self.usage.on_reset(seed)
        self._length = self.usage.length(self.longest)
        self.log.append([])
        return self._noted(0, -1, 0.0, False, False)[0], {}

    def step(self, action: Item) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take one step."""
        chosen = self.usage.on_step(action, FAKE_ACTIONS)
        episode, step = len(self.log) - 1, len(self.log[-1])
        self.usage.is_over = is_over = step >= self._length
        is_odd = episode % 2 == 1
        noted = self._noted(step, chosen, 1000.0 * episode + step, is_over and not is_odd, is_over and is_odd)
        return *noted, {}

    def _noted(self, step: int, action: int, *rest: Any) -> tuple[np.ndarray, float, bool, bool]:
        self._buffer[:] = (self.usage.number, 0, len(self.log) - 1, step, action)
        self.log[-1].append((self._buffer.tolist(), action, *rest))
        return self._buffer, *rest

    def close(self) -> None:
        """Record that it is closed."""
        self.usage.is_closed = True


class FakeMultiAgentEnv(MultiAgentEnv):
    """An environment in which one agent always acts, one every second step, and one joins late and leaves early.

    Observations are `[number, agent, episode, step, last action]`. It verifies the same as `FakeEnv`, and that exactly those
    agents act that have an observation.

    Args:
        number: The number of the environment in its observations.
        longest: The largest number of steps of an episode.
        problems: The list of problems, if several environments share one.
        raises: Whether to raise problems, too.

    >>> env = FakeMultiAgentEnv(longest=9)
    >>> sorted(env.reset(seed=1)[0]), sorted(env.step({"always": 0, "sometimes": 1})[0])
    (['always', 'sometimes'], ['always', 'guest'])
    """

    def __init__(
        self, number: int = 0, *, longest: int = 5, problems: list[str] | None = None, raises: bool = True
    ) -> None:
        self.possible_agents = self.agents = ["always", "sometimes", "guest"]
        self.observation_spaces = dict.fromkeys(self.possible_agents, FAKE_OBSERVATIONS)
        self.action_spaces = dict.fromkeys(self.possible_agents, FAKE_ACTIONS)
        self.usage = _Usage(number, [] if problems is None else problems, raises)
        self.longest = longest
        #: The observations and rewards of each episode and agent.
        self.log: list[dict[Any, tuple[list[list[float]], list[float]]]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin the next episode."""
        self.usage.on_reset(seed)
        self._length = self.usage.length(self.longest)
        self.log.append({agent: ([], []) for agent in self.possible_agents})
        self._step = 0
        self._last_actions: dict[Any, int] = {}
        self._acting: list[Any] = ["always", "sometimes"]
        return self._shown(self._acting), {}

    def step(self, actions: dict[Any, Any]) -> Any:
        """Take one step."""
        self.usage.on_actions(actions, self._acting)
        self._last_actions |= {agent: self.usage.on_step(action, FAKE_ACTIONS) for agent, action in actions.items()}
        self._step += 1
        self.usage.is_over = is_over = self._step >= self._length
        rewards = {agent: 1000.0 * (len(self.log) - 1) + self._step for agent in actions}
        for agent, reward in rewards.items():
            self.log[-1][agent][1].append(reward)
        seen = [agent for agent in self.possible_agents if self._is_present(agent) or (is_over and self._waits(agent))]
        leaving = self._step == _GUEST_LEAVES
        self._acting = [agent for agent in seen if not (leaving and agent == "guest")]
        flags = {"__all__": is_over, **({"guest": True} if leaving else {})}
        is_odd = len(self.log) % 2 == 0
        return self._shown(seen), rewards, {} if is_odd else flags, flags if is_odd else {}, {}

    def _is_present(self, agent: Any) -> bool:
        return {"always": True, "sometimes": self._step % 2 == 0, "guest": 1 <= self._step <= _GUEST_LEAVES}[agent]

    def _waits(self, agent: Any) -> bool:
        return bool(self.log[-1][agent][0]) and not (agent == "guest" and self._step > _GUEST_LEAVES)

    def _shown(self, agents: Sequence[Any]) -> dict[Any, Any]:
        observations = {}
        for agent in agents:
            place = (self.usage.number, self.possible_agents.index(agent), len(self.log) - 1, self._step)
            observations[agent] = np.array([*place, self._last_actions.get(agent, -1)], np.float32)
            self.log[-1][agent][0].append(observations[agent].tolist())
        return observations

    def close(self) -> None:
        """Record that it is closed."""
        self.usage.is_closed = True


@final
@dataclass
class FakeEnvs(Generic[AnyFake]):
    """A function that makes fake environments, and keeps them.

    Attributes:
        kind: `FakeEnv` or `FakeMultiAgentEnv`.
        longest: The largest number of steps of an episode.
        raises: Whether they raise problems, or only record them.
        made: The environments, in the order of their `number`.
        problems: The problems with the use of the environments.

    >>> make = FakeEnvs(FakeEnv)
    >>> make().usage.number, make().usage.number, len(make.made)
    (0, 1, 2)
    """

    kind: Callable[..., AnyFake]
    longest: int = 5
    raises: bool = True
    made: list[AnyFake] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __call__(self) -> AnyFake:
        """Return one more environment."""
        self.made.append(self.kind(len(self.made), longest=self.longest, problems=self.problems, raises=self.raises))
        return self.made[-1]


#: An extra output of `FakeModule`, which tells the observation of each row.
TAG = "tag"


def fake_tag(observation: Item) -> np.ndarray:
    """Return the output `tag` of `FakeModule` for an observation."""
    return np.asarray(observation, np.float32)[:4] + np.float32(0.5)


class FakeModule(Rule):
    """A module for fake environments: its actions and its extra output `tag` depend on the observation; see `fake_action`.

    It verifies that each batch has observations of fake environments, and each environment (and agent) only once. Its
    attribute `calls` has the name and the rows of each forward pass.

    Args:
        fails_at: The number of the call, from 0 on, in which it raises a RuntimeError; None for never.

    >>> module = FakeModule()
    >>> module.forward_exploration({"obs": np.array([[0, 0, 1, 2, -1], [1, 0, 0, 0, -1]], np.float32)})["actions"]
    array([4, 1])
    >>> module.calls
    [('forward_exploration', [(0, 0, 1, 2), (1, 0, 0, 0)])]
    >>> module.forward_inference({"obs": np.zeros((2, 5), np.float32)})
    Traceback (most recent call last):
    ...
    AssertionError: FakeModule: found rows of the same environment and agent, [(0, 0), (0, 0)], expected one of each.
    """

    def __init__(self, *, fails_at: int | None = None) -> None:
        super().__init__(FAKE_OBSERVATIONS, FAKE_ACTIONS)
        self.fails_at = fails_at
        self.calls: list[tuple[str, list[tuple[int, ...]]]] = []

    def act(self, batch: dict[str, Any]) -> Any:
        """Return an action for each row."""
        return np.array([fake_action(row) for row in self._checked(batch)], np.int64)

    def forward_inference(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_inference", batch)

    def forward_exploration(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_exploration", batch)

    def forward_train(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return actions and tags."""
        return self._answer("forward_train", batch)

    def _answer(self, which: str, batch: dict[str, Any]) -> dict[str, Any]:
        if self.fails_at == len(self.calls):
            self.fails_at = None
            raise RuntimeError("the failure that FakeModule was asked for")
        rows = self._checked(batch, alone=which != "forward_train")
        self.calls.append((which, [tuple(int(part) for part in row[:4]) for row in rows]))
        tags = np.stack([fake_tag(row) for row in rows]) if len(rows) else np.zeros((0, 4), np.float32)
        return {Columns.ACTIONS: np.array([fake_action(row) for row in rows], np.int64), TAG: tags}

    def _checked(self, batch: dict[str, Any], alone: bool = True) -> np.ndarray:
        if Columns.OBS not in batch:
            raise AssertionError(f"FakeModule: found the columns {list(batch)}, expected `obs` among them.")
        rows = np.asarray(as_array(batch[Columns.OBS]))
        if rows.ndim != 2 or rows.shape[1:] != FAKE_OBSERVATIONS.shape or (rows % 1).any() or (rows[:, :4] < 0).any():
            raise AssertionError(
                f"FakeModule: found {describe(rows)} as observations, expected rows of integers from fake environments, "
                f"float32[B, 5]: {rows.tolist()[:3]}"
            )
        owners = [(int(row[0]), int(row[1])) for row in rows]
        if alone and len(set(owners)) < len(owners):
            raise AssertionError(
                f"FakeModule: found rows of the same environment and agent, {owners}, expected one of each."
            )
        return rows


class FakeConnector(ConnectorV2):
    """Returns the batch unchanged, records each call, and verifies that its arguments are those of a pipeline.

    Attributes:
        calls: For each call a dict: the `columns` of the batch, the `lengths` of the episodes, `explore`, and the `names` of
            further arguments.

    >>> from episodia.connectors import defaults
    >>> from episodia.testing import sample_episodes
    >>> spy = FakeConnector()
    >>> batch = defaults.learner(custom=[spy])(rl_module=None, episodes=sample_episodes())
    >>> spy.calls[0]["lengths"], spy.calls[0]["columns"]
    ([3, 1, 5, 2], [])
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: Any,
        explore: bool | None = None,
        shared_data: dict[Any, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the batch unchanged."""
        if not isinstance(batch, dict):
            raise AssertionError(f"FakeConnector: found {type(batch).__name__} as `batch`, expected a dict.")
        if not isinstance(episodes, Sequence):
            raise AssertionError(f"FakeConnector: found {type(episodes).__name__} as `episodes`, expected a sequence.")
        odd = [one for one in episodes if not isinstance(one, (SingleAgentEpisode, MultiAgentEpisode))]
        if odd:
            raise AssertionError(f"FakeConnector: found {odd[0]!r} among `episodes`, expected episodes only.")
        if shared_data is not None and not isinstance(shared_data, dict):
            raise AssertionError(f"FakeConnector: found {shared_data!r} as `shared_data`, expected a dict or None.")
        self.calls.append(
            {
                "columns": list(batch),
                "lengths": [len(episode) for episode in episodes],
                "explore": explore,
                "names": sorted(kwargs),
            }
        )
        return batch
