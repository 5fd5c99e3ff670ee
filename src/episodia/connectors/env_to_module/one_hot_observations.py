"""One-hot vectors of the classes in observations."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from episodia.connectors.env_to_module.observation_changer import ObservationChanger
from episodia.connectors.spaces.row_spaces import Part, paired
from episodia.episodes import EpisodeList, Ragged
from episodia.spaces import one_hot, one_hot_space
from episodia.types import AgentID


class OneHotObservations(ObservationChanger):
    """Turns Discrete leaves of observations into one-hot vectors, and MultiDiscrete leaves into joined one-hot vectors.

    All other leaves and the nesting stay. The space is the one that reaches the piece, or else the episode's own. The
    arguments are those of `ObservationPiece`.

    >>> from gymnasium import spaces
    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode(observations=[5])
    >>> piece = OneHotObservations(spaces.Discrete(3, start=4))
    >>> piece(rl_module=None, batch={}, episodes=EpisodeList([walk]).current())["obs"].values
    array([[0., 1., 0.]], dtype=float32)
    >>> piece.observation_space
    Box(0.0, 1.0, (3,), float32)
    """

    lookback = 0
    looks_at_one = True

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the space of the one-hot form."""
        return one_hot_space(space)

    def changed(self, column: Ragged, rows: EpisodeList, part: Part) -> Ragged:
        """Return the one-hot form of `column`."""
        paired(self.name, part.space, column.values)
        return column.with_values(one_hot(part.space, column.values))  # type: ignore[arg-type]  # `paired` rejects None
