"""Environments with several agents, in which a step takes a dict of actions and returns dicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from gymnasium import Space
from gymnasium.spaces import Dict

from episodia.errors import EnvError
from episodia.types import AgentID

# Observations, rewards, terminateds, truncateds, infos.
StepResult: TypeAlias = tuple[
    dict[AgentID, Any], dict[AgentID, Any], dict[AgentID, Any], dict[AgentID, Any], dict[AgentID, Any]
]


class MultiAgentEnv(ABC):
    """An environment of a `MultiAgentEnvRunner`: RLlib's class of this name, without what a runner does not need.

    Every dict holds only the agents that it concerns. Those with an observation, and no flag that ends them, act next; the
    others wait. Agents may join later, leave early, and act in turns. `"__all__"` among the flags ends the episode for all
    that have no flag of their own in that step.

    Attributes:
        possible_agents: All agents that can ever take part; empty if that is not known beforehand.
        agents: Those that take part at present.
        observation_spaces: The space of each possible agent's observations.
        action_spaces: The space of each possible agent's actions.
        observation_space: In place of `observation_spaces`: a `Dict` of them, or one space that all agents share.
        action_space: The same for actions.

    >>> from gymnasium import spaces
    >>> class Countdown(MultiAgentEnv):
    ...     possible_agents = agents = ("red", "blue")
    ...     observation_spaces = action_spaces = dict.fromkeys(agents, spaces.Discrete(3))
    ...
    ...     def reset(self, *, seed=None, options=None):
    ...         self.left = 2
    ...         return dict.fromkeys(self.agents, self.left), {}
    ...
    ...     def step(self, actions):
    ...         self.left -= 1
    ...         done = {"__all__": self.left == 0}
    ...         return dict.fromkeys(self.agents, self.left), dict.fromkeys(actions, 1.0), done, {}, {}
    >>> env = Countdown()
    >>> env.reset()
    ({'red': 2, 'blue': 2}, {})
    >>> env.step({"red": 0, "blue": 1})[0], env.get_action_space("red")
    ({'red': 1, 'blue': 1}, Discrete(3))
    """

    possible_agents: Sequence[AgentID] = ()
    agents: Sequence[AgentID] = ()
    observation_spaces: Mapping[AgentID, Space[Any]] | None = None
    action_spaces: Mapping[AgentID, Space[Any]] | None = None
    observation_space: Space[Any] | Mapping[AgentID, Space[Any]] | None = None
    action_space: Space[Any] | Mapping[AgentID, Space[Any]] | None = None

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[AgentID, Any], dict[AgentID, Any]]:
        """Begin an episode, and return the observations and the infos of the agents that act first."""

    @abstractmethod
    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        """Carry out the actions, and return observations, rewards, terminateds, truncateds and infos.

        Args:
            actions: One for each agent that was shown an observation and is not done; empty if there is no such agent.
        """

    def get_observation_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's observations.

        Raises:
            EnvError: If the environment does not tell it.
        """
        return self._space("observation", agent_id)

    def get_action_space(self, agent_id: AgentID) -> Space[Any]:
        """Return the space of an agent's actions.

        Raises:
            EnvError: If the environment does not tell it.
        """
        return self._space("action", agent_id)

    def _space(self, kind: str, agent_id: AgentID) -> Space[Any]:
        by_agent: Any = getattr(self, f"{kind}_spaces")
        # RLlib's environments also tell the spaces of all agents as one `Dict`, or one space that all agents share.
        found: Any = getattr(self, f"{kind}_space") if by_agent is None else by_agent
        if isinstance(found, Space) and not isinstance(found, Dict):
            return found
        spaces: Any = found.spaces if isinstance(found, Dict) else found
        if not isinstance(spaces, Mapping) or agent_id not in spaces:
            known = "no such dict" if spaces is None else f"only {list(spaces)}"
            raise EnvError(
                f"{type(self).__name__}: found {known} with the {kind} space of the agent {agent_id!r}, expected one for each "
                f"agent. Set `{kind}_spaces` to a dict of spaces by agent, or `{kind}_space` to a `Dict` space."
            )
        space: Space[Any] = spaces[agent_id]
        return space

    def close(self) -> None:  # noqa: B027  # most environments have nothing to close
        """Give back what the environment holds, such as windows and files."""
