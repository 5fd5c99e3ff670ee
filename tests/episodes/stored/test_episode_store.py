"""Episodes on disk: whatever is appended comes back the same, lazily and without copies."""

import copy
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEnvRunner, SingleAgentEpisode
from episodia.episodes import EpisodeStore
from episodia.errors import DamagedStoreError, EpisodeError, EpisodeIndexError, StoreError, StoreWarning
from episodia.testing import (
    EPISODES,
    MULTI_AGENT_EPISODES,
    assert_same_episode,
    assert_same_multi_agent_episode,
    episodes,
    multi_agent_episodes,
)
from stored_walks import numbered, read_all

IN_ONE_FOLDER = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def stored(path, *batches):
    """Append `batches` to a store, and return another store of the same directory."""
    with EpisodeStore(path) as store:
        for batch in batches:
            store.append(batch)
    return EpisodeStore(path)


def new_folder(tmp_path):
    return Path(tempfile.mkdtemp(dir=tmp_path)) / "store"


@pytest.mark.parametrize("name", EPISODES)
def test_s10_an_episode_comes_back_the_same(tmp_path, name):
    episode = EPISODES[name]()
    (found,) = stored(tmp_path / "store", [episode]).episodes()

    assert_same_episode(found, episode)


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_a_multi_agent_episode_comes_back_the_same(tmp_path, name):
    episode = MULTI_AGENT_EPISODES[name]()
    (found,) = stored(tmp_path / "store", [episode]).episodes()

    assert_same_multi_agent_episode(found, episode)


@IN_ONE_FOLDER
@given(batches=st.lists(st.lists(episodes(), max_size=3), max_size=3))
def test_any_episodes_come_back_in_order(tmp_path, batches):
    found = stored(new_folder(tmp_path), *batches, [numbered(1)]).episodes()
    wanted = [*(episode for batch in batches for episode in batch), numbered(1)]

    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert_same_episode(mine, theirs, ignore=("times",) if theirs is wanted[-1] else ())


@IN_ONE_FOLDER
@given(batch=st.lists(multi_agent_episodes(), min_size=1, max_size=3))
def test_any_multi_agent_episodes_come_back_in_order(tmp_path, batch):
    for mine, theirs in zip(stored(new_folder(tmp_path), batch).episodes(), batch, strict=True):
        assert_same_multi_agent_episode(mine, theirs)


def test_what_a_runner_returned_comes_back_the_same(tmp_path):
    runner = SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0)
    chunks = [runner.sample(num_timesteps=50) for _ in range(3)]
    runner.close()
    found = stored(tmp_path / "store", *chunks).episodes()
    wanted = [episode for chunk in chunks for episode in chunk]

    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert_same_episode(mine, theirs)


def test_arrays_are_the_mapped_files(tmp_path):
    found = stored(tmp_path / "store", [numbered(4).finalize()]).episodes()[0]
    camera = found.get_observations()["camera"]
    begin = camera.__array_interface__["data"][0]
    lines = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    (mapped,) = [line.split()[0] for line in lines if "observations-camera.rows" in line]

    assert not camera.flags.writeable
    assert int(mapped.split("-")[0], 16) <= begin < int(mapped.split("-")[1], 16)


def test_only_the_episodes_that_are_read_are_made(tmp_path):
    found = stored(tmp_path / "store", [numbered(number) for number in range(10)]).episodes()
    part = found[2:8:3]

    assert [episode.id_ for episode in part] == ["walk-2", "walk-5"]
    assert found[-1].id_ == "walk-9"
    assert found[-1] is found[9]
    assert len(found._made) == 1


def test_a_changed_episode_stays_changed_in_its_list_and_not_on_disk(tmp_path):
    store = stored(tmp_path / "store", [numbered(4), numbered(5)])
    found = store.episodes()
    found[0].set_rewards(new_data=100.0, at_indices=0)

    assert found[0].get_rewards(0) == 100.0
    assert found[:1][0].get_rewards(0) == 100.0
    assert store.episodes()[0].get_rewards(0) == -4.0


