"""Lists of episodes that are read or made later change as plain lists do."""

import copy

import pytest

from episodia import EpisodeList, SingleAgentEnvRunner, SingleAgentEpisode
from episodia.columns import Columns
from episodia.episodes import EpisodeStore
from episodia.replay import MixedReplay, ReplayBuffer


def walk(number):
    episode = SingleAgentEpisode(
        f"walk-{number}",
        observations=[float(number), 1.0, 2.0],
        actions=[number, 6],
        rewards=[0.0, 1.0],
        len_lookback_buffer=0,
    )
    return episode.finalize()


def recorded(_):
    with SingleAgentEnvRunner("CartPole-v1", num_envs=3, seed=0) as runner:
        return runner.sample(num_timesteps=6)


def buffer():
    made = ReplayBuffer(100, seed=0)
    made.add(EpisodeList([walk(number) for number in range(4)]))
    return made


def stored(folder):
    with EpisodeStore(folder / "walks") as store:
        store.append([walk(number) for number in range(3)])
    return EpisodeStore(folder / "walks").episodes()


LISTS = {
    "plain": lambda _: EpisodeList([walk(number) for number in range(3)]),
    "recorded": recorded,
    "stored": stored,
    "sampled": lambda _: buffer().sample(3),
    "loaded": lambda _: buffer().sample(3).load(),
    "joined": lambda _: MixedReplay([buffer(), buffer()], [0.5, 0.5]).sample(4),
}
CHANGES = {
    "append": lambda episodes: episodes.append(copy.copy(episodes[1])),
    "extend": lambda episodes: episodes.extend([episodes[0], episodes[1]]),
    "insert": lambda episodes: episodes.insert(1, episodes[2]),
    "pop": lambda episodes: episodes.pop(0),
    "reverse": lambda episodes: episodes.reverse(),
    "clear": lambda episodes: episodes.clear(),
    "replace": lambda episodes: episodes.__setitem__(0, episodes[2]),
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("is_forked", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_list_changes_as_a_plain_list_does(make, is_forked, change, tmp_path):
    whole = make(tmp_path)
    episodes = whole.forked() if is_forked else whole
    plain = list(episodes)

    change(plain)
    change(episodes)

    assert len(episodes) == len(plain)
    assert [episode.id_ for episode in episodes] == [episode.id_ for episode in plain]
    assert episodes.lengths.tolist() == list(map(len, plain))
    expected = [item for episode in plain for item in episode.get_actions()]
    assert episodes.flat(Columns.ACTIONS).values.tolist() == expected
