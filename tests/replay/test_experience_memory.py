"""A memory returns the steps that a registered sampler asks for, and no others."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.errors import ReplayError
from episodia.replay import ExperienceMemory
from plain_buffer import HISTORIES, PlainBuffer, check_steps, located, played


class _Memory:
    """A memory with the method that buffers have."""

    def __init__(self, memory):
        self.add = memory.put


class Remembering:
    """Keeps the step of each position, and asks for a few of those that are stored."""

    def __init__(self, memory, num):
        self.memory, self.num, self.steps = memory, num, {}

    def on_put(self, experiences, positions):
        self.steps |= dict(zip(positions.tolist(), located(experiences.flat("actions").values), strict=True))

    def get(self):
        self.asked = self.memory.positions[:: max(1, len(self.memory.positions) // self.num)]
        return self.asked


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160), overwrite_type=st.sampled_from(["rolling", "random"]))
def test_a_sampler_gets_the_steps_whose_positions_it_was_told(history, capacity, overwrite_type):
    memory = ExperienceMemory(capacity, overwrite_type, seed=0)
    memory.register_sampler(Remembering, num=5)
    plain = played(_Memory(memory), history)
    if not memory.size:
        return

    sampled = memory.get()

    sampler = memory._sampler
    assert len(memory.positions) == memory.size == len(memory)
    assert check_steps(sampled, plain) == [sampler.steps[position] for position in sampler.asked.tolist()]


def test_without_a_sampler_all_steps_are_returned():
    memory, plain = ExperienceMemory(100, "random", seed=0), PlainBuffer()
    memory.put([plain.chunk(0, 3), plain.chunk(1, 4)])

    assert set(check_steps(memory.get(), plain)) == plain.steps()

    memory.clear()
    assert len(memory) == 0


class Asking:
    def __init__(self, memory, asked):
        self.asked = asked

    def on_put(self, experiences, positions):
        pass

    def get(self):
        return self.asked


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([99], "position 99"),
        ([-1], "position -1"),
        ([1000], "position 1000"),
        ([], "at least one"),
        (["a"], "at least"),
    ],
)
def test_positions_without_a_step_are_rejected(asked, words):
    memory = ExperienceMemory(100)
    memory.register_sampler(Asking, asked=asked)
    memory.put([PlainBuffer().chunk(0, 3)])

    with pytest.raises(ReplayError, match=words):
        memory.get()


def test_wrong_arguments_are_rejected():
    with pytest.raises(ReplayError, match="overwrite_type"):
        ExperienceMemory(100, "sometimes")
    with pytest.raises(ReplayError, match="on_put"):
        ExperienceMemory(100).register_sampler(np.array)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_memory_is_not_copied_because_its_sampler_knows_its_positions(copied):
    with pytest.raises(ReplayError, match="Make another one"):
        copied(ExperienceMemory(100))
