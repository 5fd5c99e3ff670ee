"""Files of policies that ask for more memory than there is: they are rejected before it is taken, and never written."""

import tracemalloc

import numpy as np
import pytest
from gymnasium import spaces

from episodia.checkpoints import save_state
from episodia.connectors import EnvToModulePipeline, FrameStacking
from episodia.errors import CheckpointError
from episodia.modules import RandomModule, default_module
from episodia.policies import Policy

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)


def changed(tmp_path, change):
    """Save a policy of whose state `change` has changed something."""
    state = Policy(default_module(BOX, ACTIONS, hidden=(4,))).get_state()
    change(state)
    save_state(tmp_path / "saved", {"policy": state})
    return tmp_path / "saved"


def box(*shape, dtype="float32"):
    return {"space": "Box", "low": 0.0, "high": 1.0, "shape": list(shape), "dtype": dtype}


def classes(n):
    return {"space": "Discrete", "n": n, "start": 0, "dtype": "int64"}


def choices(nvec, start=0, **shape):
    return {"space": "MultiDiscrete", "nvec": nvec, "start": start, "dtype": "int64", **shape}


MANY, NO_SIZE = "more than 16777216 elements", "found the size .*, expected an integer of at least 0"
HUGE_SPACES = {
    "box": (box(10**6, 10**6), MANY),
    "box in a tuple": ({"space": "Tuple", "spaces": [box(10**12)]}, MANY),
    "boxes by name": ({"space": "Dict", "spaces": [["a", box(2**23)], ["b", box(2**23)], ["c", box(1)]]}, MANY),
    "sequence": ({"space": "Sequence", "feature_space": box(10**9), "stack": False}, MANY),
    "graph": ({"space": "Graph", "node_space": box(10**9), "edge_space": None}, MANY),
    "classes": (classes(10**12), MANY),
    "choices": (choices([[10**9]], [[0]]), MANY),
    "one number for all choices": (choices(2**13, shape=[2**12]), MANY),
    "one start for all choices": (choices([2, 2], shape=[2**30]), MANY),
    "flags": ({"space": "MultiBinary", "n": 2**40}, MANY),
    "flags that seem few": ({"space": "MultiBinary", "n": [2**40], "shape": [1]}, MANY),
    "negative classes beside": ({"space": "Tuple", "spaces": [box(2**27), classes(-(2**40))]}, NO_SIZE),
    "no number of classes": ({"space": "Tuple", "spaces": [box(2**27), classes(float("nan"))]}, NO_SIZE),
    "negative axes": (box(2**14, -1, -(2**14)), NO_SIZE),
    "an array of sizes": (choices([np.full(2, -(2**40)), 2**41]), NO_SIZE),
    "long texts": (box(2**20, dtype="U1000"), "found the dtype 'U1000', expected a numeric dtype"),
}
PLACES = {
    "module": lambda state: state["module"],
    "pipeline": lambda state: state["env_to_module"],
    "piece": lambda state: state["env_to_module"]["pieces"][0],
}
PIECES = {
    "frames": ("FrameStacking", {"num_frames": 2**25}, MANY),
    "frames as a scalar of NumPy": ("FrameStacking", {"num_frames": np.int64(2**25)}, NO_SIZE),
    "actions": ("PrevActionsPrevRewards", {"n_prev_actions": 2**25}, MANY),
    "rewards": ("PrevActionsPrevRewards", {"n_prev_actions": 0, "n_prev_rewards": 2**25}, MANY),
    "negative rewards beside": (
        "PrevActionsPrevRewards",
        {"n_prev_actions": 2**25, "n_prev_rewards": -(2**25)},
        NO_SIZE,
    ),
    "views": ("AddViews", {"views": {"views": {"obs": {"shift": "-99999999:0"}}}}, "found the shift"),
}


def assert_refused_without_much_memory(path, words):
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=words):
        Policy.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2**24


@pytest.mark.parametrize("name", HUGE_SPACES)
@pytest.mark.parametrize("place", PLACES)
def test_a_space_that_no_memory_holds_is_rejected_before_it_is_taken(tmp_path, name, place):
    space, words = HUGE_SPACES[name]
    path = changed(tmp_path, lambda state: PLACES[place](state).update(spaces=[space, None]))

    assert_refused_without_much_memory(path, words)


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("name", PIECES)
def test_a_piece_that_no_memory_holds_is_rejected_before_it_is_taken(tmp_path, name, is_nested):
    made, arguments, words = PIECES[name]
    piece = {"class": made, "arguments": arguments}
    piece = {"pieces": [piece], "spaces": [box(2), classes(3)]} if is_nested else piece
    path = changed(tmp_path, lambda state: state["env_to_module"]["pieces"].insert(0, piece))

    assert_refused_without_much_memory(path, words)


def test_frames_of_large_observations_are_counted_with_their_size(tmp_path):
    frames = {"class": "FrameStacking", "arguments": {"num_frames": 2**6}}
    spaces_and_pieces = {"spaces": [box(2**20), classes(3)], "pieces": [frames]}
    path = changed(tmp_path, lambda state: state["env_to_module"].update(spaces_and_pieces))

    assert_refused_without_much_memory(path, MANY)


def test_what_is_too_large_to_be_loaded_is_not_saved(tmp_path):
    frames = EnvToModulePipeline(connectors=[FrameStacking(num_frames=2**25)])
    for it in (Policy(RandomModule(BOX, spaces.Discrete(2**30))), Policy(RandomModule(BOX, ACTIONS), frames)):
        with pytest.raises(CheckpointError, match=MANY):
            it.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
