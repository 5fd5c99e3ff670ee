"""All laws of a buffer at once: what was added, evicted, sampled, updated, restored and mapped, in any order."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from episodia import MultiAgentEpisode
from episodia.errors import StaleSampleError
from episodia.replay import (
    InMemory,
    MemoryMapped,
    Proportional,
    ReplayBuffer,
    Sequences,
    Transitions,
    Uniform,
    WholeEpisodes,
)
from episodia.replay.rows.row_index import HOP, STEP
from plain_buffer import CHUNKS, PlainBuffer, check_steps, columns, located, next_observations, place

FORMS = [list, list, lambda chunks: list(map(as_only_agent, chunks))]
SELECTORS = {"uniform": Uniform, "proportional": lambda: Proportional(alpha=0.7, epsilon=0.1)}


def as_only_agent(chunk):
    """The same chunk of a multi-agent episode with one agent."""
    columns = (chunk.get_observations(), chunk.get_actions(), chunk.get_rewards())
    observations, actions, rewards = ([{"only": item} for item in column] for column in columns)
    return MultiAgentEpisode(
        chunk.id_,
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminateds={"__all__": chunk.is_terminated},
        truncateds={"__all__": chunk.is_truncated},
        env_t_started=chunk.t_started,
        agent_t_started={"only": chunk.t_started},
        len_lookback_buffer=0,
    )


class BufferMachine(RuleBasedStateMachine):
    """A buffer in memory, one in files, and one of the only agents of multi-agent episodes, beside an oracle of plain lists."""

    folder = None

    @initialize(
        capacity=st.integers(24, 120),
        evict=st.sampled_from(["steps", "episodes", "reservoir"]),
        selector=st.sampled_from(sorted(SELECTORS)),
    )
    def begin(self, capacity, evict, selector):
        self.settings = {"capacity": capacity, "evict": evict, "selector": SELECTORS[selector](), "seed": 0}
        self.path = self.folder.mktemp("rows")
        self.storages = [InMemory(), MemoryMapped(self.path / "rows"), InMemory()]
        self.buffers = [ReplayBuffer(storage=storage, **self.settings) for storage in self.storages]
        self.plain, self.lanes, self.begun, self.held = PlainBuffer(), {}, 0, []

    # --- Rules ------------------------------------------------------------------------------------------------------

    @rule(chunks=CHUNKS)
    def add(self, chunks):
        episodes = []
        for lane, length, end in chunks:
            if lane not in self.lanes:
                self.lanes[lane], self.begun = self.begun, self.begun + 1
            episodes.append(self.plain.chunk(self.lanes[lane], length, end))
            if end:
                del self.lanes[lane]
        before = len(self.buffers[0])
        ours, *others = (buffer.add(form(episodes)) for buffer, form in zip(self.buffers, FORMS, strict=True))

        assert others == [ours, ours]
        assert ours.num_steps == sum(map(len, episodes))
        assert len(self.buffers[0]) <= before + ours.num_steps

    def has_steps(self):
        return len(self.buffers[0]) > 0

    def samples(self, *arguments, **options):
        """What all buffers draw, which is the same."""
        samples = [buffer.sample(*arguments, **options) for buffer in self.buffers]
        assert len({tuple(sample.keys.tolist()) for sample in samples}) == 1
        assert len({tuple(sample.flat("obs").values.tolist()) for sample in samples}) == 1
        return samples

    @precondition(has_steps)
    @rule(num=st.integers(1, 30))
    def sample_transitions(self, num):
        samples = self.samples(num)
        steps = check_steps(samples[0], self.plain)
        self.held = [*self.held[-3:], (samples, steps)]

        assert set(steps) <= self.stored()
        assert [check_steps(sample, self.plain) for sample in samples[1:]] == [steps, steps]

    @precondition(has_steps)
    @rule(n=st.integers(2, 9))
    def sample_n_steps(self, n):
        sampled, *_ = self.samples(20, Transitions(n, 0.5))
        found = zip(
            next_observations(sampled),
            *columns(sampled, "rewards", "discounts", "terminateds", "truncateds"),
            strict=True,
        )

        assert list(found) == [self.plain.n_step(*step, n, 0.5) for step in located(sampled.flat("obs").values)]

    @precondition(has_steps)
    @rule(length=st.integers(1, 9), burn_in=st.integers(0, 3))
    def sample_sequences(self, length, burn_in):
        sampled, *_ = self.samples(10, Sequences(length, burn_in))
        check_steps(sampled, self.plain)
        for numbers in sampled.flat("obs").split():
            (walk, t), *_ = located(numbers)
            assert numbers.tolist() == [place(walk, t + i) for i in range(len(numbers))]

    @precondition(has_steps)
    @rule(count=st.integers(1, 4), draw=st.sampled_from([Transitions(), Sequences(3), WholeEpisodes()]))
    def sample_stacks(self, count, draw):
        stored = self.stored()
        if not any(t == 0 or {(walk, t - i) for i in range(count)} <= stored for walk, t in stored):
            return
        for sampled in self.samples(10, draw, lookback=count - 1):
            found = sampled.windows("obs", shifts=range(1 - count, 1), fill=-1).values.tolist()

            assert found == [
                [place(walk, u) if u >= 0 else -1 for u in range(t + 1 - count, t + 1)]
                for walk, t in check_steps(sampled, self.plain)
            ]

    @precondition(lambda self: bool(self.held))
    @rule(values=st.lists(st.floats(0.0, 1e30), min_size=1, max_size=5))
    def update_what_was_sampled(self, values):
        samples, steps = self.held.pop(0)
        priorities = np.resize(values, len(steps))
        stored = self.stored()

        counts = [
            buffer.update_priorities(sampled.keys, priorities)
            for buffer, sampled in zip(self.buffers, samples, strict=True)
        ]

        assert counts == [sum(step not in stored for step in steps)] * 3
        for step, found in self.read_again(samples[0]):
            assert step == found

    def read_again(self, sampled):
        """The steps of a sample that was drawn some time ago, as they are read now."""
        try:
            values = sampled.flat("actions").values
        except StaleSampleError:
            return []
        return zip(located(values), located(sampled.flat("obs").values), strict=True)

    @rule(source=st.integers(0, 1), is_saved=st.booleans())
    def restore(self, source, is_saved):
        """The first two go on from the state of one of them, also with the other storage."""
        before = [self.buffers[source], self.buffers[source], self.buffers[2]]
        after = [ReplayBuffer(storage=storage, **self.settings) for storage in self.storages]
        states = [buffer.get_state() for buffer in before]
        for old, new, state in zip(before, after, states, strict=True):
            if is_saved:
                old.save(self.path / "saved")
                new.load(self.path / "saved")
            else:
                new.set_state(state)
        self.buffers, self.held = after, []

    @rule()
    def clear(self):
        for buffer in self.buffers:
            buffer.clear()
        for samples, _ in self.held:
            for sampled in samples:
                with pytest.raises(StaleSampleError):
                    sampled.flat("obs")
        self.plain, self.lanes, self.held = PlainBuffer(), {}, []

    # --- Laws -------------------------------------------------------------------------------------------------------

    def stored(self):
        found = located(self.buffers[0].episodes().flat("actions").values) if self.has_steps() else []
        assert len(set(found)) == len(found)
        return set(found)

    @invariant()
    def what_is_stored_are_steps_that_were_added(self):
        if not hasattr(self, "buffers"):
            return
        assert self.stored() <= self.plain.steps()
        assert {len(buffer) for buffer in self.buffers} == {len(self.stored())}

    @invariant()
    def chains_of_runs_are_whole(self):
        for buffer in getattr(self, "buffers", []):
            for table in buffer._tables.values():
                check_chains(table.writer.index)

    @invariant()
    def exactly_the_steps_have_priorities(self):
        for buffer in getattr(self, "buffers", []):
            for table in buffer._tables.values():
                if isinstance(table.selector, Proportional) and len(buffer):
                    steps = np.flatnonzero(table.writer.index.kind & STEP)
                    assert np.flatnonzero(table.selector.priorities).tolist() == steps.tolist()


def check_chains(index):
    """Runs of an episode follow each other in time, and each row knows its run; kinds and counts fit."""
    rows = Counter()
    for episode in index.episodes.in_use().tolist():
        run, before, t = int(index.episodes.first[episode]), -1, int(index.episodes.t_kept[episode])
        while run >= 0:
            start, stop = int(index.runs.start[run]), int(index.runs.stop[run])
            assert (int(index.runs.prev[run]), int(index.runs.t[run])) == (before, t)
            assert (index.run_of[start:stop] == run).all()
            assert int(index.runs.episode[run]) == episode
            assert bool(index.kind[stop - 1] & HOP) == (index.runs.next[run] >= 0)
            assert not (index.kind[start : stop - 1] & HOP).any()
            rows.update(range(start, stop))
            before, run, t = run, int(index.runs.next[run]), t + stop - start
        assert before == int(index.episodes.last[episode])
        if before >= 0:
            assert t == int(index.episodes.t_stop[episode]) + 1
            assert not index.kind[int(index.runs.stop[before]) - 1] & STEP
    assert set(rows.values()) <= {1}
    assert set(np.flatnonzero(index.run_of >= 0).tolist()) == set(rows)
    assert np.count_nonzero(index.kind & STEP) == index.num_steps


@pytest.fixture(autouse=True)
def _folder(tmp_path_factory):
    BufferMachine.folder = tmp_path_factory


BufferMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestH7Buffer = BufferMachine.TestCase
