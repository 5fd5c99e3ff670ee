"""Multi-agent policies: several modules with their pipelines as one object that acts for several agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from gymnasium import spaces

from episodia.arguments import checked_keys, names_nearest_argument
from episodia.checkpoints.save_and_load import checkpoint_directory, load_state, save_state
from episodia.columns import Columns
from episodia.connectors import defaults
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS, default_mapping
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.spaces.action_masks import masks_in_infos
from episodia.episodes import MultiAgentEpisode
from episodia.errors import EpisodiaError, PolicyError
from episodia.modules import Module, MultiModule
from episodia.modules.devices import device_of, usable_device
from episodia.policies import saved_policy as policy_codec
from episodia.policies.policy_snapshot import (
    PolicyParts,
    Snapshot,
    acting_copy,
    as_scalars,
    checked_reward,
)
from episodia.policies.saved_multi_agent_policy import AgentToModule, decoded_policies, encoded_policies
from episodia.trees import private, shown
from episodia.types import State


class _Taken(NamedTuple):
    """The taken actions by agent, as episodes record them, and the modules' further outputs."""

    actions: dict[Any, Any]
    extras: dict[Any, dict[str, Any]]


@names_nearest_argument
@final
class MultiAgentPolicy:
    """Acts for several agents, as a `MultiAgentEnvRunner` would with these modules and pipelines.

    It is a `Policy` for several agents: a snapshot that keeps as much of the running episode as its pipelines look back. Call
    it with the observations of the agents that act now: all agents, one after another in a game of turns, or one of them if
    another program plays the others.

    Args:
        modules: The modules by their ids.
        env_to_module: The pipeline in front of them; None takes the default one.
        module_to_env: The pipeline behind them; None takes the default one.
        agent_to_module_mapping_fn: Called with an agent and its episode, returns the module's id. By default all agents share
            the only module, or each agent has the module of its own name.
        explore: Whether actions are drawn; otherwise the most probable one is taken.
        seed: The seed of the draws.

    Raises:
        PolicyError: If an argument has the wrong type.
        ModuleError: If there is no module, or if an object is not a module.
        PipelineError: If modules and pipelines do not fit together.

    >>> from episodia.modules import RuleModule
    >>> echo = RuleModule(lambda rows: rows, action_space=spaces.Discrete(2))
    >>> flip = RuleModule(lambda rows: 1 - rows, action_space=spaces.Discrete(2))
    >>> policy = MultiAgentPolicy({"left": echo, "right": flip})
    >>> policy({"left": 1, "right": 1})
    {'left': np.int64(1), 'right': np.int64(0)}
    >>> policy({"right": 0})
    {'right': np.int64(1)}
    """

    def __init__(
        self,
        modules: Mapping[Any, Module],
        env_to_module: EnvToModulePipeline | None = None,
        module_to_env: ModuleToEnvPipeline | None = None,
        *,
        agent_to_module_mapping_fn: AgentToModule | None = None,
        explore: bool = False,
        seed: int | None = None,
    ) -> None:
        given: object = modules
        if not isinstance(given, (Mapping, torch.nn.ModuleDict)):
            raise PolicyError(
                f"policy: found {given!r}, expected modules by their ids. Pass a dict of them, or make a `Policy` of "
                "one module."
            )
        mapping = agent_to_module_mapping_fn
        if mapping is not None and not callable(mapping):
            raise PolicyError(
                f"policy: found `agent_to_module_mapping_fn={shown(mapping)}`, expected a function of an agent and its "
                "episode. Pass one, or None."
            )
        # All at once, so that two ids of one module keep sharing it.
        self._modules = MultiModule(acting_copy(dict(given.items())))
        self._agent_to_module = default_mapping(self._modules) if mapping is None else mapping
        self._missing: dict[Any, str] = {}
        self._parts = self._snapshot(env_to_module, module_to_env, explore, seed)
        self.reset()

    def _snapshot(
        self,
        env_to_module: EnvToModulePipeline | None,
        module_to_env: ModuleToEnvPipeline | None,
        explore: bool,
        seed: int | None,
    ) -> Snapshot:
        device = device_of(*self._modules.values())
        stateful = any(module.is_stateful() for module in self._modules.values())
        if env_to_module is None:
            env_to_module = defaults.env_to_module(
                multi_agent=True, stateful=stateful, device=device, module=self._modules
            )
        if module_to_env is None:
            module_to_env = defaults.module_to_env(multi_agent=True, stateful=stateful)
        return Snapshot(self._modules, env_to_module, module_to_env, explore=explore, device=device, seed=seed)

    @property
    def modules(self) -> Mapping[Any, Module]:
        """The modules by their ids."""
        return self._modules

    @property
    def explore(self) -> bool:
        """Whether actions are drawn; otherwise the most probable one is taken."""
        return self._parts.explore

    @property
    def agent_to_module_mapping_fn(self) -> AgentToModule:
        """Returns the id of the module that acts for an agent in an episode."""
        return self._agent_to_module

    def parts(self) -> PolicyParts:
        """Return copies of the modules and the pipelines, for a runner that acts as this policy does."""
        return self._parts.copied()

    def __repr__(self) -> str:
        return f"MultiAgentPolicy({self._modules!r}, explore={self.explore})"

    # --- Acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Start a new episode with the next observations."""
        self._episode: MultiAgentEpisode | None = None
        self._taken = _Taken({}, {})
        self._rewards: dict[Any, float] = {}
        # The agents whose last action has no reward yet.
        self._unpaid: set[Any] = set()

    def observe(self, rewards: Mapping[Any, float]) -> None:
        """Add rewards of agents that have acted or wait; several rewards between two calls of the policy add up.

        Raises:
            PolicyError: Before the first action, or if a reward is not a finite number; then no reward is added.
        """
        given: object = rewards
        if not isinstance(given, Mapping):
            raise PolicyError(f"observe: found {rewards!r}, expected a dict of rewards by agent. Pass such a dict.")
        if self._episode is None:
            raise PolicyError(
                "observe: found a reward before the first action, expected an action in this episode. Call the policy with "
                "observations first."
            )
        found = {agent: checked_reward(reward) for agent, reward in given.items()}
        self._rewards |= {agent: self._rewards.get(agent, 0.0) + reward for agent, reward in found.items()}
        self._unpaid = self._unpaid.difference(found)

    def __call__(
        self,
        observations: Mapping[Any, Any],
        *,
        infos: Mapping[Any, Mapping[str, Any]] | None = None,
        dones: Collection[Any] = (),
    ) -> dict[Any, Any]:
        """Return an action for each agent in `observations`, as the environment takes it.

        Args:
            observations: The observations by agent.
            infos: The infos by agent; they may hold masks of allowed actions, as `action_mask`.
            dones: Agents that have ended, with or without a last observation. They get no action; agents that observe them
                need to know.

        Raises:
            SpaceError: If an observation does not belong to its space.
            PolicyError: If there is no module for an agent, or if the policy reads rewards, and that of an agent's last
                action is missing.
            ConnectorError: If a piece of a pipeline fails.
        """
        given: object = observations
        if not isinstance(given, Mapping):
            raise PolicyError(
                f"policy: found {observations!r}, expected a dict of observations by agent. Pass such a dict."
            )
        ended = _agents("dones", dones)
        episode = self._continued(observations, infos, ended)
        if not any(agent not in ended for agent in observations):
            self._remember(episode, _Taken({}, {}), ended)
            return {}
        self._check_modules(episode, [agent for agent in observations if agent not in ended])
        made = self._parts.act(episode, lambda batch, shared: self._outputs(episode, batch, shared))
        taken = _taken_of(made)
        received = made[Columns.ACTIONS_FOR_ENV if Columns.ACTIONS_FOR_ENV in made else Columns.ACTIONS][0]
        # Stored last, so that a failed call changes nothing.
        self._remember(episode, taken, ended)
        return {agent: as_scalars(private(action)) for agent, action in received.items()}

    def _remember(self, episode: MultiAgentEpisode, taken: _Taken, ended: list[Any]) -> None:
        self._episode, self._taken, self._rewards = episode, taken, {}
        self._unpaid = self._unpaid.union(taken.actions).difference(ended)

    def _outputs(
        self, episode: MultiAgentEpisode, batch: dict[Any, Any], shared: dict[Any, Any]
    ) -> dict[Any, dict[str, Any]]:
        return {
            module_id: self._parts.passed(
                self._modules[module_id], columns, masks_in_infos([episode], shared[ROW_OWNERS][module_id])
            )
            for module_id, columns in batch.items()
        }

    def _continued(self, observations: Any, infos: Any, ended: list[Any]) -> MultiAgentEpisode:
        """Return the episode with `observations` at its end; the stored one stays unchanged."""
        if self._episode is None:
            episode = self._new_episode()
            # Agents that end before the first step do not take part.
            shown = {agent: item for agent, item in observations.items() if agent not in ended}
            episode.add_env_reset(observations=shown, infos=infos)
            return episode
        waiting = [agent for agent in observations if agent in self._unpaid]
        if waiting and self._parts.needs_rewards:
            raise PolicyError(
                f"policy: found no rewards for the last actions of {waiting}, expected some, because its pipeline reads "
                "rewards. Call `observe(rewards)` after each step, or `reset()` before a new episode."
            )
        episode = self._episode.cut(self._episode.env_steps_back(self._parts.lookback))
        rewards = dict.fromkeys(self._taken.actions, 0.0) | self._rewards
        episode.add_env_step(
            observations,
            self._taken.actions,
            rewards,
            infos,
            terminateds=dict.fromkeys(ended, True),
            extra_model_outputs=self._taken.extras,
        )
        return episode

    def _new_episode(self) -> MultiAgentEpisode:
        space = self._parts.env_to_module.input_observation_space
        by_agent: dict[Any, Any] | None = dict(space.spaces) if isinstance(space, spaces.Dict) else None
        return MultiAgentEpisode(
            "policy",
            observation_space=by_agent,
            agent_to_module_mapping_fn=self._module_of,
            # As in a runner: environments reward agents that have just ended.
            missing_final_observation="repeat",
            rewards_after_done="add",
        )

    def _module_of(self, agent: Any, episode: MultiAgentEpisode) -> Any:
        try:
            module_id = self._agent_to_module(agent, episode)
            hash(module_id)
        except EpisodiaError:
            raise
        except Exception as error:  # functions of users raise anything
            raise PolicyError(
                f"policy: found a failure of `agent_to_module_mapping_fn` for {agent!r} ({type(error).__name__}: {error}), "
                "expected the id of its module. Pass a function of an agent and its episode that returns an id."
            ) from error
        return module_id

    def _check_modules(self, episode: MultiAgentEpisode, agents: list[Any]) -> None:
        for agent in agents:
            module_id = episode.module_for(agent)
            if module_id not in self._modules:
                reason = self._missing.get(module_id)
                remedy = (
                    "Map it to one of these."
                    if reason is None
                    else f"It could not be saved: {reason} Load the policy with `modules={{{module_id!r}: ...}}`."
                )
                raise PolicyError(
                    f"policy: found no module {module_id!r}, which acts for {agent!r}, expected one of {list(self._modules)}. "
                    f"{remedy}"
                )

    # --- Saving -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the policy into the directory `path`, see `save_state`. The running episode is not saved.

        Modules whose class is not registered, such as functions as rules, are left out; pass them to `load`.

        Raises:
            CheckpointError: If it cannot be written; an earlier checkpoint then stays unchanged.
            ModuleError: If no module is of a registered class, see `register_module`.
            PipelineError: If the class of a piece is not registered, see `register_connector`.
            MissingExtraError: If safetensors is not installed.
        """
        save_state(path, {policy_codec.MULTI_AGENT_KEY: self.get_state()})

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        modules: Mapping[Any, Module] | None = None,
        agent_to_module_mapping_fn: AgentToModule | None = None,
        device: str | torch.device = "cpu",
    ) -> MultiAgentPolicy:
        """Return the policy that was saved in `path`, alone or in a larger checkpoint, at the start of an episode.

        It acts like the saved one. Only code of registered classes is run.

        Args:
            path: The directory of the checkpoint, or that of a run.
            modules: Modules that were left out, or that replace those in the checkpoint, by their ids.
            agent_to_module_mapping_fn: The function that was used, if it was your own.
            device: The device of the modules in the checkpoint.

        Raises:
            CheckpointError: If there is no checkpoint, if it is damaged, if there is no policy for several agents in it, or if
                it needs `agent_to_module_mapping_fn`.
            PolicyError: If the device is missing, if `modules` has an unknown id, or if an argument has the wrong type.
        """
        state = policy_codec.policy_in(load_state(checkpoint_directory(path)), path, policy_codec.MULTI_AGENT_KEY)
        return cls.from_state(
            state,
            modules=modules,
            agent_to_module_mapping_fn=agent_to_module_mapping_fn,
            device=device,
            where=str(path),
        )

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        modules: Mapping[Any, Module] | None = None,
        agent_to_module_mapping_fn: AgentToModule | None = None,
        device: str | torch.device = "cpu",
        where: str = "state of a policy",
    ) -> MultiAgentPolicy:
        """Return the policy whose `get_state` returned `state`; `where` names its source, for messages. See `load`."""
        given: object = modules
        if not (given is None or isinstance(given, Mapping)):
            raise PolicyError(
                f"{where}: found `modules={shown(modules)}`, expected a dict of modules by their ids. Pass such a dict."
            )
        several = decoded_policies(
            state, usable_device(PolicyError, device), where, modules or {}, agent_to_module_mapping_fn
        )
        parts = several.parts
        policy = cls(
            parts.module,
            parts.env_to_module,
            parts.module_to_env,
            agent_to_module_mapping_fn=several.agent_to_module,
            explore=parts.explore,
        )
        policy._missing = several.missing
        policy._parts.generator = parts.generator or policy._parts.generator
        return policy

    def get_state(self) -> dict[str, Any]:
        """Return the state of the policy, which `save_state` takes; see `save`."""
        parts = self._parts
        encoded = encoded_policies(
            self._modules, self._missing, self._agent_to_module, parts.env_to_module, parts.module_to_env
        )
        return {**encoded, **parts.get_state()}


def _agents(name: str, value: Any) -> list[Any]:
    agents = checked_keys(PolicyError, "policy", name, value)
    try:
        return list(dict.fromkeys(agents))
    except TypeError as error:  # an id that is not hashable
        raise PolicyError(
            f"policy: found `{name}={shown(value)}`, expected a list of agents. Pass their ids."
        ) from error


def _taken_of(made: dict[str, Any]) -> _Taken:
    actions = made[Columns.ACTIONS]
    if not isinstance(actions, list) or not isinstance(actions[0], dict):
        raise PolicyError(
            f"policy: found {type(actions).__name__} as the actions at the end of the module-to-env pipeline, expected a dict "
            "of agents for each episode. Let `ModuleToAgentUnmapping` be the last piece."
        )
    extras: dict[Any, dict[str, Any]] = {agent: {} for agent in actions[0]}
    for name, column in made.items():
        if name not in NOT_RECORDED:
            for agent, item in column[0].items():
                extras[agent][name] = item
    return _Taken(actions[0], extras)
