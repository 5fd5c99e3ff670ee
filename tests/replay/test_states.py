"""A buffer continues from its state, and from files in memory, exactly as it would have."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.errors import ReplayError
from episodia.replay import (
    AtMost,
    Fresh,
    InMemory,
    InOrder,
    MemoryMapped,
    Proportional,
    ReplayBuffer,
    Selection,
    Sequences,
    Uniform,
)
from plain_buffer import HISTORIES, PlainBuffer, check_steps, played

SELECTORS = [Uniform, Proportional, lambda: InOrder("newest", times=9), lambda: AtMost(9), lambda: Fresh(most=3)]


def everything(episodes):
    names = ("obs", "actions", "rewards", "terminateds", "truncateds", "t", *episodes.extra_columns())
    return {name: episodes.flat(name, tail=name == "obs").values.tolist() for name in names}


@pytest.mark.parametrize("selector", SELECTORS)
@settings(max_examples=10)
@given(history=HISTORIES, later=HISTORIES, capacity=st.integers(40, 160))
def test_a_buffer_goes_on_from_its_state(selector, history, later, capacity):
    first, second = (ReplayBuffer(capacity, selector=selector(), seed=3) for _ in range(2))
    played(first, history)
    state = first.get_state()

    second.set_state(state)

    plain = PlainBuffer()
    chunks = [plain.chunk(100 + number, 3, "truncated") for number in range(len(later))]
    for buffer in (first, second):
        buffer.add(chunks)
    assert everything(first.episodes()) == everything(second.episodes())
    assert everything(first.sample(5)) == everything(second.sample(5))


def test_growing_episodes_go_on_after_a_state():
    first, second = ReplayBuffer(64, seed=0), ReplayBuffer(64, seed=0)
    plain = PlainBuffer()
    first.add([plain.chunk(0, 4)])
    second.set_state(first.get_state())

    second.add([plain.chunk(0, 4, "terminated")])

    assert len(check_steps(second.episodes(), plain)) == 8
    assert len(second.episodes()) == 1


def test_a_state_belongs_to_buffers_with_the_same_arguments():
    with pytest.raises(ReplayError, match="Make the buffer with the same arguments"):
        ReplayBuffer(64).set_state(ReplayBuffer(65).get_state())


def unfit_states():
    filled = ReplayBuffer(64, selector=AtMost(3), seed=0)
    filled.add([PlainBuffer().chunk(0, 4)])
    states = {name: filled.get_state() for name in ("generator", "modules", "no tables", "column")}
    states["generator"]["generator"] = {"state": 1}
    states["modules"]["modules"] = ["one", "two"]
    del states["no tables"]["tables"]
    states["column"]["tables"][0]["columns"]["columns"]["obs"] = [1]
    return [None, 3, [], {}, *states.values()]


@pytest.mark.parametrize("state", unfit_states())
def test_a_state_that_does_not_fit_changes_nothing(state):
    buffer = ReplayBuffer(64, selector=AtMost(3), seed=0)
    buffer.add([PlainBuffer().chunk(0, 6)])

    with pytest.raises(ReplayError, match=r"ReplayBuffer.set_state: found .*expected "):
        buffer.set_state(state)
    assert len(buffer) == 6


@pytest.mark.parametrize("selectors", [(Proportional, Uniform), (Uniform, Proportional), (AtMost, Proportional)])
def test_a_state_belongs_to_a_buffer_with_the_same_selector(selectors):
    saved, other = (ReplayBuffer(64, selector=kind(3) if kind is AtMost else kind()) for kind in selectors)
    saved.add([PlainBuffer().chunk(0, 6)])

    with pytest.raises(ReplayError, match="Make the buffer with the same selector"):
        other.set_state(saved.get_state())
    assert len(other) == 0


@settings(max_examples=15)
@given(history=HISTORIES, capacity=st.integers(40, 160), evict=st.sampled_from(["steps", "episodes", "reservoir"]))
def test_files_hold_what_memory_holds(tmp_path_factory, history, capacity, evict):
    storages = [InMemory(), MemoryMapped(tmp_path_factory.mktemp("rows"))]
    buffers = [ReplayBuffer(capacity, evict=evict, storage=storage, seed=0) for storage in storages]
    for buffer in buffers:
        played(buffer, history)
    if not len(buffers[0]):
        return

    memory, mapped = (everything(buffer.sample(30, Sequences(3))) for buffer in buffers)

    assert memory == mapped


def test_columns_are_mapped_from_files(tmp_path):
    buffer = ReplayBuffer(64, storage=MemoryMapped(tmp_path), seed=0)
    buffer.add([PlainBuffer().chunk(0, 4)])

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "default_policy.actions.rows",
        "default_policy.obs.rows",
        "default_policy.rewards.rows",
    ]


def test_objects_are_not_mapped_from_files(tmp_path):
    buffer = ReplayBuffer(64, storage=MemoryMapped(tmp_path), infos=True, seed=0)

    with pytest.raises(ReplayError, match="Use `storage=InMemory"):
        buffer.add([PlainBuffer().chunk(0, 4)])
    assert len(buffer) == 0


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
@pytest.mark.parametrize("selector", SELECTORS)
def test_a_copy_goes_on_alone_from_the_same_state(copied, selector):
    buffer, plain = ReplayBuffer(100, evict="episodes", selector=selector(), seed=3), PlainBuffer()
    buffer.add([plain.chunk(0, 20)])
    buffer.update_priorities(buffer.sample(8).keys, np.arange(8.0))

    other = copied(buffer)

    assert everything(other.sample(30)) == everything(buffer.sample(30))
    other.add([plain.chunk(0, 4)])
    assert (len(other), len(buffer)) == (24, 20)


def test_buffers_in_files_are_not_copied(tmp_path):
    buffer = ReplayBuffer(64, storage=MemoryMapped(tmp_path), seed=0)

    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ReplayError, match=r"Call `save`, and `load` it into a buffer with another path"):
            copied(buffer)


class Newest:
    """A selector without a state of its own."""

    def on_add(self, rows, added):
        self.last = rows[-1]

    def on_evict(self, rows):
        pass

    def select(self, num, steps, rng):
        return Selection(np.repeat(self.last, num))

    def update(self, rows, values):
        pass


@pytest.mark.parametrize("evict", ["steps", "episodes", "reservoir"])
def test_a_selector_without_state_is_told_of_the_steps_of_a_loaded_buffer(evict):
    first, second = (ReplayBuffer(32, evict=evict, selector=Newest(), seed=0) for _ in range(2))
    plain = PlainBuffer()
    for number in range(9):
        first.add([plain.chunk(number, 5, "truncated")])
    second.set_state(first.get_state())

    stored = second.episodes().flat("actions").values

    assert second.sample(3).flat("actions").values.tolist() == [stored.max()] * 3
