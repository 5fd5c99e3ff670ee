"""Putting together what a multi-agent runner plays with: pipelines, empty episodes, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch

from episodia.connectors import EnvToModulePipeline, ModuleToEnvPipeline, defaults
from episodia.env_runners.acting.multi_agent_acting import MultiAgentActor
from episodia.env_runners.acting.runner_pipelines import Pieces, action_space_of, as_pieces, recorded_action_space
from episodia.env_runners.envs.multi_agent_sources import SpacesOfAgents, joint, spaces_of
from episodia.episodes import MultiAgentEpisode
from episodia.modules import MultiModule
from episodia.modules.devices import device_of


class Acting(NamedTuple):
    """What a runner is given to act with: modules (or None), and the pipelines around them, or pieces of them."""

    modules: MultiModule | None
    env_to_module: EnvToModulePipeline | Pieces | None
    module_to_env: ModuleToEnvPipeline | Pieces | None


def new_actor(env: Any, acting: Acting, seed: int) -> MultiAgentActor:
    """Return what acts in environments like `env`; its random numbers follow from `seed`."""
    rng_seed, torch_seed = np.random.SeedSequence(seed).spawn(2)
    generator = torch.Generator().manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> 1))
    return MultiAgentActor(acting.modules, *_pipelines(env, acting), np.random.default_rng(rng_seed), generator)


def _pipelines(env: Any, acting: Acting) -> tuple[EnvToModulePipeline, ModuleToEnvPipeline]:
    modules, env_to_module, module_to_env = acting
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
        mapping: Which module acts for an agent.
        observation_spaces: The space of each agent's observations, if agents are known.
        action_spaces: The space of each agent's actions as they are recorded.
    """

    def __init__(self, mapping: Callable[[Any, Any], Any]) -> None:
        """Make episodes without spaces, before `use_spaces`."""
        self.mapping = mapping
        self.observation_spaces: SpacesOfAgents = None
        self.action_spaces: SpacesOfAgents = None

    def use_spaces(self, env: Any, actor: MultiAgentActor) -> None:
        """Let episodes have the spaces of `env`, in which `actor` acts."""
        self.observation_spaces, action_spaces = spaces_of(env)
        self.action_spaces = action_spaces and {
            agent: recorded_action_space(action_space_of(actor.modules, actor.module_to_env, space))
            for agent, space in action_spaces.items()
        }

    def __call__(self, id_: str) -> MultiAgentEpisode:
        """Return an empty episode with this id."""
        return MultiAgentEpisode(
            id_,
            observation_space=self.observation_spaces,
            action_space=self.action_spaces,
            agent_to_module_mapping_fn=self.mapping,
            # A runner may stop an episode while agents wait, and environments pay agents that have just died.
            missing_final_observation="repeat",
            rewards_after_done="add",
        )
