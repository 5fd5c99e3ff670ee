"""What is saved is what is loaded, bit for bit; what cannot be saved is named, and nothing is written."""

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.checkpoints import load_state, save_state
from episodia.errors import CheckpointError, MissingExtraError
from episodia.learners import Learner, PPOConfig
from episodia.modules import default_module


def same(left, right):
    """Tell whether two states are the same to the last bit, types included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, torch.Tensor):
        bits = [part.contiguous().reshape(-1).view(torch.uint8) for part in (left.detach(), right)]
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*bits)
    if isinstance(left, (np.ndarray, np.generic)):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


def through(folder, state):
    save_state(folder / "saved", state)
    return load_state(folder / "saved")


ARRAYS = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(endianness="?"),
        hnp.unsigned_integer_dtypes(endianness="?"),
        hnp.floating_dtypes(endianness="?"),
        hnp.complex_number_dtypes(endianness="?"),
        hnp.unicode_string_dtypes(endianness="?"),
        hnp.byte_string_dtypes(),
        hnp.datetime64_dtypes(),
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
KEYS = st.one_of(
    st.text(max_size=4), st.sampled_from(["$", "$array", "$$x", "a/b", "#2", "", "0", "__metadata__", "\ud800"])
)
STATES = st.recursive(
    st.one_of(NUMBERS, ARRAYS, ARRAYS.filter(lambda array: array.dtype.kind == "f").map(lambda array: array.sum())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(state=st.dictionaries(KEYS, STATES, max_size=4))
def test_every_state_comes_back_as_it_was(tmp_path, state):
    assert same(through(tmp_path, state), state)


TENSORS = {
    "scalar": torch.tensor(3.5),
    "without elements": torch.zeros(0, 4),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "every second": torch.arange(6)[::2],
    "broadcast": torch.ones(1).expand(3),
    "half": torch.tensor([1.5, math.nan], dtype=torch.bfloat16),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "switches": torch.tensor([True, False]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_every_layout_come_back_as_plain_tensors(tmp_path, name):
    tensor = TENSORS[name]

    loaded = through(tmp_path, {"x": tensor})["x"]

    assert type(loaded) is torch.Tensor
    assert not loaded.requires_grad
    assert same(loaded, tensor.detach())


@pytest.mark.parametrize("order", ["F", "strided", "reversed", "broadcast", "read-only"])
def test_arrays_of_every_layout_come_back_in_order(tmp_path, order):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    layouts = {"F": np.asfortranarray(array), "strided": array[:, ::2], "reversed": array[::-1]}
    layouts |= {"broadcast": np.broadcast_to(array[0], (2, 4)), "read-only": array.copy()}
    layouts["read-only"].flags.writeable = False

    loaded = through(tmp_path, {"x": layouts[order]})["x"]

    assert same(loaded, layouts[order])
    assert loaded.flags.writeable


def test_bits_of_nan_are_kept(tmp_path):
    array = np.array([0x7FC00001, 0xFFC00000, 0x80000000], np.uint32).view(np.float32)

    assert same(through(tmp_path, {"x": array})["x"], array)


def test_one_tensor_under_two_names_is_saved_under_both(tmp_path):
    shared = torch.ones(3)

    assert same(through(tmp_path, {"a": shared, "b": {"c": shared[1:]}}), {"a": shared, "b": {"c": torch.ones(2)}})


def test_a_learner_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path):
    def learner(seed):
        module = default_module(OBSERVATIONS, ACTIONS, hidden=(8,), generator=torch.Generator().manual_seed(seed))
        return Learner(module, PPOConfig(), seed=seed)

    first, second = learner(0), learner(1)
    first.update([drive(9)], num_epochs=2, minibatch_size=4)
    second.set_state(through(tmp_path, first.get_state()))
    for one in (first, second):
        one.update([drive(9, seed=1)], num_epochs=2, minibatch_size=4)

    assert same(second.get_state(), first.get_state())


# --- What cannot be saved -------------------------------------------------------------------------------------------


def nested(depth):
    return [] if depth == 0 else [nested(depth - 1)]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": {"b": object()}}, r"state\['a'\]\['b'\]: found a object, expected JSON values"),
        ({"a": [1, {2}]}, r"state\['a'\]\[1\]: found a set"),
        ({"a": {3: 1}}, r"state\['a'\]: found the key 3, expected strings"),
        ({"k" * 2000: 1}, r"state: found the key .* expected strings of at most 1024"),
        ({"a": b"raw"}, r"found a bytes"),
        ({"a": len}, r"found a builtin_function"),
        ({"a": np.array([object()])}, r"state\['a'\]: found an array of object"),
        ({"a": np.zeros(2, [("x", "f4")])}, r"state\['a'\]: found an array of \[\('x', '<f4'\)\]"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, r"state\['a'\]: found a tensor of torch.complex64"),
        ({"a": torch.zeros(2, 2).to_sparse()}, r"found a tensor of torch.float32, torch.sparse_coo"),
        ({"a": torch.zeros(2, device="meta")}, r"found a tensor .* on meta"),
        ({"a": nested(100)}, r"found more than 64 levels"),
        ({"a": 1 << 5000}, r"found an integer of 5001 bits"),
        ({"a": "x" * (1 << 24)}, r"found 16777224 bytes of JSON, without tensors and arrays"),
        ({"a": np.zeros([1] * 40, np.complex64)}, r"state\['a'\]: found 40 axes, expected at most 32"),
        ({"a": np.zeros([1] * 40)}, r"state\['a'\]: found 40 axes"),
        ({"a": torch.zeros([1] * 70)}, r"state\['a'\]: found 70 axes"),
        # In JSON they would be one character, and another key.
        ({"a": "\ud800\udc00"}, r"state\['a'\]: found the string .* without pairs of surrogates"),
        ({"\ud800\udc00": 1, "\U00010000": 2}, r"state: found the key .* without pairs of surrogates"),
        (None, r"state: found a NoneType, expected a dict"),
        ([1], r"state: found a list, expected a dict"),
        (np.zeros(2), r"state: found a ndarray, expected a dict"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_cannot_be_saved_is_named_and_a_good_checkpoint_stays(tmp_path, state, words):
    save_state(tmp_path / "good", {"weights": np.ones(3)})
    for name in ("good", "new"):
        with pytest.raises(CheckpointError, match=words):
            save_state(tmp_path / name, state)

    assert [file.name for file in tmp_path.iterdir()] == ["good"]
    assert load_state(tmp_path / "good")["weights"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("key", ["__metadata__", "\ud800", "a/b", "", "k" * 1000])
def test_arrays_may_have_any_key(tmp_path, key):
    state = {key: np.ones(2), "a": {"b": torch.zeros(3)}}

    assert same(through(tmp_path, state), state)


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)

    with pytest.raises(MissingExtraError, match=r'pip install "episodia\[train\]"'):
        save_state(tmp_path / "saved", {"x": 1})
    assert list(tmp_path.iterdir()) == []
