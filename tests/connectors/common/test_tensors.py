"""Arrays to tensors and back."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

from drives import drive, run
from episodia import Columns
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.common.numpy_to_tensor import NumpyToTensor, as_tensor
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
)
from episodia.connectors.module_to_env.tensor_to_numpy import TensorToNumpy

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (np.float64, torch.float32),
        (np.float16, torch.float16),
        (np.float32, torch.float32),
        (np.int8, torch.int8),
        (np.int64, torch.int64),
        (np.uint8, torch.uint8),
        (np.uint16, torch.int64),
        (np.uint64, torch.int64),
        (np.bool_, torch.bool),
    ],
)
def test_numbers_keep_their_values_in_a_dtype_that_modules_take(given, made):
    tensor = as_tensor(np.array([0, 1], given), CPU)

    assert tensor.dtype == made
    assert tensor.tolist() == [0, 1]


def test_integers_beyond_int64_are_rejected():
    with pytest.raises(OverflowError, match="expected numbers that int64 can hold"):
        as_tensor(np.array([2**63], np.uint64), CPU)


def test_writing_into_a_tensor_does_not_reach_the_episode():
    episode = drive(1)
    before = episode.get_observations().copy()

    batch = run([AddObservationsFromEpisodesToBatch(), BatchIndividualItems(), NumpyToTensor()], [episode])
    batch[Columns.OBS] += 1.0

    assert np.array_equal(episode.get_observations(), before)


def test_large_rows_that_lie_apart_become_a_tensor_without_a_copy():
    track = np.arange(4 * 4096, dtype=np.uint8).reshape(4, 64, 64)

    tensors = [as_tensor(part, CPU) for part in (track[::2], track[1::2])]

    assert all(np.shares_memory(tensor.numpy(), track) for tensor in tensors)
    assert not np.shares_memory(tensors[0].numpy(), tensors[1].numpy())


@pytest.mark.parametrize(
    "cut", [lambda track: track[:, ::2], lambda track: track[:, :, ::-1], lambda track: track[..., :8]]
)
def test_rows_that_are_not_whole_or_small_are_copied_into_a_tensor(cut):
    track = np.arange(4 * 4096, dtype=np.uint8).reshape(4, 64, 64)

    tensor = as_tensor(cut(track), CPU)

    assert tensor.is_contiguous()
    assert np.array_equal(tensor.numpy(), cut(track))


def test_read_only_rows_are_copied_into_a_tensor():
    track = np.zeros((4, 64, 64), np.uint8)
    track.flags.writeable = False

    assert not np.shares_memory(as_tensor(track[::2], CPU).numpy(), track)


def test_objects_stay_as_they_are():
    batch = run([AddInfosFromEpisodesToTrainBatch(), BatchIndividualItems(), NumpyToTensor()], [drive(2, seed=7)])

    assert batch[Columns.INFOS].tolist() == [{"start": 7}, {"t": 0}]


def test_going_there_and_back_changes_no_value():
    pieces = [AddColumnsFromEpisodesToTrainBatch(), BatchIndividualItems()]
    there = run([*pieces, NumpyToTensor()], [drive(3)])

    back = TensorToNumpy()(rl_module=None, batch=there, episodes=[])

    for name, column in run(pieces, [drive(3)]).items():
        assert isinstance(back[name], np.ndarray)
        np.testing.assert_allclose(back[name], column, rtol=1e-6)


class FakeTensor(torch.Tensor):
    """Notes where it is sent: what a transfer to an accelerator looks like from here."""

    sent: ClassVar[list[tuple[object, ...]]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.pin_memory, torch.Tensor.to):
            cls.sent.append((func.__name__, *args[1:], kwargs or {}))
            return args[0]
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_transfer_to_an_accelerator_goes_through_pinned_memory_and_does_not_block():
    FakeTensor.sent = []

    as_tensor(torch.ones(2).as_subclass(FakeTensor), torch.device("cuda:0"), pin_memory=True)

    assert FakeTensor.sent == [("pin_memory", {}), ("to", torch.device("cuda:0"), {"non_blocking": True})]
