"""What a multi-agent episode looks like in a terminal and in a notebook."""

import time

from episodia import MultiAgentEpisode
from shown_html import Shown
from turn_taking import play, turns


def printed(episode, capsys):
    episode.print()
    return capsys.readouterr().out


def test_print_shows_who_observed_when(capsys):
    assert printed(turns(), capsys) == (
        "ts 0 1 2 3 4 5\n"
        "a  x   x   x\n"
        "b    x   x   x\n"
    )  # fmt: skip


def test_print_tells_ids_apart_that_differ_in_type_only(capsys):
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={0: 0, "0": 0})
    assert printed(episode, capsys) == "ts  0\n0   x\n'0' x\n"


def test_print_counts_the_lookback_below_zero(capsys):
    chunk = turns(5).cut(2)
    play(chunk, 1)

    assert printed(chunk, capsys) == (
        "ts -2 -1  0  1\n"
        "a      x     x\n"
        "b   x     x\n"
    )  # fmt: skip


def test_print_does_not_show_an_observation_that_is_only_repeated(capsys):
    episode = turns(2)
    play(episode, 1, terminateds={"__all__": True})

    assert printed(episode, capsys) == (
        "ts 0 1 2 3\n"
        "a  x   x\n"
        "b    x   x\n"
    )  # fmt: skip


def test_the_text_of_an_episode_is_one_line_of_what_matters():
    assert repr(turns()) == "MultiAgentEpisode(len=5, agents=2, return=150, id_='game')"
    assert repr(turns().cut(2).finalize()) == (
        "MultiAgentEpisode(len=0, agents=2, lookback=2, t=5..5, return=0, finalized, id_='game')"
    )
    for flag in ("terminated", "truncated"):
        episode = turns(1, missing_final_observation="repeat")
        play(episode, 1, **{f"{flag}s": {"__all__": True}})
        assert repr(episode) == f"MultiAgentEpisode(len=2, agents=2, return=23, {flag}, id_='game')"


def test_the_table_has_a_row_for_each_agent():
    page = Shown(turns()._repr_html_())

    assert page.rows[0] == ["agent", "module", "steps", "return", "state", "observed"]
    assert page.rows[1] == ["'a'", "mod_a", "2", "10", "alive, action pending", "■·■·■·"]
    assert page.rows[2][3:] == ["140", "alive", "·■·■·■"]


def test_the_columns_of_each_agent_are_folded():
    page = Shown(turns()._repr_html_())

    assert [line.split(":")[0] for line in page.folded] == ["columns of each agent", "'a'", "'b'"]
    assert [row[1] for row in page.rows if row[0] == "rewards"] == ["2", "2"]


def test_the_table_tells_how_agents_ended():
    episode = MultiAgentEpisode("ends")
    episode.add_env_reset(observations={"a": 0, "b": 0, "c": 0})
    both = {"a": 1, "b": 1}
    episode.add_env_step(both, both, {"a": 0.0, "b": 0.0}, terminateds={"a": True}, truncateds={"b": True})

    states = [row[4] for row in Shown(episode._repr_html_()).rows[1:4]]
    assert states == ["terminated", "truncated", "alive"]


def test_text_from_outside_is_escaped():
    evil = "<script>alert('x')</script>"
    episode = MultiAgentEpisode(evil, agent_to_module_mapping_fn=lambda agent, episode: f"{episode.id_}{agent}")
    episode.add_env_reset(observations={evil: {evil: 1}}, infos={evil: {evil: evil}})
    episode.add_env_step({evil: {evil: 2}}, {evil: evil}, {evil: 0.0}, extra_model_outputs={evil: {evil: evil}})

    for shown in (episode, episode.finalize()):
        assert evil[:20] in Shown(shown._repr_html_()).text


def test_the_looks_of_a_huge_episode_are_small_and_fast(capsys):
    episode = MultiAgentEpisode("crowd")
    episode.add_env_reset(observations={f"{number}{'y' * 1_000}": 0 for number in range(2_000)})
    for t in range(1_000):
        episode.add_env_step({"late": t}, {}, {})
    start = time.process_time()
    html, text = episode._repr_html_(), printed(episode, capsys)

    # Measured: about 0.02 s; a busy machine gets some room.
    assert time.process_time() - start < 0.5
    assert len(html) < 200_000
    assert "... and 1901 more agents" in html
    assert "those of 1981 more agents" in html
    assert text.endswith("... and 1901 more agents\n")
    assert len(text.splitlines()) == 1 + 100 + 1
    assert max(map(len, text.splitlines())) < 1_000


def test_names_of_any_length_are_cut_short():
    name = "z" * 1_000_000
    episode = MultiAgentEpisode(name, agent_module_ids={name: name})
    episode.add_env_reset(observations={name: name})

    assert len(episode._repr_html_()) < 5_000
    assert len(repr(episode)) < 300
