"""What a multi-agent runner can be told, and what of it makes no sense."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from episodia.env_runners.multi_agent_players import CountStepsBy
from episodia.env_runners.multi_agent_sources import EnvSource
from episodia.env_runners.remote_agents import RemoteEnv
from episodia.env_runners.setting_checks import check_timeout, check_whole
from episodia.errors import EnvRunnerError


def check(source: EnvSource, num_envs: int, on_env_error: str, horizon: int | None, soft_horizon: int | None) -> None:
    """Check what has to do with environments and their faults.

    Raises:
        EnvRunnerError: If something does not fit.
    """
    check_whole(1, num_envs=num_envs)
    if num_envs > 1 and not source.can_remake:
        raise EnvRunnerError(
            f"found a ready environment for num_envs={num_envs}, expected a callable that makes environments. "
            "Pass one, or num_envs=1."
        )
    if on_env_error not in ("drop", "truncate"):
        raise EnvRunnerError(f"found on_env_error={on_env_error!r}, expected one of ('drop', 'truncate').")
    check_whole(1, or_none=True, horizon=horizon, soft_horizon=soft_horizon)


def remote(vectorization: str, timeout_s: float | None, context: str) -> Callable[[Any], Any] | None:
    """Return what puts environments into processes of their own; None if they stay in this one."""
    return None if vectorization == "sync" else partial(RemoteEnv, timeout_s=timeout_s, context=context)


def check_vectorization(source: EnvSource, vectorization: str, timeout_s: float | None) -> None:
    """Check where environments live.

    Raises:
        EnvRunnerError: If that is not possible.
    """
    if vectorization not in ("sync", "async"):
        raise EnvRunnerError(f"found vectorization={vectorization!r}, expected 'sync' or 'async'.")
    if vectorization == "async" and not source.can_remake:
        raise EnvRunnerError(
            "found a ready environment for vectorization='async', expected a callable: it is made in another process."
        )
    check_timeout(timeout_s)
    if timeout_s is not None and vectorization == "sync":
        raise EnvRunnerError(
            f"found step_timeout_s={timeout_s!r} with vectorization={vectorization!r}, expected 'async': a "
            "step in this process cannot be interrupted."
        )


def checked_count(count_steps_by: Any) -> CountStepsBy:
    """Return which steps are counted.

    Raises:
        EnvRunnerError: If there are no such steps.
    """
    if count_steps_by not in ("env_steps", "agent_steps"):
        raise EnvRunnerError(f"found count_steps_by={count_steps_by!r}, expected one of ('env_steps', 'agent_steps').")
    counted: CountStepsBy = count_steps_by
    return counted
