"""Bases for pieces that change the newest observation of each running episode, in the episode itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, final

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.base import ConnectorV2
from episodia.connectors.batches.batch_columns import Batch, change_column, has_column
from episodia.connectors.batches.rows import rows_of
from episodia.episodes import EpisodeList, MultiAgentEpisode, Ragged, SingleAgentEpisode
from episodia.errors import BatchError, EpisodeError, PipelineError
from episodia.space_rules import rules_of
from episodia.stacking import stack


class SingleAgentObservationPreprocessor(ConnectorV2):
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
    writes = frozenset[str]()

    @abstractmethod
    def preprocess(self, observation: Any, episode: SingleAgentEpisode) -> Any:
        """Return the observation that takes the place of `observation`.

        Args:
            observation: The newest observation of one agent.
            episode: Where it comes from; it knows its `agent_id` and `module_id`.
        """

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        """Preprocess the newest observations in `episodes`; `batch` stays as it is.

        Raises:
            BatchError: If observations are in the batch already, where the change would not reach them.
            PipelineError: In a learner pipeline.
        """
        _check_place(self.name, batch, episodes)
        for episode in self.single_agent_episode_iterator(episodes):
            new = self.preprocess(observation=episode.get_observations(-1), episode=episode)
            write_newest(episode, new)
        return batch


class MultiAgentObservationPreprocessor(ConnectorV2):
    """Replaces the newest observations of each multi-agent episode by what `preprocess` makes of all of them together.

    Everything else is as in `SingleAgentObservationPreprocessor`.
    """

    reads = frozenset[str]()
    writes = frozenset[str]()

    @abstractmethod
    def preprocess(self, observations: dict[Any, Any], episode: MultiAgentEpisode) -> dict[Any, Any]:
        """Return the observations that take the place of `observations`; agents that are left out keep theirs.

        Args:
            observations: The observation of each agent that has just got one.
            episode: Where they come from.
        """

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        """Preprocess the newest observations in `episodes`; `batch` stays as it is.

        Raises:
            BatchError: If observations are in the batch already, or if `preprocess` returns some for an agent that the
                episode does not have.
            PipelineError: In a learner pipeline, or for single-agent episodes.
        """
        _check_place(self.name, batch, episodes)
        for episode in episodes:
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
            for agent, observation in new.items():
                write_newest(episode.agent_episodes[agent], observation)
        return batch


#: RLlib's older name.
ObservationPreprocessor = SingleAgentObservationPreprocessor


@final
class WriteObservationsToEpisodes(ConnectorV2):
    """Writes the observations of the batch into the running episodes, in the place of the newest ones there.

    So what earlier pieces of an env-to-module pipeline made of them is what a learner reads. The batch stays as it is.

    >>> walk = SingleAgentEpisode(observations=[3])
    >>> _ = WriteObservationsToEpisodes()(rl_module=None, batch={"obs": [0.5]}, episodes=EpisodeList([walk]).current())
    >>> walk.get_observations(-1)
    np.float64(0.5)
    """

    reads = frozenset({Columns.OBS})
    writes = frozenset[str]()
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        """Write the observations in `batch` into `episodes`.

        Raises:
            BatchError: If there are none in the batch.
            PipelineError: In a learner pipeline.
        """
        _check_is_runner(self.name, episodes)
        if not has_column(batch, Columns.OBS):
            raise BatchError(
                f"{self.name}: found no column {Columns.OBS!r} in the batch, expected one. Place this piece after the one that "
                "adds observations."
            )
        # Columns may take another form on the way; the caller's batch keeps its own.
        copy = {key: dict(part) if isinstance(part, dict) else part for key, part in batch.items()}
        listed = EpisodeList.of(episodes)
        change_column(copy, Columns.OBS, listed if listed.is_current else listed.current(), _written)
        return batch


def _written(column: Ragged, rows: EpisodeList) -> Ragged:
    for episode, observation in zip(rows.agent_episodes, rows_of(column.values), strict=True):
        write_newest(episode, observation)
    return column


def write_newest(episode: SingleAgentEpisode, observation: Any) -> None:
    """Put `observation` in the place of the newest one.

    If it does not belong to the space that the episode knows, the episode forgets that space: the environment goes on with
    observations of the old one, and what is stored are those of another.
    """
    episode.set_observations(new_data=observation, at_indices=-1)
    space = episode.observation_space
    if space is not None and not _belongs(space, episode.get_observations(-1)):
        episode.observation_space = None


def _belongs(space: Space[Any], item: Any) -> bool:
    rules = rules_of(space)
    try:
        rules.check_bounds(stack([rules.admit(item)], rules.objects))
    except EpisodeError:
        return False
    return True


def _check_place(piece: str, batch: Batch, episodes: Any) -> None:
    _check_is_runner(piece, episodes)
    if has_column(batch, Columns.OBS):
        raise BatchError(
            f"{piece}: found observations in the batch, expected none: what is written into the episodes would not reach them. "
            f"Place this piece before all that write {Columns.OBS!r}."
        )


def _check_is_runner(piece: str, episodes: Any) -> None:
    if isinstance(episodes, EpisodeList) and not episodes.is_current:
        raise PipelineError(
            f"{piece}: found all steps of the episodes, as in a learner pipeline, expected the present moment: only the newest "
            "observation is changed. Place this piece in the env-to-module pipeline; the learner reads what it wrote."
        )
