"""The plain lists behind an episode: what a test knows about it without asking the episode."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium import Space

from episodia.episodes import SingleAgentEpisode


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """Plain lists, and the episodes that can be made of them.

    The first `lookback` steps are the past. With T steps after them there are `lookback + T` actions, rewards
    and extra model outputs, and one observation and one info more.

    >>> walk = Trajectory(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], lookback=1)
    >>> len(walk), walk.built().get_observations()
    (1, [1, 2])
    """

    observations: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[Any] = field(default_factory=list)
    infos: list[dict[Any, Any]] | None = None
    extra_model_outputs: Mapping[str, list[Any]] = field(default_factory=dict)
    observation_space: Space[Any] | None = None
    action_space: Space[Any] | None = None
    terminated: bool = False
    truncated: bool = False
    t_started: int = 0
    lookback: int = 0
    id_: str = "trajectory"
    agent_id: Any = None
    module_id: Any = None
    multi_agent_episode_id: str | None = None
    custom_data: Mapping[Any, Any] = field(default_factory=dict)
    # From which time step on which version of the weights was in use.
    weights_versions: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = len(self.rewards)
        lengths = {"observations": len(self.observations) - 1, "actions": len(self.actions)}
        if self.infos is not None:
            lengths["infos"] = len(self.infos) - 1
        lengths |= {name: len(items) for name, items in self.extra_model_outputs.items()}
        wrong = {name: length for name, length in lengths.items() if length != steps}
        if wrong or not 0 <= self.lookback <= steps:
            raise ValueError(
                f"found {steps} rewards, a lookback of {self.lookback} and the lengths {wrong}; expected T "
                "actions, rewards and extra model outputs, T + 1 observations and infos, a lookback in them."
            )

    @classmethod
    def sampled(
        cls,
        observation_space: Space[Any],
        action_space: Space[Any],
        steps: int,
        *,
        seed: int = 0,
        **fields: Any,
    ) -> Trajectory:
        """Return a trajectory of random items of the spaces; the spaces themselves are not touched.

        Args:
            observation_space: Where observations come from.
            action_space: Where actions come from.
            steps: How many steps, the lookback included.
            seed: The same seed gives the same items.
            **fields: Any other field of a trajectory.
        """
        observations, actions = copy.deepcopy(observation_space), copy.deepcopy(action_space)
        observations.seed(seed)
        actions.seed(seed + 1)
        rewards = np.random.default_rng(seed).normal(size=steps).tolist()
        return cls(
            observations=[observations.sample() for _ in range(steps + 1)],
            actions=[actions.sample() for _ in range(steps)],
            rewards=rewards,
            observation_space=observation_space,
            action_space=action_space,
            **fields,
        )

    def __len__(self) -> int:
        """Return the number of steps after the lookback."""
        return len(self.rewards) - self.lookback

    @property
    def t(self) -> int:
        """The time step of the last observation."""
        return self.t_started + len(self)

    def built(self) -> SingleAgentEpisode:
        """Return the growing episode that the constructor makes of the lists."""
        episode = SingleAgentEpisode(
            self.id_,
            observations=list(self.observations),
            observation_space=self.observation_space,
            infos=None if self.infos is None else list(self.infos),
            actions=list(self.actions),
            action_space=self.action_space,
            rewards=list(self.rewards),
            terminated=self.terminated,
            truncated=self.truncated,
            extra_model_outputs={name: list(items) for name, items in self.extra_model_outputs.items()},
            t_started=self.t_started,
            len_lookback_buffer=self.lookback,
            **self._ids(),
        )
        episode.custom_data.update(copy.deepcopy(dict(self.custom_data)))
        # The public setter speaks of the current step only, and here the steps are already there.
        episode._weights_versions = tuple(sorted(self.weights_versions.items()))
        return episode

    def stepped(self) -> SingleAgentEpisode:
        """Return the growing episode that is made step by step: from a reset, or on the past in the lookback.

        >>> walk = Trajectory(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0])
        >>> walk.stepped()
        SingleAgentEpisode(len=2, return=1.5, id_='trajectory')
        """
        episode = self._before_the_first_step()
        for step in range(self.lookback, len(self.rewards)):
            if episode.t in self.weights_versions:
                episode.weights_version = self.weights_versions[episode.t]
            is_last = step == len(self.rewards) - 1
            episode.add_env_step(
                self.observations[step + 1],
                self.actions[step],
                self.rewards[step],
                None if self.infos is None else self.infos[step + 1],
                terminated=self.terminated and is_last,
                truncated=self.truncated and is_last,
                extra_model_outputs={name: items[step] for name, items in self.extra_model_outputs.items()},
            )
        if episode.t in self.weights_versions:
            episode.weights_version = self.weights_versions[episode.t]
        episode.custom_data.update(copy.deepcopy(dict(self.custom_data)))
        return episode

    def chunk(self, start: int, stop: int, *, lookback: int = 0) -> Trajectory:
        """Return the steps from `start` to just before `stop`, with up to `lookback` steps in front of them.

        >>> walk = Trajectory(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0])
        >>> walk.chunk(1, 2, lookback=3).observations
        [0, 1, 2]
        """
        kept = min(lookback, self.lookback + start)
        first, last = self.lookback + start - kept, self.lookback + stop
        at_end = stop == len(self)
        return replace(
            self,
            observations=self.observations[first : last + 1],
            actions=self.actions[first:last],
            rewards=self.rewards[first:last],
            infos=None if self.infos is None else self.infos[first : last + 1],
            extra_model_outputs={name: items[first:last] for name, items in self.extra_model_outputs.items()},
            terminated=self.terminated and at_end,
            truncated=self.truncated and at_end,
            t_started=self.t_started + start,
            lookback=kept,
            weights_versions=self._versions_between(self.t_started + start - kept, self.t_started + stop + at_end),
        )

    def _versions_between(self, first: int, stop: int) -> dict[int, int]:
        """Return the versions that chose the actions from `first` to just before `stop`."""
        inside = {t: version for t, version in self.weights_versions.items() if first < t < stop}
        before = [t for t in self.weights_versions if t <= first]
        return {first: self.weights_versions[max(before)], **inside} if before else inside

    def _before_the_first_step(self) -> SingleAgentEpisode:
        is_over = not len(self) and (self.terminated or self.truncated)
        if self.lookback or self.t_started or is_over:
            return replace(self.chunk(0, 0, lookback=self.lookback), custom_data={}).built()
        episode = SingleAgentEpisode(
            self.id_, observation_space=self.observation_space, action_space=self.action_space, **self._ids()
        )
        episode.add_env_reset(self.observations[0], None if self.infos is None else self.infos[0])
        return episode

    def _ids(self) -> dict[str, Any]:
        return {
            "agent_id": self.agent_id,
            "module_id": self.module_id,
            "multi_agent_episode_id": self.multi_agent_episode_id,
        }
