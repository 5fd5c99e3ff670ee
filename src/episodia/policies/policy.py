"""Policies: a module with its pipelines as one object that acts, which is the result of a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space

from episodia.arguments import names_nearest_argument
from episodia.checkpoints.save_and_load import checkpoint_directory, load_state, save_state
from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors import defaults
from episodia.connectors.batches.module_outputs import NOT_RECORDED
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.episodes import SingleAgentEpisode
from episodia.errors import PolicyError
from episodia.modules import Module
from episodia.modules.devices import device_of, usable_device
from episodia.policies import saved_policy as policy_codec
from episodia.policies.policy_snapshot import (
    PolicyParts,
    Snapshot,
    acting_copy,
    as_scalars,
    check_one_module,
    checked_reward,
    mask_row,
)
from episodia.trees import map_batch
from episodia.types import Info, Item, State


class _Taken(NamedTuple):
    """A taken action, as episodes record it, and the module's further outputs."""

    action: Any
    extras: dict[str, Any]


@names_nearest_argument
@final
class Policy:
    """Acts in one episode after another, observation by observation, as a runner would with this module and these pipelines.

    It is a snapshot: module and pipelines are copied, so further training does not change it, and acting does not change the
    statistics of filters. It keeps as much of the running episode as its pipelines look back.

    Call it with each observation, and `reset` it after each episode. A policy that reads rewards needs `observe`.

    Args:
        module: The module; for several modules use `MultiAgentPolicy`.
        env_to_module: The pipeline in front of it; None takes the default one for the spaces of the module.
        module_to_env: The pipeline behind it; None takes the default one.
        explore: Whether actions are drawn; otherwise the most probable one is taken.
        seed: The seed of the draws.

    Raises:
        PolicyError: If there are several modules, or if an argument has the wrong type.
        PipelineError: If module and pipelines do not fit together.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> policy = Policy(MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(1, start=7)))
    >>> policy(np.zeros(3, np.float32))
    np.int64(7)
    """

    def __init__(
        self,
        module: Module,
        env_to_module: EnvToModulePipeline | None = None,
        module_to_env: ModuleToEnvPipeline | None = None,
        *,
        explore: bool = False,
        seed: int | None = None,
    ) -> None:
        check_one_module(module)
        own: Any = acting_copy({DEFAULT_MODULE_ID: module})[DEFAULT_MODULE_ID]
        self._module = own
        to_module = self._default_env_to_module() if env_to_module is None else env_to_module
        to_env = self._default_module_to_env() if module_to_env is None else module_to_env
        self._parts = Snapshot(own, to_module, to_env, explore=explore, device=device_of(own), seed=seed)
        self.reset()

    def _default_env_to_module(self) -> EnvToModulePipeline:
        module = self._module
        return defaults.env_to_module(
            module.observation_space,
            module.action_space,
            stateful=module.is_stateful(),
            device=device_of(module),
            module=module,
        )

    def _default_module_to_env(self) -> ModuleToEnvPipeline:
        module = self._module
        return defaults.module_to_env(module.observation_space, module.action_space, stateful=module.is_stateful())

    @property
    def explore(self) -> bool:
        """Whether actions are drawn; otherwise the most probable one is taken."""
        return self._parts.explore

    @property
    def observation_space(self) -> Space[Any] | None:
        """The observation space of the environment, if known; the policy is called with its items."""
        space: Space[Any] | None = self._parts.env_to_module.input_observation_space
        return space

    @property
    def action_space(self) -> Space[Any] | None:
        """The action space of the environment, if known; the policy returns its items."""
        space: Space[Any] | None = self._parts.module_to_env.input_action_space
        return space

    def parts(self) -> PolicyParts:
        """Return copies of the module and the pipelines, for a runner that acts as this policy does."""
        return self._parts.copied()

    def __repr__(self) -> str:
        return f"Policy({type(self._module).__name__}, explore={self.explore})"

    # --- Acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Start a new episode with the next observation."""
        self._episode: SingleAgentEpisode | None = None
        self._taken: _Taken | None = None
        self._reward: float | None = None

    def observe(self, reward: float) -> None:
        """Add the reward of the last action; several rewards between two actions add up.

        Raises:
            PolicyError: Before the first action, or if the reward is not a finite number.
        """
        if self._taken is None:
            raise PolicyError(
                "observe: found a reward before the first action, expected an action in this episode. Call the policy with an "
                "observation first."
            )
        self._reward = (self._reward or 0.0) + checked_reward(reward)

    def __call__(self, observation: Item, *, infos: Info | None = None, action_mask: Item = None) -> Item:
        """Return the action for `observation`, as the environment takes it.

        Args:
            observation: The observation of the environment, in its observation space.
            infos: The infos of the environment, for pieces that read them; they may hold a mask of allowed actions.
            action_mask: Nonzero for allowed actions, nested as actions are, if neither observations nor infos hold it.

        Raises:
            SpaceError: If the observation does not belong to its space.
            PolicyError: If the policy reads rewards, and that of its last action is missing.
            ConnectorError: If a piece of a pipeline fails.
        """
        episode = self._continued(observation, infos)
        mask = (infos or {}).get(Columns.ACTION_MASK) if action_mask is None else action_mask
        rows = None if mask is None else mask_row(mask)
        made = self._parts.act(episode, lambda batch, _: self._parts.passed(self._module, batch, rows))
        taken = _taken_of(made)
        action = (
            map_batch(np.copy, _row(made[Columns.ACTIONS_FOR_ENV])) if Columns.ACTIONS_FOR_ENV in made else taken.action
        )
        # Stored last, so that a failed call changes nothing.
        self._episode, self._taken, self._reward = episode, taken, None
        return as_scalars(action)

    def _continued(self, observation: Any, infos: Mapping[str, Any] | None) -> SingleAgentEpisode:
        """Return the episode with `observation` at its end; the stored one stays unchanged."""
        if self._episode is None or self._taken is None:
            episode = SingleAgentEpisode("policy", observation_space=self.observation_space)
            episode.add_env_reset(observation, infos)
            return episode
        if self._reward is None and self._parts.needs_rewards:
            raise PolicyError(
                "policy: found no reward for its last action, expected one, because its pipeline reads rewards. Call "
                "`observe(reward)` after each step, or `reset()` before a new episode."
            )
        episode = self._episode.cut(len_lookback_buffer=self._parts.lookback)
        episode.add_env_step(
            observation, self._taken.action, self._reward or 0.0, infos, extra_model_outputs=self._taken.extras
        )
        return episode

    # --- Saving -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the policy into the directory `path`, see `save_state`. The running episode is not saved.

        Raises:
            CheckpointError: If it cannot be written; an earlier checkpoint then stays unchanged.
            ModuleError: If the class of the module is not registered, see `register_module`.
            PipelineError: If the class of a piece is not registered, see `register_connector`.
            MissingExtraError: If safetensors is not installed.
        """
        save_state(path, {policy_codec.KEY: self.get_state()})

    @classmethod
    def load(cls, path: str | Path, *, device: str | torch.device = "cpu") -> Policy:
        """Return the policy that was saved in `path`, alone or in a larger checkpoint, at the start of an episode.

        It acts like the saved one. Only code of registered classes is run.

        Args:
            path: The directory of the checkpoint, or that of a run of `train`.
            device: The device of the module.

        Raises:
            CheckpointError: If there is no checkpoint, if it is damaged, or if it holds no policy for one agent.
            PolicyError: If the device is missing.
        """
        state = load_state(checkpoint_directory(path))
        return cls.from_state(policy_codec.policy_in(state, path, policy_codec.KEY), device=device, where=str(path))

    def get_state(self) -> dict[str, Any]:
        """Return the state of the policy, which `save_state` takes; see `save`."""
        parts = self._parts
        encoded = policy_codec.encoded_policy(self._module, parts.env_to_module, parts.module_to_env)
        return {**encoded, **parts.get_state()}

    @classmethod
    def from_state(
        cls, state: State, *, device: str | torch.device = "cpu", where: str = "state of a policy"
    ) -> Policy:
        """Return the policy whose `get_state` returned `state`; `where` names its source, for messages.

        Raises:
            CheckpointError: If `state` is not the state of a policy, or if a class is not registered.
        """
        parts = policy_codec.decoded_policy(state, usable_device(PolicyError, device), where)
        policy = cls(parts.module, parts.env_to_module, parts.module_to_env, explore=parts.explore)
        policy._parts.generator = parts.generator or policy._parts.generator
        return policy


def _taken_of(made: dict[str, Any]) -> _Taken:
    extras = {name: _row(column) for name, column in made.items() if name not in NOT_RECORDED}
    return _Taken(_row(made[Columns.ACTIONS]), extras)


def _row(column: Any) -> Any:
    """Return the only row of a column."""
    return column[0] if isinstance(column, list) else map_batch(_first, column)


def _first(leaf: Any) -> Any:
    return (leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf)[0]
