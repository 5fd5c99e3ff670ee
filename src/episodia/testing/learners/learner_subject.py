"""`LearnerSubject`, an algorithm with all that its checks need, and environments with random items to learn from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import Space
from torch import Tensor

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.learners import AlgorithmConfig, Learner
from episodia.modules import Module, default_module
from episodia.testing.connectors.connector_subject import ACTIONS, OBSERVATIONS
from episodia.testing.law_checking import NotApplicableError
from episodia.testing.modules.module_memory import global_seed
from episodia.trees import leaves
from episodia.types import Item, ModuleID

# The lengths of the episodes, repeated.
_LENGTHS = (3, 1, 5, 2)


class DrawnEnv(gym.Env[Any, Any]):
    """An environment with random observations and rewards; even episodes terminate, odd ones are truncated.

    >>> from gymnasium import spaces
    >>> env = DrawnEnv(spaces.Discrete(3), spaces.Discrete(2))
    >>> env.reset(seed=0)[0] in env.observation_space
    True
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space = copy.deepcopy(action_space)
        self._episode, self._step = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is not None:
            self.observation_space.seed(seed)
            self._rng = np.random.default_rng(seed)
        self._episode, self._step = self._episode + 1, 0
        return self.observation_space.sample(), {}

    def step(self, action: Item) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step."""
        self._step += 1
        is_over = self._step >= _LENGTHS[self._episode % len(_LENGTHS)]
        is_odd = self._episode % 2 == 1
        reward = float(self._rng.normal())
        return self.observation_space.sample(), reward, is_over and not is_odd, is_over and is_odd, {}


class DrawnGame(MultiAgentEnv):
    """Like `DrawnEnv` for several agents, which have the names of their modules and all act in each step."""

    def __init__(self, modules: Mapping[Any, Any]) -> None:
        self.possible_agents = self.agents = list(modules)
        self._envs = {name: DrawnEnv(module.observation_space, module.action_space) for name, module in modules.items()}
        self.observation_spaces = {name: env.observation_space for name, env in self._envs.items()}
        self.action_spaces = {name: env.action_space for name, env in self._envs.items()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        seeds = [None] * len(self._envs) if seed is None else [seed + place for place in range(len(self._envs))]
        return {name: env.reset(seed=own)[0] for (name, env), own in zip(self._envs.items(), seeds, strict=True)}, {}

    def step(self, actions: dict[Any, Any]) -> Any:
        """Take one step."""
        results = {name: self._envs[name].step(action) for name, action in actions.items()}
        observations, rewards, terminateds, truncateds = (
            {name: result[part] for name, result in results.items()} for part in range(4)
        )
        flags = {"__all__": any(terminateds.values())}, {"__all__": any(truncateds.values())}
        return observations, rewards, *flags, {}


def played_episodes(
    modules: Module | Mapping[ModuleID, Module], *, seed: int = 0
) -> list[SingleAgentEpisode] | list[MultiAgentEpisode]:
    """Return a few whole episodes that `modules` have played, with all outputs; multi-agent episodes for a dict of modules.

    >>> from gymnasium import spaces
    >>> from episodia.modules import RandomModule
    >>> [len(episode) for episode in played_episodes(RandomModule(spaces.Discrete(3), spaces.Discrete(2), seed=0))]
    [3, 1, 5, 2]
    """
    runner: Any
    if isinstance(modules, Mapping):
        runner = MultiAgentEnvRunner(lambda: DrawnGame(modules), modules, seed=seed)
    else:
        observation_space, action_space = modules.observation_space, modules.action_space
        if observation_space is None or action_space is None:
            raise SubjectError(
                f"played_episodes: found {modules!r} without spaces, expected both. Pass them to the module."
            )
        runner = SingleAgentEnvRunner(lambda: DrawnEnv(observation_space, action_space), modules, seed=seed)
    with runner, torch.no_grad():
        return list(runner.sample(num_episodes=len(_LENGTHS)))


# The tolerance of gradients, relative to the largest one of a parameter: the order of sums differs.
_LAST_BITS = 1e-4


def _small_network() -> Any:
    return default_module(OBSERVATIONS, ACTIONS, hidden=(8,))


@dataclass(frozen=True, eq=False)
class LearnerSubject:
    """An algorithm, or another kind of learner, with all that its checks need.

    Attributes:
        make: Makes a learner, called as `make(modules, seed=)`; it owns the modules.
        modules: Makes a module, or a dict of modules, with new weights; the global seed of torch is set before.
        episodes: The episodes to learn from.
        config: The config of the algorithm; None for another kind of learner.
        label: The name of the subject in its checks.
        expected_failures: The reasons why checks are expected to fail, by the names of the checks.
    """

    make: Callable[..., Any]
    _: KW_ONLY
    modules: Callable[[], Any]
    episodes: Sequence[Any]
    config: AlgorithmConfig | None = None
    label: str = ""
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        config: AlgorithmConfig,
        *,
        modules: Callable[[], Any] | None = None,
        episodes: Sequence[Any] | None = None,
        make: Callable[..., Any] | None = None,
        **options: Any,
    ) -> LearnerSubject:
        """Return an algorithm as the subject of checks.

        Args:
            config: The algorithm.
            modules: See the attributes; a small network for two numbers and three actions by default.
            episodes: The episodes to learn from; by default the modules play in an environment with random items.
            make: Makes the learner, if it is not `Learner(modules, config, seed=seed)`.
            **options: `label` and `expected_failures`.

        Raises:
            SubjectError: If it is not an algorithm, and there is no `make`.

        >>> from episodia.learners import A2CConfig
        >>> LearnerSubject.of(A2CConfig()).name
        'A2CConfig'
        """
        if make is None and not isinstance(config, AlgorithmConfig):
            raise SubjectError(
                f"check of an algorithm: found {config!r}, expected an object derived from `AlgorithmConfig`. Pass one, or "
                "`make=` for another kind of learner."
            )
        modules = modules or _small_network
        if episodes is None:
            with global_seed(0):
                episodes = played_episodes(modules())
        return cls(
            make or (lambda own, *, seed: Learner(own, config, seed=seed)),
            modules=modules,
            episodes=episodes,
            config=config,
            **options,
        )

    @property
    def name(self) -> str:
        """By which its checks are known."""
        return self.label or type(self.config or self.make).__name__

    def fresh_episodes(self) -> list[Any]:
        """Return copies of the episodes."""
        return [copy.deepcopy(episode) for episode in self.episodes]

    def learner(self, *, weights: int = 0, seed: int = 0, prepare: Callable[[Any], None] | None = None) -> Any:
        """Return a new learner.

        Args:
            weights: Where the weights come from.
            seed: Of the learner.
            prepare: What is done to the modules before.
        """
        with global_seed(weights):
            modules = self.modules()
        if prepare is not None:
            prepare(modules)
        return self.make(modules, seed=seed)


def needs(learner: object, *methods: str) -> None:
    """Raise a NotApplicableError if a learner lacks one of the methods."""
    missing = [method for method in methods if not hasattr(learner, method)]
    if missing:
        raise NotApplicableError(f"it has no {' and no '.join(f'`{method}`' for method in missing)}")


def weights_of(learner: Learner) -> dict[str, Tensor]:
    """Return copies of all weights, by module and name."""
    return {
        f"{module_id}.{name}": value
        for module_id, named in learner.get_weights().items()
        for name, value in named.items()
    }


def changed_weights(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> list[str]:
    """Return the names of weights that are not the same bit for bit."""
    return [name for name in before if not torch.equal(before[name], after[name])]


def compare_weights(law: str, expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: str) -> None:
    """Check that weights are the same, bit for bit.

    Raises:
        AssertionError: Naming the first ones that differ.
    """
    for name in changed_weights(expected, found):
        apart = float((expected[name].double() - found[name].double()).abs().max())
        raise AssertionError(f"{law} ({where}), weights {name!r}: found a difference of {apart:.3g}, expected none.")


def compare_gradients(law: str, expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: str) -> None:
    """Check that gradients are the same but for rounding.

    Raises:
        AssertionError: Naming the first ones that differ, and how.
    """
    if expected.keys() != found.keys():
        odd = sorted(expected.keys() ^ found.keys())
        raise AssertionError(f"{law} ({where}): found gradients of other weights, {odd}, expected the same.")
    for name, wanted in expected.items():
        largest = max(float(wanted.abs().max()), 1e-6)
        apart = (wanted - found[name]).abs()
        if float(apart.max()) > _LAST_BITS * largest:
            place = int(apart.flatten().argmax())
            got, want = float(found[name].flatten()[place]), float(wanted.flatten()[place])
            raise AssertionError(f"{law} ({where}), gradient of {name!r}: found {got:.6g}, expected {want:.6g}.")


def numbers_in(columns: Mapping[str, Any], *, without: frozenset[str]) -> dict[str, Tensor]:
    """Return the columns of a module's batch that are tensors of floats, but for some."""
    return {
        name: column
        for name, column in columns.items()
        if name not in without and isinstance(column, Tensor) and column.is_floating_point()
    }


def rows_of(columns: Mapping[str, Any]) -> int:
    """Return how many rows a module's batch has."""
    return len(next(iter(leaves(dict(columns))))[1])


def in_first_part(rows: int) -> np.ndarray:
    """Tell which rows belong to the first of two parts: a third of them."""
    return np.asarray(np.arange(rows) % 3 == 0)
