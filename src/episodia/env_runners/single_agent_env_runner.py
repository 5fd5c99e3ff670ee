"""From environments to episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, final

from gymnasium.vector import VectorEnv

from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.env_runners import runner_state
from episodia.env_runners.acting.assembly import Acting, new_rollout
from episodia.env_runners.acting.runner_pipelines import Pieces
from episodia.env_runners.callbacks import Listeners, Watcher
from episodia.env_runners.envs.env_sources import AnyEnv, VectorEnvSource
from episodia.env_runners.evaluation import Evaluator
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.returned_chunks import HandOut
from episodia.env_runners.rollout.sample_goals import wanted
from episodia.env_runners.rollout.sampler import Sampler
from episodia.env_runners.rollout.single_agent_loop import Manner
from episodia.env_runners.runner_metrics import EpisodeTotals, RunnerMetrics
from episodia.env_runners.runner_settings import (
    BatchMode,
    OnEnvError,
    RunnerSettings,
    Vectorization,
    check_acts,
    check_flags,
    check_open,
    check_whole,
)
from episodia.env_runners.seeding import Seeds
from episodia.episodes import EpisodeList, SingleAgentEpisode


@final
class SingleAgentEnvRunner:
    """Plays in environments of one agent each, and hands out what happens as episodes.

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
        explore: bool = True,
        batch_mode: BatchMode = "truncate_episodes",
        rollout_fragment_length: int = 200,
        horizon: int | None = None,
        soft_horizon: int | None = None,
        ignore_terminations: bool = False,
        reward_delay: int = 0,
        lookback: int = 1,
        callbacks: Iterable[Any] = (),
        on_env_error: OnEnvError = "drop",
        max_restarts: int | None = 100,
        step_timeout_s: float | None = None,
        async_context: str = "forkserver",
        check_finite: bool = True,
        action_mask_key: str | None = "action_mask",
    ) -> None:
        """Make the environments; they are reset with the first `sample`.

        Args:
            env: A gymnasium id, an `EnvSpec`, a function that makes an environment or a vector environment, or a vector
                environment that is ready.
            module: What acts; None acts at random.
            num_envs: How many environments to make; 1 by default.
            vectorization: `"sync"` steps them one after another, `"async"` in a process each, `"vector_entry_point"` uses the
                environment's own vectorised form.
            env_to_module: The pipeline in front of the module; pieces to put into the default one; None for the default.
            module_to_env: The same for the pipeline behind the module.
            seed: Where all randomness comes from: of environments, actions, and ids. None takes a random one, see `seed`.
            explore: Whether `sample` explores if it is not told.
            batch_mode: What `sample` returns if it is not told: chunks of `rollout_fragment_length` steps for each
                environment (`"truncate_episodes"`), or as many whole episodes as there are environments
                (`"complete_episodes"`).
            rollout_fragment_length: See `batch_mode`.
            horizon: After so many steps an episode is truncated, and the environment reset.
            soft_horizon: After so many steps an episode is truncated, and the environment goes on with the next one.
            ignore_terminations: Record episodes that terminate as truncated, so that learners bootstrap after them.
            reward_delay: For how many steps after its own a reward may still be set, by `set_rewards` on the running episode
                in callbacks or pieces: so many steps are not handed out before they are settled. A `RewardShaper` in the
                pipeline brings its own.
            lookback: How many earlier steps a chunk carries, at least; the lookback of the learner's pipeline. Pipelines of
                the runner that need more get more.
            callbacks: See `Callbacks`.
            on_env_error: Whether the episode of an environment that raises is dropped or truncated.
            max_restarts: How often in a row an environment is made anew, without an episode in between that ends by itself.
            step_timeout_s: How long asynchronous environments may take for a step or a reset.
            async_context: How their processes are started; `"fork"` may hang where torch has computed before.
            check_finite: Whether to refuse NaN and infinite numbers in observations and rewards.
            action_mask_key: Under which observations or infos tell which actions are allowed.

        Raises:
            EnvRunnerError: If the settings do not fit together.
        """
        if module is not None:
            check_acts(module)
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
        self.explore = explore
        self.batch_mode = batch_mode
        self.rollout_fragment_length = rollout_fragment_length
        self._is_closed = False
        self._seeds = Seeds(seed)
        self._watcher = Watcher(Listeners(callbacks), self)
        totals = EpisodeTotals()
        faults = Faults(on_env_error, RunnerMetrics(), totals)
        source = VectorEnvSource(env, num_envs, settings)
        self._evaluator = Evaluator(source, action_mask_key)
        acting = Acting(module, env_to_module, module_to_env, action_mask_key)
        self._rollout = new_rollout(source, acting, self._seeds, faults, self._watcher)
        hand_out = HandOut(faults, totals, on_cut=self._watcher.on_cut, check_finite=check_finite)
        self._sampler = Sampler(self._rollout, hand_out, totals, reward_delay)
        try:
            self._watcher.on_created(self._rollout)
        except BaseException:
            if source.is_renewable:
                self.close()
            raise

    def __repr__(self) -> str:
        module = type(self.module).__name__ if self.module is not None else "random actions"
        return f"SingleAgentEnvRunner({self.env}, {module}, num_envs={self.num_envs}, seed={self.seed})"

    # --- What it has ------------------------------------------------------------------------------------------------

    @property
    def env(self) -> VectorEnv[Any, Any, Any]:
        """The environments; others after they had to be made anew."""
        return self._rollout.env

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return self._rollout.recorder.num_lanes

    @property
    def module(self) -> Any:
        """What acts; None if that happens at random."""
        return self._rollout.actor.module

    @property
    def env_to_module(self) -> EnvToModulePipeline:
        """The pipeline in front of the module."""
        return self._rollout.actor.env_to_module

    @property
    def module_to_env(self) -> ModuleToEnvPipeline:
        """The pipeline behind the module."""
        return self._rollout.actor.module_to_env

    @property
    def seed(self) -> int:
        """Where all randomness comes from: a runner with the same seed and settings plays the same episodes."""
        return self._seeds.seed

    # --- Sampling ---------------------------------------------------------------------------------------------------

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> EpisodeList[SingleAgentEpisode]:
        """Play, and return finalized episodes.

        With `num_timesteps`, all environments step until there are at least so many steps: fewer than `num_envs` more, unless
        earlier calls have left more behind. Episodes that are not over come as chunks, and go on with the next call.

        With `num_episodes`, exactly so many whole episodes are returned: those that began first, in this order, however long
        they are. What else was played stays here, and belongs to the next call. Episodes of which a chunk was handed out
        before are not whole: if there are any, all environments are reset first.

        If something is raised, all that was recorded before comes with the next call.

        Args:
            num_timesteps: How many steps of environments to play.
            num_episodes: How many episodes to play. With neither, `batch_mode` decides.
            explore: Whether the module explores; what the runner was made with by default.
            random_actions: Act at random.
            force_reset: Reset all environments first. Episodes that are running are left as they are.

        Raises:
            EnvRunnerError: If the arguments do not fit together.
            EnvError: If an environment fails for good, or returns NaN or infinite numbers.
            SpaceError: If it fails with an action that is outside of its space.
        """
        check_open("sample", is_closed=self._is_closed)
        goal = wanted(num_timesteps, num_episodes, self.batch_mode, self.rollout_fragment_length, self.num_envs)
        explore = self.explore if explore is None else explore
        check_flags(explore=explore, random_actions=random_actions, force_reset=force_reset)
        manner = Manner(random_actions or self.module is None, explore)
        episodes = self._sampler.sample(goal, manner, force_reset=force_reset)
        self._watcher.on_sample_end(self._rollout, episodes)
        return episodes

    def evaluate(
        self, num_episodes: int = 10, *, explore: bool = False, seed: int | None = None
    ) -> EpisodeList[SingleAgentEpisode]:
        """Play whole episodes beside all sampling, and return them.

        Environments, pipelines, their statistics and all random generators are others than those of `sample`: nothing of
        them changes. The weights are those of the module.

        Args:
            num_episodes: How many.
            explore: Whether the module explores.
            seed: Of the environments and actions. By default each call has another one, which follows from that of the runner.

        Raises:
            EnvRunnerError: If the runner is closed, or was given a ready vector environment, which cannot be made twice.
        """
        check_open("evaluate", is_closed=self._is_closed)
        check_whole(1, num_episodes=num_episodes)
        seed = self._seeds.next_evaluation() if seed is None else seed
        with self._evaluator.runner(SingleAgentEnvRunner, self, seed) as twin:
            twin._rollout.recorder.weights_version = self.weights_version
            played: EpisodeList[SingleAgentEpisode] = twin.sample(num_episodes=num_episodes, explore=explore)
        return played

    def get_metrics(self) -> RunnerMetrics:
        """Return what has happened since the last call."""
        return self._rollout.faults.metrics.taken()

    # --- Weights and state ------------------------------------------------------------------------------------------

    @property
    def weights_version(self) -> int:
        """The version of the module's weights, which each chunk carries along."""
        return self._rollout.recorder.weights_version or 0

    def set_weights(self, weights: Mapping[str, Any], version: int | None = None) -> None:
        """Let the module have other weights from the next step on.

        Args:
            weights: Tensors or arrays by name, as of `module.state_dict()`.
            version: What the chunks say that are played with them; one more than before by default.
        """
        runner_state.set_weights(self.module, weights)
        self._rollout.recorder.weights_version = self.weights_version + 1 if version is None else version

    def get_state(self) -> dict[str, Any]:
        """Return weights, states of the pipelines, counters and generators: JSON values and NumPy arrays.

        Environments are not part of it. A runner that goes on from a state resets them first, with seeds of their own; one
        that was not interrupted plays the same if it is asked to: `sample(..., force_reset=True)`.
        """
        return runner_state.state_of(self._rollout)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, which `get_state` of a runner with the same settings returned. Environments are reset.

        Raises:
            EnvRunnerError: If it is no such state; nothing is changed then.
        """
        runner_state.set_state(self._rollout, state)

    # --- The end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all environments, and end their processes; a second time nothing happens."""
        self._is_closed = True
        try:
            self._rollout.close()
        finally:
            self._evaluator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
