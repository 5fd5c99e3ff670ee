"""Text and tables of samples: the text reads nothing of the buffer, and displayed samples stay as lazy as they were."""

from __future__ import annotations

from episodia.display.notebook_html import block
from episodia.episodes.display.episode_tables import counts_text, episodes_html
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import ReplayError


def sample_text(sample: EpisodeList[SingleAgentEpisode]) -> str:
    """Describe a sample in one line."""
    num_done = int((sample.is_terminated | sample.is_truncated).sum())
    return counts_text(SingleAgentEpisode.__name__, len(sample), int(sample.lengths.sum()), num_done)


def sample_html(sample: EpisodeList[SingleAgentEpisode]) -> str:
    """Return a table with one row for each stretch, or one line if the stretches cannot be read as episodes."""
    try:
        return episodes_html(list(sample.forked()), is_multi_agent=False)
    except ReplayError:  # rows were overwritten, or steps stand for several and have a lookback
        return block(sample_text(sample))
