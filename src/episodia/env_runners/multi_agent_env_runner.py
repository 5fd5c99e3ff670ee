"""The runner for environments of several agents."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, final

from episodia.arguments import names_nearest_argument
from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.common.agent_to_module_mapping import default_mapping
from episodia.env_runners.acting.assembly import AUTO, Acting, EpisodeMaker, Explore, acting_of, as_modules, new_actor
from episodia.env_runners.acting.runner_pipelines import Pieces, delay_of, shapers_of
from episodia.env_runners.env_runner import EnvRunner, rebuilt
from episodia.env_runners.envs.env_sources import AgentEnvSource
from episodia.env_runners.envs.remote_agents import close_remote
from episodia.env_runners.rollout.multi_agent_lane import Lane, LaneSettings
from episodia.env_runners.rollout.multi_agent_loop import MultiAgentLoop
from episodia.env_runners.rollout.sample_goals import CountStepsBy, Goal, SampleMode, checked_count
from episodia.env_runners.runner_settings import (
    BatchMode,
    CheckFinite,
    FragmentLength,
    OnEnvError,
    RunnerSettings,
    StepTimeout,
    check_episode_class,
    check_num_envs,
    checked_numbers,
    timeout_of,
)
from episodia.env_runners.seeding import Seeds
from episodia.episodes import EpisodeList, MultiAgentEpisode
from episodia.episodes.multi_agent.pending_step import MissingFinalObservation
from episodia.modules.devices import device_of
from episodia.policies import MultiAgentPolicy


@names_nearest_argument
@final
class MultiAgentEnvRunner(EnvRunner[MultiAgentEpisode]):
    """Lets agents act in several environments at once, and returns what happened as multi-agent episodes.

    Agents that one module acts for are served by one forward pass, whatever environments they are in. Everything is
    recorded as it would be by a plain loop over the environments with `MultiAgentEpisode.add_env_step`.

    >>> import pettingzoo
    >>> runner = MultiAgentEnvRunner(lambda: pettingzoo.make("aec", "classic/tictactoe-v3"), num_envs=2, seed=0)
    >>> games = runner.sample(num_episodes=3)
    >>> len(games), all(game.is_terminated for game in games), games[0].id_
    (3, True, '0-0-0')
    """

    is_multi_agent = True

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        env: Any,
        modules: Any = None,
        *,
        num_envs: int = 1,
        vectorization: Literal["sync", "async"] = "sync",
        agent_to_module_mapping_fn: Callable[[Any, Any], Any] | None = None,
        env_to_module: EnvToModulePipeline | Pieces | None = None,
        module_to_env: ModuleToEnvPipeline | Pieces | None = None,
        seed: int | None = None,
        explore: Explore = AUTO,
        batch_mode: BatchMode = "truncate_episodes",
        rollout_fragment_length: FragmentLength | None = None,
        train_batch_size: int | None = None,
        count_steps_by: CountStepsBy = "env_steps",
        missing_final_observation: MissingFinalObservation = "repeat",
        lookback: int = 1,
        horizon: int | None = None,
        soft_horizon: int | None = None,
        ignore_terminations: bool = False,
        reward_delay: int = 0,
        callbacks: Iterable[Any] = (),
        episode_class: type[MultiAgentEpisode] = MultiAgentEpisode,
        on_env_error: OnEnvError = "drop",
        max_restarts: int | None = 100,
        step_timeout_s: StepTimeout = "auto",
        async_context: str = "forkserver",
        check_finite: CheckFinite = True,
    ) -> None:
        """Make the environments; nothing is reset yet.

        Args:
            env: A callable that makes a `MultiAgentEnv`, or a parallel or turn-based environment of PettingZoo; or a ready
                one, if `num_envs` is 1.
            modules: One module for all agents, or several by their ids; or a `MultiAgentPolicy`, which acts here as it does
                alone, with a memory for each environment; None acts at random, and runs no pipeline.
            num_envs: The number of environments.
            vectorization: `"sync"` steps them one after another, `"async"` at the same time, in a process each.
            agent_to_module_mapping_fn: Called with an agent and its episode, returns the module's id. By default there is
                one module for all, or each agent has the module of its own name.
            env_to_module: The pipeline in front of the modules, or pieces to put into the default one.
            module_to_env: The pipeline behind the modules, or pieces to put into the default one.
            seed: What seeds of environments, random numbers and ids of episodes are derived from. None takes a random one, see
                `seed`.
            explore: Whether modules explore, where `sample` does not say it; `"auto"` as the policy does, modules explore.
            batch_mode: What `sample` returns by default: chunks of `rollout_fragment_length` steps for each
                environment (`"truncate_episodes"`), or as many whole episodes as there are environments
                (`"complete_episodes"`).
            rollout_fragment_length: See `batch_mode`; 200 by default. With "auto", the environments share `train_batch_size`
                steps evenly.
            train_batch_size: How many steps `sample` returns by default, rounded up to the same number for each environment.
            count_steps_by: Whether steps are counted that environments make, or that agents complete.
            missing_final_observation: What happens when an episode is truncated while an agent that has acted waits for its
                next observation: its last one is repeated (`"repeat"`), or an `EpisodeError` is raised (`"error"`, the default
                of episodes). `"repeat"` is the default here, because `horizon` may stop an episode at any step.
            lookback: How many of its own steps each agent looks back at least, for pipelines of learners. What the
                runner's own pipelines need is derived.
            horizon: After how many environment steps an episode is truncated, and the environment reset.
            soft_horizon: After how many an episode is truncated, and the environment goes on with the next one.
            ignore_terminations: Record what terminates as truncated, so that learners bootstrap after it.
            reward_delay: For how many ticks a reward may still be set, by `set_rewards` on the running episode in callbacks or
                pieces: so many steps are not returned before they are settled. A `RewardShaper` in the pipeline brings its
                own.
            callbacks: See `Callbacks`.
            episode_class: The class of the episodes: a subclass of `MultiAgentEpisode` without a constructor of its own.
            on_env_error: Whether the episode of an environment that fails is dropped, or returned as truncated.
            max_restarts: How often in a row, without a finished episode in between, an environment that fails is rebuilt;
                None for any number.
            step_timeout_s: How long asynchronous environments may take for a step or a reset: `"auto"` is 300 seconds, None any
                time. One that takes longer, or whose process is gone, counts as failed.
            async_context: How their processes are started; `"fork"` warns, as it may hang where torch has computed before.
            check_finite: Whether to reject NaN and infinite numbers in observations and rewards; `"warn"` records them, and
                warns once.

        Raises:
            EnvRunnerError: If the arguments do not fit together.
        """
        if isinstance(modules, MultiAgentPolicy):
            agent_to_module_mapping_fn = agent_to_module_mapping_fn or modules.agent_to_module_mapping_fn
        acting = acting_of(modules, env_to_module, module_to_env, explore=explore, kind=MultiAgentPolicy)
        check_episode_class(episode_class, MultiAgentEpisode)
        settings = RunnerSettings(
            vectorization=vectorization,
            explore=acting.explore,
            batch_mode=batch_mode,
            rollout_fragment_length=rollout_fragment_length,
            train_batch_size=train_batch_size,
            episode_class=episode_class,
            horizon=horizon,
            soft_horizon=soft_horizon,
            ignore_terminations=ignore_terminations,
            reward_delay=reward_delay,
            lookback=lookback,
            on_env_error=on_env_error,
            max_restarts=max_restarts,
            step_timeout_s=timeout_of(step_timeout_s, vectorization),
            async_context=async_context,
            check_finite=check_finite,
        )
        check_num_envs(num_envs)
        rl_module = as_modules(acting.module)
        seeds = Seeds.of_agents(seed, device_of(*(rl_module or {}).values()))
        super().__init__(settings, rl_module, seeds, callbacks)
        self.count_steps_by = checked_count(count_steps_by)
        self._source = AgentEnvSource(env, num_envs, settings)
        mapping = agent_to_module_mapping_fn or default_mapping(rl_module)
        self._new_episode = EpisodeMaker(mapping, episode_class, missing_final_observation)
        self._lanes: list[Lane] = []
        with self._closed_on_error(owns_envs=self._source.can_remake):
            self._loop = self._new_loop(num_envs, acting._replace(module=rl_module))
            for lane in self._lanes:
                self._watcher.created(lane.env, lane.index)

    def _new_loop(self, num_envs: int, acting: Acting) -> MultiAgentLoop:
        """Make the environments, and what plays in them."""
        common = LaneSettings(
            source=self._source, new_episode=self._new_episode, seeds=self._seeds, playing=self._settings
        )
        for index in range(num_envs):
            self._lanes.append(Lane(index, common))
        first = self._lanes[0].env
        actor = new_actor(first, acting, self._seeds, self._metrics)
        self._new_episode.use_spaces(first, actor)
        return MultiAgentLoop(
            self._lanes, actor, self._watcher, self._metrics, check_finite=self._settings.check_finite
        )

    # --- What it has ------------------------------------------------------------------------------------------------

    @property
    def envs(self) -> list[Any]:
        """The environments; those of PettingZoo as multi-agent ones."""
        return [lane.env for lane in self._lanes]

    @property
    def _env(self) -> list[Any]:
        return self.envs

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return len(self._lanes)

    @property
    def env_to_module(self) -> EnvToModulePipeline:
        """The pipeline in front of the modules."""
        return self._loop.actor.env_to_module

    @property
    def module_to_env(self) -> ModuleToEnvPipeline:
        """The pipeline behind the modules."""
        return self._loop.actor.module_to_env

    @property
    def agent_to_module_mapping_fn(self) -> Callable[[Any, Any], Any]:
        """The function from an agent and its episode to the id of its module."""
        return self._new_episode.mapping

    # --- Playing ----------------------------------------------------------------------------------------------------

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
        count_steps_by: CountStepsBy | None = None,
    ) -> EpisodeList[MultiAgentEpisode]:
        """Play, and return finalized episodes; see `EnvRunner.sample`.

        With `num_timesteps`, finished episodes come first. With `num_episodes`, all environments are reset first.

        Args:
            num_timesteps: How many steps are wanted.
            num_episodes: How many episodes are wanted. With neither, `batch_mode` decides.
            explore: Whether modules explore; what the runner was made with by default.
            random_actions: Draw actions at random, among those that action masks allow.
            force_reset: Begin new episodes in all environments.
            count_steps_by: See the constructor.

        Raises:
            EnvError: If an environment fails too often. What is finished waits for the next call, as after any other error.
            SpaceError: If it fails with an action that is outside of its space.
            EpisodeError: If an environment returns what does not fit.
            ConnectorError: If a piece of a pipeline fails.
        """
        goal = self._goal(num_timesteps, num_episodes)
        goal = goal._replace(count_steps_by=checked_count(count_steps_by or self.count_steps_by))
        return self._sample(goal, explore, random_actions=random_actions, force_reset=force_reset)

    def _play(self, goal: Goal, mode: SampleMode, *, force_reset: bool) -> EpisodeList[MultiAgentEpisode]:
        self._loop.actor.shapers = shapers_of(self.env_to_module)
        played = self._loop.play(
            goal,
            mode,
            self.lookback,
            reward_delay=delay_of(self.env_to_module, self._settings.reward_delay),
            force_reset=force_reset,
            on_complete=self._commit,
        )
        return EpisodeList(played)

    def _commit(self) -> None:
        """Let pieces use the statistics that they have collected; during one call they stay as they are."""
        self.env_to_module.commit()
        self.module_to_env.commit()

    def _given(self, episodes: EpisodeList[MultiAgentEpisode]) -> EpisodeList[MultiAgentEpisode]:
        self._loop.release()
        return episodes

    def _leave_episodes(self) -> None:
        self._loop.abandon_episodes()
        self._loop.actor.forget()

    def _close_envs(self) -> None:
        close_remote(lane.env for lane in self._lanes)
        for lane in self._lanes:
            lane.close()

    @contextlib.contextmanager
    def _evaluation_runner(self, num_episodes: int, seed: int) -> Iterator[MultiAgentEnvRunner]:
        """Make a runner with environments of its own and copies of the pipelines."""
        self._source.check_can_remake("evaluate")
        runner = MultiAgentEnvRunner(
            self._source.env,
            self.modules or None,
            num_envs=min(self.num_envs, num_episodes),
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_to_module=copy.deepcopy(self.env_to_module),
            module_to_env=copy.deepcopy(self.module_to_env),
            seed=seed,
            count_steps_by=self.count_steps_by,
            missing_final_observation=self._new_episode.missing_final_observation,
            **vars(self._settings),
        )
        with runner:
            yield runner

    # --- Weights and state ------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy settings and state: the other runner makes environments of its own, and begins new episodes.

        Raises:
            EnvRunnerError: If the runner was given a ready environment, which cannot be made twice.
        """
        self._source.check_can_remake("pickle")
        keywords = {
            "num_envs": self.num_envs,
            "agent_to_module_mapping_fn": self.agent_to_module_mapping_fn,
            "env_to_module": self.env_to_module,
            "module_to_env": self.module_to_env,
            "seed": self.seed,
            "count_steps_by": self.count_steps_by,
            "missing_final_observation": self._new_episode.missing_final_observation,
            "callbacks": self._callbacks,
            **vars(self._settings),
        }
        return rebuilt, (type(self), (self._source.env, self.modules or None), keywords, self.get_state())

    def _use_version(self, version: int) -> None:
        self._loop.use_version(version)

    def _own_state(self) -> dict[str, Any]:
        return {"episode_numbers": [lane.number for lane in self._lanes]}

    def _set_own_state(self, state: Mapping[str, Any]) -> None:
        numbers = checked_numbers(state["episode_numbers"], self.num_envs)
        for lane, number in zip(self._lanes, numbers, strict=True):
            lane.number = number
