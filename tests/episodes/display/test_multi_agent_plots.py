"""Pictures of multi-agent episodes: who stepped when."""

import pytest
from matplotlib.figure import Figure

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError, EpisodeKeyError
from episodia.testing import MULTI_AGENT_EPISODES
from turn_taking import play, turns


def marks_of(axes, agents):
    """Return, for each agent, at which environment steps it acted, and at which it only saw something."""
    dots = [line for line in axes.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    acted = {row: [] for row in range(len(agents))} | {
        line.get_ydata()[0]: list(line.get_xdata()) for line in dots if line.get_fillstyle() == "full"
    }
    saw = {row: [] for row in range(len(agents))} | {
        line.get_ydata()[0]: list(line.get_xdata()) for line in dots if line.get_fillstyle() == "none"
    }
    return {agent: (acted[row], saw[row]) for row, agent in enumerate(agents)}


def ends_of(axes):
    markers = {"x": "terminated", "|": "truncated"}
    found = [line for line in axes.get_lines() if line.get_marker() in markers]
    return {
        markers[line.get_marker()]: list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in found
        if line.get_label() in markers.values()
    }


def test_each_agent_has_a_row_with_when_it_acted_and_what_it_only_saw():
    [axes] = turns().plot().axes

    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    # The action of `a` at 4 is pending: nothing has come of it yet.
    assert marks_of(axes, "ab") == {"a": ([0, 2, 4], []), "b": ([1, 3], [5])}


def test_the_lookback_is_shaded():
    chunk = turns(5).cut(2)
    play(chunk, 1)
    [axes] = chunk.plot().axes
    [shade] = axes.patches

    assert (shade.get_x(), shade.get_width()) == (2.5, 2.0)
    assert marks_of(axes, "ab") == {"a": ([4], [6]), "b": ([3, 5], [])}


def test_ends_of_agents_and_of_the_episode_are_marked():
    episode = MultiAgentEpisode("ends")
    episode.add_env_reset(observations={"a": 0, "b": 0, "c": 0})
    both = {"a": 1, "b": 1}
    episode.add_env_step(both, both, {"a": 0.0, "b": 0.0}, terminateds={"a": True}, truncateds={"b": True})
    [axes] = episode.plot().axes

    assert ends_of(axes) == {"terminated": [(1, 0)], "truncated": [(1, 1)]}
    assert [text.get_text() for text in axes.texts] == []

    episode.add_env_step({"c": 2}, {"c": 1}, {"c": 0.0}, terminateds={"__all__": True})

    assert [text.get_text() for text in episode.plot().axes[0].texts] == ["terminated"]


def test_columns_are_drawn_on_the_clock_of_the_environment():
    episode = turns()
    _, rewards = episode.plot("rewards").axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in rewards.get_lines()]

    assert lines == [
        ([0, 2], episode.agent_episodes["a"].get_rewards()),
        ([1, 3], episode.agent_episodes["b"].get_rewards()),
    ]


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_every_episode_can_be_drawn(name):
    assert isinstance(MULTI_AGENT_EPISODES[name]().plot("rewards"), Figure)


def test_an_episode_without_agents_can_be_drawn():
    assert len(MultiAgentEpisode().plot().axes) == 1


def test_many_agents_are_cut_and_counted():
    episode = MultiAgentEpisode("crowd")
    episode.add_env_reset(observations={f"{number}{'$' * 100}": 0 for number in range(100)})
    [axes] = episode.plot().axes

    assert len(axes.get_yticklabels()) == 30
    assert axes.get_ylabel() == "and 70 more agents"
    assert episode.plot()._repr_png_()


def test_what_is_no_single_number_or_unknown_is_rejected():
    with pytest.raises(EpisodeError, match="agent 'a', column 'obs': found items that are not single numbers"):
        MultiAgentEpisode("g", observations=[{"a": [1, 2]}]).plot("obs")
    with pytest.raises(EpisodeKeyError, match="'speed', expected one of"):
        turns().plot("speed")


def test_it_draws_where_it_is_told_to():
    figure = Figure()
    axes = figure.subplots(2)

    assert turns().plot("rewards", ax=axes) is figure
    with pytest.raises(EpisodeError, match="expected 1 matplotlib axes, for the timeline"):
        turns().plot(ax=axes)
