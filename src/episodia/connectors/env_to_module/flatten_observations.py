"""Flattening of nested observations into vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gymnasium import Space, spaces

from episodia.arguments import checked_keys
from episodia.connectors.env_to_module.observation_changer import ObservationChanger
from episodia.connectors.spaces.flat_vectors import flat_space, flat_vectors
from episodia.connectors.spaces.row_spaces import Part
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.errors import PipelineError
from episodia.types import AgentID


class FlattenObservations(ObservationChanger):
    """Flattens each observation into one float32 vector: numbers unchanged, classes one-hot, in the order of the space.

    A vector is what `gymnasium.spaces.flatten` returns. Agents of one module may have different spaces if their vectors are
    of one size. The space is the one that reaches the piece, or else the episode's own.

    Args:
        input_observation_space: The space of observations; with `multi_agent`, of each agent.
        input_action_space: The space of actions, which stays.
        multi_agent: Whether the space has an entry for each agent.
        agent_ids: The agents whose observations are flattened; by default all agents.
        keys_to_remove: Keys of `Dict` observations that do not go into the vector.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If a space cannot be flattened, or has no such keys.

    >>> space = spaces.Dict({"kind": spaces.Discrete(2), "speed": spaces.Box(0.0, 5.0, ())})
    >>> walk = SingleAgentEpisode(observations=[{"kind": 1, "speed": 0.5}])
    >>> batch = FlattenObservations(space)(rl_module=None, batch={}, episodes=EpisodeList([walk]).current())
    >>> batch["obs"].values
    array([[0. , 1. , 0.5]], dtype=float32)
    """

    lookback = 0
    looks_at_one = True

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        multi_agent: bool = False,
        agent_ids: Collection[Any] | None = None,
        keys_to_remove: Collection[Any] | None = (),
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, multi_agent=multi_agent, name=name)
        self.agent_ids = None if agent_ids is None else checked_keys(PipelineError, self.name, "agent_ids", agent_ids)
        removed = () if keys_to_remove is None else keys_to_remove
        self.keys_to_remove = tuple(checked_keys(PipelineError, self.name, "keys_to_remove", removed))

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the space of the vectors; agents that are not in `agent_ids` keep their space."""
        return flat_space(self.name, self._kept(space)) if self._is_flattened(agent_id) else space

    def label(self, episode: SingleAgentEpisode) -> bool:
        """Return whether the agent's observations are flattened."""
        return self._is_flattened(episode.agent_id)

    def changed(self, column: Ragged, rows: EpisodeList, part: Part) -> Ragged:
        """Return the vectors of the observations in `column`."""
        if part.label is False:
            return column
        space, values = part.space, column.values
        if self.keys_to_remove and space is not None:
            space = self._kept(space)
            if isinstance(values, dict):
                values = {key: leaf for key, leaf in values.items() if key not in self.keys_to_remove}
        return column.with_values(flat_vectors(self.name, space, values, int(column.offsets[-1])))

    def _is_flattened(self, agent_id: AgentID) -> bool:
        return not self.multi_agent or self.agent_ids is None or agent_id in self.agent_ids

    def _kept(self, space: Space[Any]) -> Space[Any]:
        if not self.keys_to_remove:
            return space
        known = space.spaces if isinstance(space, spaces.Dict) else {}
        missing = [key for key in self.keys_to_remove if key not in known]
        # With many agents, each may lack some of the keys.
        if not isinstance(space, spaces.Dict) or (missing and not self.multi_agent):
            raise PipelineError(
                f"{self.name}: found `keys_to_remove={list(self.keys_to_remove)}` for observations of {space}, expected keys "
                f"of a `Dict` space. Remove {missing or 'them'} from `keys_to_remove`."
            )
        # Not a new `Dict` of a plain dict, which would be sorted: vectors follow the order of the given space.
        return spaces.Dict([(key, leaf) for key, leaf in known.items() if key not in self.keys_to_remove])
