"""Environments that step at the same time, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing import forkserver
from typing import Any, final

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import (
    CloudpickleWrapper,
    clear_mpi_env_vars,
    concatenate,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
)

from episodia.env_runners.envs.env_crashes import RAISED, RESTARTED, Restart, first_env
from episodia.env_runners.envs.env_worker import Failure, serve
from episodia.env_runners.envs.sync_lanes import Make, Step, check_same_spaces
from episodia.errors import EnvError, EpisodiaError, LostWorkerError
from episodia.spaces import ARRAY_SPACES
from episodia.types import Item

# How long workers may take to end by themselves, and then to be ended; all of them together.
_PATIENCE_S = 2.0
# Which part of the time for an answer has to be left for a wait that the pipe alone limits.
_IN_TIME = 0.9
# How long a worker may take to make its environment, if a step may not take longer.
_START_S = 60.0
# The command of a worker at a step: take it, or begin the next episode instead.
_STEP, _BEGIN = "step", "begin"
# How often workers are started again if the server that starts them is gone.
_STARTS = 3


def is_lost_worker(error: BaseException) -> bool:
    """Tell whether `error` is what a dead or silent worker looks like from here, gymnasium's own workers included.

    >>> is_lost_worker(EOFError()), is_lost_worker(OSError("got end of file during message")), is_lost_worker(OSError())
    (True, True, False)
    """
    if isinstance(error, (EOFError, ConnectionError, BlockingIOError, multiprocessing.TimeoutError)):
        return True
    # It was killed in the middle of an answer.
    return type(error) is OSError and error.args == ("got end of file during message",)


@final
class _MadeInWorkers:
    """Makes an environment in a worker; in the main process, what gymnasium looks at before it starts the workers."""

    def __init__(self, make: Make, probe: _Probe) -> None:
        self._make = make
        self._owner = os.getpid()
        self._probe = probe

    def __call__(self) -> gym.Env[Any, Any]:
        return self._probe if os.getpid() == self._owner else self._make()


@final
class _Probe(gym.Env[Any, Any]):
    """Has the spaces and metadata of an environment, and nothing to close."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata, self.render_mode = env.metadata, env.render_mode


