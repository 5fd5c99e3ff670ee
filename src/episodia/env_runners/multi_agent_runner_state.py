"""The state of a multi-agent runner: what has to be saved so that it can go on elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from episodia.env_runners.acting.assembly import load_weights, weights_of
from episodia.env_runners.rollout.multi_agent_loop import Players
from episodia.env_runners.runner_settings import check_state
from episodia.env_runners.seeding import Seeds
from episodia.errors import EnvRunnerError, EpisodiaError


def state_of(players: Players, seeds: Seeds) -> dict[str, Any]:
    """Return the state of what plays, and of where its seeds come from."""
    actor = players.actor
    return {
        "weights": weights_of(actor.modules),
        "weights_version": players.weights_version,
        "env_to_module": actor.env_to_module.get_state(),
        "module_to_env": actor.module_to_env.get_state(),
        "rng": dict(actor.rng.bit_generator.state),
        "generator": actor.generator.get_state().numpy(),
        "episode_numbers": [lane.number for lane in players.lanes],
        "num_begun": players.num_begun,
        "seed": seeds.seed,
        "num_evaluations": seeds.num_evaluations,
    }


def set_state(players: Players, seeds: Seeds, state: Mapping[str, Any]) -> None:
    """Let `players` go on from `state`; running episodes are let go, what was recorded of them is kept.

    Raises:
        EnvRunnerError: If it does not fit; nothing is changed then.
    """
    before = state_of(players, seeds)
    check_state(state, before)
    try:
        numbers = [int(number) for number in state["episode_numbers"]]
        _load(players, seeds, state)
    except (EpisodiaError, TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
        _load(players, seeds, before)
        raise EnvRunnerError(
            f"set_state: found a state that does not fit to this runner ({error}), expected that of one with the same "
            "settings. Make the runner like that one."
        ) from error
    players.abandon_episodes()
    players.actor.forget()
    for lane, number in zip(players.lanes, numbers, strict=True):
        lane.number = number


def _load(players: Players, seeds: Seeds, state: Mapping[str, Any]) -> None:
    actor = players.actor
    load_weights(actor.modules, state["weights"])
    actor.env_to_module.set_state(state["env_to_module"])
    actor.module_to_env.set_state(state["module_to_env"])
    players.weights_version = int(state["weights_version"])
    actor.rng.bit_generator.state = state["rng"]
    actor.generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))
    players.num_begun = int(state["num_begun"])
    seeds.seed, seeds.num_evaluations = int(state["seed"]), int(state["num_evaluations"])
