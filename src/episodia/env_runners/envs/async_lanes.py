"""Environments that step at the same time, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, final

from gymnasium import Space, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from episodia.env_runners.envs.sync_lanes import Make, Step
from episodia.errors import EnvError, EpisodiaError
from episodia.types import Item

# What a dead or silent worker looks like from here.
LOST_WORKER = (EOFError, ConnectionError, multiprocessing.TimeoutError)

# How long a worker may take to end by itself, and then to be ended.
_PATIENCE_S = 2.0

_IN_SHARED_MEMORY = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Text, spaces.OneOf)


@final
class _NeverStartedError(EnvError, ConnectionError):
    """A worker has ended before its environment was made: an error for users, and a lost worker for who tries again."""


def _undisturbed(make: Make, owner: int) -> Any:
    """Make an environment; in a worker of the process `owner`, Ctrl-C is left to that one from now on.

    A terminal sends it to all processes. Who trains stops after an update that goes on, for which it needs its environments.
    """
    if os.getpid() != owner:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()


@final
class AsyncLanes(AsyncVectorEnv):
    """gymnasium's asynchronous vector environment in the autoreset mode NEXT_STEP, with five differences.

    Infos are `{lane: info}`, as those of `SyncLanes`. No call takes longer than `timeout_s`. Workers are started by a server
    process, because a fork of a process in which torch has computed may hang. They do not listen to Ctrl-C. `close` always
    returns and leaves no worker behind, whatever state they are in.
    """

    def __init__(self, makes: Sequence[Make], *, timeout_s: float | None, context: str, space: Space[Any]) -> None:
        """Start a worker for each of `makes`, which make environments with the observation space `space`."""
        self.timeout_s = timeout_s
        if context == "forkserver":
            # Has no effect if the server runs already; otherwise it imports once what all workers need.
            multiprocessing.get_context(context).set_forkserver_preload([__name__])
        self.parent_pipes, self.processes = [], []
        try:
            super().__init__(
                [partial(_undisturbed, make, os.getpid()) for make in makes],
                shared_memory=_fits_shared_memory(space),
                copy=False,
                context=context,
                autoreset_mode=AutoresetMode.NEXT_STEP,
            )
        except BaseException as error:
            self.close_extras()
            self.closed = True
            if isinstance(error, (EOFError, ConnectionError)):
                raise _NeverStartedError(
                    "asynchronous environments: found a process that ended before its environment was made, expected one that "
                    'stays; it may have said why on stderr. In a script, start them under `if __name__ == "__main__":`, since '
                    "new processes import the script."
                ) from error
            raise

    def _add_info(self, vector_infos: dict[Any, Any], env_info: dict[str, Any], env_num: int) -> dict[Any, Any]:
        if env_info:
            vector_infos[env_num] = env_info
        return vector_infos

    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        """Raise what one of the workers has raised that could not go on."""
        if all(successes):
            return
        try:
            lane, _, error, trace = self.error_queue.get(timeout=_PATIENCE_S)
        except queue.Empty:
            # What cannot be pickled never arrives.
            lanes = [lane for lane, success in enumerate(successes) if not success]
            raise EnvError(
                f"environments {lanes}: found that their workers have failed, and did not tell why; expected steps."
            ) from None
        if isinstance(error, EpisodiaError):
            raise error
        raise EnvError(
            f"environment {lane}: found {type(error).__name__}: {error}, expected a step. Its worker says:\n{trace}"
        )

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each lane."""
        self.reset_async(seed=seed, options=options)
        return self.reset_wait(timeout=self.timeout_s)

    def step(self, actions: Item) -> Step:
        """Take a step in each lane, or begin its next episode if the last one has ended."""
        self.step_async(actions)
        return self.step_wait(timeout=self.timeout_s)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers: those that listen by themselves, all others by force."""
        end_workers(self, by_force=terminate)


def close(env: VectorEnv[Any, Any, Any], *, by_force: bool = False) -> None:
    """Close `env`, whatever state it is in; asynchronous environments leave no worker behind."""
    ready = env.unwrapped
    if isinstance(ready, AsyncVectorEnv) and not ready.closed:
        # gymnasium's own way waits for ever for workers that hang, and stops at the first one that is gone.
        end_workers(ready, by_force=by_force)
        ready.closed = True
    env.close()


def end_workers(env: AsyncVectorEnv, *, by_force: bool) -> None:
    """End the processes of `env`: those that listen by themselves, unless by force, and all others."""
    # The last one is not running if it could not be started.
    started = [process for process in env.processes if process.pid is not None]
    if not by_force:
        for pipe in env.parent_pipes:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                pipe.send(("close", None))
        _join(started)
    for process in started:
        process.terminate()
    _join(started)
    for process in started:
        process.kill()
        process.join()
    for pipe in env.parent_pipes:
        if pipe is not None:
            pipe.close()
    errors = getattr(env, "error_queue", None)
    if errors is not None:
        errors.close()
        errors.cancel_join_thread()


def forgets_resets(env: VectorEnv[Any, Any, Any]) -> bool:
    """Tell whether lanes of `env` that have ended swallow their first step after a reset: a fault of gymnasium's workers."""
    ready = env.unwrapped
    return isinstance(ready, AsyncVectorEnv) and not ready.shared_memory


def pass_over_ends(env: VectorEnv[Any, Any, Any], lanes: Sequence[int]) -> None:
    """Let `lanes`, whose episodes have ended, begin the next ones before all are reset, if `env` would forget the reset."""
    ready = env.unwrapped
    if not lanes or not isinstance(ready, AsyncVectorEnv) or not forgets_resets(env):
        return
    pipes = [ready.parent_pipes[lane] for lane in lanes]
    for pipe in pipes:
        pipe.send(("step", None))  # the action is not looked at
    timeout_s = ready.timeout_s if isinstance(ready, AsyncLanes) else None
    for lane, pipe in zip(lanes, pipes, strict=True):
        if not pipe.poll(timeout_s):
            raise multiprocessing.TimeoutError(
                f"environment {lane}: found no answer to a reset after {timeout_s} seconds."
            )
        _, success = pipe.recv()
        ready._raise_if_errors([success if other == lane else True for other in range(ready.num_envs)])


def _join(processes: list[Any]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))


def _fits_shared_memory(space: Space[Any]) -> bool:
    if isinstance(space, spaces.Dict):
        return all(map(_fits_shared_memory, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_fits_shared_memory, space.spaces))
    return isinstance(space, _IN_SHARED_MEMORY)
