"""Whatever is passed to a method: it works, or an EpisodiaError says what is wrong and nothing has changed."""

import copy

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodiaError, LookbackBuffer, SingleAgentEpisode
from junk import problems, problems_of_making
from refusals import NESTED, nested, plain, running, snapshot

WINDOW = slice(-20, 20)
DATA = {"observations": [1, 2], "actions": [0], "rewards": [1.0], "len_lookback_buffer": 0}
ARRAYS = {"obs": np.zeros((3, 2)), "actions": np.zeros(2), "rewards": np.zeros(2)}
ARGUMENTS = (
    *("id_", "observations", "infos", "actions", "rewards", "terminated", "truncated", "extra_model_outputs"),
    *("t_started", "len_lookback_buffer", "observation_space", "action_space", "agent_id", "module_id"),
)


def getter_calls(name):
    return {
        f"{name}()": lambda e, junk: getattr(e, name)(junk),
        f"{name}([])": lambda e, junk: getattr(e, name)([junk]),
        f"{name}(start)": lambda e, junk: getattr(e, name)(slice(junk, None)),
        f"{name}(step)": lambda e, junk: getattr(e, name)(slice(None, None, junk)),
        f"{name}(fill)": lambda e, junk: getattr(e, name)(WINDOW, fill=junk),
        f"{name}(fill of one)": lambda e, junk: getattr(e, name)(99, fill=junk),
        f"{name}(fill in a list)": lambda e, junk: getattr(e, name)([0, 99], fill=junk),
    }


def setter_calls(name):
    return {
        f"{name}(all)": lambda e, junk: getattr(e, name)(new_data=junk),
        f"{name}(one)": lambda e, junk: getattr(e, name)(new_data=junk, at_indices=-1),
        f"{name}(two)": lambda e, junk: getattr(e, name)(new_data=[junk, junk], at_indices=[0, 1]),
        f"{name}(window)": lambda e, junk: getattr(e, name)(new_data=junk, at_indices=slice(0, 2)),
        f"{name}(index)": lambda e, junk: getattr(e, name)(new_data=[1.0], at_indices=junk),
    }


def step_with(argument):
    def call(episode, junk):
        step = {"observation": episode.get_observations(0), "action": 1, "reward": 0.5}
        episode.add_env_step(**{**step, "extra_model_outputs": {"logp": -1.0}, argument: junk})

    return call


def state_with(name, key=None):
    def call(episode, junk):
        state = episode.get_state()
        state[name] = junk if key is None else {**state[name], key: junk}
        SingleAgentEpisode.from_state(state)

    return call


EPISODE_CALLS = {
    **{
        name: call
        for getter in ("get_observations", "get_infos", "get_actions", "get_rewards")
        for name, call in getter_calls(getter).items()
    },
    **{
        name: call
        for setter in ("set_observations", "set_actions", "set_rewards")
        for name, call in setter_calls(setter).items()
    },
    "one-hot fill": lambda e, junk: e.get_actions(WINDOW, fill=junk, one_hot_discrete=True),
    "get extra(key)": lambda e, junk: e.get_extra_model_outputs(junk),
    "get extra()": lambda e, junk: e.get_extra_model_outputs("logp", junk),
    "get extra(fill)": lambda e, junk: e.get_extra_model_outputs("logp", WINDOW, fill=junk),
    "set extra(key)": lambda e, junk: e.set_extra_model_outputs(key=junk, new_data=[1]),
    "set extra(all)": lambda e, junk: e.set_extra_model_outputs(key="logp", new_data=junk),
    "set extra(one)": lambda e, junk: e.set_extra_model_outputs(key="logp", new_data=junk, at_indices=0),
    "cut": lambda e, junk: e.cut(len_lookback_buffer=junk),
    "slice": lambda e, junk: e.slice(junk),
    "slice(lookback)": lambda e, junk: e.slice(slice(0, 1), len_lookback_buffer=junk),
    "[start:]": lambda e, junk: e[junk:],
    "[::step]": lambda e, junk: e[::junk],
    "concat_episode": lambda e, junk: e.concat_episode(junk),
    "observation_space": lambda e, junk: setattr(e, "observation_space", junk),
    "action_space": lambda e, junk: setattr(e, "action_space", junk),
    "weights_version": lambda e, junk: setattr(e, "weights_version", junk),
    "weights_version_at": lambda e, junk: e.weights_version_at(junk),
    "add_env_reset": lambda e, junk: SingleAgentEpisode(observation_space=e.observation_space).add_env_reset(junk),
    "add_env_reset(infos)": lambda e, junk: type(e)().add_env_reset(0, junk),
    **{
        f"add_env_step({name})": step_with(name)
        for name in ("observation", "action", "reward", "infos", "terminated", "truncated", "extra_model_outputs")
    },
    "add_env_step(extra)": lambda e, junk: step_with("extra_model_outputs")(e, {"logp": junk}),
    **{
        f"state {name}": state_with(name)
        for name in (
            *("t", "t_started", "is_terminated", "observations", "infos", "rewards", "extra_model_outputs"),
            *("_observation_space", "custom_data", "weights_versions", "_start_time"),
        )
    },
    **{f"state observations[{key}]": state_with("observations", key) for key in ("data", "lookback", "finalized")},
    **{f"state infos[{key}]": state_with("infos", key) for key in ("data", "lookback", "finalized")},
}

