"""The names of `episodia.rllib`: what they stand for, and what is said about those that are missing."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import episodia
from episodia import rllib
from episodia.connectors import FrameStacking
from episodia.errors import BatchError

NESTED = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1.0, 1.0, (2,))})


def test_public_names_exist():
    assert dir(rllib) == sorted(rllib.__all__)
    assert all(hasattr(rllib, name) for name in rllib.__all__)
    assert episodia.rllib is rllib


@pytest.mark.parametrize("name", sorted(rllib._OURS))
def test_a_missing_name_raises_with_the_name_of_ours(name):
    with pytest.raises(ImportError, match=rf"{name!r} of RLlib.*Use "):
        exec(f"from episodia.rllib import {name}")  # noqa: S102  # the statement that a plugin has


def test_a_name_that_rllib_lacks_too_is_an_attribute_error():
    assert not hasattr(rllib, "no_such_name")


def test_frame_stacking_has_one_class_for_runners_and_learners():
    assert rllib.FrameStackingEnvToModule is rllib.FrameStackingLearner is FrameStacking


def test_old_batches_have_names_only():
    assert (rllib.SampleBatch.CUR_OBS, rllib.SampleBatch.NEXT_OBS, rllib.SampleBatch.DONES) == (
        "obs",
        "new_obs",
        "dones",
    )
    assert (rllib.Postprocessing.ADVANTAGES, rllib.Postprocessing.VALUE_TARGETS) == ("advantages", "value_targets")
    with pytest.raises(BatchError, match="a dict of columns"):
        rllib.SampleBatch({"obs": [1]})


def test_batches_are_made_and_taken_apart():
    items = [{"x": (1, 2.0)}, {"x": (3, 4.0)}]
    batch = rllib.batch(items)

    assert batch["x"][0].tolist() == [1, 3]
    assert rllib.unbatch(batch) == items
    with pytest.raises(BatchError, match="no items"):
        rllib.batch([])


@pytest.mark.parametrize("is_batch", [True, "auto"])
def test_batches_are_joined(is_batch):
    parts = [rllib.BatchedNdArray(np.arange(2)), rllib.BatchedNdArray(np.arange(3))]

    assert rllib.batch(parts, individual_items_already_have_batch_dim=is_batch).tolist() == [0, 1, 0, 1, 2]


def test_flattening_sorts_the_keys():
    assert rllib.flatten_to_single_ndarray({"b": np.ones((2, 2)), "a": (3, torch.tensor(2.5))}).tolist() == [
        3,
        2.5,
        1,
        1,
        1,
        1,
    ]


def test_tensors_become_arrays_and_numbers():
    given = {
        "a": torch.ones(2, dtype=torch.float64),
        "b": (torch.tensor(2), "x", None),
        "c": np.arange(2),
        "d": [torch.tensor(2), {"e": torch.tensor(3)}],
    }
    small, same = rllib.convert_to_numpy(given), rllib.convert_to_numpy(given, reduce_type=False)

    assert small["b"] == (2, "x", None)
    assert small["d"] == [2, {"e": 3}]
    assert [small["a"].dtype, small["c"].dtype] == [np.float32, np.int32]
    assert [same["a"].dtype, same["c"].dtype] == [np.float64, np.int64]


@pytest.mark.parametrize("classes", [1, np.array([0, 2]), torch.tensor([[0], [1]])])
def test_one_hot_vectors_are_rows_of_the_identity(classes):
    assert rllib.one_hot(classes, depth=3).tolist() == np.eye(3)[np.asarray(classes)].tolist()


def test_one_hot_rejects_classes_outside():
    assert rllib.one_hot([0, 1], on_value=2, off_value=-1).tolist() == [[2, -1], [-1, 2]]
    for classes in (-1, 3):
        with pytest.raises(BatchError, match="Correct `depth`"):
            rllib.one_hot(classes, depth=3)


def test_dummy_batches_have_the_asked_axes():
    one_hot = rllib.get_dummy_batch_for_space(NESTED, 2, time_size=3, time_major=True, one_hot_discrete=True)
    drawn = rllib.get_dummy_batch_for_space(NESTED, 4, fill_value="random")

    assert rllib.get_dummy_batch_for_space(NESTED, 2)["a"].tolist() == [0, 0]
    assert rllib.get_dummy_batch_for_space(NESTED, 0, fill_value=1)["b"].tolist() == [1, 1]
    assert (one_hot["a"].shape, one_hot["b"].shape) == ((3, 2, 3), (3, 2, 2))
    assert all(item in NESTED for item in rllib.unbatch(drawn))
    assert rllib.get_base_struct_from_space(NESTED) == dict(NESTED.spaces)


def test_functions_of_logits():
    assert rllib.softmax(np.array([0.0, np.log(3.0)])) == pytest.approx([0.25, 0.75])
    assert rllib.sigmoid(np.array([-1000.0, 0.0, np.log(3.0)])) == pytest.approx([0.0, 0.5, 0.75])
    assert rllib.try_import_torch() == (torch, torch.nn)
    assert rllib.override(object)(len) is len


COMMON = [
    "AddInfosFromEpisodesToTrainBatch",
    "AlgorithmConfig",
    "Columns",
    "ComputeReturnsToGo",
    "ConnectorContext",
    "ConnectorV2",
    "DEFAULT_MODULE_ID",
    "DEFAULT_POLICY_ID",
    "DefaultModelConfig",
    "ENV_RUNNER_RESULTS",
    "EPISODE_RETURN_MEAN",
    "EVALUATION_RESULTS",
    "EnvContext",
    "EpisodeType",
    "Learner",
    "MetricsLogger",
    "MultiAgentEnv",
    "MultiAgentEnvRunner",
    "MultiRLModule",
    "PettingZooEnv",
    "RLModule",
    "RLModuleSpec",
    "RLlibCallback",
    "SampleBatch",
    "SingleAgentEnvRunner",
    "SingleAgentEpisode",
    "StateDict",
    "TensorType",
    "TorchLearner",
    "TorchRLModule",
    "ViewRequirement",
    "convert_to_numpy",
    "convert_to_torch_tensor",
    "flatten_space",
    "one_hot",
    "override",
    "relu",
    "try_import_tf",
    "try_import_torch",
]


@pytest.mark.parametrize("name", COMMON)
def test_names_that_examples_import_most_are_here_or_explained(name):
    assert name in rllib.__all__ or name in rllib._OURS
