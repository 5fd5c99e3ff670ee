"""Episodes: trajectories that stay whole, with the past that a chunk can look back to."""

from episodia.episodes.columns.lookback_buffer import InfiniteLookbackBuffer, LookbackBuffer
from episodia.episodes.lists.episode_list import Episode, EpisodeList, Episodes
from episodia.episodes.lists.ragged import Ragged
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder
from episodia.episodes.recorder.recorder import Recorder
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.episodes.stored.episode_store import EpisodeStore

__all__ = [
    "Episode",
    "EpisodeList",
    "EpisodeRecorder",
    "EpisodeStore",
    "Episodes",
    "InfiniteLookbackBuffer",
    "LookbackBuffer",
    "MultiAgentEpisode",
    "Ragged",
    "Recorder",
    "SingleAgentEpisode",
]


def __dir__() -> list[str]:
    return sorted(__all__)
