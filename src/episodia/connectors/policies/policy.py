"""A module with the pipelines around it, as one thing that acts: what is left of a training when it is over."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors import defaults
from episodia.connectors.base import ConnectorV2
from episodia.connectors.pipelines.pipeline_kinds import EnvToModulePipeline, ModuleToEnvPipeline
from episodia.connectors.pipelines.places import walk
from episodia.connectors.policies import policy_codec
from episodia.connectors.views.add_views import AddViews
from episodia.episodes import SingleAgentEpisode
from episodia.errors import PolicyError
from episodia.modules import Module
from episodia.state import checkpoint_directory, load_state, save_state
from episodia.trees import map_batch

# What is in a batch for the module or the environment, and not a result that episodes keep.
_NOT_RECORDED = (Columns.OBS, Columns.STATE_IN, Columns.ACTIONS, Columns.ACTIONS_FOR_ENV)


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
        module: What acts; one module, not several.
        env_to_module: The pipeline in front of it; by default the default one for the spaces of the module.
        module_to_env: The pipeline behind it; by default the default one.
        explore: Whether actions are drawn; otherwise the most probable one is taken.
        seed: For what is drawn.

    Raises:
        PolicyError: If there are several modules.
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
        if isinstance(module, (Mapping, torch.nn.ModuleDict)):
            raise PolicyError(
                f"policy: found {len(module)} modules, expected one. Make a policy of each, `Policy(modules[module_id])`."
            )
        self.explore = explore
        self._module: Any = copy.deepcopy(module)
        if isinstance(self._module, torch.nn.Module):
            self._module.eval()
        self._device = _device_of(self._module)
        self._env_to_module = self._own_env_to_module(env_to_module)
        self._module_to_env = self._own_module_to_env(module_to_env)
        pieces = [place.piece for pipeline in self._pipelines for place in walk(pipeline)]
        _stop_learning(pieces)
        self._lookback = max(pipeline.lookback for pipeline in self._pipelines)
        self._needs_rewards = any(map(_looks_at_rewards, pieces))
        self._generator = torch.Generator(self._device)
        _ = self._generator.seed() if seed is None else self._generator.manual_seed(seed)
        self.reset()

    def _own_env_to_module(self, given: EnvToModulePipeline | None) -> EnvToModulePipeline:
        if given is not None:
            return copy.deepcopy(given)
        module = self._module
        return defaults.env_to_module(
            module.observation_space,
            module.action_space,
            stateful=module.is_stateful(),
            device=self._device,
            module=module,
        )

    def _own_module_to_env(self, given: ModuleToEnvPipeline | None) -> ModuleToEnvPipeline:
        if given is not None:
            return copy.deepcopy(given)
        module = self._module
        return defaults.module_to_env(self.observation_space, module.action_space, stateful=module.is_stateful())

    @property
    def _pipelines(self) -> tuple[EnvToModulePipeline, ModuleToEnvPipeline]:
        return self._env_to_module, self._module_to_env

    @property
    def observation_space(self) -> Space[Any] | None:
        """What the policy is called with: the observation space of the environment, if it is known."""
        return self._env_to_module.input_observation_space

    @property
    def action_space(self) -> Space[Any] | None:
        """What the policy returns: the action space of the environment, if it is known."""
        return self._module_to_env.input_action_space

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
        if np.ndim(reward) or not np.isfinite(reward):
            raise PolicyError(f"observe: found {reward!r}, expected a finite number. Pass the reward of one step.")
        self._reward = (self._reward or 0.0) + float(reward)

    def __call__(self, observation: Any, *, infos: Mapping[str, Any] | None = None, action_mask: Any = None) -> Any:
        """Return the action for `observation`, as the environment takes it.

        Args:
            observation: What the environment shows, in its observation space.
            infos: What it says beside, for pieces that want to know.
            action_mask: Nonzero where an action is allowed, nested as actions are, if observations do not hold it.

        Raises:
            SpaceError: If the observation does not belong to its space.
            PolicyError: If the policy looks at rewards, and was not told that of its last action.
            ConnectorError: If a piece of a pipeline fails.
        """
        episode = self._continued(observation, infos)
        shared: dict[Any, Any] = {}
        arguments = {"rl_module": self._module, "episodes": [episode], "explore": self.explore, "shared_data": shared}
        with torch.no_grad():
            batch = self._env_to_module(**arguments)
            outputs = self._module.forward_exploration(batch) if self.explore else self._module.forward_inference(batch)
            if action_mask is not None:
                outputs = {**outputs, Columns.ACTION_MASK: map_batch(lambda leaf: np.asarray(leaf)[None], action_mask)}
            made = self._module_to_env(**arguments, batch=outputs, generator=self._generator)
        taken = _taken_of(made)
        action = (
            map_batch(np.copy, _row(made[Columns.ACTIONS_FOR_ENV])) if Columns.ACTIONS_FOR_ENV in made else taken.action
        )
        # Only now, so that a call that fails changes nothing.
        self._episode, self._taken, self._reward = episode, taken, None
        return _scalar(action)

    def _continued(self, observation: Any, infos: Mapping[str, Any] | None) -> SingleAgentEpisode:
        """Return the episode with `observation` at its end; the one so far is as it was."""
        if self._episode is None or self._taken is None:
            episode = SingleAgentEpisode("policy", observation_space=self.observation_space)
            episode.add_env_reset(observation, infos)
            return episode
        if self._reward is None and self._needs_rewards:
            raise PolicyError(
                "policy: found no reward for its last action, expected one, since its pipeline looks at rewards. Call "
                "`observe(reward)` after each step, or `reset()` if a new episode begins."
            )
        episode = self._episode.cut(len_lookback_buffer=self._lookback)
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
            CheckpointError: If there is no checkpoint, if it is damaged, or if there is no policy in it.
        """
        state = load_state(checkpoint_directory(path))
        return cls.from_state(policy_codec.policy_in(state, path), device=device, where=str(path))

    def get_state(self) -> dict[str, Any]:
        """Return all that is needed to make the policy again, as `save_state` takes it; see `save`."""
        state = policy_codec.encoded_policy(self._module, self._env_to_module, self._module_to_env)
        drawing = {"device": self._device.type, "state": self._generator.get_state()}
        return {**state, "explore": self.explore, "generator": drawing}

    @classmethod
    def from_state(cls, state: Any, *, device: str | torch.device = "cpu", where: str = "state of a policy") -> Policy:
        """Return the policy whose `get_state` returned `state`; `where` is where it comes from, for messages.

        Raises:
            CheckpointError: If it is something else, or if a class is not registered here.
        """
        parts = policy_codec.decoded_policy(state, torch.device(device), where)
        policy = cls(parts.module, parts.env_to_module, parts.module_to_env, explore=parts.explore)
        policy._generator = parts.generator or policy._generator
        return policy


