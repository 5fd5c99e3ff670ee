"""What all networks are made with: spaces, sizes of layers, generators; and what is rejected."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.errors import ModuleError
from episodia.modules import LSTMActorCritic, MLPActorCritic, default_module

BOX, TWO = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2)

every_network = pytest.mark.parametrize("make", [MLPActorCritic, LSTMActorCritic, default_module])


@every_network
@pytest.mark.parametrize("generator", [0, np.random.default_rng(0), "seed"], ids=["an int", "NumPy's", "a word"])
def test_a_seed_in_place_of_a_generator_is_rejected_with_how_to_make_one(make, generator):
    with pytest.raises(ModuleError, match=r"found `generator=.*Pass `torch\.Generator\(\)\.manual_seed\(0\)`"):
        make(BOX, TWO, generator=generator)


@every_network
@pytest.mark.parametrize(
    ("hidden", "remedy"),
    [(8, r"\(8,\)"), (np.array([8, 8]), r"\(64, 64\)"), ("8", r"\(64, 64\)"), (None, r"\(64, 64\)")],
)
def test_sizes_that_are_not_tuple_are_rejected_with_one(make, hidden, remedy):
    with pytest.raises(
        ModuleError, match=rf"`hidden`: found .*, expected a tuple of sizes.* Pass `{remedy}`, for example"
    ):
        make(BOX, TWO, hidden=hidden)


@every_network
def test_sizes_may_be_integers_of_numpy_and_are_kept_as_those_of_python(make):
    config = make(BOX, TWO, hidden=[np.int64(8), 4]).get_config()

    assert config["hidden"] == [8, 4]
    assert all(type(size) is int for size in config["hidden"])


def test_a_cell_size_may_be_an_integer_of_numpy_and_is_kept_as_one_of_python():
    assert type(LSTMActorCritic(BOX, TWO, cell_size=np.int64(8)).get_config()["cell_size"]) is int


@every_network
@pytest.mark.parametrize("space", [spaces.Dict(), spaces.Tuple([]), spaces.Box(0.0, 1.0, (0,))], ids=str)
def test_observations_without_elements_are_rejected(make, space):
    with pytest.raises(ModuleError, match=r"observation_space: found .* no elements"):
        make(space, TWO)


@every_network
@pytest.mark.parametrize("space", [spaces.MultiDiscrete([]), spaces.Box(0.0, 1.0, (0,))], ids=str)
def test_actions_without_elements_are_rejected(make, space):
    with pytest.raises(ModuleError, match=r"action_space: found .* no elements"):
        make(BOX, space)
