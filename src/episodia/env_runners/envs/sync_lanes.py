"""Environments that step one after another in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from episodia.env_runners.envs.env_crashes import (
    NO_STEP,
    RAISED,
    GuardedEnv,
    check_flags,
    checked_info,
    checked_reward,
    no_step,
)
from episodia.env_runners.envs.vector_batches import observation_batch
from episodia.errors import EnvError, EnvRunnerError
from episodia.spaces import short_name
from episodia.types import Item

Make = Callable[[], gym.Env[Any, Any]]

# A vector environment as a runner sees it: a batch of observations, rewards, two flags, and infos.
Step = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[Any, Any]]


@final
class SyncLanes(VectorEnv[Any, Any, Any]):
    """A `gymnasium.vector.SyncVectorEnv` with the autoreset mode NEXT_STEP, and three differences.

    Infos are `{lane: info}`, with the lanes that have one: gymnasium's vector form has one dtype for a key, and cuts what
    does not fit. Anything but a step, or an observation that does not belong to the space, is rejected, and its environment is
    rebuilt. Arrays are used again at the next step.
    """

    def __init__(self, makes: Sequence[Callable[[], GuardedEnv]]) -> None:
        """Make one environment with each of `makes`."""
        self.envs: list[GuardedEnv] = []
        try:
            for make in makes:
                self.envs.append(make())
            _check_alike(self.envs)
        except BaseException:
            self.close_extras()
            raise
        first = self.envs[0]
        self.num_envs = len(self.envs)
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = first.render_mode
        self.spec = first.spec
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._observations = observation_batch(self.single_observation_space, self.num_envs)
        self._rewards = np.zeros(self.num_envs)
        self._terminateds = np.zeros(self.num_envs, np.bool_)
        self._truncateds = np.zeros(self.num_envs, np.bool_)
        self._ended: set[int] = set()  # lanes that are reset at the next step

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begin an episode in each lane; `seed` is None or a list with one for each."""
        infos = {}
        for lane, env in enumerate(self.envs):
            observation, info = env.reset(seed=None if seed is None else seed[lane], options=options)
            self._observations.put(lane, observation)
            if info:
                infos[lane] = info
        self._ended = set()
        self._clear_flags()
        return self._observations.batch(), infos

    def _clear_flags(self) -> None:
        self._terminateds.fill(False)
        self._truncateds.fill(False)

    def step(self, actions: Item) -> Step:  # noqa: PLR0912  # a call for each lane takes longer than the whole loop
        """Take a step in each lane, or begin its next episode if the last one has ended."""
        infos = {}
        ended, self._ended = self._ended, set()
        if ended:  # the flags are those of these lanes
            self._clear_flags()
        observations, rewards = self._observations, self._rewards
        dtype, shape = observations.dtype, observations.shape
        terminateds, truncateds = self._terminateds, self._truncateds
        each = actions if type(actions) is np.ndarray else iterate(self.action_space, actions)
        made: Any
        for lane, (env, action, row) in enumerate(zip(self.envs, each, observations.rows, strict=True)):
            if ended and lane in ended:
                made = self._begun(lane)
            else:
                try:
                    made = env.env.step(action)
                except RAISED as error:
                    made = env.failed_step(action, error)
            try:
                observation, reward, terminated, truncated, info = made
                if type(observation) is np.ndarray and observation.dtype is dtype and observation.shape == shape:
                    row[...] = observation
                else:
                    observations.put(lane, observation)
                rewards[lane] = reward if type(reward) is float else checked_reward(reward)
                if info:
                    infos[lane] = checked_info(info)
                if terminated is not False or truncated is not False:
                    check_flags(terminated, truncated)
                    terminateds[lane] = terminated
                    truncateds[lane] = truncated
                    if terminated or truncated:
                        self._ended.add(lane)
            except NO_STEP as error:
                infos[lane] = self._rebuilt(lane, no_step(lane, made, error))
        return observations.batch(), rewards, terminateds, truncateds, infos

    def restart(self, lanes: Sequence[int]) -> None:
        """Let the next step begin the next episodes of `lanes`."""
        self._ended.update(lanes)

    def _begun(self, lane: int) -> Any:
        """Return the reset of a lane in the form of a step."""
        observation, info = self.envs[lane].reset()
        return observation, 0.0, False, False, info

    def _rebuilt(self, lane: int, error: EnvError) -> dict[str, Any]:
        """Begin the next episode of a lane that has returned something else than a step, and return its info."""
        observation, info = self.envs[lane].rebuild(error)
        self._observations.put(lane, observation)
        self._rewards[lane] = 0.0
        self._terminateds[lane] = self._truncateds[lane] = False
        return info

    def render(self) -> tuple[Any, ...] | None:
        """Return what each environment draws."""
        return tuple(env.render() for env in self.envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return for each environment what its method `name` returns, or its attribute of this name."""
        found = [env.env.get_wrapper_attr(name) for env in self.envs]
        return tuple(each(*args, **kwargs) if callable(each) else each for each in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return the attribute `name` of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set the attribute `name` of each environment, until it is rebuilt: a new one does not have what was set.

        Args:
            name: Of the attribute.
            values: A list or tuple with a value for each environment, or one value for all.

        Raises:
            EnvRunnerError: If there are more or fewer values than environments.
        """
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise EnvRunnerError(
                f"set_attr: found {len(each)} values for {name!r}, expected {self.num_envs}, one for each environment. Put a "
                "list that all are to have into a list for each."
            )
        for env, value in zip(self.envs, each, strict=True):
            env.env.set_wrapper_attr(name, value)

    def close_extras(self, **kwargs: Any) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()


def _check_alike(envs: list[GuardedEnv]) -> None:
    if len({id(env.unwrapped) for env in envs}) < len(envs):
        raise EnvRunnerError(
            "found one environment for several lanes, expected a new one from each call. Let the function make it."
        )
    first = envs[0]
    for lane, env in enumerate(envs):
        found = env.observation_space, env.action_space
        check_same_spaces(lane, found, (first.observation_space, first.action_space))


def check_same_spaces(lane: int, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Check the spaces of observations and actions of an environment.

    Raises:
        EnvRunnerError: If they are not those of environment 0.
    """
    for name, mine, other in zip(("observation_space", "action_space"), found, expected, strict=True):
        if mine != other:
            raise EnvRunnerError(
                f"environment {lane}: found the {name} {short_name(mine)}, expected {short_name(other)} as environment 0 "
                "has it. Lanes have to be alike."
            )
