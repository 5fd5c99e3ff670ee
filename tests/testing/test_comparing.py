"""Comparisons notice every difference, and say which it is."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.testing import EPISODES, Trajectory, assert_same_episode, assert_same_items

WALK = {
    "observations": [np.zeros(2), np.ones(2), np.ones(2)],
    "actions": [0, 1],
    "rewards": [0.5, 1.0],
    "infos": [{}, {"a": 1}, {}],
    "extra_model_outputs": {"logits": [np.zeros(1), np.zeros(1)]},
    "observation_space": spaces.Box(0.0, 1.0, (2,), np.float64),
    "action_space": spaces.Discrete(2),
    "custom_data": {"note": 1},
    "weights_versions": {0: 1},
}
CHANGES = {
    "id_": {"id_": "other"},
    "agent_id": {"agent_id": "other"},
    "module_id": {"module_id": "other"},
    "multi_agent_episode_id": {"multi_agent_episode_id": "other"},
    "t_started": {"t_started": 3, "weights_versions": {3: 1}},
    "is_terminated": {"terminated": True},
    "is_truncated": {"truncated": True},
    "observation_space": {"observation_space": None},
    "action_space": {"action_space": spaces.Discrete(3)},
    "observations[1]": {"observations": [np.zeros(2), np.array([1.0, 2.0]), np.ones(2)]},
    "observations[0]": {"observations": [np.zeros(2, np.float32), np.ones(2), np.ones(2)]},
    "actions": {"actions": [0, 0]},
    "rewards": {"rewards": [0.5, 1]},
    "infos": {"infos": [{}, {"a": True}, {}]},
    "extra_model_outputs['logits']": {"extra_model_outputs": {"logits": [np.zeros(1), np.ones(1)]}},
    "extra_model_outputs": {"extra_model_outputs": {}},
    "custom_data": {"custom_data": {"note": 2}},
    "weights_version": {"weights_versions": {0: 1, 1: 2}},
    "rewards.lookback": {"lookback": 1, "t_started": 1},
}


def message_of(found, expected, **options):
    with pytest.raises(AssertionError) as caught:
        assert_same_episode(found, expected, **options)
    return str(caught.value)


@pytest.mark.parametrize("field", CHANGES)
def test_a_difference_in_any_field_is_named(field):
    found, expected = Trajectory(**WALK | CHANGES[field]).built(), Trajectory(**WALK).built()

    assert f"\n  {field}" in message_of(found, expected)


@pytest.mark.parametrize("field", ["id_", "agent_id", "custom_data", "weights_version", "infos", "actions"])
def test_a_field_that_may_differ_is_ignored(field):
    found, expected = Trajectory(**WALK | CHANGES[field]).built(), Trajectory(**WALK).built()

    assert_same_episode(found, expected, ignore=[field])


def test_growing_and_finalized_differ():
    assert "is_finalized: found True, expected False" in message_of(
        EPISODES["finalized running"](), EPISODES["running"]()
    )


def test_times_differ_unless_they_are_ignored():
    walk = Trajectory(**WALK)

    assert "_start_time" in message_of(walk.stepped(), walk.built())
    assert_same_episode(walk.stepped(), walk.built(), ignore=["times"])


SAME = {
    "nan": (np.array([np.nan]), np.array([np.nan])),
    "a NumPy scalar and an array without axes": (np.float32(1.0), np.array(1.0, np.float32)),
    "Python's nan": (float("nan"), float("nan")),
    "nested": ({"a": (1, [np.zeros(2)])}, {"a": (1, [np.zeros(2)])}),
    "objects": (np.array(["a", None], object), np.array(["a", None], object)),
    "an empty array": (np.zeros((0, 2)), np.zeros((0, 2))),
}
DIFFERENT = {
    "type": (1, 1.0),
    "bool and int": (True, 1),
    "dtype": (np.zeros(1), np.zeros(1, np.float32)),
    "shape": (np.zeros(1), np.zeros((1, 1))),
    "value": (np.zeros(2), np.array([0.0, 1.0])),
    "nan and number": (float("nan"), 1.0),
    "keys": ({"a": 1}, {"b": 1}),
    "length": ([1], [1, 2]),
    "list and tuple": ([1], (1,)),
    "Python number and array": (1.0, np.array(1.0)),
    "object": (np.array(["a"], object), np.array(["b"], object)),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_items_are_the_same(name):
    assert_same_items(*SAME[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_items_are_not_the_same(name):
    with pytest.raises(AssertionError, match="expected"):
        assert_same_items(*DIFFERENT[name])