def test_columns_of_a_stored_list_are_those_of_the_episodes(tmp_path):
    wanted = EpisodeList([numbered(number).finalize() for number in range(7)])
    found = stored(tmp_path / "store", wanted).episodes()

    assert found.flat("rewards").values.tolist() == wanted.flat("rewards").values.tolist()
    assert found.forked()[3].get_return() == wanted[3].get_return()


def test_a_reader_sees_what_is_appended_later(tmp_path):
    with EpisodeStore(tmp_path / "store") as writer:
        writer.append([numbered(0)])
        reader = EpisodeStore(tmp_path / "store")
        before = reader.episodes()
        writer.append([numbered(1), numbered(2)])

        assert (len(before), len(reader), len(reader.episodes())) == (1, 3, 3)
        assert_same_episode(reader.episodes()[2], numbered(2), ignore=("times",))


def test_appending_goes_on_after_closing(tmp_path):
    store = EpisodeStore(tmp_path / "store")
    for number in range(3):
        store.append([numbered(number)])
        store.close()

    assert [episode.id_ for episode in EpisodeStore(tmp_path / "store").episodes()] == ["walk-0", "walk-1", "walk-2"]


def test_episodes_of_other_shapes_and_dtypes_get_columns_of_their_own(tmp_path):
    walks = [
        SingleAgentEpisode(observations=np.zeros((3, size), dtype), actions=[0, 1], rewards=[0.0, 1.0]).finalize()
        for size in (1, 2)
        for dtype in ("f4", ">f4", "i2")
    ]
    found = stored(tmp_path / "store", walks).episodes()

    assert {file.name for file in (tmp_path / "store").glob("observations*.rows")} >= {"observations.rows"}
    for mine, theirs in zip(found, walks, strict=True):
        assert_same_episode(mine, theirs)


def test_more_columns_than_files_are_stored_among_the_values(tmp_path):
    walks = [
        SingleAgentEpisode(observations=np.zeros((2, size)), actions=[0], rewards=[0.0]).finalize()
        for size in range(1, 300)
    ]
    found = stored(tmp_path / "store", walks).episodes()

    assert len(list((tmp_path / "store").glob("*.rows"))) == 256
    for mine, theirs in zip(found, walks, strict=True):
        assert_same_episode(mine, theirs)


def test_a_store_says_what_it_holds(tmp_path):
    store = stored(tmp_path / "<b>store", [numbered(number) for number in range(4)])

    assert (len(store), store.num_steps) == (4, 1 + 1 + 3 + 3)
    assert repr(store) == f"EpisodeStore({str(tmp_path / '<b>store')!r})"
    assert "4 episodes, 8 steps" in store._repr_html_()
    assert "<b>store" not in store._repr_html_() + store.episodes()._repr_html_()
    assert "StoredList(4 episodes of" in repr(store.episodes())


def test_an_empty_store_has_no_episodes(tmp_path):
    assert len(EpisodeStore(tmp_path / "nowhere")) == 0
    assert len(stored(tmp_path / "store", [])) == 0
    with pytest.raises(StoreError, match="found no such directory"):
        EpisodeStore(tmp_path / "nowhere").episodes()


def test_episodes_of_one_and_of_many_agents_are_not_mixed(tmp_path):
    store = stored(tmp_path / "store", [numbered(0)])
    with pytest.raises(StoreError, match="expected single-agent ones"):
        store.append([MultiAgentEpisode("many")])
    with pytest.raises(EpisodeError, match="List them apart"):
        store.append([numbered(1), MultiAgentEpisode("many")])
    store.close()

    assert len(EpisodeStore(tmp_path / "store")) == 1


