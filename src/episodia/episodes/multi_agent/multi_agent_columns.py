"""The columns of all agents of a multi-agent episode: five getters with one set of rules, and four setters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.episodes.columns.indexing import Index
from episodia.episodes.multi_agent.agent_columns import ACTIONS, INFOS, OBSERVATIONS, REWARDS
from episodia.episodes.multi_agent.multi_agent_facts import AgentID, MultiAgentFacts
from episodia.episodes.multi_agent.multi_agent_getters import Query, read, read_extra_outputs
from episodia.episodes.multi_agent.multi_agent_setters import set_column


class MultiAgentColumns(MultiAgentFacts):
    """What can be read of a `MultiAgentEpisode`, and overwritten in it."""

    # --- Reading ----------------------------------------------------------------------------------------------------

    def get_observations(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return observations as `{agent: ...}`, without the agents that had none there.

        Args:
            indices: An index as for `LookbackBuffer.get`, counted in environment steps: 0 is the first after the lookback.
            agent_ids: One agent or several; all by default.
            env_steps: Pass False to count in each agent's own steps instead.
            neg_index_as_lookback: Let negative indices count from step 0 to the left.
            fill: What to put where an agent has nothing; all agents are in the result then.
            one_hot_discrete: Return one-hot vectors for discrete spaces.
            return_list: Return a list with one dict for each environment step.

        Raises:
            EpisodeIndexError: If an environment step is not there and `fill` is not given.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, one_hot_discrete, return_list)
        return read(self, OBSERVATIONS, query)

    def get_infos(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return infos; the arguments are those of `get_observations`."""
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read(self, INFOS, query)

    def get_actions(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return actions, each at the environment step of the observation that it answers, pending ones included.

        The arguments are those of `get_observations`.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, one_hot_discrete, return_list)
        return read(self, ACTIONS, query)

    def get_rewards(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return rewards, each at the place of its action; those of a pending action are what has added up so far.

        The arguments are those of `get_observations`.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read(self, REWARDS, query)

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return one extra model output, or all of them as `{agent: {name: ...}}` if `key` is None.

        The other arguments are those of `get_observations`.

        Raises:
            EpisodeKeyError: If no agent has an output of that name.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read_extra_outputs(self, key, query)

    # --- Writing ----------------------------------------------------------------------------------------------------

    def set_observations(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite observations of some agents, at their own steps; see `SingleAgentEpisode.set_observations`."""
        set_column(self, "observations", new_data, at_indices, neg_index_as_lookback)

    def set_actions(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite actions of some agents, at their own steps."""
        set_column(self, "actions", new_data, at_indices, neg_index_as_lookback)

    def set_rewards(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite rewards of some agents, at their own steps."""
        set_column(self, "rewards", new_data, at_indices, neg_index_as_lookback)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: Mapping[AgentID, Any],
        at_indices: Index = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Overwrite an extra model output of some agents, at their own steps."""
        set_column(self, "extra_model_outputs", new_data, at_indices, neg_index_as_lookback, key=key)
