"""For tests of bad input: an episode that uses everything, and a check that rejected calls change nothing."""

import copy

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodiaError, SingleAgentEpisode

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
NESTED = spaces.Dict(
    camera=spaces.Box(0, 255, (2, 2), np.uint8),
    arm=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,), np.float32)]),
)


def growing(episode):
    return episode


def finalized(episode):
    return episode.finalize()


both_forms = pytest.mark.parametrize("form", [growing, finalized])


def plain(t):
    return np.full(2, t / 10, np.float32)


def nested(t):
    return {"camera": np.full((2, 2), t, np.uint8), "arm": (t % 3, np.full(1, t / 10, np.float32))}


def running(observation=plain, space=BOX):
    """Return an episode of three steps, with the id 'walk', that uses everything an episode has."""
    episode = SingleAgentEpisode(
        "walk", observation_space=space, action_space=spaces.Discrete(3), agent_id="left", module_id="legs"
    )
    episode.custom_data["notes"] = ["first"]
    episode.weights_version = 7
    episode.add_env_reset(observation(0), {"seed": 1})
    for t in range(3):
        step(episode, observation=observation(t + 1), action=t, reward=float(t), infos={"t": t})
    return episode


def step(episode, **changes):
    """Add a step that is right but for `changes`."""
    values = {"observation": plain(4), "action": 1, "reward": 0.5, "extra_model_outputs": {"logp": -1.0}}
    episode.add_env_step(**{**values, **changes})


def assert_refused(episode, call, error, *words):
    """Check that `call` raises `error` with all `words` in its message, and changes nothing."""
    before = snapshot(episode)

    message = message_of(error, lambda: call(episode))

    assert missing_in(message, ("'walk'", "found", "expected", *words)) == []
    assert same(snapshot(episode), before)


def message_of(error, call):
    """Return the message of the `error` that `call` raises, which has to be of exactly this class."""
    with pytest.raises(EpisodiaError) as raised:
        call()
    assert type(raised.value) is error
    return str(raised.value)


def missing_in(message, words):
    return [word for word in words if word not in message.replace("Expected", "expected")]


def snapshot(episode):
    """Return a deep copy of all that `episode` holds."""
    columns = (episode.observations, episode.infos, episode.actions, episode.rewards)
    return copy.deepcopy(
        {
            "state": episode.get_state(),
            "text": repr(episode),
            "forms": [column.finalized for column in (*columns, *episode.extra_model_outputs.values())],
            "spaces": [str(column.space) for column in columns],
        }
    )


def same(left, right):
    """Compare types, dtypes, the order of keys and values, all exactly; NaN is the same as NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and _same_values(left, right)
    return left == right or str(left) == str(right) == "nan"


def _same_values(left, right):
    if left.dtype.hasobject:
        return all(map(same, left.flat, right.flat))
    return left.tobytes() == right.tobytes()
