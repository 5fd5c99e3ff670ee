"""The base of all env runners: settings, seeds, goals, metrics, weights, state and evaluation."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from episodia.arguments import checked_seed
from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.env_runners.callbacks import Watcher, listed
from episodia.env_runners.rollout.sample_goals import CountStepsBy, Goal, SampleMode, goal_of
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.runner_settings import (
    FragmentLength,
    RunnerSettings,
    check_flags,
    check_fragment_length,
    check_keys,
    check_open,
    check_whole,
)
from episodia.env_runners.seeding import Seeds
from episodia.episodes import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import EnvRunnerError, EpisodiaError
from episodia.modules import Module, MultiModule
from episodia.modules.modes import mode
from episodia.trees import describe

# The kind of episodes that a runner returns.
_EpisodeKind = TypeVar("_EpisodeKind", SingleAgentEpisode, MultiAgentEpisode)


class EnvRunner(ABC, Generic[_EpisodeKind]):
    """Plays in environments, and returns what happens as episodes. One thread may use it at a time.

    A kind of runner is a subclass that steps: it says what its pipelines are, plays until a goal is reached, and closes its
    environments. Everything else is here. A kind with a memory of its own adds it to the state; a kind that can play beside
    its sampling returns a runner for evaluations.

    Attributes:
        is_multi_agent: Whether it returns multi-agent episodes.
        explore: Whether `sample` explores if its call does not say it.
        batch_mode: What `sample` returns if its call says neither steps nor episodes.
        rollout_fragment_length: The number of steps for each environment that is in the batch mode `"truncate_episodes"`. If
            it is "auto", the environments share `train_batch_size` steps.
        count_steps_by: The steps that `num_timesteps` and trainings count: those of environments, or those of their agents.
    """

    is_multi_agent: ClassVar[bool] = False
    count_steps_by: CountStepsBy = "env_steps"

    def __init__(
        self, settings: RunnerSettings, rl_module: Module | MultiModule | None, seeds: Seeds, callbacks: Iterable[Any]
    ) -> None:
        """Store what all runners have.

        Args:
            settings: How to play.
            rl_module: What acts: one module, several by their ids, or None for random actions.
            seeds: All randomness.
            callbacks: See `Callbacks`.
        """
        self.explore = settings.explore
        self.batch_mode = settings.batch_mode
        self.rollout_fragment_length: FragmentLength = settings.fragment_length
        self._settings = settings
        self._seeds = seeds
        self._modules: Mapping[Any, Module] = _by_id(rl_module)
        self._metrics = RunnerMetrics()
        self._callbacks = listed(callbacks)
        self._watcher = Watcher(self._callbacks, self, rl_module, self._metrics)
        self._weights_version = 0
        self._is_closed = False
        self._in_use = threading.RLock()

    def __repr__(self) -> str:
        acting = ", ".join(f"{id_}: {type(module).__name__}" for id_, module in self.modules.items())
        return f"{type(self).__name__}({self._env}, {acting or 'random actions'}, num_envs={self.num_envs}, seed={self.seed})"

    @property
    def agent_to_module_mapping_fn(self) -> Callable[[Any, Any], Any] | None:
        """The function from an agent and its episode to the id of its module; None without agents."""

    # --- Properties of a kind of runner -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def num_envs(self) -> int:
        """The number of environments."""

    @property
    @abstractmethod
    def env_to_module(self) -> EnvToModulePipeline:
        """The pipeline in front of the modules."""

    @property
    @abstractmethod
    def module_to_env(self) -> ModuleToEnvPipeline:
        """The pipeline behind the modules."""

    @property
    @abstractmethod
    def _env(self) -> Any:
        """The `env` argument of callbacks that concern all environments."""

    @abstractmethod
    def _play(self, goal: Goal, mode: SampleMode, *, force_reset: bool) -> EpisodeList[_EpisodeKind]:
        """Play until `goal` is reached, and return finalized episodes. What was recorded outlives an exception.

        Args:
            goal: The number of steps or episodes.
            mode: How to act.
            force_reset: Whether to begin new episodes everywhere.
        """

    def _given(self, episodes: EpisodeList[_EpisodeKind]) -> EpisodeList[_EpisodeKind]:
        """Return what `_play` has returned; up to the last moment, an interrupt lets the next call return it again."""
        return episodes

    @abstractmethod
    def _close_envs(self) -> None:
        """Close all environments; called once."""

    def _evaluation_runner(self, num_episodes: int, seed: int) -> AbstractContextManager[EnvRunner[_EpisodeKind]]:
        """Return a runner with the same modules and environments of its own, open as long as the context."""
        raise EnvRunnerError(
            f"evaluate: found {type(self).__name__}, which has no environments for it; expected a kind of runner that can be "
            "evaluated. Evaluate the module with a `SingleAgentEnvRunner` or a `MultiAgentEnvRunner`."
        )

    def _own_state(self) -> dict[str, Any]:
        """Return what `get_state` has to return beside what all runners have."""
        return {}

    def _set_own_state(self, state: Mapping[str, Any]) -> None:  # most kinds have none
        """Go on from what `_own_state` returned; seeds, weights and pipelines are set before."""

    def _leave_episodes(self) -> None:  # without environments there is nothing to leave
        """Begin new episodes before the next step; what was recorded of running ones is kept."""

    def _use_version(self, version: int) -> None:  # without modules there are no weights
        """Let chunks say from the current step on that they were played with this version of the weights."""

    # --- What it has ------------------------------------------------------------------------------------------------

    @property
    def modules(self) -> Mapping[Any, Module]:
        """The acting modules, by id; empty if actions are random."""
        return self._modules

    @property
    def seed(self) -> int:
        """The source of all randomness: a runner with the same seed and settings plays the same episodes."""
        return self._seeds.seed

    @property
    def lookback(self) -> int:
        """The number of earlier steps that a chunk carries: what the pipelines need, or more if the settings ask for it."""
        asked_for = max(self._settings.lookback, self._settings.reward_delay)
        return max(asked_for, self.env_to_module.lookback, self.module_to_env.lookback)

    def require_lookback(self, steps: int) -> None:
        """Let chunks carry at least so many earlier steps from now on, such as a learner's `pipeline.lookback`.

        A runner knows its own pipelines. What only a learner looks back to, such as views for training, it has to be told.
        Where this is more than before, new episodes begin: running ones may have dropped the steps.

        Raises:
            EnvRunnerError: If `steps` is not an integer of at least 0.
        """
        check_whole(0, steps=steps)
        if steps > self.lookback:
            self._settings = replace(self._settings, lookback=steps)
            self._leave_episodes()

    # --- Sampling ---------------------------------------------------------------------------------------------------

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> EpisodeList[_EpisodeKind]:
        """Play, and return finalized episodes.

        With `num_timesteps`, all environments step until there are at least so many steps: fewer than `num_envs` more, unless
        earlier calls have left more behind. Episodes that are not over come as chunks, and go on with the next call.

        With `num_episodes`, exactly so many whole episodes are returned: those that began first, in this order, however long
        they are. What else was played stays here, and belongs to the next call. Episodes of which a chunk was returned
        before are not whole: if there are any, all environments are reset first.

        If something is raised, all that was recorded before comes with the next call.

        Args:
            num_timesteps: How many steps of environments to play. With 0 nothing is played or returned.
            num_episodes: How many episodes to play. With neither, `batch_mode` decides.
            explore: Whether modules explore; what the runner was made with by default.
            random_actions: Draw actions at random, among those that action masks allow.
            force_reset: Reset all environments first. Episodes that are running are left as they are.

        Raises:
            EnvRunnerError: If the arguments do not fit together.
            EnvError: If an environment fails for good, or returns NaN or infinite numbers.
            SpaceError: If it fails with an action that is outside of its space.
        """
        goal = self._goal(num_timesteps, num_episodes)
        return self._sample(goal, explore, random_actions=random_actions, force_reset=force_reset)

    def _goal(self, num_timesteps: int | None, num_episodes: int | None) -> Goal:
        check_open("sample", is_closed=self._is_closed)
        return goal_of(num_timesteps, num_episodes, self.batch_mode, self._fragment_steps(), self.num_envs)

    def _fragment_steps(self) -> int:
        """Return how many steps for each environment `sample` returns by default; rounded up, if they are to share a batch."""
        length, size = self.rollout_fragment_length, self._settings.train_batch_size
        if length != "auto":
            return length
        check_fragment_length(length, size)
        return -(-(size or 0) // self.num_envs)

    def _sample(
        self, goal: Goal, explore: bool | None, *, random_actions: bool, force_reset: bool
    ) -> EpisodeList[_EpisodeKind]:
        explore = self.explore if explore is None else explore
        check_flags(explore=explore, random_actions=random_actions, force_reset=force_reset)
        with self._alone("sample"):
            if goal.steps == 0:
                if force_reset:
                    self._leave_episodes()
                return EpisodeList()
            how = SampleMode(random_actions or not self.modules, explore)
            episodes = self._played(goal, how, force_reset=force_reset)
        return self._given(episodes)

    def _played(self, goal: Goal, how: SampleMode, *, force_reset: bool) -> EpisodeList[_EpisodeKind]:
        started = perf_counter()
        try:
            with torch.no_grad(), mode(self.modules.values(), training=False):
                episodes = self._play(goal, how, force_reset=force_reset)
        finally:
            self._metrics.sample_time_s += perf_counter() - started
        self._watcher.sampled(episodes, self._env)
        return episodes

    @contextlib.contextmanager
    def _alone(self, where: str) -> Iterator[None]:
        """Keep other threads out.

        Raises:
            EnvRunnerError: If another thread is using the runner.
        """
        if not self._in_use.acquire(blocking=False):
            raise EnvRunnerError(
                f"{where}: found a runner that another thread is using, expected one thread at a time. Give each thread a "
                "runner of its own."
            )
        try:
            yield
        finally:
            self._in_use.release()

    def evaluate(
        self, num_episodes: int = 10, *, explore: bool = False, seed: int | None = None
    ) -> EpisodeList[_EpisodeKind]:
        """Play whole episodes beside all sampling, and return them.

        Environments, pipelines, their statistics and all random generators are others than those of `sample`: nothing of
        them changes. The weights are those of the modules. Of all callbacks, `on_evaluate_start` and `on_evaluate_end` are
        called.

        Args:
            num_episodes: How many.
            explore: Whether modules explore.
            seed: Of the environments and actions. By default each call has another one, which follows from that of the runner.

        Raises:
            EnvRunnerError: If the runner is closed, or was given a ready environment, which cannot be made twice.
        """
        check_open("evaluate", is_closed=self._is_closed)
        check_whole(1, num_episodes=num_episodes)
        checked_seed(EnvRunnerError, "evaluate", seed)
        with self._alone("evaluate"):
            own_seed = self._seeds.next_evaluation() if seed is None else seed
            with self._evaluation_runner(num_episodes, own_seed) as runner:
                runner._set_version(self.weights_version)
                self._watcher.evaluates(self._env)
                episodes = runner.sample(num_episodes=num_episodes, explore=explore)
                metrics = runner.get_metrics()
            self._watcher.evaluated(episodes, metrics, self._env)
            return episodes

    def get_metrics(self) -> RunnerMetrics:
        """Return what has happened since the last call."""
        with self._alone("get_metrics"):
            return self._metrics.taken()

    # --- Weights and state ------------------------------------------------------------------------------------------

    @property
    def weights_version(self) -> int:
        """The version of the modules' weights, which each chunk carries along."""
        return self._weights_version

    def get_weights(self) -> dict[Any, Any]:
        """Return copies of the weights of all modules as arrays: `{module_id: {name: array}}`."""
        return weights_of(self.modules)

    def set_weights(self, weights: Mapping[Any, Any], version: int | None = None) -> None:
        """Give modules other weights from the next step on.

        Args:
            weights: `{module_id: {name: tensor or array}}`; modules that are not named keep theirs.
            version: What the chunks say that are played with them; one more than before by default.

        Raises:
            EnvRunnerError: If there is no such module, or if they are not its weights; nothing is changed then.
        """
        check_whole(0, or_none=True, version=version)
        with self._alone("set_weights"):
            self._load_weights(weights)
            self._set_version(self.weights_version + 1 if version is None else version)

    def _load_weights(self, weights: Mapping[Any, Any]) -> None:
        load_weights(self.modules, weights)

    def _set_version(self, version: int) -> None:
        self._weights_version = version
        self._use_version(version)

    def get_state(self) -> dict[str, Any]:
        """Return weights, states of the pipelines, counters and generators: JSON values and NumPy arrays.

        Environments are not part of it. A runner that goes on from a state resets them first, with seeds of their own; one
        that was not interrupted plays the same if it is asked to: `sample(..., force_reset=True)`.
        """
        with self._alone("get_state"):
            return self._state()

    def _state(self) -> dict[str, Any]:
        return {
            "weights": self.get_weights(),
            "weights_version": self.weights_version,
            "env_to_module": self.env_to_module.get_state(),
            "module_to_env": self.module_to_env.get_state(),
            **self._seeds.get_state(),
            **self._own_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which `get_state` of a runner with the same settings returned. Environments are reset.

        Raises:
            EnvRunnerError: If it is not such a state; nothing is changed then.
        """
        with self._alone("set_state"):
            before = self.get_state()
            check_keys(state, before)
            try:
                version = int(state["weights_version"])
                self._load_state(state)
            except (EpisodiaError, TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
                self._load_state(before)
                raise EnvRunnerError(
                    f"set_state: found a state that does not fit to this runner ({error}), expected that of one with the same "
                    "settings. Make the runner like that one."
                ) from error
            self._leave_episodes()
            self._set_version(version)

    def _load_state(self, state: Mapping[str, Any]) -> None:
        self._load_weights(state["weights"])
        self.env_to_module.set_state(state["env_to_module"])
        self.module_to_env.set_state(state["module_to_env"])
        self._seeds.set_state(state)
        self._set_own_state(state)

    # --- The end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all environments, and end their processes; a second call does nothing."""
        with self._alone("close"):
            if not self._is_closed:
                self._is_closed = True
                self._close_envs()

    @contextlib.contextmanager
    def _closed_on_error(self, *, owns_envs: bool) -> Iterator[None]:
        """Close what was made in the context if an error ends it: environments may have processes of their own."""
        try:
            yield
        except BaseException:
            if owns_envs:
                self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def rebuilt(kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], state: dict[str, Any]) -> Any:
    """Return a new runner of the class `kind` that goes on from `state`; pickled and copied runners come back so."""
    runner = kind(*arguments, **keywords)
    runner.set_state(state)
    return runner


