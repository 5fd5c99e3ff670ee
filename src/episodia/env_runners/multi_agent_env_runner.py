"""From environments with several agents to episodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self, final

import torch

from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.common.agent_to_module_mapping import default_mapping
from episodia.env_runners import multi_agent_runner_state as runner_state
from episodia.env_runners.acting.multi_agent_assembly import Acting, EpisodeMaker, new_actor
from episodia.env_runners.acting.multi_agent_modules import as_modules, load_weights, weights_of
from episodia.env_runners.acting.runner_pipelines import Pieces, delay_of, shapers_of
from episodia.env_runners.callbacks import Listeners, notify
from episodia.env_runners.multi_agent_metrics import MultiAgentMetrics
from episodia.env_runners.multi_agent_settings import checked_count, source_of
from episodia.env_runners.rollout.multi_agent_lane import Lane, LaneSettings
from episodia.env_runners.rollout.multi_agent_players import CountStepsBy, Manner, Players
from episodia.env_runners.rollout.sampling import BatchMode, wanted
from episodia.env_runners.runner_settings import OnEnvError, RunnerSettings
from episodia.env_runners.seeding import Seeds
from episodia.env_runners.setting_checks import check_flags, check_open, check_whole
from episodia.episodes import EpisodeList
from episodia.errors import EnvRunnerError
from episodia.modules.modes import mode


@final
class MultiAgentEnvRunner:
    """Lets agents act in several environments at once, and hands out what happened as multi-agent episodes.

    Agents that one module acts for are served by one forward pass, whatever environments they are in. Everything is
    recorded as it would be by a plain loop over the environments with `MultiAgentEpisode.add_env_step`.

    >>> import pettingzoo
    >>> runner = MultiAgentEnvRunner(lambda: pettingzoo.make("aec", "classic/tictactoe-v3"), num_envs=2, seed=0)
    >>> games = runner.sample(num_episodes=3)
    >>> len(games), all(game.is_terminated for game in games), games[0].id_
    (3, True, '0-0-0')
    """

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
        explore: bool = True,
        batch_mode: BatchMode = "truncate_episodes",
        rollout_fragment_length: int = 200,
        count_steps_by: CountStepsBy = "env_steps",
        lookback: int = 0,
        horizon: int | None = None,
        soft_horizon: int | None = None,
        ignore_terminations: bool = False,
        reward_delay: int = 0,
        callbacks: Iterable[Any] = (),
        on_env_error: OnEnvError = "drop",
        max_restarts: int | None = 3,
        step_timeout_s: float | None = None,
        async_context: str = "forkserver",
        check_finite: bool = True,
    ) -> None:
        """Make the environments; nothing is reset yet.

        Args:
            env: A callable that makes a `MultiAgentEnv`, or a parallel or turn-based environment of PettingZoo; or a ready
                one, if `num_envs` is 1.
            modules: One module for all agents, or several by their ids; None acts at random.
            num_envs: How many environments there are.
            vectorization: `"sync"` steps them one after another, `"async"` at the same time, in a process each.
            agent_to_module_mapping_fn: Called with an agent and its episode, returns the module's id. By default there is
                one module for all, or each agent has the module of its own name.
            env_to_module: The pipeline in front of the modules, or pieces to put into the default one.
            module_to_env: The pipeline behind the modules, or pieces to put into the default one.
            seed: What seeds of environments, random numbers and ids of episodes are derived from. None takes a random one, see
                `seed`.
            explore: Whether modules explore, where `sample` does not say it.
            batch_mode: What `sample` returns if it is not told: chunks of `rollout_fragment_length` steps for each
                environment (`"truncate_episodes"`), or as many whole episodes as there are environments
                (`"complete_episodes"`).
            rollout_fragment_length: See `batch_mode`.
            count_steps_by: Whether steps are counted that environments make, or that agents complete.
            lookback: How many of its own steps each agent looks back at least, for pipelines of learners. What the
                runner's own pipelines need is derived.
            horizon: After how many environment steps an episode is truncated, and the environment reset.
            soft_horizon: After how many an episode is truncated, and the environment goes on with the next one.
            ignore_terminations: Record what terminates as truncated, so that learners bootstrap after it.
            reward_delay: For how many ticks a reward may still be set, by `set_rewards` on the running episode in callbacks or
                pieces: so many steps are not handed out before they are settled. A `RewardShaper` in the pipeline brings its
                own.
            callbacks: See `Callbacks`.
            on_env_error: Whether an episode is dropped or handed out as truncated whose environment fails.
            max_restarts: How often in a row, without a finished episode in between, an environment that fails is made anew;
                None for any number.
            step_timeout_s: How long asynchronous environments may take for a step or a reset. One that takes longer, or whose
                process is gone, counts as failed.
            async_context: How their processes are started; `"fork"` may hang where torch has computed before.
            check_finite: Whether to refuse NaN and infinite numbers in observations and rewards.

        Raises:
            EnvRunnerError: If the arguments do not fit together.
        """
        settings = RunnerSettings(
            vectorization=vectorization,
            explore=explore,
            batch_mode=batch_mode,
            rollout_fragment_length=rollout_fragment_length,
            horizon=horizon,
            soft_horizon=soft_horizon,
            ignore_terminations=ignore_terminations,
            reward_delay=reward_delay,
            lookback=lookback,
            on_env_error=on_env_error,
            max_restarts=max_restarts,
            step_timeout_s=step_timeout_s,
            async_context=async_context,
            check_finite=check_finite,
        )
        self._env, self._settings, self._count_steps_by = env, settings, checked_count(count_steps_by)
        self._source = source_of(env, num_envs, settings)
        self._seeds = Seeds(seed)
        self.num_envs = num_envs
        self.modules = as_modules(modules)
        self._new_episode = EpisodeMaker(agent_to_module_mapping_fn or default_mapping(self.modules))
        self._is_closed = False
        self._lanes: list[Lane] = []
        acting = Acting(self.modules, env_to_module, module_to_env)
        try:
            self._players = self._new_players(acting, Listeners(callbacks))
            self._players.tell_created()
        except BaseException:
            # Environments may have processes of their own, which must not be left behind.
            if self._source.can_remake:
                self.close()
            raise

    def _new_players(self, acting: Acting, listeners: Listeners) -> Players:
        """Make the environments, and what plays in them."""
        common = LaneSettings(
            source=self._source, new_episode=self._new_episode, seeds=self._seeds, playing=self._settings
        )
        for index in range(self.num_envs):
            self._lanes.append(Lane(index, common))
        first = self._lanes[0].env
        actor = new_actor(first, acting, self._seeds.seed)
        self._new_episode.use_spaces(first, actor)
        return Players(self, self._lanes, actor, listeners, checks_finite=self._settings.check_finite)

    # --- What it is -------------------------------------------------------------------------------------------------

    @property
    def env_to_module(self) -> Any:
        """The pipeline in front of the modules."""
        return self._players.actor.env_to_module

    @property
    def module_to_env(self) -> Any:
        """The pipeline behind the modules."""
        return self._players.actor.module_to_env

    @property
    def agent_to_module_mapping_fn(self) -> Callable[[Any, Any], Any]:
        """Which module acts for an agent in an episode."""
        return self._new_episode.mapping

    @property
    def seed(self) -> int:
        """Where all randomness comes from: a runner with the same seed and settings plays the same episodes."""
        return self._seeds.seed

    @property
    def envs(self) -> list[Any]:
        """The environments; those of PettingZoo as multi-agent ones."""
        return [lane.env for lane in self._lanes]

    @property
    def lookback(self) -> int:
        """How many of its own steps each agent of a chunk can look back to: what pipelines need, or more if asked for."""
        asked_for: int = max(self._settings.lookback, self._settings.reward_delay)
        needed: int = max(self.env_to_module.lookback, self.module_to_env.lookback)
        return max(needed, asked_for)

    def __repr__(self) -> str:
        return f"MultiAgentEnvRunner({self._lanes[0].env!r}, {self.modules!r}, num_envs={self.num_envs})"

    # --- Sampling ---------------------------------------------------------------------------------------------------

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
        count_steps_by: CountStepsBy | None = None,
    ) -> EpisodeList:
        """Let the agents act, and return what happened, finalized.

        With `num_timesteps`, all environments are stepped together until at least so many steps are recorded: fewer than
        `num_envs` environment steps more. Running episodes are handed out as chunks, and go on in the next call; finished
        ones come first. With `num_episodes`, environments are reset, and exactly so many whole episodes are returned: the
        first that begin, and not the first that end, which would favour short ones.

        Args:
            num_timesteps: How many steps are wanted.
            num_episodes: How many episodes are wanted. With neither, `batch_mode` decides.
            explore: Whether modules explore; by default what the runner was made with.
            random_actions: Draw actions at random, among those that action masks allow.
            force_reset: Begin new episodes in all environments.
            count_steps_by: See the constructor.

        Raises:
            EnvError: If an environment fails too often. What is finished waits for the next call, as after any other error.
            SpaceError: If it fails with an action that is outside of its space.
            EpisodeError: If an environment returns what does not fit.
            ConnectorError: If a piece of a pipeline fails.
        """
        check_open("sample", is_closed=self._is_closed)
        settings = self._settings
        goal = wanted(num_timesteps, num_episodes, settings.batch_mode, settings.rollout_fragment_length, self.num_envs)
        count_steps_by = checked_count(count_steps_by or self._count_steps_by)
        explore = settings.explore if explore is None else explore
        check_flags(explore=explore, random_actions=random_actions, force_reset=force_reset)
        manner = Manner(explore, random_actions, count_steps_by)
        players = self._players
        players.actor.shapers = shapers_of(self.env_to_module)
        with torch.no_grad(), mode((self.modules or {}).values(), training=False):
            played = players.play(
                goal,
                manner,
                self.lookback,
                reward_delay=delay_of(self.env_to_module, settings.reward_delay),
                force_reset=force_reset,
                on_complete=self._commit,
            )
        samples = EpisodeList(played)
        notify(players.listeners.on_sample_end, env_runner=self, samples=samples)
        return samples

    def _commit(self) -> None:
        """Let pieces use the statistics that they have collected; during one call they stay as they are."""
        self.env_to_module.commit()
        self.module_to_env.commit()

    # --- Beside sampling --------------------------------------------------------------------------------------------

    def evaluate(self, num_episodes: int = 10, *, explore: bool = False) -> EpisodeList:
        """Return whole episodes that the modules play in environments of their own, by default as well as they can.

        Training does not notice: environments, running episodes, statistics of filters, random numbers and metrics are as
        before.

        Raises:
            EnvRunnerError: If the runner is closed, or was given a ready environment, as there is no second one.
        """
        check_open("evaluate", is_closed=self._is_closed)
        check_whole(1, num_episodes=num_episodes)
        if not self._source.can_remake:
            raise EnvRunnerError(
                "evaluate: found a ready environment, expected a callable: evaluation needs environments of its own."
            )
        runner = MultiAgentEnvRunner(
            self._env,
            self.modules,
            num_envs=min(self.num_envs, num_episodes),
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_to_module=copy.deepcopy(self.env_to_module),
            module_to_env=copy.deepcopy(self.module_to_env),
            seed=self._seeds.next_evaluation(),
            count_steps_by=self._count_steps_by,
            **vars(self._settings),
        )
        try:
            runner._players.weights_version = self.weights_version
            return runner.sample(num_episodes=num_episodes, explore=explore)
        finally:
            runner.close()

    def get_metrics(self) -> MultiAgentMetrics:
        """Return what was done since the last call of this method, and begin to count anew."""
        return self._players.take_metrics()

    @property
    def weights_version(self) -> int:
        """The version of the modules' weights, which each chunk carries along."""
        return self._players.weights_version

    def set_weights(self, weights: Mapping[Any, Mapping[str, Any]], version: int | None = None) -> None:
        """Give modules other weights from the next step on.

        Args:
            weights: `{module_id: state_dict}`; modules that are not named keep theirs.
            version: What the chunks say that are played with them; one more than before by default. Running episodes note it
                at their current step.

        Raises:
            EnvRunnerError: If there is no such module, or it has no weights; nothing is changed then.
        """
        load_weights(self.modules, weights)
        self._players.use_version(self.weights_version + 1 if version is None else version)

    def get_weights(self) -> dict[Any, dict[str, Any]]:
        """Return copies of the weights of all modules."""
        return weights_of(self.modules)

    def get_state(self) -> dict[str, Any]:
        """Return weights, states of the pipelines and of random generators, and counters.

        Running episodes are not part of it. A runner that is given the state begins new ones, and so plays exactly as this
        one does if it samples with `force_reset=True`.
        """
        return runner_state.state_of(self._players, self._seeds)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; running episodes are let go, what was recorded of them is kept.

        Raises:
            EnvRunnerError: If it is no state of a runner with as many environments and such modules; nothing is changed then.
        """
        runner_state.set_state(self._players, self._seeds, state)

    def close(self) -> None:
        """Close all environments; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for lane in self._lanes:
            lane.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
