"""What a multi-agent runner can be told, and what of it makes no sense."""

from __future__ import annotations

from functools import partial
from typing import Any

from episodia.env_runners.envs.env_sources import AgentEnvSource
from episodia.env_runners.envs.remote_agents import RemoteEnv
from episodia.env_runners.rollout.multi_agent_loop import CountStepsBy
from episodia.env_runners.runner_settings import RunnerSettings, check_whole
from episodia.errors import EnvRunnerError


def source_of(env: Any, num_envs: int, settings: RunnerSettings) -> AgentEnvSource:
    """Return what makes the environments.

    Raises:
        EnvRunnerError: If there cannot be so many of them, or not there where they are to be.
    """
    vectorization = settings.vectorization
    if vectorization not in ("sync", "async"):
        raise EnvRunnerError(f"found `vectorization={vectorization!r}`, expected 'sync' or 'async'.")
    remote = partial(RemoteEnv, timeout_s=settings.step_timeout_s, context=settings.async_context)
    source = AgentEnvSource(env, None if vectorization == "sync" else remote)
    check_whole(1, num_envs=num_envs)
    if num_envs > 1 and not source.can_remake:
        raise EnvRunnerError(
            f"found a ready environment for num_envs={num_envs}, expected a callable that makes environments. "
            "Pass one, or num_envs=1."
        )
    if vectorization == "async" and not source.can_remake:
        raise EnvRunnerError(
            "found a ready environment for vectorization='async', expected a callable: it is made in another process."
        )
    return source


def checked_count(count_steps_by: Any) -> CountStepsBy:
    """Return which steps are counted.

    Raises:
        EnvRunnerError: If there are no such steps.
    """
    if count_steps_by not in ("env_steps", "agent_steps"):
        raise EnvRunnerError(f"found count_steps_by={count_steps_by!r}, expected one of ('env_steps', 'agent_steps').")
    counted: CountStepsBy = count_steps_by
    return counted
