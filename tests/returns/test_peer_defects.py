"""Where estimators of other libraries go wrong, one test each, named after what is right."""

import numpy as np

from episodia.returns import advantages, discounted_sums, n_step_returns

# Two episodes of two steps; the observations of the track are their own values: 1, 2, 3 and 100, 200, 300.
TRACK = np.array([1.0, 2.0, 3.0, 100.0, 200.0, 300.0])
VALUES = TRACK[[0, 1, 3, 4]]
BOOTSTRAP = TRACK[[2, 5]]
REWARDS = np.array([10.0, 20.0, 30.0, 40.0])
OFFSETS = np.array([0, 2, 4])
CUT = np.array([False, False])


def test_n_step_writes_into_memory_of_its_own():
    """RLlib (#18358): n-step wrote into memory that observations and next observations share."""
    rewards = REWARDS.copy()

    found = n_step_returns(rewards, OFFSETS, CUT, n=2, discount=0.5)

    np.testing.assert_array_equal(rewards, REWARDS)
    assert not np.shares_memory(found.returns, rewards)


def test_a_truncated_end_bootstraps_from_the_observation_after_the_last_step():
    """Tianshou with `ignore_obs_next`: the last step bootstraps from its own observation."""
    found = n_step_returns(REWARDS, OFFSETS, CUT, n=1, discount=0.5)

    assert TRACK[found.next_rows].tolist() == [2.0, 3.0, 200.0, 300.0]


def test_advantages_at_a_truncated_end_never_read_the_next_trajectory():
    """TorchRL (#4209): V-trace bootstraps from the first value of the trajectory that follows."""
    _, targets = advantages(REWARDS, VALUES, BOOTSTRAP, CUT, OFFSETS, discount=1.0, lambda_=0.0)

    assert targets.tolist() == [10.0 + 2.0, 20.0 + 3.0, 30.0 + 200.0, 40.0 + 300.0]


def test_a_scan_with_ratios_like_v_trace_stops_at_a_truncated_end():
    """TorchRL (#4209): the trace of the next trajectory reaches over the boundary."""
    ratios = np.array([0.5, 0.25, 1.0, 1.0])

    found = discounted_sums(REWARDS, ratios, OFFSETS, bootstrap=0.0)

    assert found.tolist() == [10.0 + 0.5 * 20.0, 20.0, 30.0 + 40.0, 40.0]


def test_the_last_window_of_each_episode_ends_in_its_own_track():
    """Acme: the last next observation of a sequence is rolled around to another one's first."""
    found = n_step_returns(REWARDS, OFFSETS, CUT, n=5, discount=0.5)

    assert TRACK[found.next_rows].tolist() == [3.0, 3.0, 300.0, 300.0]
    assert found.discounts.tolist() == [0.25, 0.5, 0.25, 0.5]


def test_terminated_and_truncated_at_once_has_no_bootstrap():
    """Terminal states are worth nothing, whatever else is true of the step."""
    _, targets = advantages(REWARDS, VALUES, BOOTSTRAP, np.array([True, False]), OFFSETS, discount=1.0, lambda_=0.0)

    assert targets.tolist() == [10.0 + 2.0, 20.0, 30.0 + 200.0, 40.0 + 300.0]
