"""A game that can be played by hand: remember what was shown first, and say it at the end. With one step it is a bandit.

Games are played in step, so that each forward pass serves all of them, through the default pipelines.
"""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from episodia import Columns, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import defaults

OBSERVATIONS = spaces.Box(-1.0, 1.0, (2,), np.float32)
ACTIONS = spaces.Discrete(2)


def play(module, games, length=1, seed=0, explore=True):
    """Return `games` episodes of `length` steps; a game is won, with a reward of 1, by saying the cue in the last step."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    stateful = module.is_stateful()
    before = defaults.env_to_module(OBSERVATIONS, ACTIONS, stateful=stateful)
    after = defaults.module_to_env(OBSERVATIONS, ACTIONS, stateful=stateful)
    cues = rng.integers(2, size=games)
    episodes = [SingleAgentEpisode(observation_space=OBSERVATIONS, action_space=ACTIONS) for _ in range(games)]
    for episode, cue in zip(episodes, cues, strict=True):
        episode.add_env_reset(shown(cue))
    for t in range(length):
        shared = {}
        batch = before(rl_module=module, episodes=episodes, explore=explore, shared_data=shared)
        with torch.no_grad():
            outputs = module.forward_exploration(batch)
        chosen = after(
            rl_module=module,
            batch=outputs,
            episodes=episodes,
            explore=explore,
            shared_data=shared,
            generator=generator,
        )
        is_last = t == length - 1
        for row, (episode, cue) in enumerate(zip(episodes, cues, strict=True)):
            action = chosen[Columns.ACTIONS][row]
            episode.add_env_step(
                np.zeros(2, np.float32),
                action,
                float(is_last and action == cue),
                terminated=is_last,
                extra_model_outputs=extras(chosen, row),
            )
    return [episode.finalize() for episode in episodes]


def extras(chosen, row):
    """Return what is stored beside an action."""
    found = {name: chosen[name][row] for name in (Columns.ACTION_LOGP, Columns.ACTION_DIST_INPUTS)}
    if Columns.STATE_OUT in chosen:
        found[Columns.STATE_OUT] = {name: value[row] for name, value in chosen[Columns.STATE_OUT].items()}
    return found


def shown(cue):
    """Return the observation that shows a cue."""
    return np.eye(2, dtype=np.float32)[cue]


def mean_return(episodes):
    return float(np.mean([episode.get_return() for episode in episodes]))


def play_together(modules, games, seed=0, explore=True):
    """Return multi-agent episodes of one step: agents "left" and "right" each say what only they were shown."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    before = defaults.env_to_module(multi_agent=True)
    after = defaults.module_to_env(multi_agent=True)
    episodes, cues = [], rng.integers(2, size=(games, 2))
    for row in range(games):
        episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, *_, **__: agent)
        episode.add_env_reset(observations={"left": shown(cues[row, 0]), "right": shown(cues[row, 1])})
        episodes.append(episode)
    shared = {}
    batch = before(rl_module=modules, episodes=episodes, explore=explore, shared_data=shared)
    with torch.no_grad():
        outputs = {name: modules[name].forward_exploration(columns) for name, columns in batch.items()}
    chosen = after(
        rl_module=modules, batch=outputs, episodes=episodes, explore=explore, shared_data=shared, generator=generator
    )
    for row, episode in enumerate(episodes):
        actions = chosen[Columns.ACTIONS][row]
        episode.add_env_step(
            {name: np.zeros(2, np.float32) for name in actions},
            actions,
            {"left": float(actions["left"] == cues[row, 0]), "right": float(actions["right"] == cues[row, 1])},
            terminateds={"__all__": True},
            # A rule has no log-probabilities.
            extra_model_outputs={
                name: {Columns.ACTION_LOGP: logp} for name, logp in chosen[Columns.ACTION_LOGP][row].items()
            },
        )
    return [episode.finalize() for episode in episodes]
