"""Small episodes to check a connector on, and the forms that one episode can have."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.recorder import Recorder
from episodia.stacking import stack
from episodia.testing.episodes.agent_schedule import Schedule
from episodia.testing.episodes.multi_agent_catalogue import scheduled
from episodia.testing.episodes.trajectory import Trajectory
from episodia.trees import map_batch

OBSERVATIONS = spaces.Box(-8.0, 8.0, (2,), np.float32)
ACTIONS = spaces.Discrete(3)

# How long the sample episodes are, and how they end.
_LENGTHS = {3: "terminated", 1: "", 5: "truncated", 2: ""}

# Somebody comes late, somebody waits, somebody ends before the others.
_PICTURES = (
    ("left: O AOR AOR AOR", "right: . O AOR AOR"),
    ("left: O AR OR AOR AORT", "right: O AOR A OR AORX"),
)


def sample_episodes(
    observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None, *, state: Any = None
) -> list[SingleAgentEpisode]:
    """Return a few growing episodes of random items, from their first step on, with infos and log-probabilities.

    Args:
        observation_space: Of the observations; two numbers by default.
        action_space: Of the actions; one of three by default.
        state: The state of a recurrent module, whose like is stored for each step.

    >>> [len(episode) for episode in sample_episodes()]
    [3, 1, 5, 2]
    """
    return [
        _sample(observation_space or OBSERVATIONS, action_space or ACTIONS, length, end, state)
        for length, end in _LENGTHS.items()
    ]


def _sample(
    observation_space: Space[Any], action_space: Space[Any], length: int, end: str, state: Any
) -> SingleAgentEpisode:
    rng = np.random.default_rng(length)
    extras: dict[str, list[Any]] = {Columns.ACTION_LOGP: (-rng.random(length)).tolist()}
    if state:
        extras[Columns.STATE_OUT] = [_state_like(state, rng) for _ in range(length)]
    return Trajectory.sampled(
        observation_space,
        action_space,
        length,
        seed=10 * length,
        id_=f"sample-{length}",
        infos=[{"t": t} for t in range(length + 1)],
        extra_model_outputs=extras,
        terminated=end == "terminated",
        truncated=end == "truncated",
    ).built()


def _state_like(state: Any, rng: np.random.Generator) -> Any:
    return map_batch(lambda leaf: rng.normal(size=np.shape(leaf)).astype(np.float32), state)


def episode_without_steps(like: SingleAgentEpisode) -> SingleAgentEpisode:
    """Return an episode that has only been reset, with the first observation of `like`."""
    start = copy.copy(like)[:0]
    start.id_ = "no-steps"
    return start


def sample_multi_agent_episodes(
    observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None, *, state: Any = None
) -> list[MultiAgentEpisode]:
    """Return two multi-agent episodes in which agents come late, wait, and end at different times.

    >>> [sorted(episode.agent_episodes) for episode in sample_multi_agent_episodes()]
    [['left', 'right'], ['left', 'right']]
    """
    chosen = observation_space or OBSERVATIONS, action_space or ACTIONS
    return [_filled(scheduled(*rows), f"game-{number}", *chosen, state) for number, rows in enumerate(_PICTURES)]


def _filled(
    schedule: Schedule, id_: str, observation_space: Space[Any], action_space: Space[Any], state: Any
) -> MultiAgentEpisode:
    """Return the episode of `schedule` with random items of the spaces in the place of its own."""
    rng = np.random.default_rng(len(schedule))
    drawn = {"observations": copy.deepcopy(observation_space), "actions": copy.deepcopy(action_space)}
    for space in drawn.values():
        space.seed(len(schedule))
    log: list[dict[str, dict[Any, Any]]] = []
    for entry in schedule.log:
        filled = {
            name: {agent: drawn[name].sample() if name in drawn else item for agent, item in by_agent.items()}
            for name, by_agent in entry.items()
        }
        extras = {agent: _extras(state, rng) for agent in entry.get("actions", ())}
        log.append({**filled, "extra_model_outputs": extras} if extras else filled)
    agents = schedule.agents
    return Schedule(
        log=log,
        id_=id_,
        observation_space=dict.fromkeys(agents, observation_space),
        action_space=dict.fromkeys(agents, action_space),
    ).stepped()


def _extras(state: Any, rng: np.random.Generator) -> dict[str, Any]:
    extras = {Columns.ACTION_LOGP: -rng.random()}
    return {**extras, Columns.STATE_OUT: _state_like(state, rng)} if state else extras


# --- Forms ------------------------------------------------------------------------------------------------------------


def recorded(episodes: Sequence[SingleAgentEpisode]) -> list[SingleAgentEpisode]:
    """Return episodes with the content of `episodes`, which have steps, as a recorder hands them out.

    >>> recorded(sample_episodes()[:1])[0]
    SingleAgentEpisode(len=3, return=..., terminated, finalized, id_='sample-3')
    """
    return [_recorded(episode) for episode in episodes]


def _recorded(episode: SingleAgentEpisode) -> SingleAgentEpisode:
    recorder = Recorder(episode.observation_space, episode.action_space, 1, lookback=0, seed=0)
    recorder.reset(stack([episode.get_observations(0)]), [episode.get_infos(0)])
    for t in range(len(episode)):
        is_last = t == len(episode) - 1
        recorder.step(
            stack([episode.get_observations(t + 1)]),
            stack([episode.get_actions(t)]),
            np.array([episode.get_rewards(t)]),
            np.array([episode.is_terminated and is_last]),
            np.array([episode.is_truncated and is_last]),
            [episode.get_infos(t + 1)],
            {name: stack([episode.get_extra_model_outputs(name, t)]) for name in episode.extra_model_outputs},
        )
    made: SingleAgentEpisode = recorder.take()[0]
    made.id_, made.agent_id, made.module_id = episode.id_, episode.agent_id, episode.module_id
    made.multi_agent_episode_id = episode.multi_agent_episode_id
    return made