def _by_id(rl_module: Module | MultiModule | None) -> Mapping[Any, Module]:
    if rl_module is None:
        return {}
    return rl_module if isinstance(rl_module, MultiModule) else {DEFAULT_MODULE_ID: rl_module}


def weights_of(modules: Mapping[Any, Module]) -> dict[Any, dict[str, np.ndarray]]:
    """Return copies of the weights of all modules that have some: `{module_id: {name: array}}`."""
    return {
        module_id: {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}
        for module_id, module in modules.items()
        if isinstance(module, torch.nn.Module)
    }


def load_weights(modules: Mapping[Any, Module], weights: Mapping[Any, Mapping[str, Any]]) -> None:
    """Give modules other weights, tensors or arrays; modules that are not named keep theirs.

    Raises:
        EnvRunnerError: If there is no such module, or if weights do not fit; all modules keep their weights then.
    """
    check_weights(weights)
    networks = {id_: module for id_, module in modules.items() if isinstance(module, torch.nn.Module)}
    unknown = [module_id for module_id in weights if module_id not in networks]
    if unknown:
        raise EnvRunnerError(
            f"found weights of the modules {unknown}, expected some of {list(networks)}, which have weights. Leave them out, "
            "or make the runner with these modules."
        )
    for module_id, given in weights.items():
        _check_fits(module_id, networks[module_id], given)
    for module_id, given in weights.items():
        networks[module_id].load_state_dict({name: _tensor_of(value) for name, value in given.items()})


