"""What does not fit is rejected before anything is recorded."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodiaError, ShapeError, SpaceError
from hand_built import Twins, assert_same_episodes

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
NO = np.zeros(2, bool)


def good(**changes):
    return {
        "observations": np.zeros((2, 3), np.float32),
        "actions": np.zeros(2, np.int64),
        "rewards": np.zeros(2),
        "terminateds": NO,
        "truncateds": NO,
        "extras": {"logp": np.zeros(2, np.float32), "state": {"h": np.zeros((2, 2)), "c": (np.zeros(2, np.int64),)}},
        **changes,
    }


STATE = good()["extras"]["state"]
BAD_STEPS = {
    "float16 observations": good(observations=np.zeros((2, 3), np.float16)),
    "integer observations": good(observations=np.zeros((2, 3), int)),
    "short observations": good(observations=np.zeros((2, 2), np.float32)),
    "one observation for all": good(observations=np.zeros(3, np.float32)),
    "three lanes": good(observations=np.zeros((3, 3), np.float32)),
    "no observations": good(observations=None),
    "nested observations": good(observations={"x": np.zeros((2, 3), np.float32)}),
    "float actions": good(actions=np.array([0.7, 0.0])),
    "int32 actions": good(actions=np.zeros(2, np.int32)),
    "one action for all": good(actions=np.int64(1)),
    "float32 rewards": good(rewards=np.zeros(2, np.float32)),
    "a column of rewards": good(rewards=np.zeros((2, 1))),
    "a ragged list": good(rewards=[[1.0], [1.0, 2.0]]),
    "float flags": good(terminateds=np.zeros(2)),
    "one flag": good(truncateds=np.zeros(1, bool)),
    "no flag": good(truncateds=None),
    "wider extras": good(extras={"logp": np.zeros(2), "state": STATE}),
    "missing extras": good(extras={"logp": np.zeros(2, np.float32)}),
    "no extras": good(extras=None),
    "further extras": good(extras={**good()["extras"], "value": np.zeros(2)}),
    "other nesting": good(extras={"logp": np.zeros(2, np.float32), "state": {"h": np.zeros((2, 2))}}),
    "a list of extras": good(extras=[np.zeros(2)]),
    "three infos": good(infos=[{}, {}, {}]),
    "infos of numbers": good(infos=[1, 2]),
    "a number as infos": good(infos=5),
    "a negative lane": good(lanes=[0, -1]),
    "no such lane": good(lanes=[0, 2]),
    "a lane twice": good(lanes=[1, 1]),
    "lanes of floats": good(lanes=[0.0, 1.0]),
    "a mask for three": good(lanes=[True, False, True]),
    "a reset of a running lane": good(resets=np.array([True, False])),
    "resets of another shape": good(resets=np.zeros(3, bool)),
}


def recorded(mode):
    twins = Twins(BOX, spaces.Discrete(4), 2, block_steps=3)
    twins.reset([0, 1])
    twins.step([0, 1], (), "vector", ("logp", "state"))
    if mode == "apart":
        twins.step([1], (), "vector", ("logp", "state"))
    return twins


@pytest.mark.parametrize("mode", ["together", "apart"])
@pytest.mark.parametrize("name", BAD_STEPS)
def test_a_step_that_does_not_fit_is_rejected_and_changes_nothing(name, mode):
    twins = recorded(mode)

    with pytest.raises(EpisodiaError, match="found"):
        twins.recorder.step(**BAD_STEPS[name])

    twins.check_handles()
    twins.step([0, 1], [1], "none", ("logp", "state"))
    assert_same_episodes(*twins.take())


@pytest.mark.parametrize("name", ["integer observations", "three lanes", "no observations", "nested observations"])
def test_a_reset_that_does_not_fit_is_rejected_and_changes_nothing(name):
    twins = recorded("together")

    with pytest.raises(EpisodiaError, match="found"):
        twins.recorder.reset(BAD_STEPS[name]["observations"])

    twins.step([0, 1], [1], "none", ("logp", "state"))
    assert_same_episodes(*twins.take())


@pytest.mark.parametrize("name", ["float actions", "integer observations", "a column of rewards", "three infos"])
def test_a_first_step_that_does_not_fit_leaves_the_recorder_without_columns(name):
    twins = Twins(BOX, spaces.Discrete(4), 2)
    twins.reset([0, 1])

    with pytest.raises(EpisodiaError, match="found"):
        twins.recorder.step(**BAD_STEPS[name])

    twins.step([0, 1], (), "none", ("logp",))
    assert_same_episodes(*twins.take())


def test_steps_of_lanes_that_have_ended_are_rejected():
    twins = recorded("together")
    twins.step([0, 1], [1], "none", ("logp", "state"))

    with pytest.raises(EpisodeError, match=r"\[1\]"):
        twins.recorder.step(**good())
    with pytest.raises(EpisodeError, match="reset at"):
        twins.recorder.step(**good(resets=np.array([False, True]), terminateds=np.array([False, True])))
    assert_same_episodes(*twins.take())


def test_steps_before_the_first_reset_are_rejected():
    with pytest.raises(EpisodeError, match="reset"):
        Recorder(BOX, spaces.Discrete(4), 2).step(**good())


def test_questions_before_the_first_reset_are_rejected():
    recorder = Recorder(BOX, spaces.Discrete(4), 2)

    with pytest.raises(EpisodeError, match="reset"):
        recorder.episodes()
    with pytest.raises(KeyError, match="first reset"):
        recorder.latest("obs")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"num_lanes": 0}, EpisodeError), ({"lookback": -1}, EpisodeError), ({"block_steps": 0}, EpisodeError)],
)
def test_numbers_out_of_range_are_rejected(options, error):
    with pytest.raises(error, match="found"):
        Recorder(BOX, spaces.Discrete(4), **{"num_lanes": 2, **options})


def test_messages_say_where_and_what():
    recorder = recorded("together").recorder

    with pytest.raises(ShapeError, match=r"state\['h'\]: found float32\[2, 2\], expected float64\[2, 2\]"):
        recorder.step(**good(extras={**good()["extras"], "state": {**STATE, "h": np.zeros((2, 2), np.float32)}}))
    with pytest.raises(EpisodeIndexError, match="from 0 to 1"):
        recorder.reset(np.zeros((1, 3), np.float32), lanes=[2])
    with pytest.raises(SpaceError, match="float32"):
        Recorder(BOX, None, 1).reset(np.zeros((1, 3), np.int64))
