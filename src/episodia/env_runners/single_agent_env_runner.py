"""The runner for environments of one agent each."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, final

from gymnasium.vector import VectorEnv

from episodia.arguments import names_nearest_argument
from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.env_runners.acting.assembly import AUTO, Explore, acting_of, new_loop
from episodia.env_runners.acting.runner_pipelines import Pieces
from episodia.env_runners.env_runner import EnvRunner, check_weights, rebuilt
from episodia.env_runners.envs.async_lanes import close, forgets_resets
from episodia.env_runners.envs.env_sources import AnyEnv, VectorEnvSource
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.episode_totals import EpisodeTotals
from episodia.env_runners.rollout.sample_goals import Goal, SampleMode
from episodia.env_runners.rollout.sampler import Sampler
from episodia.env_runners.rollout.waiting_chunks import WaitingChunks
from episodia.env_runners.runner_settings import (
    BatchMode,
    CheckFinite,
    FragmentLength,
    OnEnvError,
    RunnerSettings,
    StepTimeout,
    Vectorization,
    check_acts,
    check_episode_class,
    check_recorder_factory,
    checked_numbers,
    timeout_of,
)
from episodia.env_runners.seeding import Seeds
from episodia.episodes import EpisodeList, Recorder, SingleAgentEpisode
from episodia.episodes.recorder.episode_recorder import RecorderFactory
from episodia.errors import EnvRunnerError
from episodia.modules.devices import device_of
from episodia.policies import Policy
from episodia.trees import shown


@names_nearest_argument
@final
class SingleAgentEnvRunner(EnvRunner[SingleAgentEpisode]):
    """Plays in environments of one agent each, and returns what happens as episodes.

    >>> runner = SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0)
    >>> episodes = runner.sample(num_episodes=3)
    >>> len(episodes), all(episode.is_done for episode in episodes)
    (3, True)
    >>> runner.close()
    """

    def __init__(  # noqa: PLR0913  # one argument for each thing that a user can choose
        self,
        env: AnyEnv,
        module: Any = None,
        *,
        num_envs: int | None = None,
        vectorization: Vectorization = "sync",
        env_to_module: EnvToModulePipeline | Pieces | None = None,
        module_to_env: ModuleToEnvPipeline | Pieces | None = None,
        seed: int | None = None,
        explore: Explore = AUTO,
        batch_mode: BatchMode = "truncate_episodes",
        rollout_fragment_length: FragmentLength | None = None,
        train_batch_size: int | None = None,
        horizon: int | None = None,
        soft_horizon: int | None = None,
        ignore_terminations: bool = False,
        reward_delay: int = 0,
        lookback: int = 1,
        callbacks: Iterable[Any] = (),
        episode_class: type[SingleAgentEpisode] = SingleAgentEpisode,
        recorder: RecorderFactory = Recorder,
        on_env_error: OnEnvError = "drop",
        max_restarts: int | None = 100,
        step_timeout_s: StepTimeout = "auto",
        async_context: str = "forkserver",
        check_finite: CheckFinite = True,
        action_mask_key: str | None = "action_mask",
    ) -> None:
        """Make the environments; they are reset with the first `sample`.

        Args:
            env: A gymnasium id, an `EnvSpec`, a function that makes an environment or a vector environment, or a vector
                environment that is ready.
            module: What acts: a module, or a `Policy`, which acts here as it does alone, with a memory for each environment;
                None acts at random, and runs no pipeline.
            num_envs: The number of environments to make; 1 by default.
            vectorization: `"sync"` steps them one after another, `"async"` in a process each, `"vector_entry_point"` uses the
                environment's own vectorised form.
            env_to_module: The pipeline in front of the module; pieces to put into the default one; None for the default.
            module_to_env: The same for the pipeline behind the module.
            seed: Where all randomness comes from: of environments, actions, and ids. None takes a random one, see `seed`.
            explore: Whether `sample` explores if its call does not say it; `"auto"` as the policy does, modules explore.
            batch_mode: What `sample` returns by default: chunks of `rollout_fragment_length` steps for each
                environment (`"truncate_episodes"`), or as many whole episodes as there are environments
                (`"complete_episodes"`).
            rollout_fragment_length: See `batch_mode`; 200 by default. With "auto", the environments share `train_batch_size`
                steps evenly.
            train_batch_size: How many steps `sample` returns by default, rounded up to the same number for each environment.
            horizon: After so many steps an episode is truncated, and the environment reset.
            soft_horizon: After so many steps an episode is truncated, and the environment goes on with the next one.
            ignore_terminations: Record episodes that terminate as truncated, so that learners bootstrap after them.
            reward_delay: For how many steps after its own a reward may still be set, by `set_rewards` on the running episode
                in callbacks or pieces: so many steps are not returned before they are settled. A `RewardShaper` in the
                pipeline brings its own.
            lookback: The number of earlier steps that a chunk carries, at least; the lookback of the learner's pipeline.
                Pipelines of the runner that need more get more.
            callbacks: See `Callbacks`.
            episode_class: The class of the episodes: a subclass of `SingleAgentEpisode` without a constructor of its own.
            recorder: What makes the recorder of the steps: a subclass of `EpisodeRecorder`, or a function with its arguments.
            on_env_error: Whether the episode of an environment that raises is dropped or truncated.
            max_restarts: How often in a row an environment is rebuilt, without an episode in between that ends by itself.
            step_timeout_s: How long asynchronous environments may take for a step or a reset: `"auto"` is 300 seconds, None any
                time. One that takes longer, or whose process is gone, counts as failed.
            async_context: How their processes are started; `"fork"` warns, as it may hang where torch has computed before.
            check_finite: Whether to reject NaN and infinite numbers in observations and rewards; `"warn"` records them, and
                warns once.
            action_mask_key: Under which observations or infos tell which actions are allowed.

        Raises:
            EnvRunnerError: If the settings do not fit together.
        """
        acting = acting_of(module, env_to_module, module_to_env, explore=explore, kind=Policy)
        acting, module = acting._replace(mask_key=action_mask_key), acting.module
        if module is not None:
            check_acts(module)
        check_episode_class(episode_class, SingleAgentEpisode)
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
        if action_mask_key is not None and not isinstance(action_mask_key, str):
            raise EnvRunnerError(
                f"found `action_mask_key={shown(action_mask_key)}`, expected a string, or None without masks."
            )
        super().__init__(settings, module, Seeds(seed, device_of(module)), callbacks)
        self._module = module
        self._mask_key = action_mask_key
        check_recorder_factory(recorder)
        self._recorder = recorder
        self._source = VectorEnvSource(env, num_envs, settings)
        self._lent_env: VectorEnv[Any, Any, Any] | None = None
        totals = EpisodeTotals()
        faults = Faults(on_env_error, self._metrics, totals)
        self._loop = new_loop(self._source, acting, recorder, self._seeds, faults, self._watcher)
        waiting = WaitingChunks(faults, totals, on_cut=self._watcher.cut, check_finite=check_finite)
        self._sampler = Sampler(self._loop, waiting, totals, reward_delay)
        with self._closed_on_error(owns_envs=self._source.can_remake):
            self._watcher.created(self.env)

    # --- What it has ------------------------------------------------------------------------------------------------

    @property
    def env(self) -> VectorEnv[Any, Any, Any]:
        """The vector environment; replaced when it is rebuilt."""
        return self._loop.env

    @property
    def _env(self) -> VectorEnv[Any, Any, Any]:
        return self._loop.env

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return self._loop.recorder.num_lanes

    @property
    def module(self) -> Any:
        """The acting module; None if actions are random."""
        return self._module

    @property
    def env_to_module(self) -> EnvToModulePipeline:
        """The pipeline in front of the module."""
        return self._loop.actor.env_to_module

    @property
    def module_to_env(self) -> ModuleToEnvPipeline:
        """The pipeline behind the module."""
        return self._loop.actor.module_to_env

    # --- Playing ----------------------------------------------------------------------------------------------------

    def _play(self, goal: Goal, mode: SampleMode, *, force_reset: bool) -> EpisodeList[SingleAgentEpisode]:
        return self._sampler.sample(goal, mode, lookback=self.lookback, force_reset=force_reset)

    def _given(self, episodes: EpisodeList[SingleAgentEpisode]) -> EpisodeList[SingleAgentEpisode]:
        self._sampler.release()
        return episodes

    def _leave_episodes(self) -> None:
        self._loop.needs_reset = True
        self._loop.actor.forget()

    def _close_envs(self) -> None:
        # All processes at once: each may need its time to end.
        close(*(env for env in (self._loop.env, self._lent_env) if env is not None))

    # --- Evaluation -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _evaluation_runner(self, num_episodes: int, seed: int) -> Iterator[SingleAgentEnvRunner]:
        """Lend environments, made when they are needed for the first time, to a runner with copies of the pipelines."""
        self._source.check_can_remake("evaluate")
        # The environments that are lent have these settings already.
        settings = {**vars(self._settings), "vectorization": "sync", "step_timeout_s": None}
        if self._source.limits_itself(self._lent()):
            settings["horizon"] = None
        runner = SingleAgentEnvRunner(
            self._lent,
            self.module,
            env_to_module=copy.deepcopy(self.env_to_module),
            module_to_env=copy.deepcopy(self.module_to_env),
            seed=seed,
            recorder=self._recorder,
            action_mask_key=self._mask_key,
            **settings,
        )
        try:
            yield runner
        except BaseException:
            # Some may be in the middle of a step.
            self._close_lent_env(by_force=True)
            raise
        if forgets_resets(self._lent()):
            self._close_lent_env()

    def _lent(self) -> VectorEnv[Any, Any, Any]:
        if self._lent_env is None or self._lent_env.closed:
            self._lent_env = self._source.build()
        return self._lent_env

    def _close_lent_env(self, *, by_force: bool = False) -> None:
        if self._lent_env is not None:
            close(self._lent_env, by_force=by_force)

    # --- Weights and state ------------------------------------------------------------------------------------------

    def get_weights(self) -> dict[str, Any]:
        """Return copies of the weights of the module as arrays, by name; empty if it has none."""
        weights: dict[str, Any] = super().get_weights().get(DEFAULT_MODULE_ID, {})
        return weights

    def set_weights(self, weights: Mapping[str, Any], version: int | None = None) -> None:
        """Give the module other weights from the next step on.

        Args:
            weights: Tensors or arrays by name, as of `module.state_dict()`.
            version: What the chunks say that are played with them; one more than before by default.

        Raises:
            EnvRunnerError: If they are not the weights of the module, which keeps its own then.
        """
        super().set_weights(weights, version)

    def _load_weights(self, weights: Mapping[str, Any]) -> None:
        check_weights(weights)
        # A module without weights takes the empty dict that `get_weights` returns for it.
        super()._load_weights({DEFAULT_MODULE_ID: weights} if weights or self.get_weights() else {})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy settings and state: the other runner makes environments of its own, and begins new episodes.

        Raises:
            EnvRunnerError: If the runner was given a ready environment, which cannot be made twice.
        """
        self._source.check_can_remake("pickle")
        keywords = {
            "num_envs": self._source.num_envs,
            "env_to_module": self.env_to_module,
            "module_to_env": self.module_to_env,
            "seed": self.seed,
            "recorder": self._recorder,
            "callbacks": self._callbacks,
            "action_mask_key": self._mask_key,
            **vars(self._settings),
        }
        return rebuilt, (type(self), (self._source.env, self.module), keywords, self.get_state())

    def _use_version(self, version: int) -> None:
        self._loop.recorder.weights_version = version

    def _own_state(self) -> dict[str, Any]:
        return {"episode_numbers": self._loop.recorder.episode_numbers()}

    def _set_own_state(self, state: Mapping[str, Any]) -> None:
        numbers = checked_numbers(state["episode_numbers"], self.num_envs)
        self._loop.recorder.set_episode_numbers(self.seed, numbers)
