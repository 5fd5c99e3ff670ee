"""All randomness of a runner, from one seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, final

import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from episodia.arguments import checked_seed
from episodia.env_runners.envs.sync_lanes import SyncLanes
from episodia.errors import EnvRunnerError

# What a part of the randomness is for.
_ACTIONS, _RANDOM_ACTIONS, _LANES, _EVALUATION = range(4)


@final
class Seeds:
    """The seed of a runner, its two random generators, and how often lanes were seeded.

    Each time that all lanes of a vector environment are reset, they get new seeds, which follow from the seed of the runner
    and the number of the reset: a run that goes on after it was saved and one that was loaded play the same episodes, if both
    reset first. Environments that are reset one by one get a seed for each episode.

    Args:
        seed: A whole number from 0 to 2**64 - 1; None draws one.
        device: Where modules compute: their actions are drawn there.

    Attributes:
        seed: The seed.
        rng: Draws random actions.
        generator: Draws the actions of modules.
        num_resets: How often all lanes were seeded.
        num_evaluations: How many evaluations have got a seed.

    >>> Seeds(5).next_lanes(2) == Seeds(5).next_lanes(2)
    True
    """

    def __init__(self, seed: int | None, device: torch.device | str = "cpu") -> None:
        given = checked_seed(EnvRunnerError, "runner", seed)
        self.seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0]) if given is None else given
        self.rng = np.random.default_rng([self.seed, _RANDOM_ACTIONS])
        self.generator = torch.Generator(device).manual_seed(self._numbers(_ACTIONS, 0, 1)[0])
        self.num_resets = 0
        self.num_evaluations = 0

    @classmethod
    def of_agents(cls, seed: int | None, device: torch.device | str = "cpu") -> Self:
        """Return the seeds of a multi-agent runner, whose generators begin elsewhere: seeded runs stay what they were."""
        seeds = cls(seed, device)
        rng_seed, torch_seed = np.random.SeedSequence(seeds.seed).spawn(2)
        seeds.rng = np.random.default_rng(rng_seed)
        seeds.generator.manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> 1))
        return seeds

    def next_lanes(self, num_lanes: int) -> list[int]:
        """Return new seeds for all lanes."""
        self.num_resets += 1
        return self._numbers(_LANES, self.num_resets, num_lanes)

    def of_episode(self, lane: int, number: int) -> int:
        """Return the seed of an episode, by the number that it has in its lane."""
        sequence = np.random.SeedSequence([self.seed, lane, number])
        return int(sequence.generate_state(1)[0] >> 1)

    def next_evaluation(self) -> int:
        """Return a seed for the next evaluation."""
        self.num_evaluations += 1
        return self._numbers(_EVALUATION, self.num_evaluations, 1)[0]

    def _numbers(self, purpose: int, number: int, count: int) -> list[int]:
        # gymnasium wants Python integers, and some environments want them to fit into 31 bits.
        state = np.random.SeedSequence([self.seed, purpose, number]).generate_state(count)
        return [int(number) for number in state >> 1]

    def get_state(self) -> dict[str, Any]:
        """Return the seed, the counters and the states of both generators: JSON values and an array."""
        return {
            "seed": self.seed,
            "num_resets": self.num_resets,
            "num_evaluations": self.num_evaluations,
            "generator": self.generator.get_state().numpy().copy(),
            "rng": dict(self.rng.bit_generator.state),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self.generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
        self.rng.bit_generator.state = state["rng"]
        self.seed, self.num_resets = int(state["seed"]), int(state["num_resets"])
        self.num_evaluations = int(state["num_evaluations"])


def seed_for(env: VectorEnv[Any, Any, Any], seeds: list[int]) -> Any:
    """Return `seeds` as `env` takes them: vector environments with one generator for all lanes take one."""
    takes_list = isinstance(env.unwrapped, (SyncLanes, SyncVectorEnv, AsyncVectorEnv))
    return seeds if takes_list else seeds[0]
