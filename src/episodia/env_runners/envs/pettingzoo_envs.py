"""PettingZoo's environments as multi-agent environments; the one file that knows PettingZoo, which is optional."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, final

from gymnasium import Space

from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv, StepResult
from episodia.errors import EpisodeError
from episodia.types import AgentID


def from_pettingzoo(env: Any) -> MultiAgentEnv | None:
    """Return `env` as a multi-agent environment; None if it is not one of PettingZoo's.

    >>> from_pettingzoo("no environment") is None
    True
    """
    # An environment of PettingZoo exists only if the library is imported; other users do not pay for the import.
    pettingzoo = sys.modules.get("pettingzoo")
    if pettingzoo is None:
        return None
    if isinstance(env, pettingzoo.ParallelEnv):
        return ParallelPettingZooEnv(env)
    return TurnBasedPettingZooEnv(env) if isinstance(env, pettingzoo.AECEnv) else None


class _PettingZooEnv(MultiAgentEnv):
    """The common part of both kinds: agents, spaces, closing."""

    def __init__(self, env: Any) -> None:
        self.env = env
        # Some environments make up agents as they go, and have no list.
        self.possible_agents = tuple(getattr(env, "possible_agents", ()))
        if self.possible_agents:
            self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
            self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    @property
    def agents(self) -> Sequence[AgentID]:  # type: ignore[override]  # the environment keeps the list
        """Those that take part at present."""
        return tuple(self.env.agents)

    def get_observation_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's observations."""
        known = (self.observation_spaces or {}).get(agent_id)
        space: Space[Any] = self.env.observation_space(agent_id) if known is None else known
        return space

    def get_action_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's actions."""
        known = (self.action_spaces or {}).get(agent_id)
        space: Space[Any] = self.env.action_space(agent_id) if known is None else known
        return space

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env})"


@final
class ParallelPettingZooEnv(_PettingZooEnv):
    """An environment in which all agents act at once, PettingZoo's `ParallelEnv`.

    Entries that are not agents (some environments return a "common" one) are left out.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[AgentID, Any], dict[AgentID, Any]]:
        """Begin an episode."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return _only(self.env.agents, observations), _only(self.env.agents, infos)

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        """Carry out the actions of all agents."""
        before = tuple(self.env.agents)  # some environments change the list itself
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
        # An agent that dies has a last observation, and has left the list of agents; a new agent is in it.
        agents = {*before, *self.env.agents}
        return (
            _only(agents, observations),
            _only(agents, rewards),
            _only(agents, terminateds),
            _with_end(self.env, before, terminateds, _only(agents, truncateds)),
            _only(agents, infos),
        )


@final
class TurnBasedPettingZooEnv(_PettingZooEnv):
    """An environment in which one agent acts at a time, PettingZoo's `AECEnv`.

    Only the agent whose turn it is has an observation, and the info that `env.last()` would return. Rewards go to each
    agent that is paid in a step, also while it waits. An agent that ends with a step of any agent is shown its last observation
    at once; the turn that PettingZoo gives it after its end, for the action None, is taken here.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[AgentID, Any], dict[AgentID, Any]]:
        """Begin an episode."""
        self.env.reset(seed=seed, options=options)
        self._ended: set[AgentID] = set()
        self._skip_the_dead()
        return self._shown([self.env.agent_selection] if self.env.agents else [])

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        """Carry out the action of the agent whose turn it is."""
        env = self.env
        actor, before = env.agent_selection, list(env.agents)
        if list(actions) != [actor]:
            raise EpisodeError(
                f"{self}: found actions of {list(actions)}, expected one of {actor!r}, whose turn it is. "
                "Let the agents act that have an observation."
            )
        env.step(actions[actor])
        terminateds, truncateds = dict(env.terminations), dict(env.truncations)
        new = [agent for agent in env.agents if terminateds.get(agent) or truncateds.get(agent)]
        new = [agent for agent in new if agent not in self._ended]
        self._ended.update(new)
        # A reward of 0 for those who wait says nothing.
        rewards = {agent: reward for agent, reward in env.rewards.items() if reward or agent == actor}
        observations, infos = self._shown(new)
        self._skip_the_dead()
        if env.agents:
            turn = self._shown([env.agent_selection])
            observations.update(turn[0])
            infos.update(turn[1])
        flags = {agent: terminateds[agent] for agent in new}, {agent: truncateds[agent] for agent in new}
        return observations, rewards, flags[0], _with_end(env, before, terminateds, truncateds, flags[1]), infos

    def _shown(self, agents: list[AgentID]) -> tuple[dict[AgentID, Any], dict[AgentID, Any]]:
        env = self.env
        return {agent: env.observe(agent) for agent in agents}, {agent: env.infos.get(agent, {}) for agent in agents}

    def _skip_the_dead(self) -> None:
        """Take the last turns of agents that have ended: they act with None, and are gone."""
        env = self.env
        while env.agents:
            agent = env.agent_selection
            if agent not in env.terminations:
                raise EpisodeError(
                    f"{self}: found that it is the turn of {agent!r}, expected one of {env.agents}: the environment has "
                    "removed that agent. Reset it."
                )
            if not (env.terminations[agent] or env.truncations[agent]):
                return
            env.step(None)


def _only(agents: Any, given: dict[Any, Any]) -> dict[AgentID, Any]:
    return {agent: value for agent, value in given.items() if agent in agents}


def _with_end(
    env: Any, before: Sequence[AgentID], terminateds: Any, truncateds: Any, into: dict[AgentID, Any] | None = None
) -> dict[AgentID, Any]:
    """Return the flags with `"__all__"`, if all agents are gone and one of them was not said to have ended."""
    flags = truncateds if into is None else into
    if not env.agents and not all(terminateds.get(agent) or truncateds.get(agent) for agent in before):
        return {**flags, "__all__": True}
    return flags
