"""Workers of Ray: actors, calls to them, and what is shared with them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

import gymnasium as gym
import torch

from episodia.dataflow.engines.engine import Call, Worker
from episodia.dataflow.engines.outcome import Outcome
from episodia.dataflow.engines.ray_host import Sent
from episodia.dataflow.engines.ray_processes import kill_process
from episodia.dataflow.engines.ray_session import ray_module
from episodia.errors import EngineError, RemoteTracebackError, WorkerDiedError

# Processes take seconds to start, and machines of growing clusters minutes.
_BEGINNING_S = 600.0


@final
class RayActor:
    """The process of a worker, or of a spare.

    Args:
        handle: Ray's handle of it.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.closing: Any = None
        self._place = handle.place.remote()
        self._is_killed = False

    def close(self) -> None:
        """Let it close its object, and end."""
        self.closing = self.handle.close.remote()

    def is_over(self) -> bool:
        """Tell whether it was killed, or has closed its object."""
        return self._is_killed or (self.closing is not None and bool(_ready([self.closing])))

    def kill(self) -> None:
        """Kill it, also if it is stopped, which Ray would wait for."""
        ray = ray_module()
        if self._is_killed or not ray.is_initialized():
            return
        self._is_killed = True
        if _ready([self._place]):
            with suppress(ray.exceptions.RayError):  # it has died before it could say where it is
                kill_process(*ray.get(self._place))
        ray.kill(self.handle, no_restart=True)


@final
class RayCall(Call):
    """A call; `ref` is Ray's reference of the answer, `ended` says that the worker was given up before it came."""

    def __init__(self, ref: Any, ended: Outcome | None = None) -> None:
        self.ref = ref
        self.ended = ended

    def result(self) -> Any:
        """Return what the method returned; arrays are views of shared memory."""
        if self.ended is not None:
            return self.ended.result()
        value, failed = _answer(self.ref)
        if failed is None:
            return value
        raise failed.error from RemoteTracebackError(f"in the worker:\n{failed.traceback}")


@final
class RayWorker(Worker):
    """An object in an actor.

    Args:
        actor: The actor.
        sent: The function that makes the object.
    """

    def __init__(self, actor: RayActor, sent: Sent) -> None:
        self._actor = actor
        self._made = actor.handle.make.remote(sent)
        self._is_beginning = True
        self._made_at_latest_s = time.monotonic() + _BEGINNING_S
        self._open: list[RayCall] = []
        self._is_dead = False

    def call(self, method: str, *arguments: Any) -> Call:
        """Queue a call."""
        if self._is_dead:
            return RayCall(None, Outcome.died("was killed"))
        self.may_take_longer()  # notes whether the object is made
        ref = self._actor.handle.call.remote(method, arguments, torch.get_num_threads())
        call = RayCall(ref)
        self._open = [*self._unanswered(), call]
        return call

    def is_made(self) -> bool:
        """Tell whether the object is made, or can be expected to be."""
        return bool(_ready([self._made])) or time.monotonic() > self._made_at_latest_s

    def _unanswered(self) -> list[RayCall]:
        ready = _ready([call.ref for call in self._open])
        return [call for call in self._open if call.ref not in ready]

    def kill(self) -> None:
        """End all calls. An idle worker closes its object first, which may have processes of its own."""
        if self._is_dead:
            return
        self._is_dead = True
        waiting = self._unanswered()
        self._open = []
        for call in waiting:
            call.ended = Outcome.died("was killed")
        if waiting:
            self._actor.kill()
        else:
            self._actor.close()


@final
class RayHandle:
    """A value in the object store."""

    def __init__(self, ref: Any) -> None:
        self._ref = ref

    def fetch(self) -> Any:
        """Return the value; its arrays are views of shared memory."""
        return _answer(self._ref)


def sent_with(make: Callable[[], Any]) -> Sent:
    """Return what an actor needs to call `make`."""
    return Sent(ray_module().cloudpickle.dumps(make), _own_environments(), list(sys.path), torch.get_num_threads())


def _own_environments() -> dict[str, bytes]:
    """Return the environments that are registered here and do not come with gymnasium, pickled, by their ids."""
    pickled: dict[str, bytes] = {}
    for id_, spec in gym.registry.items():
        entry = spec.entry_point
        if not isinstance(entry, str) or not entry.startswith("gymnasium."):
            # Those that cannot be pickled are unknown to workers, which say so if one is needed.
            with suppress(Exception):
                pickled[id_] = ray_module().cloudpickle.dumps(spec)
    return pickled


def _ready(refs: list[Any]) -> set[Any]:
    return set(ray_module().wait(refs, num_returns=len(refs), timeout=0)[0]) if refs else set()


def _answer(ref: Any) -> Any:
    """Return what `ref` refers to.

    Raises:
        WorkerDiedError: If it was lost with its process or its machine.
        EngineError: If a process could not begin, or if something could not be sent.
    """
    ray = ray_module()
    errors = ray.exceptions
    try:
        return ray.get(ref)
    except errors.RayTaskError as error:
        raise _not_sent(error) from RemoteTracebackError(str(error))
    except errors.ActorUnschedulableError as error:
        raise EngineError(f"RayEngine: found no place for a worker ({error}), expected one. Ask for less.") from error
    except (errors.RayActorError, errors.NodeDiedError, errors.ObjectLostError, errors.WorkerCrashedError) as error:
        if "creation task" in str(error):
            raise _not_sent(error) from error
        raise WorkerDiedError(
            f"found a worker that died ({type(error).__name__}: {error}), expected an answer. Start another one."
        ) from error
    except errors.OutOfMemoryError as error:
        raise WorkerDiedError(
            f"found a worker that Ray has killed ({error}), expected an answer. Let workers use less memory."
        ) from error
    except errors.RayError as error:
        raise _not_sent(error) from error


def _not_sent(error: Exception) -> EngineError:
    cause = getattr(error, "cause", None) or error
    return EngineError(
        f"RayEngine: found that a worker cannot begin, or cannot load or send something ({type(cause).__name__}: {cause}), "
        "expected code that it can import and values that can be pickled. Install the packages on all machines, or give "
        'workers your modules with `RayEngine(runtime_env={"py_modules": [...]})`.'
    )