# Calls that make an episode, and need none.
MAKING_CALLS = {
    "from_state": SingleAgentEpisode.from_state,
    "from_arrays": SingleAgentEpisode.from_arrays,
    **{
        f"from_arrays({key})": lambda junk, key=key: SingleAgentEpisode.from_arrays({**ARRAYS, key: junk})
        for key in ("obs", "actions", "rewards", "terminateds", "truncateds", "infos", "new_obs", "mine")
    },
    **{
        f"from_arrays(**{name})": lambda junk, name=name: SingleAgentEpisode.from_arrays(ARRAYS, **{name: junk})
        for name in ARGUMENTS
    },
    **{f"new({name})": lambda junk, name=name: SingleAgentEpisode(**{**DATA, name: junk}) for name in ARGUMENTS},
    **{f"empty({name})": lambda junk, name=name: SingleAgentEpisode(**{name: junk}) for name in ARGUMENTS},
    "new(extra)": lambda junk: SingleAgentEpisode(**DATA, extra_model_outputs={"a": junk}),
    "buffer": LookbackBuffer,
    "buffer of items": lambda junk: LookbackBuffer([junk, junk]).finalize(),
    "buffer(lookback)": lambda junk: LookbackBuffer([1], junk),
    "buffer(space)": lambda junk: LookbackBuffer([1], 0, junk),
    "buffer.from_state": LookbackBuffer.from_state,
    **{
        f"buffer.from_state({key})": lambda junk, key=key: LookbackBuffer.from_state(
            {**LookbackBuffer([1, 2, 3], 1).get_state(), key: junk}
        )
        for key in ("data", "lookback", "finalized", "space")
    },
}

BUFFER_CALLS = {
    "get": lambda b, junk: b.get(junk),
    "get(fill)": lambda b, junk: b.get(WINDOW, fill=junk),
    "append": lambda b, junk: b.append(junk),
    "extend": lambda b, junk: b.extend(junk),
    "extend(items)": lambda b, junk: b.extend([junk, junk]),
    "concat": lambda b, junk: b.concat(junk),
    "pop": lambda b, junk: b.pop(junk),
    "set": lambda b, junk: b.set(junk),
    "set(one)": lambda b, junk: b.set(junk, at_indices=0),
    "set(index)": lambda b, junk: b.set([1], at_indices=junk),
    "[]": lambda b, junk: b.__setitem__(junk, 1),
    "==": lambda b, junk: b == junk,
    "space": lambda b, junk: setattr(b, "space", junk),
}

EPISODES = {
    "growing": running,
    "finalized": lambda: running().finalize(),
    "growing nested": lambda: running(nested, NESTED),
    "finalized without a space": lambda: running(plain, None).finalize(),
}


def finalized(buffer):
    buffer.finalize()
    return buffer


BUFFERS = {
    "growing": lambda: LookbackBuffer([1, 2, 3], 1),
    "finalized": lambda: finalized(LookbackBuffer([1, 2, 3], 1, spaces.Discrete(5))),
    "empty": LookbackBuffer,
    "vectors": lambda: LookbackBuffer(np.zeros((3, 2), np.float32), 1),
}


def buffer_snapshot(buffer):
    return copy.deepcopy((buffer.get_state(), repr(buffer), buffer.finalized, str(buffer.space)))


@pytest.mark.parametrize("make", EPISODES.values(), ids=EPISODES)
@pytest.mark.parametrize("call", EPISODE_CALLS.values(), ids=EPISODE_CALLS)
def test_an_episode_takes_it_or_rejects_it_and_stays_as_it_was(make, call):
    assert problems(make, call, snapshot) == {}


@pytest.mark.parametrize("make", BUFFERS.values(), ids=BUFFERS)
@pytest.mark.parametrize("call", BUFFER_CALLS.values(), ids=BUFFER_CALLS)
def test_a_buffer_takes_it_or_rejects_it_and_stays_as_it_was(make, call):
    assert problems(make, call, buffer_snapshot) == {}


@pytest.mark.parametrize("call", MAKING_CALLS.values(), ids=MAKING_CALLS)
def test_nothing_is_made_of_it_or_it_is_rejected(call):
    assert problems_of_making(call) == {}


@pytest.mark.parametrize("no_space", ["Discrete(2)", spaces.Discrete, 4, (3,)], ids=str)
def test_what_is_no_space_is_not_taken_for_one(no_space):
    for make in (
        lambda: SingleAgentEpisode(observation_space=no_space),
        lambda: SingleAgentEpisode(action_space=no_space),
        lambda: LookbackBuffer([1], space=no_space),
        lambda: setattr(running(), "action_space", no_space),
    ):
        with pytest.raises(EpisodiaError, match="expected a gymnasium space"):
            make()
