"""Lookback buffers against plain lists: any history of changes, on several buffers that may share their items."""

import copy
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from episodia import LookbackBuffer
from episodia.testing import indices, items
from plain_column import filled, filled_like, place, plain, read, rows

KINDS = {
    "integers": spaces.Discrete(11, start=-5),
    "vectors": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "nested": spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,)), "y": spaces.Tuple([spaces.Discrete(3), spaces.Text(3)])}),
    "strings": spaces.Text(5),
}
SEVERAL = st.integers(0, 4)
# Joining buffers again and again would double them each time.
LONGEST = 24


@dataclass
class Pair:
    """A buffer, and the plain items that it should hold."""

    buffer: LookbackBuffer
    track: list
    lookback: int
    finalized: bool

    def indices(self, reach=4):
        return indices(len(self.track) - self.lookback, self.lookback, reach=reach)


class LookbackBufferMachine(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(sorted(KINDS)), with_space=st.booleans(), count=SEVERAL, data=st.data())
    def start(self, kind, with_space, count, data):
        self.kind, self.space = kind, KINDS[kind] if with_space else None
        self.item = items(KINDS[kind])
        new = self.draw_items(data, count)
        lookback = data.draw(st.integers(0, count + 1))
        self.pairs = [Pair(LookbackBuffer(new, lookback, self.space), plain(new), min(lookback, count), False)]

    def draw_items(self, data, count):
        return data.draw(st.lists(self.item, min_size=count, max_size=count))

    def pick(self, data):
        return self.pairs[data.draw(st.integers(0, len(self.pairs) - 1))]

    def keep(self, *pairs):
        self.pairs = [*self.pairs, *pairs][-3:]

    # --- Changing a buffer ---

    @rule(data=st.data())
    def append(self, data):
        pair, item = self.pick(data), data.draw(self.item)
        pair.buffer.append(item)
        pair.track.append(plain(item))

    @rule(data=st.data(), count=SEVERAL)
    def extend(self, data, count):
        pair, new = self.pick(data), self.draw_items(data, count)
        pair.buffer.extend(new)
        pair.track += plain(new)

    @rule(data=st.data(), index=st.integers(-6, 6))
    def pop(self, data, index):
        pair = self.pick(data)
        position = place(index, size=len(pair.track), lookback=pair.lookback, as_lookback=False)
        if 0 <= position < len(pair.track):
            pair.buffer.pop(index)
            del pair.track[position]
            pair.lookback -= position < pair.lookback
        else:
            with pytest.raises(IndexError):
                pair.buffer.pop(index)

    @rule(data=st.data(), as_lookback=st.booleans())
    def set(self, data, as_lookback):
        pair = self.pick(data)
        index = data.draw(pair.indices(reach=0))
        where = {"as_lookback": as_lookback}
        try:
            places = read(list(range(len(pair.track))), pair.lookback, index, **where)
        except IndexError:
            with pytest.raises(IndexError):
                pair.buffer.set(data.draw(self.item), at_indices=index, neg_index_as_lookback=True)
            return
        single = not isinstance(places, list)
        new = self.draw_items(data, 1 if single else len(places))
        pair.buffer.set(new[0] if single else new, at_indices=index, neg_index_as_lookback=as_lookback)
        for position, item in zip([places] if single else places, new, strict=True):
            pair.track[position] = plain(item)

    @rule(data=st.data())
    def concat(self, data):
        pair, other = self.pick(data), self.pick(data)
        if len(pair.track) + len(other.track) <= LONGEST:
            new = other.track[other.lookback :]
            pair.buffer.concat(other.buffer)
            pair.track += new

    @rule(data=st.data())
    def finalize(self, data):
        pair = self.pick(data)
        pair.buffer.finalize()
        pair.finalized = True

    # --- Making further buffers ---

    @rule(data=st.data(), ends=st.tuples(st.integers(0, 8), st.integers(0, 8)))
    def share(self, data, ends):
        pair = self.pick(data)
        start, stop = sorted(min(end, len(pair.track)) for end in ends)
        lookback = data.draw(st.integers(0, stop - start))
        shared = pair.buffer.share(slice(start, stop), lookback)
        self.keep(Pair(shared, pair.track[start:stop], lookback, pair.finalized))

    @rule(data=st.data(), protocol=st.integers(2, 5))
    def restore(self, data, protocol):
        pair = self.pick(data)
        by_state = LookbackBuffer.from_state(pair.buffer.get_state())
        by_pickle = pickle.loads(pickle.dumps(pair.buffer, protocol))
        for restored in (by_state, by_pickle, copy.copy(pair.buffer), copy.deepcopy(pair.buffer)):
            assert restored == pair.buffer
        self.keep(*(replace(pair, buffer=buffer, track=list(pair.track)) for buffer in (by_state, by_pickle)))

    @rule(data=st.data(), count=SEVERAL)
    def add_items(self, data, count):
        pair, other, new = self.pick(data), self.pick(data), self.draw_items(data, count)
        if len(pair.track) + len(other.track) > LONGEST:
            return
        both, more = pair.buffer + other.buffer, pair.buffer + new
        self.keep(
            replace(pair, buffer=both, track=pair.track + other.track[other.lookback :]),
            replace(pair, buffer=more, track=pair.track + plain(new)),
        )

    @precondition(lambda self: self.kind in {"integers", "vectors"})
    @rule(data=st.data(), number=st.integers(-2, 2))
    def add_a_number(self, data, number):
        pair = self.pick(data)
        total = pair.buffer + number
        expected = (np.array(pair.track, np.float64) + number).tolist()
        found = np.array(rows(total.data), np.float64).tolist()
        assert np.allclose(found, expected, atol=1e-6)
        assert (total.lookback, total.finalized) == (pair.lookback, pair.finalized)

    # --- Reading ---

    @rule(data=st.data(), as_lookback=st.booleans(), with_fill=st.booleans())
    def get(self, data, as_lookback, with_fill):
        pair = self.pick(data)
        index = data.draw(pair.indices())
        options = {"fill": self.filling(pair)} if with_fill else {}
        read_options = {"neg_index_as_lookback": as_lookback, "fill": 0 if with_fill else None}
        try:
            expected = read(pair.track, pair.lookback, index, as_lookback=as_lookback, **options)
        except IndexError:
            with pytest.raises(IndexError):
                pair.buffer.get(index, **read_options)
            return
        found = pair.buffer.get(index, **read_options)
        if isinstance(index, (int, np.integer)):
            assert plain(found) == expected
        else:
            assert rows(found) == expected
            assert isinstance(found, list) != pair.finalized

    def filling(self, pair):
        if self.space is not None:
            return filled(self.space, 0)
        return filled_like(pair.track[0], 0) if pair.track else 0

    @invariant()
    def every_buffer_holds_its_items(self):
        for pair in getattr(self, "pairs", []):
            assert rows(pair.buffer.data) == pair.track
            assert list(map(plain, pair.buffer)) == pair.track[pair.lookback :]
            assert pair.buffer.lookback == pair.lookback
            assert pair.buffer.finalized == pair.finalized
            assert len(pair.buffer) == len(pair.track) - pair.lookback
            assert pair.buffer.len_incl_lookback() == len(pair.track)

    @invariant()
    def buffers_are_equal_if_and_only_if_their_items_are(self):
        for one in getattr(self, "pairs", []):
            for other in self.pairs:
                same = (one.track, one.lookback, one.finalized) == (other.track, other.lookback, other.finalized)
                assert (one.buffer == other.buffer) == same


SETTINGS = settings(
    max_examples=100, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class TestH1LookbackBuffer(LookbackBufferMachine.TestCase):
    settings = SETTINGS


@pytest.mark.slow
@pytest.mark.parametrize("longest", range(55, 61))
def test_h1_long_histories(longest):
    # In parts, because Hypothesis remembers all that it draws in one run: a gigabyte after some minutes.
    run_state_machine_as_test(
        LookbackBufferMachine,
        settings=settings(SETTINGS, max_examples=150, stateful_step_count=longest, derandomize=False),
    )
