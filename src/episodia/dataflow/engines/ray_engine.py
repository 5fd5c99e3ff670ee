"""The engine of Ray: each worker is an actor, in a process of its own, on this machine or on others."""

from __future__ import annotations

import re
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from episodia.arguments import checked_flag, checked_whole, proposal
from episodia.dataflow.engines.engine import Call, Engine, Handle, Worker
from episodia.dataflow.engines.ray_host import RayHost, Sent
from episodia.dataflow.engines.ray_session import RaySession, check_ray_installed, ray_module
from episodia.dataflow.engines.ray_worker import RayActor, RayCall, RayHandle, RayWorker, sent_with
from episodia.errors import EngineError

# Objects may take so long to close themselves.
_CLOSING_S = 1.5
# What the engine decides: Ray's own restarts and retries tell late of a death, and silently run a call twice.
_DECIDED = ("max_restarts", "max_task_retries", "max_concurrency", "lifetime", "name")


@final
class RayEngine(Engine):
    """Runs the calls of each worker in a Ray actor.

    Ray starts with the first worker, on this machine alone, without its dashboard and its usage statistics. With an address,
    the engine joins a cluster; if this process is connected to Ray already, the engine uses that.

    What a worker returns is read without a copy: its arrays are read-only views of shared memory, which lives as long as one of
    them. A worker that dies is noticed at once, one that hangs only by the time limit of the caller.

    Args:
        address: The address of a cluster, such as `"10.0.0.1:6379"`, or `"auto"`; None is this machine.
        spares: So many processes wait to become workers, so that a successor starts in some 10 ms instead of seconds.
        shows_output: Whether what workers print is printed here.
        **options: Options of Ray's actors for each worker: `num_cpus` (by default 0 on this machine, 1 on a cluster),
            `num_gpus`, `resources`, `scheduling_strategy`, `runtime_env` and others.

    Raises:
        MissingExtraError: If Ray is not installed.
        EngineError: If an argument is invalid.
    """

    is_in_process = False

    def __init__(
        self, address: str | None = None, *, spares: int = 0, shows_output: bool = True, **options: Any
    ) -> None:
        check_ray_installed()
        self._address = _checked_address(address)
        self._num_spares = checked_whole(EngineError, "RayEngine", "spares", spares, 0)
        self._shows_output = checked_flag(EngineError, "RayEngine", "shows_output", shows_output)
        decided = [name for name in _DECIDED if name in options]
        if decided:
            raise EngineError(
                f"RayEngine: found the options {decided}, which the engine decides, expected others. Leave them out."
            )
        _check_options(options)
        self._options = options
        self._session: RaySession | None = None
        self._spares: deque[RayActor] = deque()
        self._actors: list[RayActor] = []
        self._workers: list[RayWorker] = []
        self._sent: Sent | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        given = [] if self._address is None else [repr(self._address)]
        options = {"spares": self._num_spares, **self._options}
        return f"RayEngine({', '.join(given + [f'{name}={value!r}' for name, value in options.items() if value])})"

    def _joined(self) -> RaySession:
        """Return the connection to Ray."""
        if self._is_closed:
            raise EngineError("RayEngine: found that it is closed, expected an open one. Make another one.")
        if self._session is None:
            self._session = RaySession.joined(self._address, shows_output=self._shows_output)
        return self._session

    def start(self, make: Callable[[], Any]) -> Worker:
        """Make the object in an actor, and return at once.

        Environments that this process has registered with gymnasium are registered there, too.
        """
        self._actors = [actor for actor in self._actors if not actor.is_over()]
        sent = sent_with(make)
        worker = RayWorker(self._spares.popleft() if self._spares else self._new_actor(), sent)
        self._workers.append(worker)
        self._sent = sent
        return worker

    def _fill_spares(self) -> None:
        """Start the spares that are missing, once the newest worker has begun: a process that starts needs the processor."""
        while len(self._spares) < self._num_spares and self._workers and self._workers[-1].is_made():
            self._spares.append(self._new_actor())
            self._spares[-1].handle.prepare.remote(self._sent)

    def _new_actor(self) -> RayActor:
        session, ray = self._joined(), ray_module()
        options = {"num_cpus": 0 if session.is_own else 1, **self._options, "max_restarts": 0, "max_task_retries": 0}
        _warn_of_missing_resources(options)
        self._actors.append(RayActor(ray.remote(RayHost).options(**options).remote()))
        return self._actors[-1]

    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Wait for an actor."""
        own = [call for call in calls if isinstance(call, RayCall)]
        refs = [call.ref for call in own if call.ended is None]
        if refs:
            # One question for all that are over; only if none is, wait for one.
            wait = ray_module().wait
            over, waiting = wait(refs, num_returns=len(refs), timeout=0)
            if not over and len(refs) == len(own) and timeout_s != 0:
                _, waiting = wait(refs, num_returns=1, timeout=timeout_s)
            self._fill_spares()
            still = set(waiting)
            return [call for call in own if call.ended is not None or call.ref not in still]
        return list(own)

    def share(self, value: Any) -> Handle:
        """Put `value` into the object store, once for all workers of a machine."""
        self._joined()
        return RayHandle(ray_module().put(value))

    def now(self) -> float:
        """Return the time of a clock that never goes back."""
        return time.monotonic()

    def close(self) -> None:
        """Close all objects, kill all workers, and end Ray if it was started here and no other engine uses it."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._session is None:
            return
        try:
            for worker in self._workers:
                worker.kill()
            closing = [actor.closing for actor in self._actors if actor.closing is not None]
            if closing:
                ray_module().wait(closing, num_returns=len(closing), timeout=_CLOSING_S)
        finally:
            for actor in self._actors:
                actor.kill()
            self._workers, self._actors = [], []
            self._spares.clear()
            self._session.leave()


def _checked_address(address: str | None) -> str | None:
    given: object = address
    if given is None or (isinstance(given, str) and not given.startswith("ray://")):
        return address
    raise EngineError(
        f"RayEngine: found the address {address!r}, expected that of a cluster which this machine is part of, such as "
        '"10.0.0.1:6379" or "auto", or None. Ray\'s client mode is not supported.'
    )


def _check_options(options: dict[str, Any]) -> None:
    """Check the options as Ray does when an actor starts."""
    if not options:
        return  # Ray is imported with the first worker
    try:
        ray_module().remote(RayHost).options(**options)
    except (TypeError, ValueError) as error:
        known = {"address", "spares", "shows_output", *re.findall(r"'(\w+)'", str(error))}
        remedy = proposal(options.keys() - known, known) or "Correct them, or leave them out."
        raise EngineError(
            f"RayEngine: found the options {options}, expected options of Ray's actors. Ray says: {error} {remedy}"
        ) from error


def _warn_of_missing_resources(options: dict[str, Any]) -> None:
    """Warn if a worker will wait until the cluster grows."""
    wanted = {"CPU": options["num_cpus"], "GPU": options.get("num_gpus") or 0, **(options.get("resources") or {})}
    there = ray_module().cluster_resources()
    missing = {name: count for name, count in wanted.items() if count > there.get(name, 0)}
    if missing:
        warnings.warn(
            f"RayEngine: found a worker that needs {missing}, expected at most what the cluster has: {there}. It waits until "
            "a machine with more joins. Ask for less, or start such a machine.",
            stacklevel=4,
        )
