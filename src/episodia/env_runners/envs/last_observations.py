"""The last observation of an episode, kept from an environment that writes the next one into the same array.

gymnasium's vector environments of the mode SAME_STEP reset a lane before its last observation is returned, and keep a
reference to it meanwhile. An environment that uses its arrays again has overwritten it by then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, final

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from episodia.errors import EnvRunnerError
from episodia.trees import own_info, private

# The attribute with which an environment in another process says whether it was changed.
_IS_KEPT = "episodia_keeps_last_observations"


def keep_last_observations(env: VectorEnv[Any, Any, Any]) -> None:
    """Let the environments in `env`, if it is one of gymnasium's, return the last step of an episode as a copy.

    Raises:
        EnvRunnerError: If they are in processes that cannot do so.
    """
    ready = env.unwrapped
    if isinstance(ready, SyncVectorEnv):
        for single in ready.envs:
            _keep(single)
    elif isinstance(ready, AsyncVectorEnv):
        ready.set_attr(_IS_KEPT, [_ByWorker()] * ready.num_envs)
        if not all(ready.get_attr(_IS_KEPT)):
            raise EnvRunnerError(
                f"found {env} in the autoreset mode SAME_STEP with a `worker` of its own, expected gymnasium's: with another, "
                "the last observation of an episode may be overwritten by the next reset. Use another autoreset mode, or pass "
                "the function that makes one environment, with vectorization='async'."
            )


@final
class _CopyingStep:
    """The `step` of an environment, whose last step of an episode is a copy."""

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step = step

    def __call__(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self._step(action)
        if terminated or truncated:
            observation, info = private(observation), own_info(info)
        return observation, reward, terminated, truncated, info


def _keep(env: gym.Env[Any, Any]) -> None:
    if not isinstance(env.step, _CopyingStep):
        env.step = _CopyingStep(env.step)  # type: ignore[method-assign]  # of this environment alone


@final
class _ByWorker:
    """Changes the environment of the worker to which it is sent, and arrives there as whether that was possible.

    What a worker can be asked for is to call methods of its environment and to set attributes. Neither can wrap a method, so
    it is done where what was sent is unpacked, in a function that the worker has called.
    """

    def __reduce__(self) -> tuple[Callable[[], bool], tuple[()]]:
        return _keep_in_this_worker, ()


def _keep_in_this_worker() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        env = frame.f_locals.get("env")
        if frame.f_code.co_name == "_async_worker" and isinstance(env, gym.Env):
            _keep(env)
            return True
        frame = frame.f_back
    return False
