"""One environment of a multi-agent runner, and the episode that it is in."""

from __future__ import annotations

import contextlib
import copy
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

from episodia.env_runners.envs.async_lanes import is_lost_worker
from episodia.env_runners.envs.env_crashes import RAISED, check_action
from episodia.env_runners.envs.env_horizons import OwnLimit
from episodia.env_runners.envs.env_sources import AgentEnvSource
from episodia.env_runners.envs.multi_agent_env import StepResult
from episodia.env_runners.envs.remote_agents import RemoteEnv
from episodia.env_runners.runner_settings import RunnerSettings
from episodia.env_runners.seeding import Seeds
from episodia.episodes import MultiAgentEpisode
from episodia.errors import EnvError, EpisodiaError
from episodia.trees import private

_ALL = "__all__"


# The observations and infos that an episode begins with.
_First: TypeAlias = tuple[dict[Any, Any], dict[Any, Any]]


class Choice(NamedTuple):
    """The actions of the agents of one episode, as they are recorded and as the environment receives them, and their extras."""

    actions: dict[Any, Any]
    for_env: dict[Any, Any]
    # Returns the extra model outputs of each agent; called only where they are needed, as most steps are recorded without.
    extras: Callable[[], dict[Any, dict[str, Any]]]


@dataclass
class Failures:
    """The cost of failures: environments that were rebuilt, episodes and steps that were dropped."""

    restarts: int = 0
    episodes: int = 0
    env_steps: int = 0


@dataclass(frozen=True, kw_only=True)
class LaneSettings:
    """The common settings of all lanes of a runner.

    Attributes:
        source: Makes the environments.
        new_episode: Makes an empty episode with an id.
        seeds: What seeds and ids of episodes are derived from.
        playing: How runners play, the limits of episodes and what becomes of failures among it.
    """

    source: AgentEnvSource
    new_episode: Callable[[str], MultiAgentEpisode]
    seeds: Seeds
    playing: RunnerSettings