def _tensor_of(value: Any) -> torch.Tensor:
    """Return weights as a tensor; read-only arrays, such as those in shared memory, are copied, because torch warns of them."""
    is_frozen = isinstance(value, np.ndarray) and not value.flags.writeable
    return torch.as_tensor(value.copy() if is_frozen else value)


def check_weights(weights: Any, owner: str = "the modules") -> None:
    """Check that there is a dict of weights.

    Raises:
        EnvRunnerError: If there is something else.
    """
    if not isinstance(weights, Mapping):
        raise EnvRunnerError(
            f"found {describe(weights)} as the weights of {owner}, expected a dict. Pass what `get_weights` returned."
        )


def _shape_of(weight: Any) -> tuple[int, ...] | None:
    """Return the shape of numbers, None for anything else."""
    try:
        array = weight if isinstance(weight, torch.Tensor) else np.asarray(weight)
    except (TypeError, ValueError):
        return None
    is_numbers = isinstance(array, torch.Tensor) or array.dtype.kind in "fiub"
    return tuple(array.shape) if is_numbers else None


def _check_fits(module_id: Any, module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    check_weights(weights, f"{type(module).__name__} ({module_id!r})")
    own = module.state_dict()
    names = sorted(set(own).symmetric_difference(weights), key=str)
    shapes = [name for name in own if name not in names and _shape_of(weights[name]) != own[name].shape]
    if names or shapes:
        raise EnvRunnerError(
            f"found weights that do not fit to {type(module).__name__} ({module_id!r}): missing or unknown {names}, of another "
            f"shape {shapes}. Pass the state of an equal module."
        )
