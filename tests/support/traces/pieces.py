"""Connectors as users write them, for the traces."""

import numpy as np

from episodia.connectors import ConnectorV2, SingleAgentObservationPreprocessor


class Unchanged(ConnectorV2):
    """Returns the batch as it is."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        return batch


class AddSpeeds(ConnectorV2):
    """Adds one item for each episode, in the way of RLlib."""

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_batch_item(batch, "speed", episode.get_observations(-1)[1:2], episode)
        return batch


class Doubled(SingleAgentObservationPreprocessor):
    """Doubles each observation in the episode."""

    def preprocess(self, observation, episode):
        return np.float32(observation * 2.0)


class Cropped(SingleAgentObservationPreprocessor):
    """Keeps the first three numbers of each observation, and adds the time."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return type(input_observation_space)(-np.inf, np.inf, (4,), np.float64)

    def preprocess(self, observation, episode):
        return np.append(observation[:3].astype(np.float64), episode.t / 10)


class NotesReturns(ConnectorV2):
    """Writes what the past rewards sum up to into the batch, which no other piece reads."""

    lookback = 3

    def __call__(self, *, rl_module, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            past = episode.get_rewards(slice(-3, None))
            self.add_batch_item(batch, "past", np.float32(np.sum(past)), episode)
        return batch