@final
class Lane:
    """An environment that is reset, stepped, and rebuilt when it fails; what happens is recorded in `episode`.

    Attributes:
        episode: The episode that is running or has just ended; None before the first reset and after a failure.
        number: The number of episodes that have begun.
        order: When the episode began, compared with those of other lanes.
        lookback: How many of its own steps each agent can look back to in a chunk that goes on.
        following: The next chunk of the episode, while the current one is being cut.
        is_mid_step: Whether the environment has been stepped, and the episode does not know it: something was interrupted.
        is_recording: Whether the step is being written into the episode, which an interrupt leaves half-written.
    """

    def __init__(self, index: int, settings: LaneSettings) -> None:
        """Make the environment."""
        self.index = index
        self._settings = settings
        horizon, soft_horizon = settings.playing.horizon, settings.playing.soft_horizon
        self._horizon = math.inf if horizon is None else horizon
        self._soft_horizon = math.inf if soft_horizon is None else soft_horizon
        self._own_limit = OwnLimit(0 if horizon is None else horizon)
        self.env = settings.source.build(index)
        self.episode: MultiAgentEpisode | None = None
        self.number = 0
        self.order = 0
        self.lookback = 0
        self.following: MultiAgentEpisode | None = None
        self.is_mid_step = False
        self.is_recording = False
        self._steps_before = 0  # that the environment has made in earlier episodes, since its reset
        self._shown: _First | None = None  # what the next episode begins with, if the environment goes on
        self._in_a_row = 0  # failures since an episode was finished
        self._failures: Failures | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is an episode that goes on."""
        return self.episode is not None and not self.episode.is_done and not self.is_mid_step

    @property
    def ignores_terminations(self) -> bool:
        """Whether agents do not end when the environment says so."""
        return self._settings.playing.ignore_terminations

    @property
    def is_remote(self) -> bool:
        """Whether the environment is in another process."""
        return type(self.env) is RemoteEnv

    @property
    def is_lost(self) -> bool:
        """Whether the process of the environment was found gone or silent when it was asked for a space."""
        return isinstance(self.env, RemoteEnv) and self.env.is_lost

    @property
    def running(self) -> MultiAgentEpisode:
        """The episode, where there has to be one."""
        if self.episode is None:
            raise EnvError(f"environment {self.index}: found no episode, expected one. Reset it first.")
        return self.episode

    def begin(self) -> None:
        """Begin an episode: reset the environment, unless it goes on after a soft horizon.

        Raises:
            EnvError: If the environment fails, and must not be rebuilt.
            EpisodeError: If what it returns does not have observations of agents.
        """
        self.episode, self.is_mid_step, self.is_recording = None, False, False
        observations, infos = self._reset() if self._shown is None else self._shown
        self._shown = None
        episode = self._settings.new_episode(f"{self._settings.seeds.seed}-{self.index}-{self.number}")
        episode.env_index = self.index
        try:
            episode.add_env_reset(observations=observations, infos=infos)
        except EpisodiaError as error:
            raise self._located(error) from error
        self.number += 1
        self.episode = episode

    def leave(self) -> None:
        """Let the episode go, and reset the environment before the next one."""
        self.episode, self.following, self._shown = None, None, None

    def start_reset(self) -> None:
        """Let an environment in another process begin its reset, if it needs one; `begin` has to follow."""
        if isinstance(self.env, RemoteEnv) and self._shown is None:
            self.env.reset_async(seed=self._seed())

    def _seed(self) -> int:
        return self._settings.seeds.of_episode(self.index, self.number)

    def _reset(self) -> Any:
        self._steps_before = 0
        while True:
            try:
                observations, infos = self.env.reset(seed=self._seed())
            except RAISED as error:
                self._remake(error, "reset")
            else:
                return observations, infos

    def start(self, choice: Choice) -> None:
        """Let the environment, which `is_remote`, begin its step; `advance` has to follow."""
        self.is_mid_step = True
        self.env.step_async(choice.for_env)

    def advance(self, choice: Choice) -> StepResult | BaseException:
        """Step the environment, and return what it returned or raised; `settle` has to follow."""
        self.is_mid_step = True
        try:
            observations, rewards, terminateds, truncateds, infos = self.env.step(choice.for_env)
        except RAISED as error:
            return error
        return observations, rewards, terminateds, truncateds, infos

    def settle(self, episode: MultiAgentEpisode, choice: Choice, outcome: StepResult | BaseException) -> None:
        """Record a step; if the environment has failed, the episode is dropped or truncated, and the environment rebuilt.

        Raises:
            EnvError: If it must not be rebuilt.
            SpaceError: If it has failed with an action that is outside of its space.
            EpisodeError: If what it returned does not fit the episode.
        """
        if isinstance(outcome, BaseException):
            self._give_up_episode(episode, f"{type(outcome).__name__}: {outcome}")
            self._check_actions(choice, outcome)
            self._remake(outcome, "step")
            return
        try:
            self._record(episode, choice, outcome)
        except EpisodiaError as error:
            self.is_recording = False
            raise self._located(error) from error
        self.is_mid_step = False

    def _record(self, episode: MultiAgentEpisode, choice: Choice, result: StepResult) -> None:
        observations, rewards, terminateds, truncateds, infos = result
        if self.ignores_terminations:
            terminateds, truncateds = {}, _either(terminateds or {}, truncateds or {})
        shown: _First | None = None
        is_cut = self.is_last(episode.env_t + 1)
        if is_cut:
            given = terminateds or {}, truncateds or {}
            truncateds = _truncated(episode, observations, *given)
            if not self._is_over(episode.env_t + 1, *given, truncateds):
                shown = _going_on(observations, infos or {}, *given)
                # Without observations the next episode has nothing to begin with: the cut has to wait.
                truncateds = truncateds if shown else given[1]
        extras = choice.extras()
        self.is_recording = True
        episode.add_env_step(
            observations,
            choice.actions,
            rewards,
            infos,
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=extras,
        )
        self.is_recording = False
        if episode.is_done:
            self._in_a_row = 0
            if episode.is_truncated and not is_cut and not self.ignores_terminations:
                self._own_limit.truncated(self.env, self._steps_before + episode.env_t)
            if shown:
                self._shown, self._steps_before = shown, self._steps_before + episode.env_t

    def is_last(self, env_t: int) -> bool:
        """Tell whether an episode that has come to `env_t` has to end there, if it does not end by itself."""
        return env_t >= self._soft_horizon or self._steps_before + env_t >= self._horizon

    def _is_over(self, env_t: int, terminateds: Any, truncateds: Any, limited: Any) -> bool:
        """Tell whether the environment has to be reset: at the horizon, or because it has ended by itself."""
        ends_by_itself = bool(terminateds.get(_ALL) or truncateds.get(_ALL)) or not limited.get(_ALL)
        return ends_by_itself or self._steps_before + env_t >= self._horizon

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def prepare_cut(self) -> None:
        """Make the next chunk of the episode, with its lookback, if there were steps since the last time."""
        episode = self.episode
        if episode is not None and len(episode):
            self.following = episode.cut(episode.env_steps_back(self.lookback))

    # --- Failures ---------------------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Drop or truncate an episode whose last step was interrupted."""
        if self.episode is not None and (self.is_recording or not self.episode.is_done):
            self._give_up_episode(self.episode, "interrupted")
        self.is_mid_step = self.is_recording = False

    def _give_up_episode(self, episode: MultiAgentEpisode, reason: str) -> None:
        self.is_mid_step = False
        if self._settings.playing.on_env_error == "truncate" and len(episode) and not self.is_recording:
            # The step that failed is a step that has brought nothing; agents that wait keep their last observation.
            episode.add_env_step({}, {}, {}, truncateds={_ALL: True})
            episode.custom_data["env_error"] = reason
        else:
            self.episode = None
            failures = self._noted_failures()
            failures.episodes += 1
            failures.env_steps += len(episode)

    def _check_actions(self, choice: Choice, error: BaseException) -> None:
        """Check that it was not an action outside of its space that the environment has failed with."""
        if is_lost_worker(error):
            return  # the process that knows the spaces is gone
        for agent, action in choice.for_env.items():
            owner = f"environment {self.index}, episode {self.number - 1}, agent {agent!r}"
            check_action(self.env.get_action_space(agent), action, owner, error)

    def take_failures(self) -> Failures | None:
        """Return the cost of failures since the last call, None without failures."""
        failures, self._failures = self._failures, None
        return failures

    def _noted_failures(self) -> Failures:
        if self._failures is None:
            self._failures = Failures()
        return self._failures

    def _remake(self, error: BaseException, where: str) -> None:
        """Replace the environment, because of `error`; a new one that cannot be made is a failure, too."""
        while True:
            self._count_failure(error, where)
            self.close()
            self._shown = None
            try:
                self.env = self._settings.source.build(self.index)
            except RAISED as again:
                error, where = again, "rebuilding"
            else:
                self._noted_failures().restarts += 1
                return

    def _count_failure(self, error: BaseException, where: str) -> None:
        self._in_a_row += 1
        place = f"environment {self.index}, episode {self.number}, {where}: found {type(error).__name__}: {error}"
        if not self._settings.source.can_remake:
            raise EnvError(
                f"{place}; expected no error, as a ready environment cannot be rebuilt. Pass a callable that makes it."
            ) from error
        if self._settings.playing.gives_up(self._in_a_row):
            raise EnvError(
                f"{place}; expected no more than {self._settings.playing.max_restarts} failures without a finished episode in "
                "between. Correct the environment, or raise `max_restarts`. It raised:\n"
                f"{''.join(traceback.format_exception(error))}"
            ) from error

    def _located(self, error: EpisodiaError) -> EpisodiaError:
        return type(error)(f"environment {self.index}: {error}")

    def close(self) -> None:
        """Close the environment; errors of one that has failed are of no interest."""
        with contextlib.suppress(*RAISED):
            self.env.close()


