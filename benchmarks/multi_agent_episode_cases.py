"""What `multi_agent_episodes.py` measures, in code that is the same on both sides but for one import.

As in `episode_cases.py`, the RLlib side copies each observation before it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from _case import Case
from gymnasium import spaces

HOMES = {"episodia": "episodia", "rllib": "ray.rllib.env.multi_agent_episode"}
VECTOR = spaces.Box(-10.0, 10.0, (4,), np.float32)
ACTIONS = spaces.Discrete(4)
ENV_STEPS = 100
READ_AGENTS = 8  # The number of agents in all rows that do not build episodes.


class Step(NamedTuple):
    """The arguments of one `add_env_step`."""

    observations: dict[str, Any]
    actions: dict[str, int]
    rewards: dict[str, float]


def cases(side: str) -> list[Case]:
    """Return all cases, bound to the episode class of `side`."""
    bench = _Bench(side)
    return [*bench.building(), *bench.reading(), *bench.chunks()]


class _Bench:
    """The recorded environments and the cases over them."""

    def __init__(self, side: str) -> None:
        self.episode_class = import_module(HOMES[side]).MultiAgentEpisode
        self.keeps_arrays = side == "rllib"
        self.games = {
            ("simultaneous", agents): _simultaneous(agents, np.random.default_rng(agents)) for agents in (2, 8, 64)
        } | {("turn-based", agents): _turn_based(agents, np.random.default_rng(agents)) for agents in (2, 8, 64)}
        self.spaces = {agents: _spaces(agents) for agents in (2, 8, 64)}

    def building(self) -> Iterator[Case]:
        """Append environment steps, finalize."""
        for kind, agents in self.games:
            build = partial(self.build, kind, agents)
            steps = len(self.games[kind, agents]) - 1
            yield Case(f"multi-agent add_env_step {agents} agents {kind}", build, per=steps)
        for kind in ("simultaneous", "turn-based"):
            build = partial(self.build, kind, READ_AGENTS)
            yield Case(f"multi-agent finalize {kind}", lambda episode: episode.to_numpy(), prepare=build)

    def build(self, kind: str, agents: int) -> Any:
        """Return a growing episode of the game."""
        reset, *steps = self.games[kind, agents]
        episode = self.episode_class("m", **self.spaces[agents])
        own = _copies if self.keeps_arrays else _as_is
        episode.add_env_reset(observations=own(reset.observations))
        for step in steps:
            episode.add_env_step(own(step.observations), step.actions, step.rewards)
        return episode

    def episodes(self) -> Iterator[tuple[str, Any]]:
        """Yield the setting and the episode of both games in both forms."""
        for kind in ("simultaneous", "turn-based"):
            for form in ("growing", "finalized"):
                episode = self.build(kind, READ_AGENTS)
                yield f"{kind} {form}", episode.to_numpy() if form == "finalized" else episode

    def reading(self) -> Iterator[Case]:
        """Read by environment step."""
        last4 = slice(-4, None)
        for setting, episode in self.episodes():
            observations = episode.get_observations
            as_list = partial(observations, last4, return_list=True)
            by_agent = partial(observations, -1, env_steps=False)
            yield Case(f"multi-agent get last observations, {setting}", partial(observations, -1))
            yield Case(f"multi-agent get last 4 observations, {setting}", partial(observations, last4))
            yield Case(f"multi-agent get last 4 observations as list, {setting}", as_list)
            yield Case(f"multi-agent get last observations by agent step, {setting}", by_agent)
            yield Case(f"multi-agent get last actions, {setting}", partial(episode.get_actions, -1))
            yield Case(f"multi-agent get last 4 actions, {setting}", partial(episode.get_actions, last4))
            yield Case(f"multi-agent get last rewards, {setting}", partial(episode.get_rewards, -1))
            yield Case(f"multi-agent get last 4 rewards, {setting}", partial(episode.get_rewards, last4))
            yield Case(f"multi-agent get_agents_to_act, {setting}", episode.get_agents_to_act)
            total = partial(_rounded_return, episode)
            yield Case(f"multi-agent get_return, {setting}", episode.get_return, check=total)

    def chunks(self) -> Iterator[Case]:
        """Cut and slice. (Where an action is pending, RLlib's `cut(0)` may lose it: that is not measured.)"""
        for setting, episode in self.episodes():
            differs = {
                "simultaneous growing": "",
                "turn-based growing": "RLlib's lookback is longer for agents with a pending action",
            }.get(setting, "RLlib's chunk of a finalized episode is growing again")
            if setting.startswith("simultaneous"):
                yield Case(f"multi-agent cut lookback 0, {setting}", partial(episode.cut, 0), differs=differs)
            yield Case(f"multi-agent cut lookback 10, {setting}", partial(episode.cut, 10), differs=differs)
            spans = "RLlib drops the steps that span the start" if setting.startswith("turn-based") else ""
            yield Case(f"multi-agent slice [20:60], {setting}", partial(episode.slice, slice(20, 60)), differs=spans)


def _spaces(agents: int) -> dict[str, spaces.Dict]:
    ids = [f"agent_{index}" for index in range(agents)]
    return {
        "observation_space": spaces.Dict(dict.fromkeys(ids, VECTOR)),
        "action_space": spaces.Dict(dict.fromkeys(ids, ACTIONS)),
    }


def _simultaneous(agents: int, random: np.random.Generator) -> list[Step]:
    """All agents observe and act at each step; the first entry is the reset."""
    ids = [f"agent_{index}" for index in range(agents)]
    return [
        Step(
            {agent: _observation(random) for agent in ids},
            {agent: int(random.integers(4)) for agent in ids},
            {agent: float(random.uniform(-1, 1)) for agent in ids},
        )
        for _ in range(ENV_STEPS + 1)
    ]


def _turn_based(agents: int, random: np.random.Generator) -> list[Step]:
    """One agent acts and the next one observes; the first entry is the reset."""
    steps = [Step({"agent_0": _observation(random)}, {}, {})]
    for t in range(ENV_STEPS):
        acting, observing = f"agent_{t % agents}", f"agent_{(t + 1) % agents}"
        rewards = {acting: float(random.uniform(-1, 1))}
        steps.append(Step({observing: _observation(random)}, {acting: int(random.integers(4))}, rewards))
    return steps


def _observation(random: np.random.Generator) -> Any:
    return random.uniform(-5, 5, 4).astype(np.float32)


def _copies(observations: dict[str, Any]) -> dict[str, Any]:
    return {agent: observation.copy() for agent, observation in observations.items()}


def _as_is(observations: dict[str, Any]) -> dict[str, Any]:
    return observations


def _rounded_return(episode: Any) -> float:
    return round(float(episode.get_return()), 9)
