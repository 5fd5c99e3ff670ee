"""Values come back from bytes as they were, bit for bit; bytes from elsewhere are rejected and run no code."""

import contextlib
import json
import math
import struct
import time
import tracemalloc

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from episodia.errors import StoreError
from episodia.store import Rows, packed, unpacked
from episodia.store.store_limits import MAX_VALUES_PARTS
from episodia.testing import assert_same_items

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "<U5", ">U2", "S3"]
DTYPES += ["<M8[ns]", "<m8[s]", ">M8[D]"]
LAYOUTS = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "reversed": lambda array: array[::-1],
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
    "read-only": lambda array: array,
    "empty": lambda array: array[:0],
    "without axes": lambda array: array[0, 0, ...],
    "one axis of 0": lambda array: array[:, :0],
    "transposed": lambda array: array.T,
}
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.sampled_from([np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("a"), np.uint16(7)])
)
values = st.recursive(
    scalars | arrays.arrays(st.sampled_from([np.int32, np.float64, np.uint8]), arrays.array_shapes(min_side=0)),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.integers()), inner)
        | st.tuples(inner, inner)
        | inner.map(lambda value: [value] * 5)
    ),
    max_leaves=15,
)


def returned(value, rows=()):
    return unpacked(packed(value), rows)


def forged(value, forms=(), contents=b""):
    """Return bytes with any JSON in them."""
    content = value if isinstance(value, bytes) else json.dumps({"value": value, "arrays": list(forms)}).encode()
    content = len(content).to_bytes(8, "little") + content
    return content + bytes(-len(content) % 16) + contents if contents else content


@given(values)
def test_values_are_the_same_after_packing(value):
    assert_same_items(returned(value), value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_s10_arrays_keep_dtype_shape_and_bits(dtype, layout):
    content = np.random.default_rng(0).integers(0, 2, 240).astype(np.uint8).tobytes() * 40
    array = LAYOUTS[layout](np.frombuffer(content, dtype, 24).reshape(4, 3, 2))
    if np.dtype(dtype).kind == "U":
        array = LAYOUTS[layout](np.array(list("abcdefgh") * 3, dtype).reshape(4, 3, 2))
    found = returned([array])[0]

    assert isinstance(found, np.ndarray | np.generic)
    assert (found.dtype.str, found.shape) == (array.dtype.str, array.shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 2.0**1000])
def test_floats_keep_their_bits(number):
    assert struct.pack("d", returned(number)) == struct.pack("d", number)


def test_nan_payloads_are_kept():
    payload = struct.unpack("d", b"\x01\x02\x03\x00\x00\x00\xf8\x7f")[0]

    assert struct.pack("d", returned(payload)) == b"\x01\x02\x03\x00\x00\x00\xf8\x7f"


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3, 2**70],
        [True, 1, True, 1, True],
        [np.array(1), np.array(2), np.array(3), np.array(4)],
        [np.zeros(2, ">f4")] * 5,
        [{"a": 1}] * 4,
        [{}] * 6,
        [{"a": [1.5], "b": (1,)}] * 7,
        [np.str_("a"), np.str_("long"), np.str_("b"), np.str_("c")],
        {"$array": 0, "$$": {"$dict": []}},
        ["\ud83d\ude00", "\ud800", "😀"],
        ["\ud83d\ude00", "", "\ud800", "é"] * 20,
        [[1, "a"], [2, "b"]] * 40,
        [[[1.5], ("x",)]] * 70,
        [[]] * 70,
        [[1], [1, 2]] * 40,
        {"\ud800": 1, "": 2},
        np.array([{"a": (1, 2)}, "x", None], object),
    ],
    ids=repr,
)
def test_values_that_were_hard_are_the_same(value):
    assert_same_items(returned(value), value)


def test_graphs_come_back_as_graphs():
    graph = GraphInstance(np.zeros((2, 3)), None, np.zeros((0, 2), np.int64))

    assert isinstance(returned(graph), GraphInstance)
    assert_same_items(tuple(returned(graph)), tuple(graph))


def test_many_infos_take_few_bytes():
    infos = [{"lives": 3, "x": float(t)} for t in range(10_000)]

    assert len(packed(infos)) < 2 * 8 * len(infos) + 1000
    assert_same_items(returned(infos), infos)


