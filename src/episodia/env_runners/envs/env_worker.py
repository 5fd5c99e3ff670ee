"""The process of an asynchronous environment: it obeys the commands that come through its pipe."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, final

import gymnasium as gym
from gymnasium.vector.utils import write_to_shared_memory

from episodia.errors import EnvError, EpisodiaError, SpaceError


class Failure(NamedTuple):
    """The message that a worker sends instead of an answer, before it ends."""

    text: str
    trace: str
    kind: type[EpisodiaError] | None  # if the text says already where, what was found and what was expected


def serve(shared: Any, lane: int, make: Callable[[], Any], pipe: Any, parent_pipe: Any, *_: Any) -> None:
    """Make an environment and obey commands until the last one, or until the other end of the pipe is gone.

    Args:
        shared: Memory that the observations of all lanes are written to; None if they go through the pipe.
        lane: The number of the environment.
        make: Makes it.
        pipe: The end of the pipe that belongs to this process.
        parent_pipe: The other end, which a fork has inherited.
    """
    # A terminal sends Ctrl-C to all processes. The main one decides what becomes of the environments.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent_pipe.close()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            _obey(shared, lane, make, pipe)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except BaseException as error:  # noqa: BLE001  # whatever an environment raises, see `RAISED_IN_WORKER`
            kind = type(error) if isinstance(error, (EnvError, SpaceError)) else None
            text = str(error) if kind else f"{type(error).__name__}: {error}"
            pipe.send((Failure(text, traceback.format_exc(), kind), False))


def _obey(shared: Any, lane: int, make: Callable[[], Any], pipe: Any) -> None:
    env = make()
    try:
        served = _Served(env, lane, shared)
        while True:
            command, data = pipe.recv()
            if command == "close":
                return
            pipe.send((served.answer(command, data), True))
    finally:
        env.close()


@final
class _Served:
    """An environment in the autoreset mode NEXT_STEP: the step after the last one of an episode begins the next."""

    def __init__(self, env: gym.Env[Any, Any], lane: int, shared: Any) -> None:
        self._env = env
        self._lane = lane
        self._shared = shared
        self._is_over = False

    def answer(self, command: str, data: Any) -> Any:
        if command == "step":
            return self._stepped(data)
        if command == "begin":
            self._is_over = True
            return self._stepped(data)
        if command == "reset":
            self._is_over = False
            return self._begun(**data)
        if command == "spaces":
            return self._env.observation_space, self._env.action_space
        name, *rest = data
        if command == "_setattr":
            return self._env.set_wrapper_attr(name, *rest)
        args, kwargs = rest
        found = self._env.get_wrapper_attr(name)
        return found(*args, **kwargs) if callable(found) else found

    def _stepped(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        if self._is_over:
            self._is_over = False
            observation, info = self._begun()
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = self._env.step(action)
        self._is_over = bool(terminated or truncated)
        return self._sent(observation), reward, terminated, truncated, info

    def _begun(self, **arguments: Any) -> tuple[Any, Any]:
        observation, info = self._env.reset(**arguments)
        return self._sent(observation), info

    def _sent(self, observation: Any) -> Any:
        if self._shared is None:
            return observation
        write_to_shared_memory(self._env.observation_space, self._lane, observation, self._shared)
        return None
