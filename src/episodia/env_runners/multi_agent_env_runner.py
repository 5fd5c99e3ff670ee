"""From environments with several agents to episodes."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, final

import numpy as np
import torch

from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline, defaults
from episodia.env_runners.callbacks import Listeners, notify
from episodia.env_runners.multi_agent_acting import MultiAgentActor
from episodia.env_runners.multi_agent_lane import Lane, LaneSettings, OnEnvError
from episodia.env_runners.multi_agent_metrics import MultiAgentMetrics
from episodia.env_runners.multi_agent_modules import as_modules, default_mapping, load_weights, weights_of
from episodia.env_runners.multi_agent_players import CountStepsBy, Manner, Players
from episodia.env_runners.multi_agent_settings import check, check_vectorization, checked_count, remote
from episodia.env_runners.multi_agent_sources import EnvSource, joint, recorded_action_space, spaces_of
from episodia.env_runners.pipelines import (
    Pieces,
    action_space_of,
    as_pieces,
    commit,
    delay_of,
    device_of,
    shapers_of,
)
from episodia.env_runners.sampling import BatchMode, check_settings, wanted
from episodia.env_runners.setting_checks import check_context, check_open, check_state, check_whole
from episodia.episodes import EpisodeList, MultiAgentEpisode
from episodia.errors import EnvRunnerError, EpisodiaError

# Evaluations draw from seeds of their own, apart from those of lanes.
_EVALUATION = 2**32


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
        max_restarts: int = 3,
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
            seed: What seeds of environments, random numbers and ids of episodes are derived from.
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
            max_restarts: How often in a row, without a finished episode in between, an environment that fails is made anew.
            step_timeout_s: How long asynchronous environments may take for a step or a reset. One that takes longer, or whose
                process is gone, counts as failed.
            async_context: How their processes are started; `"fork"` may hang where torch has computed before.
            check_finite: Whether to refuse NaN and infinite numbers in observations and rewards.

        Raises:
            EnvRunnerError: If the arguments do not fit together.
        """
        source = EnvSource(env, remote(vectorization, step_timeout_s, async_context))
        check_context(async_context)
        check_vectorization(source, vectorization, step_timeout_s)
        check(source, num_envs, on_env_error, horizon, soft_horizon)
        check_settings(batch_mode, rollout_fragment_length)
        checked_count(count_steps_by)
        check_whole(0, reward_delay=reward_delay, lookback=lookback, max_restarts=max_restarts)
        check_whole(0, or_none=True, seed=seed)
        self._arguments: dict[str, Any] = {
            "explore": explore,
            "batch_mode": batch_mode,
            "rollout_fragment_length": rollout_fragment_length,
            "count_steps_by": count_steps_by,
            "lookback": lookback,
            "horizon": horizon,
            "soft_horizon": soft_horizon,
            "ignore_terminations": ignore_terminations,
            "reward_delay": reward_delay,
            "on_env_error": on_env_error,
            "max_restarts": max_restarts,
            "vectorization": vectorization,
            "step_timeout_s": step_timeout_s,
            "async_context": async_context,
            "check_finite": check_finite,
        }
        self._env = env
        self._can_make_more = source.can_remake
        self.num_envs = num_envs
        self.modules = as_modules(modules)
        self.agent_to_module_mapping_fn = agent_to_module_mapping_fn or default_mapping(self.modules)
        # The seed is in the names of episodes; without one they must not repeat.
        entropy = np.random.SeedSequence().entropy if seed is None else int(seed)
        self._entropy: int = entropy if isinstance(entropy, int) else 0
        self._has_seed = seed is not None
        settings = LaneSettings(
            source=source,
            new_episode=self._new_episode,
            name=uuid.uuid4().hex if seed is None else str(seed),
            entropy=self._entropy,
            horizon=horizon,
            soft_horizon=soft_horizon,
            ignore_terminations=ignore_terminations,
            on_env_error=on_env_error,
            max_restarts=max_restarts,
        )
        self._num_evaluations = 0
        self._is_closed = False
        self._lanes: list[Lane] = []
        try:
            for index in range(num_envs):
                self._lanes.append(Lane(index, settings))
            self._spaces = spaces_of(self._lanes[0].env)
            self._actor = MultiAgentActor(
                self.modules, *self._pipelines(env_to_module, module_to_env), *_randomness(self._entropy)
            )
            self._recorded_spaces = self._spaces[0], self._recorded(self._spaces[1])
            self._players = Players(self, self._lanes, self._actor, Listeners(callbacks), checks_finite=check_finite)
        except BaseException:
            # Environments may have processes of their own, which must not be left behind.
            if source.can_remake:
                self.close()
            raise

    def _pipelines(self, env_to_module: Any, module_to_env: Any) -> tuple[EnvToModulePipeline, ModuleToEnvPipeline]:
        given: dict[str, Any] = {
            "multi_agent": True,
            "stateful": self.modules is not None and any(module.is_stateful() for module in self.modules.values()),
        }
        observation_space, action_space = map(joint, self._spaces)
        if not isinstance(env_to_module, EnvToModulePipeline):
            device = next(map(device_of, (self.modules or {}).values()), None)
            custom = as_pieces(env_to_module)
            env_to_module = defaults.env_to_module(
                observation_space, action_space, **given, custom=custom, device=device, module=self.modules
            )
        if not isinstance(module_to_env, ModuleToEnvPipeline):
            custom = as_pieces(module_to_env)
            module_to_env = defaults.module_to_env(observation_space, action_space, **given, custom=custom)
        return env_to_module, module_to_env

    def _recorded(self, by_agent: Any) -> Any:
        """Return the spaces of the actions that are recorded."""
        return by_agent and {
            agent: recorded_action_space(action_space_of(self.modules, self.module_to_env, space))
            for agent, space in by_agent.items()
        }

    def _new_episode(self, id_: str) -> MultiAgentEpisode:
        observation_space, action_space = self._recorded_spaces
        return MultiAgentEpisode(
            id_,
            observation_space=observation_space,
            action_space=action_space,
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            # A runner may stop an episode while agents wait, and environments pay agents that have just died.
            missing_final_observation="repeat",
            rewards_after_done="add",
        )

    # --- What it is -------------------------------------------------------------------------------------------------

    @property
    def env_to_module(self) -> Any:
        """The pipeline in front of the modules."""
        return self._actor.env_to_module

    @property
    def module_to_env(self) -> Any:
        """The pipeline behind the modules."""
        return self._actor.module_to_env

    @property
    def envs(self) -> list[Any]:
        """The environments; those of PettingZoo as multi-agent ones."""
        return [lane.env for lane in self._lanes]

    @property
    def lookback(self) -> int:
        """How many of its own steps each agent of a chunk can look back to: what pipelines need, or more if asked for."""
        asked_for: int = max(self._arguments["lookback"], self._arguments["reward_delay"])
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
        settings = self._arguments
        goal = wanted(
            num_timesteps, num_episodes, settings["batch_mode"], settings["rollout_fragment_length"], self.num_envs
        )
        count_steps_by = checked_count(count_steps_by or settings["count_steps_by"])
        manner = Manner(settings["explore"] if explore is None else explore, random_actions, count_steps_by)
        players = self._players
        self._actor.shapers = shapers_of(self.env_to_module)
        with torch.no_grad():
            played = players.play(
                goal,
                manner,
                self.lookback,
                reward_delay=delay_of(self.env_to_module, settings["reward_delay"]),
                force_reset=force_reset,
                on_complete=self._commit,
            )
        samples = EpisodeList(played)
        notify(players.listeners.on_sample_end, env_runner=self, samples=samples)
        return samples

    def _commit(self) -> None:
        """Let pieces use the statistics that they have collected; during one call they stay as they are."""
        commit([self.env_to_module, self.module_to_env])

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
        if not self._can_make_more:
            raise EnvRunnerError(
                "evaluate: found a ready environment, expected a callable: evaluation needs environments of its own."
            )
        seeds = np.random.SeedSequence([self._entropy, _EVALUATION, self._num_evaluations])
        self._num_evaluations += 1
        runner = MultiAgentEnvRunner(
            self._env,
            self.modules,
            num_envs=min(self.num_envs, num_episodes),
            agent_to_module_mapping_fn=self.agent_to_module_mapping_fn,
            env_to_module=copy.deepcopy(self.env_to_module),
            module_to_env=copy.deepcopy(self.module_to_env),
            seed=int(seeds.generate_state(1)[0]) if self._has_seed else None,
            **self._arguments,
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
    def weights_version(self) -> int | None:
        """The version of the weights; every chunk carries it."""
        return self._players.weights_version

    def set_weights(self, weights: Mapping[Any, Mapping[str, Any]], version: int | None = None) -> None:
        """Give modules new weights, `{module_id: state_dict}`; running episodes note the version at their current step."""
        load_weights(self.modules, weights)
        if version is not None:
            self._players.use_version(version)

    def get_weights(self) -> dict[Any, dict[str, Any]]:
        """Return copies of the weights of all modules."""
        return weights_of(self.modules)

    def get_state(self) -> dict[str, Any]:
        """Return weights, states of the pipelines and of random generators, and counters.

        Running episodes are not part of it. A runner that is given the state begins new ones, and so plays exactly as this
        one does if it samples with `force_reset=True`.
        """
        return {
            "weights": self.get_weights(),
            "weights_version": self.weights_version,
            "env_to_module": self.env_to_module.get_state(),
            "module_to_env": self.module_to_env.get_state(),
            "rng": dict(self._actor.rng.bit_generator.state),
            "generator": self._actor.generator.get_state().numpy(),
            "episode_numbers": [lane.number for lane in self._lanes],
            "num_begun": self._players.num_begun,
            "num_evaluations": self._num_evaluations,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; running episodes are let go, what was recorded of them is kept.

        Raises:
            EnvRunnerError: If it is no state of a runner with as many environments and such modules; nothing is changed then.
        """
        before = self.get_state()
        check_state(state, before)
        try:
            numbers = [int(number) for number in state["episode_numbers"]]
            self._load(state)
        except (EpisodiaError, TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
            self._load(before)
            raise EnvRunnerError(
                f"set_state: found a state that does not fit to this runner ({error}), expected that of one with the same "
                "settings. Make the runner like that one."
            ) from error
        self._players.abandon_episodes()
        self._actor.forget()
        for lane, number in zip(self._lanes, numbers, strict=True):
            lane.number = number

    def _load(self, state: Mapping[str, Any]) -> None:
        load_weights(self.modules, state["weights"])
        self.env_to_module.set_state(state["env_to_module"])
        self.module_to_env.set_state(state["module_to_env"])
        self._players.weights_version = state["weights_version"]
        self._actor.rng.bit_generator.state = state["rng"]
        self._actor.generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
        self._players.num_begun, self._num_evaluations = int(state["num_begun"]), int(state["num_evaluations"])

    def close(self) -> None:
        """Close all environments; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for lane in self._lanes:
            lane.close()

    def __enter__(self) -> MultiAgentEnvRunner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _randomness(entropy: int) -> tuple[np.random.Generator, torch.Generator]:
    rng_seed, torch_seed = np.random.SeedSequence(entropy).spawn(2)
    generator = torch.Generator().manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> 1))
    return np.random.default_rng(rng_seed), generator
