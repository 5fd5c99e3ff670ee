"""`check_selector` accepts our selectors, and finds what is wrong with others."""

import numpy as np
import pytest

from episodia.errors import SubjectError
from episodia.replay import AtMost, Fresh, InOrder, Proportional, Selection, Uniform
from episodia.testing import check_selector

OURS = [
    Uniform,
    Proportional,
    lambda: Proportional(1.0, 1.0, 0.0, "buffer"),
    lambda: InOrder("newest"),
    lambda: InOrder("oldest"),
    lambda: AtMost(50),
    lambda: Fresh(decay=0.9),
]


@pytest.mark.parametrize("make", OURS)
def test_our_selectors_follow_the_laws(make):
    check_selector(make)


class Minimal:
    def on_add(self, rows, added):
        self.rows = rows

    def on_evict(self, rows):
        pass

    def select(self, num, steps, rng):
        return Selection(steps.rows()[:1].repeat(num))

    def update(self, rows, values):
        pass


class KeepsEvictedRows(Minimal):
    def select(self, num, steps, rng):
        return Selection(np.resize(np.arange(60), num * 8)[::8])


class TooFew(Minimal):
    def select(self, num, steps, rng):
        return Selection(steps.rows()[: num - 1])


class CountsFromTheEnd(Minimal):
    def select(self, num, steps, rng):
        return Selection(steps.rows()[:1].repeat(num) - steps.capacity)


class OwnGenerator(Minimal):
    rng = np.random.default_rng()

    def select(self, num, steps, rng):
        return Selection(self.rng.choice(steps.rows(), num))


class NegativeWeights(Minimal):
    def select(self, num, steps, rng):
        return Selection(steps.rows()[:1].repeat(num), -np.ones(num))


class ForgetsItsState(Minimal):
    count = 0

    def select(self, num, steps, rng):
        self.count += 1
        return Selection(np.roll(steps.rows(), self.count)[:num])

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def test_a_selector_of_four_methods_is_enough():
    check_selector(Minimal)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (KeepsEvictedRows, "expected 8 rows of steps"),
        (TooFew, r"found \(int64\[7\], None\)"),
        (CountsFromTheEnd, "found negative rows"),
        (OwnGenerator, "Draw from the generator"),
        (NegativeWeights, "weights that are not positive"),
        (ForgetsItsState, "other steps after `set_state`"),
    ],
)
def test_faults_are_found(make, message):
    with pytest.raises(AssertionError, match=message):
        check_selector(make)


def test_something_else_than_a_selector_is_rejected():
    with pytest.raises(SubjectError, match="expected a selector"):
        check_selector(dict)
