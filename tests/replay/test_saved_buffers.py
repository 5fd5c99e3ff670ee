"""A buffer continues from its files exactly as it would have, in memory and in mapped files."""

import numpy as np
import pytest

from episodia import EpisodeList, SingleAgentEpisode
from episodia.episodes import EpisodeStore
from episodia.errors import ReplayError, StoreError
from episodia.replay import InMemory, MemoryMapped, Proportional, ReplayBuffer, Sequences, Transitions, Uniform
from episodia.store import save_snapshot
from episodia.testing import MULTI_AGENT_EPISODES


def chunk(number, start=0, steps=7, **fields):
    return SingleAgentEpisode(
        f"walk-{number}",
        observations={"x": 100 * number + start + np.arange(steps + 1), "y": np.ones((steps + 1, 2), np.float32)},
        actions=np.arange(steps),
        rewards=np.arange(steps) / 8 - number,
        extra_model_outputs={"logp": np.full(steps, number, np.float32)},
        t_started=start,
        len_lookback_buffer=0,
        **fields,
    )


def played(buffer):
    """Add episodes until rows are overwritten; one of them goes on."""
    for number in range(12):
        buffer.add([chunk(number, terminated=number % 2 == 0, truncated=number % 2 == 1), chunk(100, 7 * number)])
        keys = buffer.sample(4).keys
        buffer.update_priorities(keys, np.arange(4.0) + number)
    return buffer


def contents(episodes):
    return [
        (
            episodes.flat("obs", tail=True).values["x"].tolist(),
            *(episodes.flat(name).values.tolist() for name in ("actions", "rewards", "logp", "t", "terminateds")),
        )
    ]


@pytest.mark.parametrize("selector", [Uniform, Proportional])
@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("evict", ["steps", "episodes"])
def test_a_loaded_buffer_goes_on_like_the_saved_one(tmp_path, selector, is_mapped, evict):
    storages = [MemoryMapped(tmp_path / name) if is_mapped else InMemory() for name in "ab"]
    first, second = (ReplayBuffer(90, evict=evict, selector=selector(), storage=one, seed=3) for one in storages)
    played(first).save(tmp_path / "saved")
    second.load(tmp_path / "saved")
    for buffer in (first, second):
        buffer.add([chunk(100, 84, terminated=True), chunk(50)])

    assert contents(second.episodes()) == contents(first.episodes())
    for draw in (Transitions(), Transitions(n_step=3), Sequences(4, burn_in=2)):
        mine, theirs = second.sample(16, draw), first.sample(16, draw)
        assert contents(mine) == contents(theirs)
        assert mine.keys.tolist() == theirs.keys.tolist()
        assert second.update_priorities(mine.keys, np.ones(16)) == first.update_priorities(theirs.keys, np.ones(16))


def test_several_modules_are_saved(tmp_path):
    first, second = ReplayBuffer(90, seed=0), ReplayBuffer(90, seed=0)
    first.add([MULTI_AGENT_EPISODES["all terminated"]().finalize()])
    first.save(tmp_path)
    second.load(tmp_path)

    assert second.episodes().origins == first.episodes().origins
    assert second.sample(5).flat("rewards").values.tolist() == first.sample(5).flat("rewards").values.tolist()


def test_saving_again_replaces_the_save_and_an_empty_buffer_is_saved(tmp_path):
    buffer = ReplayBuffer(90, seed=0)
    buffer.save(tmp_path)
    played(buffer).save(tmp_path)
    other = ReplayBuffer(90, seed=0)
    other.load(tmp_path)

    assert len(other) == len(buffer)


def test_a_buffer_is_unchanged_if_loading_fails(tmp_path):
    buffer = played(ReplayBuffer(90, seed=0))
    before = contents(buffer.episodes())
    played(ReplayBuffer(80, seed=0)).save(tmp_path / "other")
    save_snapshot(
        tmp_path / "foreign", {"capacity": 90, "evict": "steps", "infos": False, "modules": ["m"], "tables": [3]}
    )
    with pytest.raises(ReplayError, match="Make the buffer with the same arguments"):
        buffer.load(tmp_path / "other")
    with pytest.raises(StoreError, match="found no snapshot"):
        buffer.load(tmp_path / "nowhere")
    with pytest.raises(ReplayError, match="a state that does not fit"):
        buffer.load(tmp_path / "foreign")
    with pytest.raises(ReplayError, match="expected a path"):
        buffer.load(None)

    assert contents(buffer.episodes()) == before


def test_stored_lists_fill_a_buffer(tmp_path):
    episodes = [chunk(number, terminated=True) for number in range(6)]
    with EpisodeStore(tmp_path / "walks") as store:
        store.append(episodes)
    stored = EpisodeStore(tmp_path / "walks").episodes()
    first, second = ReplayBuffer(200, seed=0), ReplayBuffer(200, seed=0)
    first.add(EpisodeList(episodes))
    for start in range(0, len(stored), 4):
        second.add(stored[start : start + 4])

    assert contents(second.episodes()) == contents(first.episodes())
    assert contents(second.sample(16)) == contents(first.sample(16))
