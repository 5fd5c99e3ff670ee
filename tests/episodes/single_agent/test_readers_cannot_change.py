"""Whatever a reader does with what it got, the episode and all others stay as they were."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import LookbackBuffer, SingleAgentEpisode

VECTORS = spaces.Box(-np.inf, np.inf, (4,), np.float32)


def vector(value=0.0):
    return np.full(4, value, np.float32)


def growing(item=vector, space=VECTORS):
    episode = SingleAgentEpisode(observation_space=space, action_space=spaces.Discrete(3))
    episode.add_env_reset(item(), {"note": vector()})
    for _ in range(3):
        episode.add_env_step(item(), 1, 1.0, {"note": vector()})
    return episode


def overwrite(array):
    """Write into memory that is read-only, as torch does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells so once
        torch.from_numpy(array).mul_(50).add_(7)


def test_one_hot_vectors_are_the_readers_own():
    overwrite(growing().get_actions(0, one_hot_discrete=True))

    assert growing().get_actions(0, one_hot_discrete=True).tolist() == [0.0, 1.0, 0.0]
    assert growing().get_actions(one_hot_discrete=True)[0].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("index", [6, [6, 7], slice(6, 8)])
def test_filled_items_are_the_readers_own(index):
    def found():
        items = growing().get_observations(index, fill=1.0)
        return items if index == 6 else items[0]

    overwrite(found())

    assert found().tolist() == [1.0] * 4
    assert not found().flags.writeable


def nested(value=0.0):
    return {"a": vector(value), "b": (vector(value), 1)}


READERS = {
    "one": lambda episode: episode.get_observations(0),
    "one again": lambda episode: (episode.get_observations(), episode.get_observations(0))[1],
    "all": lambda episode: episode.get_observations()[0],
    "slice": lambda episode: episode.get_observations(slice(0, 2))[0],
    "several": lambda episode: episode.get_observations([0, 1])[0],
    "several again": lambda episode: (episode.get_observations(), episode.get_observations([0, 1]))[1][0],
    "iterated": lambda episode: next(iter(episode.observations)),
    "data": lambda episode: episode.observations.data[0],
    "state": lambda episode: episode.get_state()["observations"]["data"][0],
    "data dict": lambda episode: episode.get_data_dict()["obs"][0],
    "overwritten": lambda episode: (
        episode.get_observations(),
        episode.set_observations(new_data=episode.get_observations(1), at_indices=0),
        episode.get_observations(0),
    )[2],
}


# In lists, plain arrays are the read-only ones that are stored: a view of each would take longer than all else.
ONE_ITEM = [name for name in READERS if name in ("one", "one again", "overwritten")]


@pytest.mark.parametrize("reader", ONE_ITEM)
@pytest.mark.parametrize("space", [VECTORS, None], ids=["space", "no space"])
def test_an_item_of_a_growing_episode_is_a_view_that_can_be_reshaped_and_retyped(reader, space):
    episode = growing(space=space)
    chunk = episode.cut(3)

    READERS[reader](episode).shape = (2, 2)
    READERS[reader](episode).dtype = np.int32

    for item in (*episode.get_observations(), *chunk.get_observations(slice(-3, None))):
        assert (item.shape, item.dtype) == ((4,), np.float32)
    assert episode.finalize().get_observations().shape == (4, 4)


@pytest.mark.parametrize("reader", READERS)
def test_leaves_of_nested_items_are_views_too(reader):
    episode = growing(nested, space=None)

    READERS[reader](episode)["a"].shape = (2, 2)
    READERS[reader](episode)["b"][0].dtype = np.int32

    assert episode.finalize().get_observations()["a"].shape == (4, 4)
    assert episode.get_observations()["b"][0].dtype == np.float32


def test_arrays_in_infos_are_views_too():
    episode = growing()

    episode.get_infos(0)["note"].shape = (2, 2)

    assert episode.get_infos(0)["note"].shape == (4,)


@pytest.mark.parametrize("how", [lambda column: column, lambda column: pickle.loads(pickle.dumps(column))])
def test_containers_in_object_arrays_stay_protected_through_a_pickle(how):
    item = np.empty(1, object)
    item[0] = {"seen": 1}
    episode = SingleAgentEpisode()
    episode.add_env_reset(item)

    episode = how(episode)
    episode.get_observations(0)[0]["seen"] = 2

    assert episode.get_observations(0)[0] == {"seen": 1}


def test_items_of_a_buffer_that_are_not_arrays_are_returned_as_they_are():
    buffer = LookbackBuffer([1, 2.5, None, vector()])

    assert buffer.get()[:3] == [1, 2.5, None]
    assert buffer.get([0, 1]) == [1, 2.5]
