"""Whatever is asked of the columns of a list: it is answered, or an EpisodiaError says what is wrong with the question."""

import pytest

from episodia import Columns, EpisodeList, SingleAgentEpisode
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EpisodeError
from junk import problems_of_making


def hand_built():
    episode = SingleAgentEpisode(
        observations=[[0.0], [1.0], [2.0]], actions=[0, 1], rewards=[0.5, 1.5], len_lookback_buffer=0
    )
    return EpisodeList([episode, episode])


def recorded():
    return SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=1).sample(num_timesteps=20)


LISTS = {"hand-built": hand_built, "recorded": recorded, "current": lambda: hand_built().current()}
CALLS = {
    "has": lambda rows, junk: rows.has(junk),
    "space_of": lambda rows, junk: rows.space_of(junk),
    "latest": lambda rows, junk: rows.latest(junk),
    "flat": lambda rows, junk: rows.flat(junk),
    "flat(tail)": lambda rows, junk: rows.flat("obs", tail=junk),
    "windows": lambda rows, junk: rows.windows(junk, shifts=[-1, 0], fill=0),
    "windows(shifts)": lambda rows, junk: rows.windows("obs", shifts=junk, fill=0),
    "windows(one shift)": lambda rows, junk: rows.windows("obs", shifts=[junk], fill=0),
    "windows(tail)": lambda rows, junk: rows.windows("obs", shifts=[-1, 0], fill=0, tail=junk),
    "windows(every)": lambda rows, junk: rows.windows("obs", shifts=[-1, 0], fill=0, every=junk),
    "preceding": lambda rows, junk: rows.preceding(junk, 0),
    "[]": lambda rows, junk: rows[junk],
    "[start:]": lambda rows, junk: rows[junk:],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_a_list_answers_or_says_what_is_wrong_with_the_question(make, call):
    rows = make()

    assert problems_of_making(lambda junk: call(rows, junk)) == {}


@pytest.mark.parametrize("tail", ["no", None, [], 2], ids=str)
@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_what_is_no_flag_keeps_no_tail(make, tail):
    rows = make()

    with pytest.raises(EpisodeError, match="`tail`: found"):
        rows.flat("obs", tail=tail)
    with pytest.raises(EpisodeError, match="`tail`: found"):
        rows.windows("obs", shifts=[0], fill=0, tail=tail)


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("column", [Columns.ACTIONS, Columns.REWARDS])
def test_a_tail_of_a_column_of_steps_is_rejected(column, is_read):
    with SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0) as runner:
        sample = runner.sample(num_timesteps=10)
    listed = EpisodeList(list(sample)) if is_read else sample

    with pytest.raises(EpisodeError, match="observations and infos only"):
        listed.flat(column, tail=True)
