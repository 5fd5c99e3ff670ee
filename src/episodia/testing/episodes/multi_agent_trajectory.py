"""The steps of an environment with several agents, which a test knows without asking the episode."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gymnasium import Space

from episodia.episodes import MultiAgentEpisode
from episodia.types import AgentID

#: What one environment step holds, by the names of the arguments of `MultiAgentEpisode.add_env_step`.
EnvRecord: TypeAlias = Mapping[str, Mapping[Any, Any]]

_ARGUMENTS = (
    "observations",
    "actions",
    "rewards",
    "infos",
    "terminateds",
    "truncateds",
    "extra_model_outputs",
)


@dataclass(frozen=True, kw_only=True)
class MultiAgentTrajectory:
    """A list with one dict for each environment step, and the episodes that can be made of it.

    The first entry is the reset, with observations and infos; the others are arguments of `add_env_step`. What is left
    out of an entry is empty.

    >>> turns = MultiAgentTrajectory(log=[
    ...     {"observations": {"white": 0}},
    ...     {"observations": {"black": 1}, "actions": {"white": "e4"}},
    ...     {"observations": {"white": 2}, "actions": {"black": "e5"}, "rewards": {"white": 0.5}},
    ... ])
    >>> turns.stepped()
    MultiAgentEpisode(len=2, agents=2, return=0.5, id_='trajectory')
    >>> turns.agents, turns.status("white"), turns.status("black"), turns.status("grey")
    (['white', 'black'], 'idle', 'pending', 'unseen')
    """

    log: Sequence[EnvRecord]
    observation_space: Mapping[Any, Space[Any]] | None = None
    action_space: Mapping[Any, Space[Any]] | None = None
    missing_final_observation: Literal["error", "repeat"] = "error"
    rewards_after_done: Literal["error", "add"] = "error"
    id_: str = "trajectory"
    custom_data: Mapping[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = {name for entry in self.log for name in entry} - set(_ARGUMENTS)
        if not self.log or unknown or set(self.log[0]) & {"actions", "rewards"}:
            raise ValueError(
                f"found {len(self.log)} entries with the unknown names {sorted(unknown)}; expected a reset with "
                f"observations and infos, and after it entries with some of {_ARGUMENTS}."
            )

    def __len__(self) -> int:
        """Return the number of environment steps."""
        return len(self.log) - 1

    @property
    def agents(self) -> list[Any]:
        """The agents that have had an observation, in the order in which they came."""
        return list(dict.fromkeys(agent for entry in self.entries() for agent in entry["observations"]))

    @property
    def is_over(self) -> bool:
        """Whether all agents that were seen are done, or the environment has said so."""
        last = self.entry(-1)
        ended = any(last[flags].get("__all__") for flags in ("terminateds", "truncateds"))
        return ended or (bool(self.agents) and all(self.status(agent) == "done" for agent in self.agents))

    def entry(self, step: int) -> dict[str, dict[Any, Any]]:
        """Return what was given at one step, with an empty dict for what was left out."""
        return {name: dict(self.log[step].get(name, {})) for name in _ARGUMENTS}

    def entries(self) -> Iterator[dict[str, dict[Any, Any]]]:
        """Yield `entry` of the reset and of every step."""
        return map(self.entry, range(len(self.log)))

    def status(self, agent: AgentID) -> Literal["unseen", "idle", "pending", "done"]:
        """Return whether an agent has had no observation, has to act, waits for its next observation, or has ended."""
        status: Literal["unseen", "idle", "pending", "done"] = "unseen"
        for entry in self.entries():
            if agent in entry["actions"]:
                status = "pending"
            if agent in entry["observations"]:
                status = "idle"
            flags = (entry[name].get(who) for name in ("terminateds", "truncateds") for who in (agent, "__all__"))
            if status != "unseen" and any(flags):
                return "done"
        return status

    def then(self, *records: EnvRecord) -> MultiAgentTrajectory:
        """Return the trajectory with further environment steps."""
        return replace(self, log=[*self.log, *records])

    def until(self, env_t: int) -> MultiAgentTrajectory:
        """Return the trajectory up to and including environment step `env_t`."""
        return replace(self, log=self.log[: env_t + 1])

    def empty(self) -> MultiAgentEpisode:
        """Return an episode with the ids, spaces and choices of the trajectory, and nothing in it."""
        return MultiAgentEpisode(self.id_, **self._options())

    def stepped(self) -> MultiAgentEpisode:
        """Return the growing episode that is made step by step, from the reset on."""
        episode = self.empty()
        reset, *steps = self.entries()
        episode.add_env_reset(observations=reset["observations"], infos=reset["infos"])
        for entry in steps:
            episode.add_env_step(**entry)
        episode.custom_data.update(copy.deepcopy(dict(self.custom_data)))
        return episode

    def built(self, len_lookback_buffer: int | Literal["auto"] = 0) -> MultiAgentEpisode:
        """Return the growing episode that the constructor makes of lists; environment step 0 is the reset.

        Lists do not say when an agent ended. It is the same episode as `stepped()` returns if each agent ended with its
        last observation, or in the last step.

        Args:
            len_lookback_buffer: How many environment steps are the past.
        """
        lists: dict[str, Any] = {name: [entry[name] for entry in self.entries()] for name in _ARGUMENTS}
        wanted = len(self) if len_lookback_buffer == "auto" else min(len(self), len_lookback_buffer)
        episode = MultiAgentEpisode(
            self.id_,
            observations=lists["observations"],
            infos=lists["infos"],
            actions=lists["actions"][1:],
            rewards=lists["rewards"][1:],
            extra_model_outputs=lists["extra_model_outputs"][1:],
            terminateds=self._flags("terminateds"),
            truncateds=self._flags("truncateds"),
            env_t_started=wanted,
            len_lookback_buffer=len_lookback_buffer,
            **self._options(),
        )
        episode.custom_data.update(copy.deepcopy(dict(self.custom_data)))
        return episode

    def _flags(self, name: str) -> dict[Any, bool]:
        """Return for each agent, and for all, whether it was ever flagged."""
        flagged = [agent for entry in self.entries() for agent, flag in entry[name].items() if flag]
        return {agent: agent in flagged for agent in [*self.agents, "__all__"]}

    def _options(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "missing_final_observation": self.missing_final_observation,
            "rewards_after_done": self.rewards_after_done,
        }
