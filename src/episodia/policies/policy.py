"""A module with the pipelines around it, as one thing that acts: what is left of a training when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space

from episodia.checkpoints import checkpoint_directory, load_state, save_state
from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors import defaults
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.episodes import SingleAgentEpisode
from episodia.errors import PolicyError
from episodia.modules import Module
from episodia.modules.devices import device_of, usable_device
from episodia.policies import policy_codec
from episodia.policies.policy_snapshot import (
    NOT_RECORDED,
    Snapshot,
    acting_copy,
    as_scalars,
    check_acts,
    checked_reward,
    mask_row,
)
from episodia.trees import map_batch
from episodia.types import Info, Item, State


class _Taken(NamedTuple):
    """An action that was taken, as episodes record it, and what the module had to say beside it."""

    action: Any
    extras: dict[str, Any]


@final
class Policy:
    """Acts in one episode after another, observation by observation, as a runner would with this module and these pipelines.

    It is a snapshot: module and pipelines are copied, so training that goes on does not change it, and acting does not change
    the statistics of filters. Of the running episode it remembers as much as its pipelines look back.

    Call it with each observation, and `reset` it when an episode is over. A policy that looks at rewards has to `observe` them.

    Args:
        module: What acts; for several modules there is `MultiAgentPolicy`.
        env_to_module: The pipeline in front of it; by default the default one for the spaces of the module.
        module_to_env: The pipeline behind it; by default the default one.
        explore: Whether actions are drawn; otherwise the most probable one is taken.
        seed: For what is drawn.

    Raises:
        PolicyError: If there are several modules, or if something is of another kind.
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
        check_acts(module)
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
        """What the policy is called with: the observation space of the environment, if it is known."""
        space: Space[Any] | None = self._parts.env_to_module.input_observation_space
        return space

    @property
    def action_space(self) -> Space[Any] | None:
        """What the policy returns: the action space of the environment, if it is known."""
        space: Space[Any] | None = self._parts.module_to_env.input_action_space
        return space

    def __repr__(self) -> str:
        return f"Policy({type(self._module).__name__}, explore={self.explore})"

    # --- Acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Begin a new episode with the next observation."""
        self._episode: SingleAgentEpisode | None = None
        self._taken: _Taken | None = None
        self._reward: float | None = None

    def observe(self, reward: float) -> None:
        """Note the reward that followed the last action; several between two actions add up.

        Raises:
            PolicyError: If there was no action yet, or if it is no finite number.
        """
        if self._taken is None:
            raise PolicyError(
                "observe: found no action that a reward could be for, expected one in this episode. Call the policy with an "
                "observation first."
            )
        self._reward = (self._reward or 0.0) + checked_reward(reward)

    def __call__(self, observation: Item, *, infos: Info | None = None, action_mask: Item = None) -> Item:
        """Return the action for `observation`, as the environment takes it.

        Args:
            observation: What the environment shows, in its observation space.
            infos: What it says beside, for pieces that want to know. A mask of allowed actions is looked for here, too.
            action_mask: Nonzero where an action is allowed, nested as actions are, if neither observations nor infos hold it.

        Raises:
            SpaceError: If the observation does not belong to its space.
            PolicyError: If the policy looks at rewards, and was not told that of its last action.
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
        # Only now, so that a call that fails changes nothing.
        self._episode, self._taken, self._reward = episode, taken, None
        return as_scalars(action)

    def _continued(self, observation: Any, infos: Mapping[str, Any] | None) -> SingleAgentEpisode:
        """Return the episode with `observation` at its end; the one so far is as it was."""
        if self._episode is None or self._taken is None:
            episode = SingleAgentEpisode("policy", observation_space=self.observation_space)
            episode.add_env_reset(observation, infos)
            return episode
        if self._reward is None and self._parts.needs_rewards:
            raise PolicyError(
                "policy: found no reward for its last action, expected one, since its pipeline looks at rewards. Call "
                "`observe(reward)` after each step, or `reset()` if a new episode begins."
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
            CheckpointError: If it cannot be written; what was there before is unchanged then.
            ModuleError: If the class of the module is not registered, see `register_module`.
            PipelineError: If the class of a piece is not registered, see `register_connector`.
            MissingExtraError: If safetensors is not installed.
        """
        save_state(path, {policy_codec.KEY: self.get_state()})

    @classmethod
    def load(cls, path: str | Path, *, device: str | torch.device = "cpu") -> Policy:
        """Return the policy that was saved in `path`, alone or in a larger checkpoint, at the beginning of an episode.

        It acts as the one that was saved. No code is run but that of registered classes.

        Args:
            path: The directory of the checkpoint, or that of a run of `train`.
            device: Where the module computes.

        Raises:
            CheckpointError: If there is no checkpoint, if it is damaged, or if there is no policy for one agent in it.
            PolicyError: If there is no such device.
        """
        state = load_state(checkpoint_directory(path))
        return cls.from_state(policy_codec.policy_in(state, path, policy_codec.KEY), device=device, where=str(path))

    def get_state(self) -> dict[str, Any]:
        """Return all that is needed to make the policy again, as `save_state` takes it; see `save`."""
        parts = self._parts
        encoded = policy_codec.encoded_policy(self._module, parts.env_to_module, parts.module_to_env)
        return {**encoded, **parts.get_state()}

    @classmethod
    def from_state(
        cls, state: State, *, device: str | torch.device = "cpu", where: str = "state of a policy"
    ) -> Policy:
        """Return the policy whose `get_state` returned `state`; `where` is where it comes from, for messages.

        Raises:
            CheckpointError: If it is something else, or if a class is not registered here.
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
