"""Whatever is passed to a method: it works, or raises an error of ours that says what is wrong, and changes nothing."""

import copy
import inspect

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodiaError, MultiAgentEpisode
from multi_agent_refusals import STEP, busy, seen, snapshot
from refusals import missing_in, same


class Odd:
    """Something that no method knows."""


class Unhashable:
    """Something that is no key of a dict."""

    __hash__ = None


JUNK = {
    **{repr(value): value for value in (None, 5, -3, 2.5, float("nan"), 1j, True, "text", b"bytes", 10**30, ..., len)},
    **{repr(value): value for value in ([1, "a"], ["acts"], [["acts"]], ("acts",), {"acts"}, [None], [5], [10**30])},
    **{repr(value): value for value in (slice("a"), slice(0, 3, 0), slice(1.5), slice(None, None, -1), range(3))},
    **{
        f"{{agent: {value!r}}}": {"acts": value}
        for value in (None, 5, "x", [], {}, {5: 1}, {"logp": None}, np.zeros(7))
    },
    **{repr(value): value for value in ({"nobody": 1}, {None: 1}, {1: 2, "a": 3}, {"__all__": "yes"}, [{"acts": 1}])},
    **{repr(value): value for value in (np.zeros(3), np.array(5), np.zeros((2, 2)), np.array(["x"]))},
    **{repr(value): value for value in (spaces.Discrete(3), {"acts": spaces.Discrete(2)})},
    "odd": Odd(),
    "unhashable": Unhashable(),
    "agent: odd": {"acts": Odd()},
    "a class": Odd,
}
with_junk = pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
FORMS = {"growing": busy(), "finalized": busy().finalize()}
SNAPSHOTS = {form: snapshot(episode) for form, episode in FORMS.items()}
RIGHT = {
    "add_env_step": STEP,
    "add_env_reset": {"observations": {"acts": seen(0)}},
    "get_extra_model_outputs": {"key": "logp"},
    "set_observations": {"new_data": {"acts": seen(1)}, "at_indices": 0},
    "set_actions": {"new_data": {"acts": 1}, "at_indices": 0},
    "set_rewards": {"new_data": {"acts": 1.0}, "at_indices": 0},
    "set_extra_model_outputs": {"key": "logp", "new_data": {"acts": 1.0}, "at_indices": 0},
    "slice": {"slice_": slice(0, 2)},
}
LISTS = {
    "observations": [{"acts": 0}, {"acts": 1}],
    "actions": [{"acts": 0}],
    "rewards": [{"acts": 1.0}],
    "infos": [{"acts": {}}, {"acts": {}}],
    "extra_model_outputs": [{"acts": {"x": 1}}],
}


def parameters():
    """Every parameter of every public method."""
    methods = inspect.getmembers(MultiAgentEpisode, inspect.isfunction)
    known = {name: inspect.signature(method).parameters for name, method in methods if not name.startswith("_")}
    return [(name, given) for name, all_given in known.items() for given in all_given.values() if given.name != "self"]


def call_with(episode, method, parameter, junk):
    """Call a method with `junk` for one of its parameters and the right things for the others."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return getattr(episode, method)(junk)
    return getattr(episode, method)(**{**RIGHT.get(method, {}), parameter.name: junk})


def refusal(call):
    """Return what `call` was rejected with, None if it was not; nothing but an error of ours is let through."""
    refused = None
    try:
        call()
    except EpisodiaError as error:
        refused = error
    assert refused is None or missing_in(str(refused), ("found", "expected")) == []
    return refused


def test_every_parameter_is_covered():
    assert len(parameters()) > 40
    assert {"get_observations", "cut", "concat_episode", "slice", "module_for"} <= {name for name, _ in parameters()}


@pytest.mark.parametrize("form", FORMS)
@with_junk
def test_methods_reject_junk_and_change_nothing(form, junk):
    refused = 0
    for method, parameter in parameters():
        episode = MultiAgentEpisode("game") if method == "add_env_reset" else copy.copy(FORMS[form])
        if refusal(lambda: call_with(episode, method, parameter, junk)):  # noqa: B023  # called at once
            expected = snapshot(MultiAgentEpisode("game")) if method == "add_env_reset" else SNAPSHOTS[form]
            assert same(snapshot(episode), expected)
            refused += 1

    assert refused


@with_junk
@pytest.mark.parametrize("mode", [{"env_steps": False}, {"return_list": True}, {"fill": 0}], ids=str)
def test_getters_reject_junk_in_every_mode(mode, junk):
    for name in ("observations", "infos", "actions", "rewards"):
        for parameter in {"indices", "agent_ids", "fill"} - mode.keys():
            refusal(lambda: getattr(FORMS["growing"], f"get_{name}")(**mode, **{parameter: junk}))  # noqa: B023


@with_junk
def test_the_constructor_rejects_junk(junk):
    for parameter in inspect.signature(MultiAgentEpisode).parameters:
        if not (parameter == "agent_to_module_mapping_fn" and callable(junk)):
            refusal(lambda: repr(MultiAgentEpisode(**{**LISTS, parameter: junk})))  # noqa: B023
    for column, entries in LISTS.items():
        for entry in (junk, {"acts": junk}):
            refusal(lambda: MultiAgentEpisode(**{**LISTS, column: [*entries[:-1], entry]}))  # noqa: B023


@with_junk
def test_a_state_with_junk_in_it_is_rejected(junk):
    refusal(lambda: MultiAgentEpisode.from_state(junk))
    for key in SNAPSHOTS["growing"].keys() - {"text", "forms"}:
        refusal(lambda: MultiAgentEpisode.from_state({**SNAPSHOTS["growing"], key: junk}))  # noqa: B023


def test_the_junk_that_is_most_likely_is_rejected():
    """So that the tests above, which allow what works, cannot pass by refusing nothing."""
    episode = FORMS["growing"]
    likely = [
        lambda: MultiAgentEpisode(observation_space=spaces.Discrete(3)),
        lambda: MultiAgentEpisode(action_space={"a": 3}),
        lambda: MultiAgentEpisode(agent_module_ids=["a"]),
        lambda: MultiAgentEpisode(agent_episode_ids="a"),
        lambda: MultiAgentEpisode(agent_t_started=3),
        lambda: MultiAgentEpisode(agent_t_started={"a": -3}),
        lambda: MultiAgentEpisode(agent_to_module_mapping_fn={"a": "module"}),
        lambda: MultiAgentEpisode(terminateds="yes"),
        lambda: MultiAgentEpisode(rewards_after_done="ignore"),
        lambda: episode.get_observations(agent_ids=[["acts"]]),
        lambda: episode.get_observations(env_steps=np.zeros(2)),
        lambda: episode.get_extra_model_outputs(["logp"]),
        lambda: episode.module_for(["acts"]),
        lambda: episode.set_rewards(new_data={"nobody": 1.0}, at_indices=0),
        lambda: episode.set_rewards(new_data=[1.0], at_indices=0),
        lambda: MultiAgentEpisode.from_state({**SNAPSHOTS["growing"], "records": 5}),
        lambda: MultiAgentEpisode.from_state({**SNAPSHOTS["growing"], "clock": {"env_t": "3"}}),
    ]

    assert all(map(refusal, likely))
