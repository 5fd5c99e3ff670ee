"""Chunks and episodes that are ready to be handed out, and how many are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from episodia.episodes import MultiAgentEpisode
from episodia.errors import EnvRunnerError

CountStepsBy = Literal["env_steps", "agent_steps"]


@dataclass(frozen=True)
class Wanted:
    """What a call of `sample` asks for: steps or whole episodes.

    >>> Wanted.of(None, None, "env_steps", default_timesteps=100)
    Wanted(num_timesteps=100, num_episodes=None, count_steps_by='env_steps')
    """

    num_timesteps: int | None
    num_episodes: int | None
    count_steps_by: CountStepsBy

    @classmethod
    def of(
        cls,
        num_timesteps: int | None,
        num_episodes: int | None,
        count_steps_by: CountStepsBy,
        *,
        default_timesteps: int,
    ) -> Wanted:
        """Return what is wanted, `default_timesteps` if nothing is said.

        Raises:
            EnvRunnerError: If both are given, or one is not a positive number.
        """
        if num_timesteps is not None and num_episodes is not None:
            raise EnvRunnerError(
                f"sample: found num_timesteps={num_timesteps} and num_episodes={num_episodes}, expected one of the two."
            )
        for name, number in (("num_timesteps", num_timesteps), ("num_episodes", num_episodes)):
            if number is not None and (type(number) is not int or number < 1):
                raise EnvRunnerError(f"sample: found {name}={number!r}, expected a positive integer.")
        if count_steps_by not in ("env_steps", "agent_steps"):
            raise EnvRunnerError(
                f"found count_steps_by={count_steps_by!r}, expected one of ('env_steps', 'agent_steps')."
            )
        if num_timesteps is None and num_episodes is None:
            num_timesteps = default_timesteps
        return cls(num_timesteps, num_episodes, count_steps_by)


@final
class Harvest:
    """What has been recorded and not been handed out. It outlives a call of `sample` that fails."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, MultiAgentEpisode]] = []
        self.env_steps = 0
        self.agent_steps = 0
        self.num_whole = 0

    def add(self, order: int, episode: MultiAgentEpisode) -> None:
        """Take a finalized chunk; `order` says when its episode began."""
        self._ready.append((order, episode))
        self._count(episode, 1)

    def _count(self, episode: MultiAgentEpisode, sign: int) -> None:
        self.env_steps += sign * len(episode)
        self.agent_steps += sign * episode.agent_steps()
        self.num_whole += sign * is_whole(episode)

    def take_all(self) -> list[MultiAgentEpisode]:
        """Hand out everything, in the order in which it came."""
        return self._take(self._ready)

    def take_whole(self, count: int) -> list[MultiAgentEpisode]:
        """Hand out whole episodes, in the order in which they began; what else there is stays."""
        whole = sorted((pair for pair in self._ready if is_whole(pair[1])), key=lambda pair: pair[0])
        return self._take(whole[:count])

    def _take(self, taken: list[tuple[int, MultiAgentEpisode]]) -> list[MultiAgentEpisode]:
        gone = {id(episode) for _, episode in taken}
        self._ready = [pair for pair in self._ready if id(pair[1]) not in gone]
        for _, episode in taken:
            self._count(episode, -1)
        return [episode for _, episode in taken]


def is_whole(episode: MultiAgentEpisode) -> bool:
    """Tell whether nothing is missing between the reset and the end."""
    return episode.is_done and episode.env_t_started == 0
