"""Pictures of episodes: what is drawn is what is in them."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

import episodia
from episodia import EpisodeList, SingleAgentEpisode
from episodia.episodes.display.episode_plots import is_image, pictures
from episodia.errors import EpisodeError, EpisodeKeyError, MissingExtraError
from episodia.testing import EPISODES
from walks import walk


def lines_of(axes):
    """Return the lines with more than the end mark, which has no dots."""
    return [line for line in axes.get_lines() if line.get_marker() == "."]


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def frames(count, shape=(10, 12, 3)):
    return list(np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8))


def test_observations_actions_and_rewards_are_drawn_over_time():
    axes = walk(len_lookback_buffer=1, t_started=9).plot().axes
    points = [(list(line.get_xdata()), list(line.get_ydata())) for panel in axes for line in lines_of(panel)]

    assert [panel.get_ylabel() for panel in axes] == ["obs", "actions", "rewards"]
    assert points == [
        ([8, 9, 10, 11, 12], [0, 1, 2, 3, 4]),
        ([8, 9, 10, 11], [10, 11, 12, 13]),
        ([8, 9, 10, 11], [0.5, 1.5, 2.5, 3.5]),
    ]


def test_columns_are_drawn_as_asked():
    assert [axes.get_ylabel() for axes in walk().plot("logp", "rewards").axes] == ["logp", "rewards"]


def test_the_lookback_is_shaded():
    [axes] = walk(len_lookback_buffer=2, t_started=2).plot("rewards").axes
    [shade] = axes.patches

    assert (shade.get_x(), shade.get_width()) == (-0.5, 2.0)
    assert texts_of(axes) == ["lookback"]
    assert not walk().plot("rewards").axes[0].patches


@pytest.mark.parametrize("flags", [{"terminated": True}, {"truncated": True}, {"terminated": True, "truncated": True}])
def test_the_end_is_marked_with_how_it_came(flags):
    [axes] = walk(**flags).plot("rewards").axes

    assert texts_of(axes) == [", ".join(flags)]
    assert list(axes.get_lines()[-1].get_xdata()) == [4, 4]


def test_an_episode_that_goes_on_has_no_end():
    assert texts_of(walk().plot("rewards").axes[0]) == []


def test_vectors_have_a_line_for_each_number_and_many_are_counted():
    episode = SingleAgentEpisode(observations=[np.arange(100.0)] * 3, actions=[0, 0], rewards=[0.0, 0.0])
    [axes] = episode.plot("obs").axes

    assert [line.get_ydata()[0] for line in lines_of(axes)] == list(range(8))
    assert axes.get_legend().get_title().get_text() == "8 of 100"


def test_parts_of_nested_columns_are_drawn_each_as_what_it_is():
    observation = {"camera": frames(1)[0], "speed": np.float32(1.0), "word": "go"}
    episode = SingleAgentEpisode(observations=[observation] * 3, actions=[0, 1], rewards=[0.0, 0.0])
    camera, rest = episode.plot("obs").axes

    assert (camera.get_ylabel(), rest.get_ylabel()) == ("obs['camera']", "obs['speed']")
    assert len(camera.images) == 3
    assert len(lines_of(rest)) == 1


def test_frames_show_the_first_and_the_last_image_with_their_time_steps():
    images = frames(30)
    episode = SingleAgentEpisode(
        observations=images, actions=[0] * 29, rewards=[0.0] * 29, len_lookback_buffer=5, t_started=5, truncated=True
    )
    axes = episode.plot().axes[0]
    labels = [label.get_text() for label in axes.get_xticklabels()]

    assert len(axes.images) == 8
    np.testing.assert_allclose(axes.images[0].get_array(), images[0] / 255)
    np.testing.assert_allclose(axes.images[-1].get_array(), images[-1] / 255)
    assert (labels[0], labels[-1]) == ("t=0\nlookback", "t=29\ntruncated")
    assert len(axes.patches) == sum("lookback" in label for label in labels) == 2


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((84, 84), True),
        ((84, 84, 1), True),
        ((64, 80, 3), True),
        ((3, 64, 80), True),
        ((84, 84, 4), True),
        ((4,), False),
        ((), False),
        ((7, 7), False),
        ((20, 20, 20), False),
        ((50, 4), False),
        ((2, 3, 20, 20), False),
    ],
)
def test_grids_with_a_few_channels_are_images(shape, expected):
    assert is_image(np.zeros((2, *shape))) is expected


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ((9, 10), (9, 10)),
        ((9, 10, 3), (9, 10, 3)),
        ((3, 9, 10), (9, 10, 3)),
        ((9, 10, 1), (9, 10)),
        ((4, 9, 10), (9, 10)),
    ],
)
def test_three_channels_are_colours_and_of_others_the_last_is_shown(shape, drawn):
    images = np.random.default_rng(0).random((2, *shape))
    images[0].flat[0], images[0].flat[-1] = 0.0, 1.0
    shown = pictures(images)

    assert shown.shape == (2, *drawn)
    if shape == (4, 9, 10):
        span = images[:, -1].max() - images[:, -1].min()
        np.testing.assert_allclose(shown, (images[:, -1] - images[:, -1].min()) / span)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 5.0])
def test_images_of_one_value_can_be_drawn(value):
    assert np.isin(pictures(np.full((2, 9, 9), value)), [0.0, 1.0]).all()


@pytest.mark.parametrize("name", EPISODES)
def test_every_episode_can_be_drawn(name):
    assert isinstance(EPISODES[name]().plot(), Figure)


@pytest.mark.parametrize("episode", [SingleAgentEpisode(), SingleAgentEpisode(observations=[1.0])])
def test_an_episode_without_steps_can_be_drawn(episode):
    assert episode.plot().axes[-1].get_ylabel() == "rewards"


def test_an_unknown_column_is_rejected():
    with pytest.raises(EpisodeKeyError, match=r"'speed', expected one of \['logp', 'obs', 'actions', 'rewards'\]"):
        walk().plot("speed")


def test_what_has_no_numbers_is_left_out_unless_it_is_asked_for():
    words = SingleAgentEpisode("talk", observations=["a", "b"], actions=["c"], rewards=[1.0])

    assert [axes.get_ylabel() for axes in words.plot().axes] == ["rewards"]
    with pytest.raises(EpisodeError, match="episode 'talk', column 'obs': found items of"):
        words.plot("obs")


def test_it_draws_where_it_is_told_to():
    figure = Figure()
    first, second = figure.subplots(2)

    assert walk().plot("rewards", ax=first) is figure
    assert len(lines_of(first)) == 1
    assert walk().plot("rewards", "logp", ax=[first, second]) is figure
    assert figure.get_suptitle() == ""


@pytest.mark.parametrize("ax", ["here", 3, []])
def test_a_wrong_number_of_axes_is_rejected(ax):
    with pytest.raises(EpisodeError, match="expected 3 matplotlib axes, for obs, actions, rewards"):
        walk().plot(ax=ax)


def test_names_with_signs_that_matplotlib_reads_as_formulas_are_drawn_as_they_are():
    episode = SingleAgentEpisode("$a_", observations=[{"$^": 0.0, "_b": 1.0}] * 2, actions=[0], rewards=[0.0])

    assert episode.plot()._repr_png_().startswith(b"\x89PNG")


def test_notebooks_show_the_figure():
    assert walk().plot()._repr_png_().startswith(b"\x89PNG")


def test_drawing_does_not_touch_the_episode():
    episode, before = walk(), walk().get_state()
    episode.plot()

    assert episode.get_state() == before


def test_a_list_shows_returns_and_lengths_and_how_they_ended():
    episodes = EpisodeList([walk(terminated=True), walk(truncated=True), walk(len_lookback_buffer=1)])
    returns, lengths = episodes.plot().axes

    assert list(returns.get_lines()[0].get_ydata()) == [8.0, 8.0, 7.5]
    assert list(lengths.get_lines()[0].get_ydata()) == [4, 4, 3]
    assert [text.get_text() for text in returns.get_legend().get_texts()] == ["terminated", "truncated", "not ended"]


def test_a_list_from_a_runner_and_an_empty_one_can_be_drawn():
    assert len(episodia.collect("CartPole-v1", episodes=2, seed=0).plot().axes) == 2
    assert len(EpisodeList().plot().axes) == 2


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)

    with pytest.raises(MissingExtraError, match=r'pip install "episodia\[plot\]"'):
        walk().plot()


def test_drawing_needs_neither_pyplot_nor_a_display():
    code = (
        "import sys; from episodia import SingleAgentEpisode; assert 'matplotlib' not in sys.modules;"
        "SingleAgentEpisode(observations=[1.0]).plot()._repr_png_();"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Dark and light pages -------------------------------------------------------------------------------------------


def figures():
    from episodia import MultiAgentEpisode  # noqa: PLC0415
    from episodia.training.learning_curve import learning_curve  # noqa: PLC0415

    game = MultiAgentEpisode(
        observations=[{"a": 0, "b": 1}, {"a": 1, "b": 2}],
        actions=[{"a": 0, "b": 0}],
        rewards=[{"a": 1.0, "b": 0.0}],
        terminateds={"b": True, "__all__": False},
        len_lookback_buffer=0,
    )
    return {
        "episode": walk(terminated=True, len_lookback_buffer=1).plot(),
        "list": EpisodeList([walk(terminated=True), walk()]).plot(),
        "agents": game.plot("rewards"),
        "curve": learning_curve(
            [{"steps": 1, "return_mean": 2.0}, {"steps": 2, "return_mean": 3.0}], target=2.5, title="x"
        ),
    }


def brightness(colour):
    return sum(to_rgba(colour)[:3]) / 3


@pytest.mark.parametrize("name", ["episode", "list", "agents", "curve"])
def test_figures_have_no_background_and_nothing_black_or_white(name):
    figure = figures()[name]
    figure.canvas.draw()
    texts = [text.get_color() for text in figure.findobj(Text) if text.get_text()]
    lines = [line.get_color() for axes in figure.axes for line in axes.get_lines()]
    spines = [spine.get_edgecolor() for axes in figure.axes for spine in axes.spines.values()]

    assert all(patch.get_alpha() == 0.0 for patch in (figure.patch, *(axes.patch for axes in figure.axes)))
    assert texts
    assert all(0.25 < brightness(colour) < 0.75 for colour in [*texts, *lines, *spines])


def test_axes_of_the_user_keep_their_style():
    axes = Figure().add_subplot()
    axes.set_title("mine", color="black")
    walk().plot("rewards", ax=axes)

    assert axes.title.get_color() == "black"
    assert axes.patch.get_alpha() is None
