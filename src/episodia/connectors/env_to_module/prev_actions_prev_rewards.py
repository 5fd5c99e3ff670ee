"""Previous actions and rewards as a part of the observation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import Space, spaces

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.connectors.env_to_module.observation_changer import ObservationChanger
from episodia.connectors.env_to_module.steps_before import steps_before
from episodia.connectors.spaces.flat_vectors import flat_size, flat_space, flat_vectors
from episodia.connectors.spaces.row_spaces import Part
from episodia.episodes import EpisodeList, Ragged, SingleAgentEpisode
from episodia.errors import PipelineError
from episodia.trees import map_batch
from episodia.types import AgentID


class PrevActionsPrevRewards(ObservationChanger):
    """Turns each observation into a dict that also has the previous actions and rewards, the latest last.

    Actions of any space (nested ones too) become one vector, classes one-hot; zeros stand before the first step, which
    is not a class. The space of actions is the one that reaches the piece, or else the episode's own.

    Args:
        input_observation_space: The space of observations; with `multi_agent`, of each agent.
        input_action_space: The space of actions; with `multi_agent`, of each agent.
        multi_agent: Whether the spaces have an entry for each agent.
        n_prev_actions: How many actions; with 0, they are left out.
        n_prev_rewards: How many rewards; with 0, they are left out.
        **kwargs: Those of `ConnectorV2`.

    Raises:
        PipelineError: If a number is negative, or if actions do not become vectors of one size.

    >>> walk = SingleAgentEpisode(observations=[7, 8], actions=[1], rewards=[0.5], len_lookback_buffer=0)
    >>> piece = PrevActionsPrevRewards(spaces.Discrete(9), spaces.Discrete(2), n_prev_actions=2)
    >>> obs = piece(rl_module=None, batch={}, episodes=EpisodeList([walk]).current())["obs"].values
    >>> {key: part.tolist() for key, part in obs.items()}
    {'_orig_obs': [8], 'prev_n_actions': [[0.0, 0.0, 0.0, 1.0]], 'prev_n_rewards': [[0.5]]}
    """

    ORIG_OBS_KEY: ClassVar[str] = "_orig_obs"
    PREV_ACTIONS_KEY: ClassVar[str] = "prev_n_actions"
    PREV_REWARDS_KEY: ClassVar[str] = "prev_n_rewards"

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        multi_agent: bool = False,
        n_prev_actions: int = 1,
        n_prev_rewards: int = 1,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, multi_agent=multi_agent, name=name)
        self.n_prev_actions = checked_whole(PipelineError, self.name, "n_prev_actions", n_prev_actions, least=0)
        self.n_prev_rewards = checked_whole(PipelineError, self.name, "n_prev_rewards", n_prev_rewards, least=0)

    @property
    def lookback(self) -> int:
        """The number of steps back to the farthest action or reward."""
        return max(self.n_prev_actions, self.n_prev_rewards)

    @property
    def reads_rewards(self) -> bool:
        """Whether there are previous rewards."""
        return self.n_prev_rewards > 0

    def input_spaces(self) -> Any:
        """Return the space of the actions, which decides how they become vectors."""
        return self.input_action_space

    def own_space(self, episode: SingleAgentEpisode) -> Space[Any] | None:
        """Return the space of the actions of an episode."""
        return episode.action_space

    def output_space(self, space: Space[Any], action_space: Space[Any] | None, agent_id: AgentID) -> Space[Any]:
        """Return the `Dict` space of the three parts."""
        parts = {self.ORIG_OBS_KEY: space}
        if self.n_prev_actions:
            parts[self.PREV_ACTIONS_KEY] = self._actions_space(action_space)
        if self.n_prev_rewards:
            parts[self.PREV_REWARDS_KEY] = spaces.Box(-np.inf, np.inf, (self.n_prev_rewards,), np.float32)
        return spaces.Dict(parts)

    def _actions_space(self, action_space: Space[Any] | None) -> spaces.Box:
        if action_space is None:
            raise PipelineError(
                f"{self.name}: found no action space, expected one beside the observation space, because previous actions "
                "become a part of observations. Build the pipeline with both spaces."
            )
        flat = flat_space(self.name, action_space)
        low, high = (
            np.tile(np.minimum(flat.low, 0), self.n_prev_actions),
            np.tile(np.maximum(flat.high, 0), self.n_prev_actions),
        )
        return spaces.Box(low, high, dtype=np.float32)

    def changed(self, column: Ragged, rows: EpisodeList, part: Part) -> Ragged:
        """Return the observations in `column` with the past of `rows` beside them."""
        values = {self.ORIG_OBS_KEY: column.values}
        if self.n_prev_actions:
            values[self.PREV_ACTIONS_KEY] = self._previous_actions(column, rows, part.space)
        if self.n_prev_rewards:
            rewards = rows.windows(
                Columns.REWARDS, shifts=range(-self.n_prev_rewards, 0), fill=0, tail=bool(column.tail)
            )
            values[self.PREV_REWARDS_KEY] = rewards.values.astype(np.float32)
        return column.with_values(values)

    def _previous_actions(self, column: Ragged, rows: EpisodeList, space: Space[Any] | None) -> np.ndarray:
        """Return the vectors of the previous actions, one after another: [N, number of actions × size]."""
        if space is None:
            raise PipelineError(
                f"{self.name}: found no space of the actions, expected one. Build the pipeline with its input spaces, or give "
                "the episodes theirs."
            )
        tail = bool(column.tail)
        actions = rows.windows(Columns.ACTIONS, shifts=range(-self.n_prev_actions, 0), fill=0, tail=tail).values
        is_there = steps_before(rows, self.n_prev_actions, tail=tail)
        count, size = is_there.size, flat_size(self.name, space)
        vectors = np.zeros((count, size), np.float32)
        places = np.flatnonzero(is_there)
        # Episodes without steps may not know how their actions are nested.
        if len(places):
            chosen = map_batch(lambda leaf: leaf.reshape(count, *leaf.shape[2:])[places], actions)
            vectors[places] = flat_vectors(self.name, space, chosen, len(places))
        return vectors.reshape(len(is_there), self.n_prev_actions * size)
