"""What estimators reject, and that the messages say what to do."""

import numpy as np
import pytest

from episodia.errors import EpisodiaError, ReturnsError
from episodia.returns import advantages, discounted_sums, n_step_returns, returns_to_go

ONES = np.ones(3)


def gae(rewards=ONES, values=ONES, bootstrap=(1.0,), terminated=(False,), offsets=(0, 3), discount=0.9, lambda_=0.9):
    return advantages(
        rewards, values, list(bootstrap), list(terminated), list(offsets), discount=discount, lambda_=lambda_
    )


@pytest.mark.parametrize(
    "offsets",
    [[0, 2], [0, 4], [1, 3], [0, 2, 1, 3], [3], [], [0.0, 3.0], [[0, 3]], 3, [-1, 3]],
    ids=str,
)
def test_offsets_that_do_not_describe_the_rows_are_rejected(offsets):
    with pytest.raises(ReturnsError, match=r"`offsets`: found .* expected"):
        returns_to_go(ONES, offsets, 0.9)


def test_a_long_list_of_offsets_is_shown_in_short():
    with pytest.raises(ReturnsError) as caught:
        returns_to_go(np.ones(5000), np.arange(5000), 0.9)

    assert len(str(caught.value)) < 300
    assert "ends with 5000" in str(caught.value)


@pytest.mark.parametrize("discount", [-0.1, 1.1, np.nan, np.inf])
@pytest.mark.parametrize(
    "estimate",
    [
        lambda discount: returns_to_go(ONES, [0, 3], discount),
        lambda discount: discounted_sums(ONES, discount, [0, 3]),
        lambda discount: discounted_sums(ONES, [0.5, discount, 0.5], [0, 3]),
        lambda discount: n_step_returns(ONES, [0, 3], [False], n=1, discount=discount),
        lambda discount: gae(discount=discount),
        lambda discount: gae(lambda_=discount),
    ],
    ids=["returns_to_go", "sums", "sums_per_row", "n_step", "advantages", "lambda"],
)
def test_factors_outside_0_to_1_are_rejected(estimate, discount):
    with pytest.raises(ReturnsError, match=r"expected .* in \[0, 1\]"):
        estimate(discount)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", None], ids=repr)
def test_windows_of_less_than_one_step_are_rejected(n):
    with pytest.raises(ReturnsError, match=r"`n`: found .* expected an integer of at least 1"):
        n_step_returns(ONES, [0, 3], [False], n=n, discount=0.9)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("values", np.ones(4)),
        ("values", np.ones((3, 1))),
        ("bootstrap", (1.0, 2.0)),
        ("terminated", (False, False)),
        ("terminated", (0.0,)),
        ("rewards", np.ones((1, 3))),
        ("rewards", np.array(["a", "b", "c"])),
        ("rewards", np.ones(3, complex)),
    ],
    ids=lambda value: value if isinstance(value, str) else str(np.shape(value)),
)
def test_arrays_that_do_not_fit_are_rejected_by_name(name, wrong):
    with pytest.raises(ReturnsError, match=f"`{name}.*: found .* expected"):
        gae(**{name: wrong})


def test_discounts_per_row_need_one_for_each():
    with pytest.raises(ReturnsError, match=r"`discounts`.*one number per row"):
        discounted_sums(ONES, [0.5, 0.5], [0, 3])


def test_bootstraps_need_one_for_each_episode():
    with pytest.raises(ReturnsError, match=r"`bootstrap`.*one number per episode"):
        returns_to_go(ONES, [0, 3], 0.9, [1.0, 2.0])


def test_one_bootstrap_may_serve_all_episodes():
    assert returns_to_go(ONES, [0, 1, 3], 0.5, 4.0).tolist() == [3.0, 2.5, 3.0]


def test_rejections_are_value_errors_of_the_library():
    assert issubclass(ReturnsError, EpisodiaError)
    assert issubclass(ReturnsError, ValueError)
