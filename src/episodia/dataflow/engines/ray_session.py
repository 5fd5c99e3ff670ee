"""Ray in this process: started or joined by the first engine that needs it, and ended by the last one."""

from __future__ import annotations

import importlib
import importlib.util
import os
from contextlib import suppress
from typing import Any, ClassVar, final

from episodia.errors import EngineError, MissingExtraError


def check_ray_installed() -> None:
    """Check that Ray is installed.

    Raises:
        MissingExtraError: If it is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(
            "Ray: found that it is not installed, expected it. Install `episodia[ray]`, or use `LocalEngine` or `ThreadEngine`."
        )


def ray_module() -> Any:
    """Return Ray's module; importing it takes most of a second."""
    return importlib.import_module("ray")


@final
class RaySession:
    """The connection of a process to Ray, which all its engines share.

    Attributes:
        is_own: Whether Ray was started by an engine, on this machine alone.
    """

    _current: ClassVar[RaySession | None] = None

    def __init__(self, *, is_own: bool, ends: bool) -> None:
        self.is_own = is_own
        self._ends = ends
        self._num_users = 0

    @classmethod
    def joined(cls, address: str | None, *, shows_output: bool) -> RaySession:
        """Return the session of this process, which is begun if there is none.

        Args:
            address: That of a cluster; None starts Ray on this machine, unless this process is connected already.
            shows_output: Whether what workers print is printed here.
        """
        ray = ray_module()
        if not ray.is_initialized():
            cls._current = cls._begun(address, shows_output)
        elif cls._current is None:
            cls._current = cls(is_own=False, ends=False)  # the code that began the session ends it
        cls._current._num_users += 1
        return cls._current

    @classmethod
    def _begun(cls, address: str | None, shows_output: bool) -> RaySession:
        ray, is_own = ray_module(), address is None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Without it, Ray warns at each start of what a later version will do.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        own = {"include_dashboard": False} if is_own else {}
        try:
            ray.init(address="local" if is_own else address, log_to_driver=shows_output, logging_level="ERROR", **own)
        except Exception as error:  # Ray raises many kinds
            raise EngineError(
                f"RayEngine: found that Ray cannot be {'started' if is_own else f'reached at {address!r}'} ({error}), expected "
                "a running one. Correct the address, or look into Ray's logs in /tmp/ray/session_latest/logs."
            ) from error
        return cls(is_own=is_own, ends=True)

    def leave(self) -> None:
        """End the connection if no engine uses it any more."""
        self._num_users -= 1
        if self._num_users:
            return
        RaySession._current = None
        if self._ends:
            # If Ray is gone already, nothing is left to be ended.
            with suppress(ConnectionError):
                ray_module().shutdown()
