"""Priorities belong to stored steps alone, and steps are drawn in proportion to them."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.errors import ReplayError
from episodia.replay import Fresh, InOrder, Proportional, ReplayBuffer, Transitions, Uniform, sequence_priorities
from episodia.replay.selectors.sum_tree import SumTree
from plain_buffer import HISTORIES, PlainBuffer, located, played

SIZES = st.integers(1, 900)


@settings(max_examples=40)
@given(size=SIZES, seed=st.integers(0, 99), fan=st.sampled_from([8, 16, 24]), top=st.integers(1, 9))
def test_h6_positions_are_those_of_a_plain_running_sum(size, seed, fan, top):
    rng = np.random.default_rng(seed)
    tree, plain = SumTree(size, fan=fan, top=top), [0] * size
    for _ in range(5):
        rows = rng.integers(0, size, 7)
        numbers = rng.integers(0, 4, 7)
        tree.set(rows, numbers.astype(float))
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            plain[row] = number
    if not sum(plain):
        return

    found = tree.find(np.arange(sum(plain)) + 0.5)

    assert tree.total == sum(plain)
    assert tree.values.tolist() == plain
    assert found.tolist() == [row for row, number in enumerate(plain) for _ in range(number)]


def test_a_mass_at_the_very_end_finds_the_last_position_that_is_not_empty():
    tree = SumTree(100, fan=8, top=4)
    tree.set(np.array([5, 40]), np.array([0.1, 0.2]))

    assert tree.find(np.array([np.nextafter(tree.total, 0.0), tree.total])).tolist() == [40, 40]


def test_sums_do_not_drift():
    rng = np.random.default_rng(0)
    tree = SumTree(5_000)
    for _ in range(500):
        tree.set(rng.integers(0, 5_000, 64), rng.random(64) * 1e6)

    assert tree.total == pytest.approx(float(tree.values.sum()), rel=1e-12)


@settings(max_examples=30)
@given(
    history=HISTORIES,
    capacity=st.integers(24, 160),
    evict=st.sampled_from(["steps", "episodes", "reservoir"]),
    seed=st.integers(0, 9),
)
def test_exactly_the_stored_steps_have_priorities(history, capacity, evict, seed):
    selector = Recording(Proportional(epsilon=0.5))
    buffer = ReplayBuffer(capacity, evict=evict, selector=selector, seed=seed)
    selectors.clear()
    played(buffer, history)
    if not len(buffer):
        return
    sampled = buffer.sample(20)
    buffer.update_priorities(sampled.keys, np.linspace(-3.0, 3.0, 20))

    priorities = selectors[-1].inner.priorities

    assert np.count_nonzero(priorities) == len(buffer)
    stored = buffer.episodes().flat("keys").values & (2**32 - 1)
    assert set(np.flatnonzero(priorities).tolist()) == set(stored.tolist())


selectors = []


class Recording:
    """A selector that lets the test see the copy that the buffer made of it."""

    def __init__(self, inner):
        self.inner = inner

    def __deepcopy__(self, memo):
        selectors.append(Recording(Proportional(epsilon=0.5)))
        return selectors[-1]

    def on_add(self, rows, added):
        self.inner.on_add(rows, added)

    def on_evict(self, rows):
        self.inner.on_evict(rows)

    def select(self, num, steps, rng):
        return self.inner.select(num, steps, rng)

    def update(self, rows, values):
        self.inner.update(rows, values)


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


# The 0.999 quantile of chi-square with 59 degrees of freedom.
LARGEST = 98.3


def counts_of(buffer, num_samples):
    counts = np.zeros(60)
    for _ in range(num_samples):
        times = [t for _, t in located(buffer.sample(600).flat("actions").values)]
        counts += np.bincount(times, minlength=60)
    return counts


def test_uniform_draws_are_uniform():
    buffer = ReplayBuffer(500, selector=Uniform(), seed=1)
    plain = PlainBuffer()
    for _ in range(12):
        buffer.add([plain.chunk(0, 5), plain.chunk(9, 5)])
    counts = np.zeros(120)
    for _ in range(100):
        steps = located(buffer.sample(600).flat("actions").values)
        counts += np.bincount([t + 60 * (walk > 0) for walk, t in steps], minlength=120)

    # The 0.999 quantile with 119 degrees of freedom.
    assert chi_square(counts, counts.sum() / 120) < 173.6


def test_draws_are_in_proportion_to_priorities():
    buffer = ReplayBuffer(500, selector=Proportional(alpha=0.5, epsilon=0.0), seed=1)
    buffer.add([PlainBuffer().chunk(0, 60)])
    every = buffer.episodes()
    values = np.arange(60.0) % 7
    buffer.update_priorities(every.flat("keys").values, values)

    counts = counts_of(buffer, 100)

    expected = np.sqrt(values) / np.sqrt(values).sum() * counts.sum()
    assert not counts[values == 0].any()
    assert chi_square(counts[values > 0], expected[values > 0]) < LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("selector", [Uniform(), Proportional(alpha=1.0, epsilon=0.0)])
def test_h6_a_million_draws_are_in_proportion(selector):
    buffer, plain = ReplayBuffer(5_000, selector=selector, seed=1), PlainBuffer()
    for _ in range(40):
        buffer.add([plain.chunk(lane, 30) for lane in range(6)])  # more than fits
    keys = buffer.episodes().flat("keys").values
    values = np.resize([0.0, 1e-30, 1.0, 2.0, 5.0], len(keys))
    buffer.update_priorities(keys, values)
    counts = Counter()
    for _ in range(250):
        found, times = np.unique(buffer.sample(4_000).keys, return_counts=True)
        counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))

    found = np.array([counts[key] for key in keys.tolist()])
    shares = np.ones(len(keys)) if isinstance(selector, Uniform) else values
    probable = shares > 1e-3
    assert not found[~probable].any()
    expected = (shares / shares.sum())[probable] * 1_000_000
    # The number of standard deviations of chi-square with so many degrees of freedom; 1 of 10,000 exceeds 3.72.
    degrees = len(expected) - 1
    assert (chi_square(found[probable], expected) - degrees) / np.sqrt(2 * degrees) < 3.72


@pytest.mark.slow
def test_h6_sums_are_exact_after_a_million_updates():
    rng, tree = np.random.default_rng(0), SumTree(100_000)
    for _ in range(4_000):
        tree.set(rng.integers(0, 100_000, 256), rng.choice([0.0, 1e-30, 1.0, 1e30], 256) * rng.random(256))

    exact = math.fsum(tree.values.tolist())
    assert tree.total == pytest.approx(exact, rel=1e-9)
    found = tree.find(rng.random(10_000) * tree.total)
    assert (tree.values[found] > 0).all()


def test_draws_with_few_allowed_steps_are_in_proportion_to_priorities():
    buffer = ReplayBuffer(5000, selector=Proportional(alpha=1.0, epsilon=0.0), seed=1)
    plain = PlainBuffer()
    buffer.add([plain.chunk(0, 60), *[plain.chunk(number, 60) for number in range(1, 40)]])
    keys = buffer.episodes().flat("keys").values
    buffer.update_priorities(keys, np.where(np.arange(len(keys)) < 60, 1.0, 50.0))
    steps = buffer.sample(300, Transitions())

    assert {walk for walk, _ in located(steps.flat("obs").values)} > {1}
    assert len(steps) == 300


@pytest.mark.parametrize(("normalize", "largest"), [("batch", None), ("buffer", 1.0)])
def test_weights_are_exactly_those_of_the_formula(normalize, largest):
    buffer = ReplayBuffer(100, selector=Proportional(0.7, 0.4, 0.1, normalize), seed=1)
    buffer.add([PlainBuffer().chunk(0, 10)])
    buffer.update_priorities(buffer.episodes().flat("keys").values, np.arange(10.0))
    priorities = [(t + 0.1) ** 0.7 for t in range(10)]

    sampled = buffer.sample(4)

    times = [t for _, t in located(sampled.flat("actions").values)]
    raw = [(10 * priorities[t] / sum(priorities)) ** -0.4 for t in range(10)]
    scale = max(raw[t] for t in times) if largest is None else max(raw)
    np.testing.assert_allclose(sampled.weights, [raw[t] / scale for t in times], rtol=1e-6)


def test_new_steps_have_the_largest_priority_that_is_stored():
    buffer = ReplayBuffer(100, selector=Recording(None), seed=1)
    selectors.clear()
    plain = PlainBuffer()
    buffer.add([plain.chunk(0, 4)])
    keys = buffer.episodes().flat("keys").values
    buffer.update_priorities(keys, np.array([9.0, 2.0, 1.0, 3.0]))
    buffer.update_priorities(keys[:1], np.array([0.0]))

    buffer.add([plain.chunk(1, 2)])

    inner = selectors[-1].inner
    assert inner.priorities[inner.priorities > 0].max() == pytest.approx(3.5**0.6)
    assert np.count_nonzero(inner.priorities == inner.priorities.max()) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_rejected_and_change_nothing(value):
    buffer = ReplayBuffer(100, selector=Proportional(), seed=1)
    buffer.add([PlainBuffer().chunk(0, 4)])
    keys = buffer.episodes().flat("keys").values
    before = buffer.get_state()["tables"][0]["selector"]["priorities"]

    with pytest.raises(ReplayError, match="nothing was updated"):
        buffer.update_priorities(keys, np.array([1.0, value, 1.0, 1.0]))

    assert (buffer.get_state()["tables"][0]["selector"]["priorities"] == before).all()


def test_stale_keys_are_counted_and_ignored():
    buffer = ReplayBuffer(64, selector=Proportional(), seed=1)
    buffer.add([PlainBuffer().chunk(0, 20, "truncated")])
    keys = buffer.sample(10).keys
    for number in range(1, 4):
        buffer.add([PlainBuffer().chunk(number, 20, "truncated")])
    before = buffer.get_state()["tables"][0]["selector"]["priorities"]

    num_stale = buffer.update_priorities(keys, np.full(10, 77.0))

    assert num_stale == 10
    assert (buffer.get_state()["tables"][0]["selector"]["priorities"] == before).all()


def test_keys_stay_what_they_were_at_the_draw_after_their_rows_were_overwritten():
    buffer = ReplayBuffer(64, selector=Proportional(), seed=1)
    buffer.add([PlainBuffer().chunk(0, 20, "truncated")])
    early, late = buffer.sample(10), buffer.sample(10)
    known = early.keys
    for number in range(1, 9):
        buffer.add([PlainBuffer().chunk(number, 20, "truncated")])

    assert (early.keys == known).all()
    assert buffer.update_priorities(late.keys, np.ones(10)) == 10


def test_sequence_priorities_mix_the_largest_and_the_mean():
    assert sequence_priorities([[1.0, -4.0, 2.0]], [[True, True, False]], eta=0.9).tolist() == pytest.approx(
        [0.9 * 4 + 0.1 * 2.5]
    )


def test_the_newest_steps_come_first():
    buffer = ReplayBuffer(64, selector=InOrder("newest"), seed=1)
    plain = PlainBuffer()
    for number in range(5):
        buffer.add([plain.chunk(number, 10, "truncated")])

    assert located(buffer.sample(12).flat("actions").values) == [(4, 9 - i) for i in range(10)] + [(3, 9), (3, 8)]


def test_the_oldest_steps_come_first_and_once():
    buffer = ReplayBuffer(64, selector=InOrder("oldest", times=1), seed=1)
    buffer.add([PlainBuffer().chunk(0, 10)])

    found = [located(buffer.sample(5).flat("actions").values) for _ in range(2)]

    assert found == [[(0, t) for t in range(5)], [(0, t) for t in range(5, 10)]]
    with pytest.raises(ReplayError, match="found 0 draws that are left"):
        buffer.sample(1)


def versioned(number, version):
    episode = PlainBuffer().chunk(number, 5, "truncated")
    episode.t -= 5
    episode.weights_version = version
    episode.t += 5
    return episode


def test_fresh_steps_are_at_most_so_many_versions_older_than_the_newest_that_was_added():
    buffer = ReplayBuffer(100, selector=Fresh(most=1), seed=1)
    buffer.add([versioned(number, number) for number in range(5)])

    assert {walk for walk, _ in located(buffer.sample(200).flat("actions").values)} == {3, 4}


def test_older_versions_are_less_probable():
    buffer = ReplayBuffer(100, selector=Fresh(decay=0.5), seed=1)
    buffer.add([versioned(number, number) for number in range(3)])
    walks = [walk for walk, _ in located(buffer.sample(7000).flat("actions").values)]

    assert np.bincount(walks) / 1000 == pytest.approx([1, 2, 4], rel=0.1)
