"""Damaged, truncated, swapped and foreign files are errors that name the file, and run no code."""

import hashlib
import json
import os
import pickle
import time
import tracemalloc

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episodia.checkpoints import load_state, save_state
from episodia.errors import CheckpointError

STATE = {"weights": {"w": torch.arange(8.0), "b": torch.zeros(2)}, "filter": np.arange(3), "steps": 7, "x": [1.5, None]}
PARTS = ("manifest", "state", "tensors")
NO_FIXTURE_CHECK = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def saved(tmp_path):
    save_state(tmp_path / "saved", STATE)
    return tmp_path / "saved"


def file_of(directory, part):
    return next(file for file in directory.iterdir() if file.name.startswith(part))


def refused(directory, file=None, words="found"):
    """Check that loading raises an error that names the file."""
    with pytest.raises(CheckpointError, match=words) as caught:
        load_state(directory)
    assert file is None or str(file) in str(caught.value)


@pytest.mark.parametrize("part", PARTS)
def test_s1_every_flipped_byte_of_every_file_is_detected(saved, part):
    file = file_of(saved, part)
    content = file.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        # A damaged checksum is found where it does not fit.
        refused(saved)
    file.write_bytes(content)
    assert load_state(saved)["steps"] == 7


@settings(max_examples=60, suppress_health_check=NO_FIXTURE_CHECK)
@given(part=st.sampled_from(PARTS), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_byte_that_is_replaced_is_detected(saved, part, place, byte):
    file = file_of(saved, part)
    content = file.read_bytes()
    changed = bytearray(content)
    changed[int(place * len(content))] = byte
    file.write_bytes(changed)

    try:
        if changed != content:
            refused(saved)
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("part", PARTS)
def test_s2_every_truncation_is_detected(saved, part):
    file = file_of(saved, part)
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        refused(saved, file)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("more", [b"\0", b"\n", b" ", b"{}"])
def test_s2_appended_bytes_are_detected(saved, part, more):
    file = file_of(saved, part)
    file.write_bytes(file.read_bytes() + more)

    refused(saved, file)


@pytest.mark.parametrize("part", PARTS)
def test_s2_a_missing_file_is_named(saved, part):
    file = file_of(saved, part)
    file.unlink()

    refused(saved, saved if part == "manifest" else file, "found no")


@pytest.mark.parametrize("part", ["state", "tensors"])
def test_s2_files_of_another_checkpoint_are_detected(saved, tmp_path, part):
    save_state(tmp_path / "other", {**STATE, "steps": 8, "filter": np.arange(4)})
    file = file_of(saved, part)
    file.write_bytes(file_of(tmp_path / "other", part).read_bytes())

    refused(saved, file, "another checksum")


def test_the_manifest_of_another_checkpoint_is_detected(saved, tmp_path):
    save_state(tmp_path / "other", {**STATE, "steps": 8})
    (saved / "manifest.json").write_bytes((tmp_path / "other" / "manifest.json").read_bytes())

    refused(saved, words="found no such file")


# --- Something else -------------------------------------------------------------------------------------------------


def test_nothing_there_is_said_so(tmp_path):
    refused(tmp_path / "nowhere", tmp_path / "nowhere", "found no such directory")


@pytest.mark.parametrize("path", ["half \ud800", "zero \0", ""])
def test_what_is_no_name_of_a_directory_is_rejected(path):
    for call in (load_state, lambda path: save_state(path, {"x": 1})):
        with pytest.raises(CheckpointError, match=r"found `path=.*`, expected a path"):
            call(path)


def test_a_directory_of_something_else_is_rejected(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"PK")

    refused(tmp_path, tmp_path, r"found no 'manifest.json' in it")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"format": "zarr"}', b"\xff\xfe", b"[" * 50_000, b"PK\x03\x04"], ids=repr
)
def test_a_foreign_manifest_is_rejected(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)

    refused(tmp_path, tmp_path / "manifest.json", "expected the manifest of a checkpoint")


@pytest.mark.parametrize("version", [2, 1000, "1", None, 1.5])
def test_a_version_from_the_future_is_rejected_with_advice(saved, version):
    file = saved / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": version}))

    refused(saved, file, rf"found version {version!r} of the format, expected 1")