def test_rows_that_are_stored_elsewhere_are_given_when_unpacking():
    rows = np.arange(3)

    assert returned({"obs": Rows(0)}, [rows])["obs"] is rows


def test_arrays_are_read_only_views_of_the_bytes():
    content = packed(np.arange(4.0))
    found = unpacked(memoryview(content), [])

    assert not found.flags.writeable
    assert np.shares_memory(found, np.frombuffer(content, np.uint8))
    assert found.ctypes.data % 8 == np.frombuffer(content, np.uint8).ctypes.data % 8


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [print]}, r"\['a'\]\[0\]: found a builtin_function_or_method"),
        ({"a": {1, 2}}, "found a set"),
        (np.zeros(2, [("x", "i4")]), "found an array of"),
        (1 << 5000, "found an integer of 5001 bits"),
    ],
)
def test_other_values_are_rejected_with_their_place(value, words):
    with pytest.raises(StoreError, match=words):
        packed(value)


def test_values_that_contain_themselves_are_rejected():
    loop = []
    loop.append(loop)

    with pytest.raises(StoreError, match="levels"):
        packed(loop)


BOMBS = {
    "an array beyond the end": forged({"$array": 0}, [["<f8", [2**40]]]),
    "sizes that offset each other": forged({"$array": 0}, [["<f8", [2**40, 0, 2**40]]]),
    "negative sizes": forged({"$array": 0}, [["<f8", [-1, -8]]]),
    "objects": forged({"$array": 0}, [["|O", [1]]]),
    "an unknown entry": forged({"$module": "os"}),
    "two marks": forged({"$array": 0, "$tuple": []}),
    "rows that are not there": forged({"$rows": 3}),
    "a negative number": forged({"$rows": -1}),
    "a key that is a list": forged({"$dict": [[[], 1]]}),
    "a deep nesting": forged(b'{"value":' + b"[" * 10_000 + b"]" * 10_000 + b',"arrays":[]}'),
    "many lists": forged(b'{"value":[' + b"[]," * 2_000_000 + b'1],"arrays":[]}'),
    "a length beyond the end": (2**60).to_bytes(8, "little"),
    "no JSON": forged(b"\x80\x04."),
    "a wrong shape of objects": forged({"$objects": [[2**50], []]}),
    "a graph of nothing": forged({"$graph": []}),
    "many rows without content": forged({"$arrays": 0}, [["<f8", [2**40, 0]]]),
    "many numbers without content": forged({"$floats": 0}, [["<f8", [2**40, 0]]]),
    "many letters without content": forged({"$letters": 0}, [["<u4", [2**40, 0]]]),
    "one array in many places": forged([{"$floats": 0}] * 1000, [["<f8", [10**5]]], bytes(8 * 10**5)),
    "an invalid character": forged({"$letters": 0}, [["<u4", [0]]])[:-1] + b"x",
}


@pytest.mark.parametrize("name", BOMBS)
def test_s7_bytes_from_elsewhere_are_rejected_quickly_and_with_little_memory(name):
    begin = time.perf_counter()
    tracemalloc.start()
    with pytest.raises(StoreError, match="found"):
        unpacked(BOMBS[name], [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 100e6
    assert time.perf_counter() - begin < 30  # the machine may be busy


def test_more_rows_without_content_than_can_be_read_are_not_stored():
    many = [np.empty(0)] * (MAX_VALUES_PARTS + 1)

    with pytest.raises(StoreError, match="strings, brackets and commas"):
        packed(many)
    assert len(returned(many[:5000])) == 5000


def test_rows_that_are_stored_elsewhere_are_given_once():
    with pytest.raises(StoreError, match="in two places"):
        unpacked(packed([Rows(0), Rows(0)]), [np.zeros(3)])


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_any_byte_may_be_wrong(place, byte):
    content = bytearray(packed({"goal": (1.5, np.arange(3)), 7: b"seven", "list": [{"a": 1.0}] * 5}))
    content[place % len(content)] = byte
    # Some bytes, such as padding, may have any value.
    with contextlib.suppress(StoreError):
        unpacked(bytes(content), [])
