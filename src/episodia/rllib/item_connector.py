"""The base class of ported connectors."""

from __future__ import annotations

from typing import ClassVar

from episodia.connectors.connector_v2 import ConnectorV2


class ItemConnector(ConnectorV2):
    """A connector that gets columns in RLlib's form, items by episode, and may leave them in that form.

    The key of an episode is `(id,)`, or `(id of the multi-agent episode, agent id, module id)`. Observations have one item
    more than steps, the one after the last step.

    >>> import numpy as np
    >>> class Clip(ItemConnector):
    ...     def __call__(self, *, rl_module, batch, episodes, **kwargs):
    ...         for episode in self.single_agent_episode_iterator(episodes):
    ...             actions = batch["actions"][(episode.id_,)]
    ...             actions[0] = min(actions[0], 3)
    ...         return batch
    >>> from episodia.connectors import ModuleToEnvPipeline
    >>> from episodia import SingleAgentEpisode
    >>> walks = [SingleAgentEpisode("walk"), SingleAgentEpisode("run")]
    >>> ModuleToEnvPipeline(connectors=[Clip()])(batch={"actions": np.array([2, 5])}, episodes=walks)
    {'actions': array([2, 3])}
    """

    takes_items: ClassVar[bool] = True