def forged(directory, state=None, tensors=None):
    """Replace contents, and make all checksums fit, as an attacker would."""
    found = {"state": state, "tensors": tensors}
    manifest = json.loads((directory / "manifest.json").read_text())
    for part, content in found.items():
        if content is not None:
            file = file_of(directory, part)
            checksum = hashlib.sha256(content).hexdigest()
            file.unlink()
            (directory / f"{part}-{checksum[:16]}{file.suffix}").write_bytes(content)
            manifest["files"][part] = {"bytes": len(content), "sha256": checksum}
    del manifest["checksum"]
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    manifest["checksum"] = hashlib.sha256(text).hexdigest()
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def test_a_forgery_of_harmless_content_is_loaded(saved):
    forged(saved, state=b'{"a":{"$tensor":"0"},"b":[{"$tensor":"1"},{"$array":"2"}]}')

    assert load_state(saved)["a"].tolist() == list(range(8))


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[" * 20_000 + b"]" * 20_000,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"a":{"$class":"subprocess.Popen","args":["true"]}}',
        b'{"a":{"$tensor":"nothing"}}',
        b'{"a":{"$tensor":["0"]}}',
        b'{"a":{"$tensor":"0"},"b":{"$tensor":"0"}}',
        b'{"a":{"$tensor":"0","more":1}}',
        b'{"a":{"$float":"__import__"}}',
        b'{"a":{"$tuple":3}}',
        b'{"a":{"$array":"2","dtype":"|O8","shape":[3]}}',
        b'{"a":{"$array":"2","dtype":"O","shape":[3]}}',
        b'{"a":{"$array":"2","dtype":"<f4","shape":[1000000000000]}}',
        b'{"a":{"$array":"2","dtype":"<f4","shape":[-1]}}',
        b'{"a":{"$array":"2","dtype":"<f3","shape":[8]}}',
        b'{"a":{"$array":"2","shape":[3]}}',
        b'{"a":1}',
        b'[{"$tensor":"0"},{"$tensor":"1"},{"$array":"2"}]',
        pickle.dumps(Harmful()),
    ],
    ids=lambda content: repr(content[:60]),
)
def test_s5_forged_states_are_rejected_and_run_nothing(saved, content, monkeypatch):
    monkeypatch.chdir(saved)
    forged(saved, state=content)

    refused(saved, file_of(saved, "state"))
    assert not (saved / "harm").exists()


LENIENT = {
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":[Infinity]}',
    "minus infinity": b'{"a":{"b":-Infinity}}',
    "too large for a float": b'{"a":1e999}',
    "a key twice": b'{"a":1,"a":2}',
    "a key twice further in": b'{"x":[{"a":1,"b":2,"a":1}]}',
    "other characters": '{"ä":1}'.encode(),
    "another encoding": '{"a":1}'.encode("utf-16"),
}


@pytest.mark.parametrize("content", LENIENT.values(), ids=LENIENT)
def test_json_that_no_checkpoint_has_is_rejected(saved, content):
    forged(saved, state=content, tensors=safetensors.torch.save({}))

    refused(saved, file_of(saved, "state"), "found invalid or too deeply nested JSON")


LEAVES = {
    "eight bits": ({"$array": "x"}, torch.zeros(2, dtype=torch.float8_e4m3fn)),
    "half": ({"$array": "x"}, torch.zeros(2, dtype=torch.bfloat16)),
    "a tensor of eight bits": ({"$tensor": "x"}, torch.zeros(2, dtype=torch.float8_e5m2)),
    "many axes": ({"$array": "x"}, torch.zeros([1] * 70)),
    "a tensor of many axes": ({"$tensor": "x"}, torch.zeros([1] * 70)),
    "sizes beside 0": ({"$array": "x", "dtype": "<c8", "shape": [0, 2**62, 2**62]}, torch.zeros(0, dtype=torch.uint8)),
    "no size": ({"$array": "x", "dtype": "<c8", "shape": [0, 10**400]}, torch.zeros(0, dtype=torch.uint8)),
    "a scalar with axes": ({"$scalar": "x"}, torch.zeros(2)),
    "no character": (
        {"$scalar": "x", "dtype": "<U1", "shape": []},
        torch.full((4,), 255, dtype=torch.uint8),
    ),
}


