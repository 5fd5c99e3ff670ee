"""What an episode looks like in a terminal and in a notebook."""

import time

import numpy as np
import pytest

import episodia
from episodia import LookbackBuffer, SingleAgentEpisode
from shown_html import Shown
from walks import walk


def test_the_text_of_an_episode_is_one_line_of_what_matters():
    assert repr(walk()) == "SingleAgentEpisode(len=4, return=8, id_='walk')"
    assert repr(walk(terminated=True, agent_id="a").finalize()) == (
        "SingleAgentEpisode(len=4, return=8, terminated, finalized, agent_id='a', id_='walk')"
    )
    assert repr(walk(len_lookback_buffer=1, t_started=9)) == (
        "SingleAgentEpisode(len=3, lookback=1, t=9..12, return=7.5, id_='walk')"
    )


def test_the_text_of_a_buffer_sets_the_lookback_apart():
    assert repr(LookbackBuffer([1, 2, 3], lookback=1)) == "LookbackBuffer([1] <- lookback(1) | [2, 3])"
    assert repr(LookbackBuffer()) == "LookbackBuffer([] <- lookback(0) | [])"
    assert repr(LookbackBuffer({"x": np.zeros((3, 2)), "y": (np.arange(3),)})) == (
        "LookbackBuffer([] <- lookback(0) | {'x': float64[3, 2], 'y': (int64[3],)})"
    )


def test_the_text_of_a_long_buffer_is_short():
    for buffer in (LookbackBuffer(list(range(100_000))), LookbackBuffer(np.arange(100_000))):
        assert repr(buffer).endswith("5, 6, 7, ... 99992 more])")


def test_the_table_shows_every_column_with_its_range():
    page = Shown(walk().finalize()._repr_html_())

    assert page.rows[0] == ["column", "items", "lookback", "dtype", "shape", "min", "max", "NaN", "memory"]
    assert page.row("obs") == ["5", "0", "int64", "[]", "0", "4", "0", "40 B"]
    assert page.row("actions") == ["4", "0", "int64", "[]", "10", "13", "0", "32 B"]
    assert page.row("rewards") == ["4", "0", "float64", "[]", "0.5", "3.5", "0", "32 B"]
    assert page.row("logp") == ["4", "0", "float64", "[]", "-0.4", "-0.1", "0", "32 B"]
    assert "136 B, 5 of 5 infos have content" in page.text
    assert "return=8" in page.text


def test_the_table_counts_the_lookback_apart():
    assert Shown(walk(len_lookback_buffer=3)._repr_html_()).row("rewards")[:2] == ["1", "3"]


def test_the_table_counts_nan_and_folds_nested_columns():
    episode = SingleAgentEpisode(observations=[{"speed": np.array([1.0, np.nan]), "word": "go"}])

    page = Shown(episode._repr_html_())

    assert page.folded == ["obs: 2 parts, 1 items, 24 B"]
    assert page.row("['speed']") == ["1", "0", "float64", "[2]", "1", "1", "1", "16 B"]
    assert page.row("['word']") == ["1", "0", "object", "[]", "", "", "", "8 B"]


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32, np.complex64])
@pytest.mark.parametrize("values", [[], [[0, 1]]])
def test_columns_of_every_dtype_are_shown(dtype, values):
    episode = SingleAgentEpisode(observations=np.array(values, dtype).reshape(-1, 2), len_lookback_buffer=0)

    assert Shown(episode._repr_html_()).row("obs")[2:4] == [np.dtype(dtype).name, "[2]"]


def test_zero_has_no_sign():
    assert Shown(SingleAgentEpisode(observations=[-0.0])._repr_html_()).row("obs")[4:6] == ["0", "0"]


def test_an_episode_without_a_reset_is_shown():
    assert Shown(SingleAgentEpisode()._repr_html_()).row("obs")[0] == "0"


def test_recorded_episodes_are_shown_like_others():
    [episode] = episodia.collect("CartPole-v1", episodes=1, seed=0)

    assert Shown(episode._repr_html_()).row("obs")[2:4] == ["float32", "[4]"]


def test_a_column_that_does_not_stack_is_shown_with_the_reason():
    episode = SingleAgentEpisode()
    episode.add_env_reset(np.zeros(2))
    episode.add_env_step(np.zeros(3), 0, 0.0)

    assert "found different items" in Shown(episode._repr_html_()).text


def test_s8_text_from_outside_is_escaped():
    evil = "<script>alert('x')</script>"
    episode = SingleAgentEpisode(evil, agent_id=evil, module_id=evil)
    episode.add_env_reset({evil: 1}, {evil: evil})
    episode.add_env_step({evil: 2}, evil, 0.0, extra_model_outputs={evil: evil})

    for shown in (episode, episode.finalize()):
        assert evil[:20] in Shown(shown._repr_html_()).text


def test_s8_the_table_of_a_huge_episode_is_small_and_fast():
    episode = SingleAgentEpisode("x" * 1_000_000)
    episode.add_env_reset({f"key {number}": number for number in range(10_000)}, {"text": "y" * 1_000_000})
    start = time.process_time()
    html = episode._repr_html_()

    # Measured: about 0.03 s; a busy machine gets some room.
    assert time.process_time() - start < 0.5
    assert html.count("<tr>") <= 200
    assert len(html) < 100_000
    assert "9940 more parts" in Shown(html).text
    assert len(repr(episode)) < 300


def test_the_table_of_an_episode_with_many_nested_columns_is_small():
    output = {f"<part {number}>": 0.5 for number in range(100)}
    episode = SingleAgentEpisode()
    episode.add_env_reset(0)
    episode.add_env_step(1, 0, 0.0, extra_model_outputs={f"output {number}": output for number in range(100)})

    page = Shown(episode._repr_html_())

    assert len(page.rows) <= 1 + 60 + 60 + 180
    assert "... and 43 more columns" in page.text