@final
class AsyncLanes(AsyncVectorEnv):
    """gymnasium's asynchronous vector environment in the autoreset mode NEXT_STEP, with these differences.

    Infos are `{lane: info}`, as those of `SyncLanes`. A worker that dies, or takes longer than `timeout_s`, is replaced: its
    lane begins an episode, as after an error in `GuardedEnv`, and the other lanes go on. Workers are started by a server
    process, because a fork of a process in which torch has computed may hang. They do not listen to Ctrl-C. `close` always
    returns and leaves no worker behind, whatever state they are in.

    Args:
        makes: Make the environments, one for each lane, in the workers.
        probe: An environment like those.
        timeout_s: How long an answer may take; None for any time.
        context: How workers are started.
        max_losses: How often in a row a worker is replaced without an episode in between that ends; None for any number.

    Raises:
        EnvError: If the workers cannot be started.
    """

    def __init__(
        self,
        makes: Sequence[Make],
        probe: gym.Env[Any, Any],
        *,
        timeout_s: float | None,
        context: str,
        max_losses: int | None,
    ) -> None:
        self.timeout_s = timeout_s
        self._start_limit_s = start_limit_s(timeout_s)
        self._max_losses = max_losses
        self._losses = [0] * len(makes)
        self._losses_in_a_row = [0] * len(makes)
        self._seeds: list[int | None] = [None] * len(makes)
        self._restarts: set[int] = set()
        space = probe.observation_space
        self._shared = None
        if _fits_shared_memory(space):
            # Has no lock, which a worker could take with it when it dies: each writes to rows of its own.
            start_method: Any = multiprocessing.get_context(context)
            self._shared = create_shared_memory(space, len(makes), start_method)
        _prepare(context)
        self.parent_pipes, self.processes = [], []
        made = [_MadeInWorkers(make, _Probe(probe)) for make in makes]
        for attempt in range(1, _STARTS + 1):
            try:
                self._start_all(made, context)
            except BaseException as error:
                self.close_extras(terminate=True)
                self.closed = True
                if not is_lost_worker(error):
                    raise
                if attempt == _STARTS or not isinstance(error, ConnectionRefusedError):
                    raise _never_started(error) from error
            else:
                break
        if self._shared is not None:
            self.observations = read_from_shared_memory(space, self._shared, len(makes))

    def _start_all(self, makes: Sequence[_MadeInWorkers], context: str) -> None:
        self.closed = False
        super().__init__(
            makes,
            shared_memory=False,
            copy=False,
            context=context,
            worker=partial(serve, self._shared),
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )

    def _check_spaces(self) -> None:
        """Wait until all workers have made their environments, and compare them."""
        for lane in range(self.num_envs):
            self._ask_for_spaces(lane)
        deadline = self._start_deadline()
        for lane in range(self.num_envs):
            try:
                self._receive_spaces(lane, deadline)
            except LostWorkerError as error:
                if isinstance(error.__cause__, BlockingIOError):
                    raise _not_made_in_time(lane, self._start_limit_s) from error
                raise LostWorkerError(f"environment {lane}: {error}") from error

    # --- Playing ----------------------------------------------------------------------------------------------------

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[Any, Any]]:
        """Begin an episode in each lane; `seed` is None or a list with one for each."""
        if seed is not None:
            self._seeds = list(seed)
        seeds = self._seeds if seed is not None else [None] * self.num_envs
        self._restarts = set()
        commands = ["reset"] * self.num_envs
        begun, lost = self._asked(commands, [{"seed": each, "options": options} for each in seeds])
        begun |= self._replaced(lost)
        self._put({lane: observation for lane, (observation, _) in begun.items()})
        return self.observations, {lane: info for lane, (_, info) in begun.items() if info}

    def step(self, actions: Item) -> Step:
        """Take a step in each lane, or begin its next episode if the last one has ended."""
        commands, self._restarts = [_BEGIN if lane in self._restarts else _STEP for lane in range(self.num_envs)], set()
        made, lost = self._asked(commands, iterate(self.action_space, actions))
        for lane, (observation, info) in self._replaced(lost).items():
            made[lane] = observation, 0.0, False, False, info
        rewards = np.zeros(self.num_envs)
        terminateds, truncateds = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        infos = {}
        for lane, (_, reward, terminated, truncated, info) in made.items():
            rewards[lane], terminateds[lane], truncateds[lane] = reward, terminated, truncated
            if info:
                infos[lane] = info
            if terminated or truncated:
                self._losses_in_a_row[lane] = 0
        self._put({lane: result[0] for lane, result in made.items()})
        return self.observations, rewards, terminateds, truncateds, infos

    def restart(self, lanes: Iterable[int]) -> None:
        """Let the next step begin the next episodes of `lanes`."""
        self._restarts.update(lanes)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return for each environment what its method `name` returns, or its attribute of this name."""
        return self._all_asked("_call", [(name, args, kwargs)] * self.num_envs)

    def set_attr(self, name: str, values: Any) -> None:
        """Set the attribute `name` of each environment; `values` is one value, or a list or tuple with one for each.

        Raises:
            ValueError: If there are more or fewer values than environments.
        """
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(
                f"found {len(each)} values for {name!r}, expected {self.num_envs}, one for each environment."
            )
        self._all_asked("_setattr", [(name, value) for value in each])

    def _put(self, observations: dict[int, Any]) -> None:
        if self._shared is None:
            in_order = [observations[lane] for lane in range(self.num_envs)]
            self.observations = concatenate(self.single_observation_space, in_order, self.observations)

    # --- Talking ----------------------------------------------------------------------------------------------------

    def send(self, lane: int, command: str, data: Any) -> None:
        """Send a command to a worker; `answer` has to follow.

        Raises:
            LostWorkerError: If the worker is gone.
        """
        try:
            self.parent_pipes[lane].send((command, data))
        except OSError as error:
            raise _lost(error, self.timeout_s) from error

    def answer(self, lane: int, deadline: float | None = None) -> Any:
        """Return what a worker answers to the last command.

        Args:
            lane: Its number.
            deadline: Until when it may take, of `time.monotonic`; otherwise `timeout_s` from now on.

        Raises:
            LostWorkerError: If the worker is gone, or does not answer in time.
            EnvError: If its environment has failed for good.
        """
        pipe = self.parent_pipes[lane]
        try:
            if deadline is not None and self._is_too_late(pipe, deadline):
                raise BlockingIOError
            # The pipe itself limits how long that may take, also in the middle of an answer.
            result, is_answer = pipe.recv()
        except (EOFError, OSError) as error:
            raise _lost(error, self.timeout_s) from error
        except Exception as error:
            raise EnvError(
                f"environment {lane}: found an answer of its process that cannot be read ({type(error).__name__}: {error}), "
                "expected objects whose classes can be imported here. Define them at the top level of a module."
            ) from error
        if is_answer:
            return result
        raise _failed(lane, result)

    def deadline(self) -> float | None:
        """Return until when an answer to a command that is sent now may take, of `time.monotonic`."""
        return None if self.timeout_s is None else time.monotonic() + self.timeout_s

    def _is_too_late(self, pipe: Any, deadline: float) -> bool:
        """Wait until an answer begins, and tell whether none has begun by `deadline`."""
        left = deadline - time.monotonic()
        if left > _IN_TIME * (self.timeout_s or 0.0):
            return False  # the limit of the pipe will do; `poll` costs more
        return not pipe.poll(max(0.0, left))

    def _asked(self, commands: Sequence[str], data: Iterable[Any]) -> tuple[dict[int, Any], dict[int, LostWorkerError]]:
        """Return the answers of all workers to a command each, and what became of workers without an answer."""
        lost: dict[int, LostWorkerError] = {}
        for lane, (command, each) in enumerate(zip(commands, data, strict=True)):
            try:
                self.send(lane, command, each)
            except LostWorkerError as error:
                lost[lane] = error
        waiting = [lane for lane in range(self.num_envs) if lane not in lost]
        return self._answers(waiting, lost), lost

    def _answers(self, lanes: Iterable[int], lost: dict[int, LostWorkerError]) -> dict[int, Any]:
        """Return the answers of `lanes` to commands that were sent now; what became of others is put into `lost`."""
        deadline = self.deadline()
        answers: dict[int, Any] = {}
        for lane in lanes:
            try:
                answers[lane] = self.answer(lane, deadline)
            except LostWorkerError as error:
                lost[lane] = error
        return answers

    def _all_asked(self, command: str, data: Sequence[Any]) -> tuple[Any, ...]:
        answers, lost = self._asked([command] * self.num_envs, data)
        for lane, error in lost.items():
            raise EnvError(f"environment {lane}: found {error}, expected an answer to {command!r}.") from error
        return tuple(answers.values())

    # --- Workers ----------------------------------------------------------------------------------------------------

    def _replaced(self, lost: dict[int, LostWorkerError]) -> dict[int, tuple[Any, dict[str, Any]]]:
        """Replace workers, and return with which observations and infos their environments begin."""
        begun = {}
        while lost:
            for lane, error in lost.items():
                self._count_loss(lane, error)
                self._end(lane)
                self._start(lane)
                self._ask_for_spaces(lane)
            again: dict[int, LostWorkerError] = {}
            deadline = self._start_deadline()
            for lane in lost:
                try:
                    self._receive_spaces(lane, deadline)
                    self.send(lane, "reset", {"seed": self._next_seed(lane), "options": None})
                except LostWorkerError as other:
                    again[lane] = other
            for lane, (observation, info) in self._answers([lane for lane in lost if lane not in again], again).items():
                begun[lane] = observation, {**info, RESTARTED: Restart(f"{type(lost[lane]).__name__}: {lost[lane]}")}
            lost = again
        return begun

    def _count_loss(self, lane: int, error: LostWorkerError) -> None:
        self._losses[lane] += 1
        self._losses_in_a_row[lane] += 1
        if self._max_losses is not None and self._losses_in_a_row[lane] > self._max_losses:
            raise EnvError(
                f"environment {lane}: found {error}, after its process was replaced {self._max_losses} times in a row without "
                "an episode that ended; expected answers. Look for what blocks or kills it, or allow more time with "
                "`step_timeout_s=`."
            ) from error

    def _next_seed(self, lane: int) -> int | None:
        # Three numbers, because an environment that was rebuilt in its worker has a seed of two.
        seed = self._seeds[lane]
        return (
            None
            if seed is None
            else int(np.random.SeedSequence([seed, self._losses[lane], 1]).generate_state(1)[0] >> 1)
        )

    def _start(self, lane: int) -> None:
        """Start a worker, as gymnasium does for all of them."""
        context: Any = multiprocessing.get_context(self.context)
        with clear_mpi_env_vars():
            mine, its = context.Pipe()
            make = CloudpickleWrapper(self.env_fns[lane])
            process = context.Process(target=self.worker, args=(lane, make, its, mine), daemon=True)
            self.parent_pipes[lane], self.processes[lane] = mine, process
            process.start()
            its.close()

    def _end(self, lane: int) -> None:
        process = self.processes[lane]
        process.kill()
        process.join(_PATIENCE_S)
        self.parent_pipes[lane].close()

    def kill(self) -> None:
        """End all workers by force; `close` has to follow."""
        for lane in range(self.num_envs):
            self._end(lane)

    def _ask_for_spaces(self, lane: int) -> None:
        _limit_waits(self.parent_pipes[lane], self._start_limit_s)
        self.send(lane, "spaces", None)

    def _start_deadline(self) -> float | None:
        return None if self._start_limit_s is None else time.monotonic() + self._start_limit_s

    def _receive_spaces(self, lane: int, deadline: float | None) -> None:
        pipe = self.parent_pipes[lane]
        if deadline is not None and not pipe.poll(max(0.0, deadline - time.monotonic())):
            silence = BlockingIOError()
            raise _lost(silence, self._start_limit_s) from silence
        found = self.answer(lane)
        _limit_waits(pipe, self.timeout_s)
        check_same_spaces(lane, found, (self.single_observation_space, self.single_action_space))

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers: those that listen by themselves, all others by force."""
        _end_workers([self], by_force=terminate)


