"""A multi-agent environment in a process of its own.

gymnasium's asynchronous vector environment does the work: it starts the process, talks to it, and ends it. What it carries
are arrays of one agent; here dicts of many agents travel as its actions and infos, so each environment has one of its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, final

import gymnasium as gym
from gymnasium import Space, spaces

from episodia.env_runners.envs.async_lanes import AsyncLanes, close
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv, StepResult
from episodia.errors import EnvError, LostWorkerError
from episodia.types import AgentID

# Stands where gymnasium wants an observation; it is not read.
_NOTHING = spaces.Discrete(1)


@final
class RemoteEnv(MultiAgentEnv):
    """An environment with several agents that steps in another process.

    Between `step_async` and `step`, which waits for the answer, other environments can step; `reset_async` and `reset` are the
    same for resets. Whatever goes wrong with the process is raised as an exception; an answer that was not waited for is
    never taken for that of a later step.

    Args:
        make: Makes the environment, in the other process.
        lane: Its number, for messages.
        timeout_s: How long a step or a reset may take; None for any time.
        context: How the process is started.

    Attributes:
        is_lost: Whether the process did not answer when it was asked for something else than a step or a reset.
    """

    def __init__(self, make: Callable[[], Any], lane: int, *, timeout_s: float | None, context: str) -> None:
        self._make = make
        self._lane = lane
        self._timeout_s = timeout_s
        self._context = context
        self._process: AsyncLanes | None = None
        self._under_way: tuple[Any, ...] | None = None  # the command whose answer was not read yet
        self._is_talking = False  # True after an interrupt: what was sent or read is unknown then
        self._deadline: float | None = None  # until when that may come
        self._not_sent: Exception | None = None
        self._known: dict[tuple[str, AgentID], Space[Any]] = {}
        self._possible_agents: Any = None
        self._start()

    def _start(self) -> None:
        self._process = AsyncLanes(
            [partial(_Hosted, self._make)],
            _Hosted(self._make),
            timeout_s=self._timeout_s,
            context=self._context,
            max_losses=0,
        )
        self._under_way = None
        self._is_talking = self.is_lost = False

    @property
    def process(self) -> AsyncLanes | None:
        """The environment that runs the process; None after the end."""
        return self._process

    # --- Playing ----------------------------------------------------------------------------------------------------

    def reset_async(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Let the environment begin an episode; `reset` has to follow, with the same arguments.

        That happens in a new process, if the last answer of the old one was not read.
        """
        command = ("reset", seed, options)
        if self._under_way == command and not self._is_talking:
            return
        self._not_sent = None
        try:
            if self._under_way is not None or self._process is None:
                self.close()
                self._start()
            self._send(*command)
        except Exception as error:  # noqa: BLE001  # whatever goes wrong, `reset` raises it
            self._not_sent = error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Return what the episode begins with that `reset_async` has begun, or that begins now."""
        if self._not_sent is None:
            self.reset_async(seed=seed, options=options)
        first: tuple[Any, Any] = self._awaited()
        return first

    def step_async(self, actions: dict[AgentID, Any]) -> None:
        """Let the environment step; `step` has to follow."""
        self._not_sent = None
        try:
            self._send("step", actions)
        except (OSError, EOFError, EnvError) as error:
            self._not_sent = error

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        """Return what the step brings that `step_async` has begun, or that begins now."""
        if self._under_way is None and self._not_sent is None:
            self._send("step", actions)
        result: StepResult = self._awaited()
        return result

    # --- What is known ----------------------------------------------------------------------------------------------

    @property
    def possible_agents(self) -> Any:  # type: ignore[override]  # asked for when it is needed
        """All agents that can ever take part."""
        if self._possible_agents is None:
            self._possible_agents = list(self._asked("attribute", "possible_agents") or ())
        return self._possible_agents

    def get_observation_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's observations."""
        return self._space("get_observation_space", agent_id)

    def get_action_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's actions."""
        return self._space("get_action_space", agent_id)

    def _space(self, method: str, agent_id: AgentID) -> Space[Any]:
        if (method, agent_id) not in self._known:
            self._known[method, agent_id] = self._asked("call", method, agent_id)
        return self._known[method, agent_id]

    # --- Talking ----------------------------------------------------------------------------------------------------

    def _asked(self, *command: Any) -> Any:
        try:
            self._send(*command)
            return self._answer()
        except EnvError as error:
            self.is_lost = isinstance(error, LostWorkerError)
            raise type(error)(f"environment {self._lane}: {error}") from error

    def _awaited(self) -> Any:
        """Return the answer to a command, or raise that it could not be sent."""
        error, self._not_sent = self._not_sent, None
        if error is not None:
            raise error
        return self._answer()

    def _send(self, *command: Any) -> None:
        if self._process is None:
            raise EnvError("found an environment whose process was ended, expected a running one. Reset it first.")
        if self._under_way is not None:
            # Its answer would be taken for the one to this command.
            raise LostWorkerError(f"no answer to {self._under_way[0]!r}")
        self._is_talking = True
        self._under_way = command
        self._process.send(0, "step", command)
        # From now on, not from when it is waited for: environments that hang together are waited for once.
        self._deadline = self._process.deadline()
        self._is_talking = False

    def _answer(self) -> Any:
        if self._process is None:
            raise EnvError("found an environment whose process was ended, expected a running one. Reset it first.")
        self._is_talking = True
        *_, answer = self._process.answer(0, self._deadline)
        # After a timeout or an interrupt the answer may still come: then the process is not used again.
        self._under_way = None
        self._is_talking = False
        if "error" in answer:
            raise EnvError(f"{answer['error']}\nIts process says:\n{answer['trace']}")
        return answer["result"]

    def close(self) -> None:
        """End the process; a second time nothing happens."""
        process, self._process = self._process, None
        if process is None:
            return
        is_silent = self._under_way is not None
        if is_silent:
            process.kill()
        process.close(terminate=is_silent)


def close_remote(envs: Iterable[Any]) -> None:
    """End the processes of all `RemoteEnv` among `envs` at the same time."""
    close(*(env.process for env in envs if isinstance(env, RemoteEnv) and env.process is not None))


@final
class _Hosted(gym.Env[Any, Any]):
    """The environment in the process: takes commands as actions, and puts their results into its infos."""

    observation_space = _NOTHING
    action_space = _NOTHING

    def __init__(self, make: Callable[[], Any]) -> None:
        # Made with the first command: gymnasium makes one of these in the main process too, to look at its spaces.
        self._make = make
        self._env: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        try:
            answer = {"result": self._obeyed(*action)}
        except BaseException as error:  # noqa: BLE001  # whatever an environment raises, see `RAISED_IN_WORKER`
            # As text: not every exception survives the way.
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        return 0, 0.0, False, False, answer

    def _obeyed(self, command: str, *arguments: Any) -> Any:
        if self._env is None:
            self._env = self._make()
        if command == "step":
            return tuple(self._env.step(*arguments))
        if command == "reset":
            seed, options = arguments
            return self._env.reset(seed=seed) if options is None else self._env.reset(seed=seed, options=options)
        if command == "attribute":
            (name,) = arguments
            return getattr(self._env, name, None)
        method, *rest = arguments
        return getattr(self._env, method)(*rest)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
