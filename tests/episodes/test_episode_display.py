"""What an episode looks like in a terminal and in a notebook."""

import time

import numpy as np

from episodia import LookbackBuffer, SingleAgentEpisode
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
    html = walk().finalize()._repr_html_()

    for name, lowest, highest in (("observations", 0, 4), ("actions", 10, 13), ("rewards", 0.5, 3.5)):
        assert f"<tr><td>{name}</td>" in html
        assert f"<td>{lowest}</td><td>{highest}</td>" in html
    assert "<td>logp</td>" in html
    assert "5 of 5 infos have content." in html


def test_the_table_counts_nan_and_folds_nested_observations_out():
    episode = SingleAgentEpisode(observations=[{"speed": np.array([1.0, np.nan]), "word": "go"}])

    html = episode._repr_html_()

    assert "<td>observations[&#x27;speed&#x27;]</td><td>1</td><td>0</td><td>float64[2]</td>" in html
    assert "<td>1</td><td>1</td><td>1</td><td>16</td>" in html


def test_a_column_that_does_not_stack_is_shown_with_the_reason():
    episode = SingleAgentEpisode()
    episode.add_env_reset(np.zeros(2))
    episode.add_env_step(np.zeros(3), 0, 0.0)

    assert "do not fit together" in episode._repr_html_()


def test_text_from_outside_is_escaped():
    evil = "<script>alert('x')</script>"
    episode = SingleAgentEpisode(evil, agent_id=evil, module_id=evil)
    episode.add_env_reset({evil: 1}, {evil: evil})
    episode.add_env_step({evil: 2}, evil, 0.0, extra_model_outputs={evil: evil})

    for shown in (episode, episode.finalize()):
        assert "<script" not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


def test_the_table_of_a_huge_episode_is_small_and_fast():
    episode = SingleAgentEpisode("x" * 1_000_000)
    episode.add_env_reset({f"key {number}": number for number in range(10_000)}, {"text": "y" * 1_000_000})
    start = time.process_time()
    html = episode._repr_html_()

    # Measured: about 0.03 s; a busy machine gets some room.
    assert time.process_time() - start < 0.5
    assert html.count("<tr>") <= 1 + 200
    assert len(html) < 100_000
    assert "more columns" in html
