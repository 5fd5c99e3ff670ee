"""Policies get invalid arguments: they accept or reject each argument, and stay unchanged if they reject it."""

import numpy as np
import pytest

from episodia.errors import EpisodiaError, ModuleError, PolicyError
from episodia.modules import default_module
from episodia.policies import MultiAgentPolicy, Policy
from junk import problems, problems_of_making
from scripted_agents import ACTIONS, OBSERVATIONS


def network():
    return default_module(OBSERVATIONS, ACTIONS, hidden=(8,))


def several():
    policy = MultiAgentPolicy({"a": network(), "b": network()})
    policy({"a": np.zeros(4, np.int64)})
    return policy


def memory_of(policy):
    """Return what a policy is about to remember."""
    return str((policy._episode.get_state(), policy._taken, policy._rewards, policy._unpaid))


CALLS = {
    "call": lambda it, junk: it(junk),
    "call(a)": lambda it, junk: it({"a": junk}),
    "infos": lambda it, junk: it({"a": np.zeros(4, np.int64)}, infos=junk),
    "info": lambda it, junk: it({"a": np.zeros(4, np.int64)}, infos={"a": junk}),
    "mask": lambda it, junk: it({"a": np.zeros(4, np.int64)}, infos={"a": {"action_mask": junk}}),
    "dones": lambda it, junk: it({"a": np.zeros(4, np.int64)}, dones=junk),
    "observe": lambda it, junk: it.observe(junk),
    "observe(a)": lambda it, junk: it.observe({"a": junk}),
    "save": lambda it, junk: it.save(junk),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_policy_takes_it_or_rejects_it_and_stays_as_it_was(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert problems(several, call, memory_of) == {}


MAKING_CALLS = {
    "modules": MultiAgentPolicy,
    "module": lambda junk: MultiAgentPolicy({"a": junk}),
    **{
        name: lambda junk, name=name: MultiAgentPolicy({"a": network()}, **{name: junk})
        for name in ("env_to_module", "module_to_env", "agent_to_module_mapping_fn", "explore", "seed")
    },
    "load": MultiAgentPolicy.load,
    "from_state": MultiAgentPolicy.from_state,
    **{
        f"from_state({name})": lambda junk, name=name: MultiAgentPolicy.from_state(
            several().get_state(), **{name: junk}
        )
        for name in ("modules", "agent_to_module_mapping_fn", "device")
    },
    "one module": Policy,
    **{
        f"one module({name})": lambda junk, name=name: Policy(network(), **{name: junk})
        for name in ("env_to_module", "module_to_env", "explore", "seed")
    },
    "one module: load": Policy.load,
    "one module: from_state": Policy.from_state,
    "one module: from_state(device)": lambda junk: Policy.from_state(Policy(network()).get_state(), device=junk),
    "one module: observation": Policy(network()),
    "one module: infos": lambda junk: Policy(network())(np.zeros(4, np.int64), infos=junk),
    "one module: mask": lambda junk: Policy(network())(np.zeros(4, np.int64), action_mask=junk),
}


@pytest.mark.parametrize("call", MAKING_CALLS.values(), ids=MAKING_CALLS)
def test_nothing_is_made_of_it_or_it_is_rejected(call):
    assert problems_of_making(call) == {}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda it: it([0.0]), PolicyError),
        (lambda it: it.observe(1.0), PolicyError),
        (lambda it: it.observe({"a": np.nan}), PolicyError),
        (lambda it: it({"a": np.zeros(4)}, dones="a"), PolicyError),
        (lambda it: it({"a": np.zeros((2, 2)), "b": np.zeros(4)}), EpisodiaError),
        (lambda _: MultiAgentPolicy(network()), PolicyError),
        (lambda _: MultiAgentPolicy({}), ModuleError),
        (lambda _: MultiAgentPolicy({"a": network()}).observe({"a": 1.0}), PolicyError),
        (lambda _: Policy({"a": network()}), PolicyError),
        (lambda _: Policy(network(), explore="no"), PolicyError),
    ],
)
def test_the_junk_that_is_most_likely_is_rejected(call, error):
    policy = several()
    before = memory_of(policy)

    with pytest.raises(error, match="found"):
        call(policy)
    assert memory_of(policy) == before
