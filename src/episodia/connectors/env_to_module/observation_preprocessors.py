"""Bases of pieces that change the newest observation of each running episode, in the episode itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from episodia.connectors.batches.episode_iteration import agent_episodes
from episodia.connectors.env_to_module.write_observations_to_episodes import check_place, forget_other_spaces
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import BatchError, PipelineError
from episodia.types import Item


class SingleAgentObservationPreprocessor(ColumnPiece):
    """Replaces the newest observation of each episode by what `preprocess` makes of it, also of another shape or dtype.

    Later pieces and the learner read what was written. It also works on multi-agent episodes, for each agent that has just
    got an observation. If the shape changes, say so in `recompute_output_observation_space`.

    It belongs into an env-to-module pipeline, before the pieces that add observations to the batch: a learner gets episodes
    that have been preprocessed already.

    >>> class Double(SingleAgentObservationPreprocessor):
    ...     def preprocess(self, observation, episode):
    ...         return observation * 2
    >>> walk = SingleAgentEpisode(observations=[3])
    >>> Double()(rl_module=None, batch={}, episodes=[walk])
    {}
    >>> walk.get_observations(-1)
    6
    """

    reads = frozenset[str]()
    writes_to_episodes = True
    writes = frozenset[str]()

    @abstractmethod
    def preprocess(self, observation: Item, episode: SingleAgentEpisode) -> Any:
        """Return the observation that takes the place of `observation`.

        Args:
            observation: The newest observation of one agent.
            episode: Where it comes from; it knows its `agent_id` and `module_id`.
        """

    def work(self, run: Run) -> None:
        """Preprocess the newest observations in the episodes; the batch stays as it is.

        Raises:
            BatchError: If observations are in the batch already, where the change would not reach them.
            PipelineError: In a learner pipeline.
        """
        check_place(self, run.batch, run.episodes)
        written: list[tuple[SingleAgentEpisode, Item]] = []
        try:
            for episode in agent_episodes(run.episodes, stepped_only=True):
                run.at_episode = episode
                new = self.preprocess(observation=episode.get_observations(-1), episode=episode)
                episode.set_observations(new_data=new, at_indices=-1)
                written.append((episode, new))
        finally:
            forget_other_spaces(written)
        run.at_episode = None


#: RLlib's older name.
ObservationPreprocessor = SingleAgentObservationPreprocessor


class MultiAgentObservationPreprocessor(ColumnPiece):
    """Replaces the newest observations of each multi-agent episode by what `preprocess` makes of all of them together.

    Everything else is as in `SingleAgentObservationPreprocessor`.
    """

    reads = frozenset[str]()
    writes_to_episodes = True
    writes = frozenset[str]()

    @abstractmethod
    def preprocess(self, observations: dict[Any, Any], episode: MultiAgentEpisode) -> dict[Any, Any]:
        """Return the observations that take the place of `observations`; agents that are left out keep theirs.

        Args:
            observations: The observation of each agent that has just got one.
            episode: Where they come from.
        """

    def work(self, run: Run) -> None:
        """Preprocess the newest observations in the episodes; the batch stays as it is.

        Raises:
            BatchError: If observations are in the batch already, or if `preprocess` returns some for an agent that the
                episode does not have.
            PipelineError: In a learner pipeline, or for single-agent episodes.
        """
        check_place(self, run.batch, run.episodes)
        for episode in run.episodes:
            if not isinstance(episode, MultiAgentEpisode):
                raise PipelineError(
                    f"{self.name}: found {type(episode).__name__}, expected a MultiAgentEpisode. Derive from "
                    "`SingleAgentObservationPreprocessor` instead."
                )
            new = self.preprocess(observations=episode.get_observations(-1), episode=episode)
            unknown = [agent for agent in new if agent not in episode.agent_episodes]
            if unknown:
                raise BatchError(
                    f"{self.name}: found observations for the agents {unknown} after preprocessing, expected some of "
                    f"{list(episode.agent_episodes)}. Return a dict with the ids that `observations` has."
                )
            written = [(episode.agent_episodes[agent], observation) for agent, observation in new.items()]
            for single, observation in written:
                single.set_observations(new_data=observation, at_indices=-1)
            forget_other_spaces(written)