# --- The end ----------------------------------------------------------------------------------------------------------


def close(*envs: VectorEnv[Any, Any, Any], by_force: bool = False) -> None:
    """Close `envs`, whatever state they are in; the workers of all of them end at the same time, and none is left behind."""
    running = [env.unwrapped for env in envs if isinstance(env.unwrapped, AsyncVectorEnv) and not env.unwrapped.closed]
    # gymnasium's own way waits for ever for workers that hang, and stops at the first one that is gone.
    _end_workers(running, by_force=by_force)
    for ready in running:
        ready.closed = True
    for env in envs:
        env.close()


def _end_workers(envs: Sequence[AsyncVectorEnv], *, by_force: bool) -> None:
    """End the processes of `envs`: those that listen by themselves, unless by force, and all others."""
    pipes: list[Any] = [pipe for env in envs for pipe in env.parent_pipes]
    pipes = [pipe for pipe in pipes if pipe is not None]  # gymnasium puts None where a worker has failed
    # The last one is not running if it could not be started.
    started = [process for env in envs for process in env.processes if process.pid is not None]
    if not by_force:
        for pipe in pipes:
            with contextlib.suppress(OSError, ValueError):
                os.set_blocking(pipe.fileno(), False)  # a worker that hangs may have left no room
                pipe.send(("close", None))
        _join(started)
    for process in started:
        process.terminate()
    _join(started)
    for process in started:
        process.kill()
    _join(started)
    for pipe in pipes:
        pipe.close()
    for env in envs:
        errors = getattr(env, "error_queue", None)
        if errors is not None:
            errors.close()
            errors.cancel_join_thread()


