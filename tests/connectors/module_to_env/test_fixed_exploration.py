"""Exploration by another amount for a while."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import EpsilonGreedy, PiecewiseLinearSchedule
from episodia.errors import PipelineError

FALLING = PiecewiseLinearSchedule([(0, 1.0), (1000, 0.5)])


def greedy():
    return EpsilonGreedy(input_action_space=spaces.Discrete(100), epsilon=FALLING, seed=0)


def explored(piece):
    return piece(rl_module=None, batch={"actions": np.zeros(100, np.int64)}, episodes=[], explore=True)["actions"]


def test_an_amount_holds_inside_of_the_block_only():
    piece = greedy()
    with piece.fixed_at(0.0):
        assert not explored(piece).any()

    assert explored(piece).any()
    assert piece.amount == FALLING.at(200)


def test_steps_are_counted_inside_of_the_block():
    piece = greedy()
    with piece.fixed_at(0.0):
        explored(piece)

    assert piece.steps == 100


def test_the_schedule_holds_again_after_an_error():
    piece = greedy()
    with pytest.raises(KeyError), piece.fixed_at(0.0):
        raise KeyError

    assert piece.amount == 1.0


@pytest.mark.parametrize("junk", [-1.0, "none", None])
def test_an_amount_is_a_number_of_at_least_0(junk):
    with pytest.raises(PipelineError, match="amount"), greedy().fixed_at(junk):
        pass