@pytest.mark.parametrize("name", LEAVES)
def test_tensors_that_no_checkpoint_has_are_rejected(saved, name):
    entry, tensor = LEAVES[name]
    forged(saved, state=json.dumps({"a": entry}).encode(), tensors=safetensors.torch.save({"x": tensor}))

    refused(saved, file_of(saved, "state"), "the tensor 'x', which cannot be read")


HEADER = b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
HUGE = len(HEADER).to_bytes(8, "little") + HEADER


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 16,
        (1 << 60).to_bytes(8, "little") + b"{}",
        (90).to_bytes(8, "little")
        + b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'.ljust(90),
        pickle.dumps(Harmful()),
    ],
    ids=lambda content: repr(content[:30]),
)
def test_s5_forged_tensors_are_rejected_and_run_nothing(saved, content, monkeypatch):
    monkeypatch.chdir(saved)
    forged(saved, tensors=content)

    refused(saved, file_of(saved, "tensors"), "an invalid safetensors file")
    assert not (saved / "harm").exists()


@pytest.mark.parametrize("part", PARTS)
def test_links_are_not_followed(saved, tmp_path, part):
    file = file_of(saved, part)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")

    refused(saved, file, "cannot be opened")


@pytest.mark.parametrize("part", PARTS)
def test_a_pipe_is_not_waited_for(saved, part):
    file = file_of(saved, part)
    file.unlink()
    os.mkfifo(file)

    refused(saved, file, "not a plain file")


@pytest.mark.parametrize("part", PARTS)
def test_a_directory_in_the_place_of_a_file_is_rejected(saved, part):
    file = file_of(saved, part)
    file.unlink()
    file.mkdir()

    refused(saved, file)


def test_sizes_have_a_limit(saved):
    with pytest.raises(CheckpointError, match=r"found \d+ bytes, expected at most 100\. .*larger `max_bytes`"):
        load_state(saved, max_bytes=100)


@pytest.mark.parametrize("limit", [None, "1", 1.5, -1, True])
def test_an_invalid_limit_is_rejected(saved, limit):
    with pytest.raises(CheckpointError, match=r"load_state: found `max_bytes=.*`, expected an integer of at least 0"):
        load_state(saved, max_bytes=limit)


def test_a_huge_file_is_not_even_read(saved):
    file = file_of(saved, "state")
    os.truncate(file, 1 << 40)

    refused(saved, file, "more than")


# --- Bombs (S7): small files that would take much memory or time ----------------------------------------------------


def many_tensors():
    one = '"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    header = ("{" + ",".join(map(one.format, range(600_000))) + "}").encode()
    return len(header).to_bytes(8, "little") + header


def many_axes():
    header = ('{"0":{"dtype":"F32","shape":[' + "0," * 8_000_000 + '0],"data_offsets":[0,0]}}').encode()
    return len(header).to_bytes(8, "little") + header


BOMBS = {
    "brackets": {"state": b'{"a":[' + b"[]," * 5_000_000 + b"0]}"},
    "nested brackets": {"state": b"[" * 16_000_000},
    "dicts": {"state": b'{"a":[' + b'{"a":{}},' * 1_500_000 + b"0]}"},
    "a string without an end": {"state": b'{"' + b'\\"' * 8_000_000},
    "a long key": {"state": b'{"' + b"k" * 10_000_000 + b'":1}'},
    "tensors": {"tensors": many_tensors()},
    "axes": {"tensors": many_axes()},
}


@pytest.mark.parametrize("name", BOMBS)
def test_s7_a_bomb_is_rejected_in_little_time_and_memory(saved, name):
    forged(saved, **BOMBS[name])
    began = time.process_time()
    tracemalloc.start()
    try:
        refused(saved)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 100e6
    # Watching the memory makes it slower.
    assert time.process_time() - began < 3.0


def test_a_long_list_is_rejected_before_it_is_saved(tmp_path):
    with pytest.raises(CheckpointError, match="as arrays; nothing was written"):
        save_state(tmp_path / "new", {"numbers": [0] * 300_000})
    assert not (tmp_path / "new" / "manifest.json").exists()