def _join(processes: list[Any]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))


def make_in_time(make: Make, timeout_s: float | None) -> Any:
    """Return what `make` makes, to look at it; a worker may take as long, if a step may take `timeout_s` seconds.

    Raises:
        EnvError: If it raises, or takes longer.
    """
    limit_s = start_limit_s(timeout_s)
    made = _returned_in_time(partial(first_env, make, 0), limit_s)
    if not made:
        raise _not_made_in_time(0, limit_s)
    return made[0]


def close_in_time(env: gym.Env[Any, Any]) -> None:
    """Close an environment that was made to look at it; what that raises is ignored, and it is not waited for for long."""
    with contextlib.suppress(*RAISED):  # as in all lanes, see `GuardedEnv`
        _returned_in_time(env.close, _PATIENCE_S)


def _returned_in_time(call: Callable[[], Any], limit_s: float | None) -> list[Any]:
    """Return a list with what `call` returns, or an empty one after `limit_s`; raise what it raises."""
    returned: list[Any] = []
    raised: list[BaseException] = []

    def calling() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001  # raised below
            raised.append(error)

    # A thread, because a call in this one could not be left.
    thread = threading.Thread(target=calling, daemon=True, name="looking at an environment")
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    return returned


def start_limit_s(timeout_s: float | None) -> float | None:
    """Return how long making an environment may take, if a step may take `timeout_s` seconds."""
    return None if timeout_s is None else max(_START_S, timeout_s)


