"""Episodes: trajectories that stay whole, with the past that a chunk can look back to."""

from episodia.episodes.episode_list import EpisodeList
from episodia.episodes.lookback_buffer import InfiniteLookbackBuffer, LookbackBuffer
from episodia.episodes.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.ragged import Ragged
from episodia.episodes.single_agent_episode import SingleAgentEpisode

__all__ = [
    "EpisodeList",
    "InfiniteLookbackBuffer",
    "LookbackBuffer",
    "MultiAgentEpisode",
    "Ragged",
    "SingleAgentEpisode",
]