def _truncated(episode: MultiAgentEpisode, observations: Any, terminateds: Any, truncateds: Any) -> dict[Any, Any]:
    """Return the flags with which all agents are truncated, unless the episode ends without that."""
    if terminateds.get(_ALL) or truncateds.get(_ALL):
        return dict(truncateds)
    running = {agent for agent, single in episode.agent_episodes.items() if not single.is_done}
    ends = [agent for flags in (terminateds, truncateds) for agent, flag in flags.items() if flag]
    if running.union(observations).difference(ends):
        return {**truncateds, _ALL: True}
    return dict(truncateds)


def _either(terminateds: Any, truncateds: Any) -> dict[Any, bool]:
    """Return who ends, for one reason or the other."""
    agents = dict.fromkeys([*terminateds, *truncateds])
    return {agent: bool(terminateds.get(agent) or truncateds.get(agent)) for agent in agents}


def _going_on(observations: Any, infos: Any, terminateds: Any, truncateds: Any) -> _First | None:
    """Return observations and infos of agents that do not end, None if there are no such observations.

    They are copies, as an environment may use its arrays again.
    """
    shown = [agent for agent in observations if not (terminateds.get(agent) or truncateds.get(agent))]
    if not shown:
        return None
    return {agent: private(observations[agent]) for agent in shown}, {
        agent: copy.deepcopy(infos[agent]) for agent in shown if agent in infos
    }