def test_an_episode_that_cannot_be_stored_leaves_the_store_as_it_was(tmp_path):
    class Special(SingleAgentEpisode):
        pass

    class Odd(gym.Space):
        pass

    bad = {
        r"\['custom_data'\]\['call'\]: found a builtin": SingleAgentEpisode(),
        "found a Special": Special(),
        "found a Odd": SingleAgentEpisode(observation_space=Odd()),
    }
    next(iter(bad.values())).custom_data["call"] = print
    store = stored(tmp_path / "store", [numbered(0)])
    for words, episode in bad.items():
        with pytest.raises(StoreError, match=words):
            store.append([numbered(1), episode])
    store.append([numbered(1)])
    store.close()

    assert [episode.id_ for episode in EpisodeStore(tmp_path / "store").episodes()] == ["walk-0", "walk-1"]


def test_a_directory_with_other_files_is_not_used(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"found other files, such as 'notes.txt'"):
        EpisodeStore(tmp_path).append([numbered(0)])

    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("junk", [None, 3, b"path", ""])
def test_other_paths_are_rejected(junk):
    with pytest.raises(StoreError, match="expected a path"):
        EpisodeStore(junk)


def test_an_index_out_of_range_is_an_index_error(tmp_path):
    with pytest.raises(EpisodeIndexError, match="found the index 3"):
        stored(tmp_path / "store", [numbered(0)]).episodes()[3]


def test_a_second_writer_is_told_who_writes(tmp_path):
    with EpisodeStore(tmp_path / "store") as first:
        first.append([numbered(0)])
        with pytest.raises(StoreError, match=r"found that process \d+ on .* is writing"):
            EpisodeStore(tmp_path / "store").append([numbered(1)])
    with EpisodeStore(tmp_path / "store") as second:
        second.append([numbered(1)])

    assert len(EpisodeStore(tmp_path / "store")) == 2


def test_a_forgotten_store_lets_others_write(tmp_path):
    EpisodeStore(tmp_path / "store").append([numbered(0)])
    with EpisodeStore(tmp_path / "store") as second:
        second.append([numbered(1)])

    assert len(EpisodeStore(tmp_path / "store")) == 2


def test_reading_needs_no_torch(tmp_path):
    stored(tmp_path / "store", [numbered(0)])
    code = (
        f"import sys; from episodia.episodes import EpisodeStore; e = EpisodeStore({str(tmp_path / 'store')!r})"
        ".episodes()[0]; assert e.id_ == 'walk-0'; assert 'torch' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_check_finds_nothing_in_a_whole_store(tmp_path):
    assert stored(tmp_path / "store", [numbered(number) for number in range(5)]).check() == []


def test_check_names_what_is_damaged(tmp_path):
    store = stored(tmp_path / "store", [numbered(number) for number in range(5)])
    file = tmp_path / "store" / "rewards.rows"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    (damage,) = store.check()

    assert (damage.file, damage.position) == ("rewards.rows", 0)
    with pytest.raises(DamagedStoreError, match=r"rewards.rows.*'rewards' of episode 0 \('walk-0'\)"):
        store.episodes()[0]
    assert set(read_all(tmp_path / "store")[0]) == {1, 2, 3, 4}


def test_an_interrupted_append_is_warned_of_and_the_next_one_goes_on(tmp_path):
    stored(tmp_path / "store", [numbered(0)])
    with (tmp_path / "store" / "rewards.rows").open("ab") as file:
        file.write(b"half")
    with pytest.warns(StoreWarning, match="rewards.rows: 4 bytes that the journal does not cover"):
        store = stored(tmp_path / "store", [numbered(1), numbered(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = store.episodes()

    for number, episode in enumerate(found):
        assert_same_episode(episode, numbered(number), ignore=("times",))
    assert len(found) == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copy_of_a_store_reads_the_same_directory(copied, tmp_path):
    walk = SingleAgentEpisode("walk", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)
    with EpisodeStore(tmp_path / "walks") as store:
        store.append([walk])

        assert [episode.id_ for episode in copied(store).episodes()] == ["walk"]
        with pytest.raises(StoreError, match="is writing to it"):
            copied(store).append([walk])
