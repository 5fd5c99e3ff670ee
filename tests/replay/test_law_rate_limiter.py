"""The rate limiter agrees with a plain model, keeps its bounds, and never stands still."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.errors import ReplayError
from episodia.replay import RateLimiter

ratios = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0, 32.0])


def model_allows(events, ratio, min_size, error, verb, num):
    """Tell what is allowed after `events`, counted one by one with exact numbers."""
    inserted = sum(count for kind, count in events if kind == "insert")
    sampled = sum(count for kind, count in events if kind == "sample")
    if verb == "insert":
        inserted += num
        off = Fraction(ratio) * inserted - sampled - Fraction(ratio) * min_size
        return inserted <= min_size or off <= error
    off = Fraction(ratio) * inserted - (sampled + num) - Fraction(ratio) * min_size
    return inserted >= min_size and off >= -error


@given(
    ratio=ratios,
    min_size=st.integers(1, 20),
    extra=st.integers(0, 40),
    wishes=st.lists(st.tuples(st.sampled_from(["insert", "sample"]), st.integers(1, 12)), max_size=60),
)
def test_what_is_allowed_agrees_with_a_plain_model(ratio, min_size, extra, wishes):
    error = math.ceil((ratio + 1) / 2) + extra
    limiter, events = RateLimiter(samples_per_insert=ratio, min_size=min_size, error=error), []
    for verb, num in wishes:
        ask, tell = (
            (limiter.can_insert, limiter.inserted) if verb == "insert" else (limiter.can_sample, limiter.sampled)
        )

        assert ask(num) == model_allows(events, ratio, min_size, error, verb, num)
        if ask(num):
            tell(num)
            events.append((verb, num))
    assert limiter.num_inserted == sum(count for kind, count in events if kind == "insert")
    assert limiter.num_sampled == sum(count for kind, count in events if kind == "sample")


@given(ratio=ratios, min_size=st.integers(1, 50), n=st.integers(1, 20), m=st.integers(1, 64), eager=st.randoms())
def test_adding_or_sampling_is_always_allowed_if_the_error_is_wide_enough(ratio, min_size, n, m, eager):
    error = max(ratio * n, m, (ratio + 1) / 2)
    limiter = RateLimiter(samples_per_insert=ratio, min_size=min_size, error=error)
    for _ in range(100):
        allowed = [verb for verb, ask in (("n", limiter.can_insert(n)), ("m", limiter.can_sample(m))) if ask]
        assert allowed
        limiter.inserted(n) if eager.choice(allowed) == "n" else limiter.sampled(m)

    if limiter.num_inserted > min_size:
        assert abs(limiter.balance - ratio * min_size) <= error


def test_nothing_is_sampled_before_there_is_enough():
    limiter = RateLimiter(samples_per_insert=1, min_size=10, error=math.inf)
    limiter.inserted(9)

    assert not limiter.can_sample()
    limiter.inserted()
    assert limiter.can_sample(10_000)


def test_the_ratio_is_kept_in_the_long_run():
    limiter = RateLimiter(samples_per_insert=8, min_size=1000, error=512)
    for _ in range(20_000):
        if limiter.can_insert(4):
            limiter.inserted(4)
        while limiter.can_sample(256):
            limiter.sampled(256)

    assert limiter.num_sampled / (limiter.num_inserted - 1000) == pytest.approx(8, rel=0.01)


def test_a_limiter_continues_from_its_state():
    limiter = RateLimiter(samples_per_insert=2, min_size=3, error=10)
    limiter.inserted(7)
    limiter.sampled(5)
    other = RateLimiter(samples_per_insert=2, min_size=3, error=10)
    other.set_state(limiter.get_state())

    assert (other.num_inserted, other.num_sampled, other.balance) == (7, 5, 9.0)
    assert repr(other) == "RateLimiter(samples_per_insert=2, min_size=3, error=10)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RateLimiter(samples_per_insert=0, error=9), "samples_per_insert=0"),
        (lambda: RateLimiter(samples_per_insert=1, min_size=0, error=9), "min_size=0"),
        (lambda: RateLimiter(samples_per_insert=8, error=4), "expected at least 4.5"),
        (lambda: RateLimiter(samples_per_insert=1, error=math.nan), "error=nan"),
        (lambda: RateLimiter(samples_per_insert=1, error=9).can_insert(0), "num=0"),
        (lambda: RateLimiter(samples_per_insert=1, error=9).can_sample(1.5), "num=1.5"),
        (lambda: RateLimiter(samples_per_insert=1, error=9).set_state({"num_inserted": 1}), "expected what `get_state"),
        (lambda: RateLimiter(samples_per_insert=1, error=9).set_state(None), "expected what `get_state"),
    ],
)
def test_wrong_arguments_are_rejected(call, words):
    with pytest.raises(ReplayError, match=words):
        call()
