"""Assembly of the parts of a runner: pipelines, actors, recorders and empty episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final, get_args

from gymnasium.vector import VectorEnv

from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline, defaults
from episodia.env_runners.acting.acting import Actor, RandomActions
from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.acting.runner_pipelines import (
    Pieces,
    action_space_of,
    as_pieces,
    check_runs_without_module,
    env_to_module_for,
    module_to_env_for,
    real_range_of,
    recorded_action_space,
)
from episodia.env_runners.callbacks import Watcher
from episodia.env_runners.envs.async_lanes import close
from episodia.env_runners.envs.env_sources import SpacesOfAgents, VectorEnvSource, joint, spaces_of
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.single_agent_loop import SingleAgentLoop
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.runner_settings import RunnerSettings, check_recorder_made
from episodia.env_runners.seeding import Seeds
from episodia.episodes import MultiAgentEpisode
from episodia.episodes.multi_agent.multi_agent_construction import as_policy
from episodia.episodes.multi_agent.pending_step import MissingFinalObservation
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder, RecorderFactory
from episodia.errors import EnvRunnerError
from episodia.modules import Module, MultiModule
from episodia.modules.devices import device_of
from episodia.policies import MultiAgentPolicy, Policy

Explore: TypeAlias = bool | Literal["auto"]
AUTO: Final = "auto"


class Acting(NamedTuple):
    """The modules of a runner (one, several or None), its pipelines or pieces for them, and whether they explore."""

    module: Any
    env_to_module: EnvToModulePipeline | Pieces | None
    module_to_env: ModuleToEnvPipeline | Pieces | None
    explore: bool
    mask_key: str | None = None


def acting_of(
    found: Any,
    env_to_module: EnvToModulePipeline | Pieces | None,
    module_to_env: ModuleToEnvPipeline | Pieces | None,
    *,
    explore: Explore,
    kind: type[Policy | MultiAgentPolicy],
) -> Acting:
    """Return what acts in a runner.

    Args:
        found: What the runner was given: modules, None, or a policy, which brings its pipelines.
        env_to_module: The pipeline or the pieces that the runner was given.
        module_to_env: The same behind the modules.
        explore: Whether to explore; `"auto"` asks the policy, and modules without one explore.
        kind: The kind of policy that acts in such a runner.

    Raises:
        EnvRunnerError: If the policy is of the other kind, if pipelines are given beside a policy, or if pieces are given that
            do not run without a module.
    """
    if found is None:
        check_runs_without_module(env_to_module, module_to_env)
    if not isinstance(found, (Policy, MultiAgentPolicy)):
        return Acting(found, env_to_module, module_to_env, explore=True if explore == AUTO else explore)
    if not isinstance(found, kind):
        raise EnvRunnerError(
            f"found {found!r} as what acts, expected a `{kind.__name__}`, modules, or None to act at random. Use the runner "
            "for environments of one agent with a `Policy`, and the one for several agents with a `MultiAgentPolicy`."
        )
    if env_to_module is not None or module_to_env is not None:
        raise EnvRunnerError(
            f"found `env_to_module=` or `module_to_env=` beside {found!r}, which has pipelines of its own; expected only "
            "the policy. Leave them out, or pass the module instead of the policy."
        )
    parts = found.parts()
    return Acting(parts.module, parts.env_to_module, parts.module_to_env, parts.explore if explore == AUTO else explore)


def new_loop(
    source: VectorEnvSource,
    acting: Acting,
    recorder_of: RecorderFactory,
    seeds: Seeds,
    faults: Faults,
    watcher: Watcher,
) -> SingleAgentLoop:
    """Make environments and all parts that act in them. On failure, close the environments made here."""
    env = source.build()
    try:
        actor = _new_actor(env, acting, seeds, faults)
        recorder = _new_recorder(recorder_of, source.settings, env, actor, seeds.seed)
        return SingleAgentLoop(source, env, actor, recorder, seeds=seeds, faults=faults, watcher=watcher)
    except BaseException:
        if source.can_remake:
            close(env)
        raise


def _new_actor(env: VectorEnv[Any, Any, Any], acting: Acting, seeds: Seeds, faults: Faults) -> Actor:
    module = acting.module
    to_env = module_to_env_for(env, module, acting.module_to_env)
    return Actor(
        module,
        env_to_module_for(env, module, acting.env_to_module),
        to_env,
        random=RandomActions(
            action_space_of(module, to_env, env.single_action_space),
            env.num_envs,
            seeds.rng,
            real_range_of(module, to_env),
        ),
        generator=seeds.generator,
        metrics=faults.metrics,
        mask_key=acting.mask_key,
    )


def _new_recorder(
    make: RecorderFactory, settings: RunnerSettings, env: VectorEnv[Any, Any, Any], actor: Actor, seed: int
) -> EpisodeRecorder:
    action_space = action_space_of(actor.module, actor.module_to_env, env.single_action_space)
    recorder = make(
        env.single_observation_space,
        action_space if actor.module is None else recorded_action_space(action_space),
        env.num_envs,
        lookback=max(
            settings.lookback, settings.reward_delay, actor.env_to_module.lookback, actor.module_to_env.lookback
        ),
        seed=seed,
        episode_class=settings.episode_class,
    )
    check_recorder_made(recorder)
    recorder.weights_version = 0
    return recorder


def new_actor(env: Any, acting: Acting, seeds: Seeds, metrics: RunnerMetrics) -> MultiAgentActor:
    """Return the actor for environments like `env`."""
    actor = MultiAgentActor(acting.module, *_pipelines(env, acting), seeds.rng, seeds.generator)
    actor.metrics = metrics
    return actor


def _pipelines(env: Any, acting: Acting) -> tuple[EnvToModulePipeline, ModuleToEnvPipeline]:
    modules, env_to_module, module_to_env = acting[:3]
    given: dict[str, Any] = {
        "multi_agent": True,
        "stateful": modules is not None and any(module.is_stateful() for module in modules.values()),
    }
    observation_space, action_space = map(joint, spaces_of(env))
    if not isinstance(env_to_module, EnvToModulePipeline):
        device = device_of(*(modules or {}).values())
        custom = as_pieces(env_to_module)
        env_to_module = defaults.env_to_module(
            observation_space, action_space, **given, custom=custom, device=device, module=modules
        )
    if not isinstance(module_to_env, ModuleToEnvPipeline):
        custom = as_pieces(module_to_env)
        module_to_env = defaults.module_to_env(observation_space, action_space, **given, custom=custom)
    return env_to_module, module_to_env


@final
class EpisodeMaker:
    """Makes empty episodes.

    Attributes:
        mapping: The mapping of agents to modules.
        observation_spaces: The space of each agent's observations, if agents are known.
        action_spaces: The space of each agent's actions as they are recorded.
    """

    def __init__(
        self,
        mapping: Callable[[Any, Any], Any],
        episode_class: type[MultiAgentEpisode],
        missing_final_observation: MissingFinalObservation,
    ) -> None:
        """Make episodes without spaces, before `use_spaces`.

        Raises:
            EpisodeError: If `missing_final_observation` is not one of its choices.
        """
        self.mapping = mapping
        self.missing_final_observation: MissingFinalObservation = as_policy(
            "missing_final_observation", missing_final_observation, get_args(MissingFinalObservation), "runner"
        )
        self._episode_class = episode_class
        self.observation_spaces: SpacesOfAgents = None
        self.action_spaces: SpacesOfAgents = None

    def use_spaces(self, env: Any, actor: MultiAgentActor) -> None:
        """Give new episodes the spaces of `env`, in which `actor` acts."""
        self.observation_spaces, action_spaces = spaces_of(env)
        self.action_spaces = action_spaces and {
            agent: recorded_action_space(action_space_of(actor.modules, actor.module_to_env, space))
            for agent, space in action_spaces.items()
        }

    def __call__(self, id_: str) -> MultiAgentEpisode:
        """Return an empty episode with this id."""
        return self._episode_class(
            id_,
            observation_space=self.observation_spaces,
            action_space=self.action_spaces,
            agent_to_module_mapping_fn=self.mapping,
            missing_final_observation=self.missing_final_observation,
            # Environments pay agents that have just died.
            rewards_after_done="add",
        )


def as_modules(modules: Any) -> MultiModule | None:
    """Return one module, a dict of modules, or a `MultiModule`, as a `MultiModule`; None stays None."""
    if modules is None or isinstance(modules, MultiModule):
        return modules
    if isinstance(modules, Mapping) and not isinstance(modules, Module):
        return MultiModule(modules)
    return MultiModule({DEFAULT_MODULE_ID: modules})
