"""Base class for pieces that set the reward of a step, immediately or some ticks later."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from gymnasium import Space

from episodia.arguments import checked_whole
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.episodes.multi_agent.delayed_rewards import due_steps, open_steps
from episodia.errors import PipelineError

# Key in `shared_data` for the ids of episodes whose last rewards are already set.
SETTLED_ENDS = "_settled_ends"


class RewardShaper(ColumnPiece):
    """Writes the result of `reward` into the running episode as the reward of a step, `delay` ticks after the step.

    The value of a decision may be known only later, as with an order that is delivered days after. A runner does not return
    steps whose reward is still open. When an episode ends or is abandoned, the rewards of its last steps are set immediately.

    Place it in an env-to-module pipeline. In multi-agent episodes, `reward` is called for each agent separately, and ticks are
    those of the environment. A subclass that looks farther back than the step itself declares it in `lookback`.

    Args:
        input_observation_space: The space of observations, which stays.
        input_action_space: The space of actions, which stays.
        delay: The number of ticks after which the reward is known; 0 sets it right after the step.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If `delay` is not an integer of 0 or more.

    >>> class Progress(RewardShaper):
    ...     def reward(self, episode, age):
    ...         return float(episode.get_observations(-1) - episode.get_observations(-age - 1))
    >>> walk = SingleAgentEpisode(observations=[0, 1, 3], actions=[0, 0], rewards=[0.0, 0.0], len_lookback_buffer=0)
    >>> _ = Progress(delay=1)(rl_module=None, batch={}, episodes=[walk])
    >>> walk.get_rewards()
    [3.0, 0.0]
    """

    reads = writes = frozenset[str]()
    writes_to_episodes = True

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        delay: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        self.delay = checked_whole(PipelineError, self.name, "delay", delay, 0)

    @property
    def lookback(self) -> int:
        """The number of steps back to the step whose reward is set."""
        return self.delay + 1

    @abstractmethod
    def reward(self, episode: SingleAgentEpisode, age: int) -> float:
        """Return the reward of a step.

        Args:
            episode: The current episode of one agent, with its `agent_id`.
            age: How many of its steps ago. The action is `episode.get_actions(-age)`, what the environment paid for it
                `get_rewards(-age)`, the observation that it answers `get_observations(-age - 1)`, the newest one
                `get_observations(-1)`. It is `delay + 1`, or less at the end of an episode.
        """

    def work(self, run: Run) -> None:
        """Set the rewards that are due now; the batch is not changed.

        Raises:
            PipelineError: In a learner pipeline.
        """
        if isinstance(run.episodes, EpisodeList) and not run.episodes.is_current:
            raise PipelineError(
                f"{self.name}: found all steps of the episodes, as in a learner pipeline, expected the present moment. Place "
                "this piece in the env-to-module pipeline; the learner reads what it wrote."
            )
        settled = (run.shared_data or {}).get(SETTLED_ENDS, ())
        for episode in run.episodes:
            if episode.id_ in settled:
                continue
            for single, age in due_steps(episode, self.delay):
                self._set(single, age)

    def settle(self, episode: Any) -> None:
        """Set all rewards of `episode` that are still open, because the episode will not continue."""
        for single, age in open_steps(episode, self.delay):
            self._set(single, age)

    def _set(self, single: SingleAgentEpisode, age: int) -> None:
        single.set_rewards(new_data=float(self.reward(episode=single, age=age)), at_indices=-age)