def _device_of(module: Any) -> torch.device:
    weights = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return next((weight.device for weight in weights), torch.device("cpu"))


def _looks_at_rewards(piece: ConnectorV2) -> bool:
    if isinstance(piece, AddViews):
        return any(view.infer and view.source == Columns.REWARDS for view in piece.views.values())
    return bool(getattr(piece, "n_prev_rewards", 0))


def _stop_learning(pieces: list[ConnectorV2]) -> None:
    for piece in pieces:
        if hasattr(piece, "update_stats"):
            piece.update_stats = False


def _taken_of(made: dict[str, Any]) -> _Taken:
    if Columns.ACTIONS not in made:
        raise PolicyError(
            f"policy: found the columns {list(made)} at the end of the module-to-env pipeline, expected {Columns.ACTIONS!r} "
            "among them. Let the module return it, or put `GetActions` into the pipeline."
        )
    extras = {name: _row(column) for name, column in made.items() if name not in _NOT_RECORDED}
    return _Taken(_row(made[Columns.ACTIONS]), extras)


def _row(column: Any) -> Any:
    """Return the only row of a column."""
    return column[0] if isinstance(column, list) else map_batch(_first, column)


def _first(leaf: Any) -> Any:
    return (leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf)[0]


def _scalar(action: Any) -> Any:
    """Return leaves without axes as scalars, which is what environments expect."""
    return map_batch(lambda leaf: leaf[()] if isinstance(leaf, np.ndarray) and not leaf.ndim else leaf, action)
