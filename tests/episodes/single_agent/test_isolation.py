"""What two episodes share never shows: each case was once a way to see it."""

import numpy as np
import pytest

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.errors import EpisodeError


def steps(count, **changes):
    episode = SingleAgentEpisode("walk", **changes)
    episode.add_env_reset(np.zeros(2))
    for t in range(1, count + 1):
        episode.add_env_step(np.full(2, float(t)), t, 1.0)
    return episode


def test_a_growing_episode_does_not_see_what_is_set_in_the_chunk_that_was_joined_to_it():
    first = steps(2)
    second = first.cut()
    second.add_env_step(np.full(2, 3.0), 3, 1.0)
    second.add_env_step(np.full(2, 4.0), 4, 1.0)
    second.finalize()
    first.concat_episode(second)

    second.set_observations(new_data=np.full(2, 99.0), at_indices=1)

    assert [observation[0] for observation in first.get_observations()] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_buffer_does_not_see_what_is_set_in_the_buffer_that_was_added_to_it():
    other = LookbackBuffer(np.arange(4.0).reshape(2, 2))
    total = LookbackBuffer([np.zeros(2)]) + other

    other[0] = np.full(2, 99.0)

    assert [item[0] for item in total] == [0.0, 0.0, 2.0]


@pytest.mark.parametrize("export", ["to_arrays", "get_data_dict"])
def test_what_was_exported_does_not_show_what_is_set_later(export):
    episode = steps(2).finalize()
    exported = getattr(episode, export)()

    episode.set_observations(new_data=np.full(2, 99.0), at_indices=0)

    assert exported["obs"][0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("finalized", [False, True])
def test_containers_inside_of_an_object_array_are_the_callers_own(finalized):
    buffer = LookbackBuffer([np.array([{"a": 1}], object)])
    if finalized:
        buffer.finalize()

    buffer.get(0)[0]["a"] = 99

    assert buffer.get(0)[0] == {"a": 1}


@pytest.mark.parametrize("indices", [1, [1, 2], None])
def test_an_item_that_was_set_after_a_reading_is_read_only_too(indices):
    buffer = LookbackBuffer([np.zeros(2) for _ in range(4)])
    buffer.get()
    new_data = np.ones(2) if indices == 1 else [np.ones(2)] * (2 if indices else 4)
    buffer.set(new_data, at_indices=indices)

    assert [item.flags.writeable for item in buffer.get()] == [False] * 4


def test_an_item_that_moved_up_is_still_read_only():
    buffer = LookbackBuffer([np.zeros(1) for _ in range(3)])
    buffer.get()
    buffer.append(np.zeros(1))
    buffer.append(np.zeros(1))
    buffer.pop(0)

    assert [item.flags.writeable for item in buffer.get()] == [False] * 4
    assert buffer.get(2).flags.writeable is False


def test_adding_a_number_wraps_no_integer_around():
    assert (LookbackBuffer(np.array([255], np.uint8)) + 1).data.tolist() == [256]
    assert (LookbackBuffer(np.array([1], np.uint8)) + 300).data.tolist() == [301]


@pytest.mark.parametrize("item", ["a", None])
def test_a_number_is_added_to_numbers_only(item):
    with pytest.raises(EpisodeError, match="expected numbers"):
        LookbackBuffer([item]) + 1


def test_an_extra_output_cannot_take_the_name_of_a_column():
    episode = SingleAgentEpisode(
        "walk", observations=[0, 1], actions=[0], rewards=[1.0], extra_model_outputs={"obs": [5]}, len_lookback_buffer=0
    )

    with pytest.raises(EpisodeError, match="Rename them"):
        episode.get_data_dict()


@pytest.mark.parametrize("ask", [list, reversed, lambda episode: 3 in episode])
def test_an_episode_is_no_sequence_of_items(ask):
    with pytest.raises(TypeError):
        ask(steps(2))


def test_an_interrupt_leaves_no_half_of_a_step_in_a_finalized_episode(monkeypatch):
    episode = steps(2).finalize()

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(episode.actions, "push", interrupt)
    with pytest.raises(KeyboardInterrupt):
        episode.add_env_step(np.full(2, 3.0), 3, 1.0)

    assert [len(episode), len(episode.observations), len(episode.actions)] == [2, 3, 2]


def test_a_tensor_that_has_no_array_is_rejected_with_a_hint():
    torch = pytest.importorskip("torch")
    episode = steps(0)

    with pytest.raises(EpisodeError, match="detach"):
        episode.add_env_step(np.zeros(2), 1, 1.0, extra_model_outputs={"x": torch.zeros(2, requires_grad=True)})

    assert len(episode) == 0