# --- Asynchronous environments that were made elsewhere ---------------------------------------------------------------


def forgets_resets(env: VectorEnv[Any, Any, Any]) -> bool:
    """Tell whether lanes of `env` that have ended swallow their first step after a reset: a fault of gymnasium's workers."""
    ready = env.unwrapped
    return isinstance(ready, AsyncVectorEnv) and not isinstance(ready, AsyncLanes) and not ready.shared_memory


def pass_over_ends(env: VectorEnv[Any, Any, Any], lanes: Sequence[int]) -> None:
    """Let `lanes`, whose episodes have ended, begin the next ones before all are reset, if `env` would forget the reset."""
    ready = env.unwrapped
    if not lanes or not isinstance(ready, AsyncVectorEnv) or not forgets_resets(env):
        return
    pipes = [ready.parent_pipes[lane] for lane in lanes]
    for pipe in pipes:
        pipe.send(("step", None))  # the action is not looked at
    for lane, pipe in zip(lanes, pipes, strict=True):
        _, success = pipe.recv()
        ready._raise_if_errors([success if other == lane else True for other in range(ready.num_envs)])


# --- Starting and waiting ---------------------------------------------------------------------------------------------


def _prepare(context: str) -> None:
    """Get ready to start workers."""
    if context == "fork":
        warnings.warn(
            "asynchronous environments: found async_context='fork', expected 'forkserver' or 'spawn': torch may have computed "
            "in this process, and a fork of it may then hang for ever. Choose another one.",
            stacklevel=2,
        )
    if context != "forkserver":
        return
    # Has no effect if the server runs already; otherwise it imports once what all workers need.
    multiprocessing.get_context(context).set_forkserver_preload([__name__])
    # Ctrl-C while the server imports would end it, and no worker could be started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _limit_waits(pipe: Any, limit_s: float | None) -> None:
    """Let no part of a message through `pipe` take longer than `limit_s`: a `BlockingIOError` is raised then."""
    limit = struct.pack("@ll", *divmod(round((limit_s or 0.0) * 1e6), 1_000_000))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setblocking(True)  # a default timeout of sockets would be one of the pipe, too
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _fits_shared_memory(space: Space[Any]) -> bool:
    if isinstance(space, spaces.Dict):
        return all(map(_fits_shared_memory, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_fits_shared_memory, space.spaces))
    return isinstance(space, ARRAY_SPACES)


# --- Errors -----------------------------------------------------------------------------------------------------------


def _lost(error: BaseException, timeout_s: float | None) -> LostWorkerError:
    is_silent = isinstance(error, BlockingIOError)
    return LostWorkerError(f"no answer for {timeout_s} seconds" if is_silent else f"its process gone ({error!r})")


def _not_made_in_time(lane: int, limit_s: float | None) -> EnvError:
    return EnvError(
        f"environment {lane}: found no environment after {limit_s} seconds, expected one from what makes it. Look for what "
        "blocks it, or allow more time with `step_timeout_s=`."
    )


def _failed(lane: int, failure: Failure) -> EpisodiaError:
    if failure.kind is not None:
        return failure.kind(failure.text)
    return EnvError(f"environment {lane}: found {failure.text}, expected a step. Its worker says:\n{failure.trace}")


def _never_started(error: BaseException) -> LostWorkerError:
    return LostWorkerError(
        f"asynchronous environments: found a process that ended before its environment was made ({error}), expected one "
        'that stays; it may have said why on stderr. In a script, start them under `if __name__ == "__main__":`, since new '
        "processes import the script."
    )
