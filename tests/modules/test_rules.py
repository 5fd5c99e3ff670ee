"""Modules without weights: rules and random actions, through the default pipelines."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES
from episodia import Columns, SingleAgentEpisode
from episodia.connectors import defaults
from episodia.errors import BatchError, EpisodeKeyError, EpisodiaError, ModuleError
from episodia.modules import DistributionModule, Module, RandomModule, RuleModule, each_row
from episodia.stacking import unstack
from episodia.trees import map_batch

TWO = spaces.Discrete(2)


def acted(module, env, steps):
    """Return the observations that a module has seen and the actions that the environment got, in `steps` steps."""
    sides = env.observation_space, env.action_space
    to_module, to_env = defaults.env_to_module(*sides), defaults.module_to_env(*sides)
    episode = SingleAgentEpisode("walk")
    episode.add_env_reset(env.reset(seed=0)[0])
    received = []
    for _ in range(steps):
        batch = to_module(rl_module=module, episodes=[episode])
        made = to_env(rl_module=module, batch=module.forward_exploration(batch), episodes=[episode], explore=True)
        received.append(made[Columns.ACTIONS_FOR_ENV][0])
        episode.add_env_step(env.step(received[-1])[0], made[Columns.ACTIONS][0], 0.0)
    return episode.get_observations()[:-1], received


def test_a_rule_acts_through_the_default_pipelines():
    rule = RuleModule(lambda observations: (observations[:, 2] > 0).astype(np.int64))

    observations, actions = acted(rule, gym.make("CartPole-v1"), 8)

    assert actions == [int(observation[2] > 0) for observation in observations]
    assert len(set(actions)) == 2


def test_real_valued_rules_speak_in_the_units_of_modules():
    rule = RuleModule(lambda observations: np.full((len(observations), 1), 0.25, np.float32))

    _, actions = acted(rule, gym.make("Pendulum-v1"), 2)

    # Pendulum's torques are from -2 to 2.
    assert [action.tolist() for action in actions] == [[0.5], [0.5]]


def test_a_rule_is_given_arrays_whatever_the_pipeline_makes():
    seen = []
    rule = RuleModule(lambda observations: (seen.append(observations), [0, 0])[1])

    rule.forward_inference({"obs": {"x": torch.ones(2, 3), "y": (np.ones(2), torch.zeros(2))}})

    assert all(type(leaf) is np.ndarray for leaf in (seen[0]["x"], *seen[0]["y"]))


def test_a_rule_is_a_module_without_distribution():
    rule = RuleModule(len, spaces.Discrete(2), spaces.Discrete(3))

    assert isinstance(rule, Module)
    assert not isinstance(rule, DistributionModule)
    assert not rule.is_stateful()
    assert rule.get_initial_state() == {}
    assert (rule.observation_space, rule.action_space) == (spaces.Discrete(2), spaces.Discrete(3))


def test_a_rule_for_one_observation_is_asked_for_each_row():
    rule = RuleModule(each_row(lambda observation: {"go": observation["x"] > 1.0, "turn": (int(observation["x"]),)}))

    actions = rule.forward_inference({"obs": {"x": np.array([0.5, 2.5])}})["actions"]

    assert actions["go"].tolist() == [False, True]
    assert actions["turn"][0].tolist() == [0, 2]


@pytest.mark.parametrize("actions", [3, [1, 2, 3], {"a": [1, 2], "b": [1]}], ids=str)
def test_a_rule_has_to_say_something_for_each_row(actions):
    rule = RuleModule(lambda _: map_batch(np.asarray, actions) if isinstance(actions, dict) else actions)

    with pytest.raises(ModuleError, match=r"for 2 observations, expected one action for each.*`each_row`"):
        rule.forward_inference({"obs": np.zeros((2, 3))})


def test_a_batch_without_observations_is_rejected():
    with pytest.raises(EpisodeKeyError, match=r"rule: found no column 'obs' .*only \['rewards'\]"):
        RuleModule(len).forward_inference({"rewards": np.zeros(2)})


@pytest.mark.parametrize("batch", [None, np.zeros((2, 3)), [np.zeros(3)]], ids=["None", "an array", "a list"])
def test_what_is_no_batch_is_rejected(batch):
    for rule in (RuleModule(len), RandomModule(None, spaces.Discrete(2))):
        with pytest.raises(ModuleError, match=r"expected a batch: a dict of columns\. Pass `\{'obs': \.\.\.\}`"):
            rule.forward_inference(batch)


@pytest.mark.parametrize("observations", [{}, None, 3.0, (), {"a": {}}], ids=str)
def test_observations_without_rows_are_rejected(observations):
    for rule in (RuleModule(each_row(len)), RandomModule(None, spaces.Discrete(2))):
        with pytest.raises(BatchError, match="which has no rows"):
            rule.forward_inference({"obs": observations})


def test_actions_of_different_shapes_are_rejected():
    with pytest.raises(EpisodiaError, match="expected rows of one shape"):
        RuleModule(lambda _: [[1], [1, 2]]).forward_inference({"obs": np.zeros(2)})


@pytest.mark.parametrize("make", [RuleModule, each_row])
@pytest.mark.parametrize("function", [3, None, "act"])
def test_what_is_no_function_is_rejected_before_it_is_asked(make, function):
    with pytest.raises(ModuleError, match=rf"^{make.__name__}: found {function!r}, expected a function"):
        make(function)


# --- Random actions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_random_actions_belong_to_the_action_space(name):
    space = ACTION_SPACES[name]
    module = RandomModule(None, space, real_range=None, seed=0)

    actions = module.forward_exploration({"obs": np.zeros((20, 2))})["actions"]

    # Boxes without axes only know arrays.
    rows = [map_batch(np.asarray, row) if isinstance(space, spaces.Box) else row for row in unstack(actions)]
    assert all(space.contains(row) for row in rows)


def test_random_actions_are_spread_over_the_bounds_by_the_pipeline():
    env = gym.make("Pendulum-v1")

    _, actions = acted(RandomModule(None, env.action_space, seed=0), env, 30)

    assert all(env.action_space.contains(action) for action in actions)
    assert max(abs(action.item()) for action in actions) > 1.0


@pytest.mark.parametrize("place", ["column", "observations"])
def test_random_actions_respect_masks(place):
    mask = np.array([[0, 1, 0], [1, 0, 1]] * 20)
    batch = (
        {"obs": np.zeros(40), "action_mask": mask}
        if place == "column"
        else {"obs": {"action_mask": torch.tensor(mask)}}
    )

    actions = RandomModule(None, spaces.Discrete(3, start=5), seed=0).forward_inference(batch)["actions"]

    assert set(actions[::2].tolist()) == {6}
    assert set(actions[1::2].tolist()) == {5, 7}


PAIR = {"dict": spaces.Dict(a=TWO, b=TWO), "tuple": spaces.Tuple([TWO, TWO])}


@pytest.mark.parametrize("space", PAIR.values(), ids=PAIR)
@pytest.mark.parametrize("mask", [np.ones((3, 2)), (np.ones((3, 2)),), {"c": np.ones((3, 2))}, [None, None]], ids=repr)
def test_masks_nested_in_another_way_are_rejected(space, mask):
    with pytest.raises(BatchError, match="Nest masks as the action space is nested"):
        RandomModule(None, space).forward_inference({"obs": np.zeros(3), "action_mask": mask})


@pytest.mark.parametrize("seed", ["x", -1, 1.5, True, 2**64], ids=repr)
def test_what_is_no_seed_is_rejected(seed):
    with pytest.raises(ModuleError, match="RandomModule: found `seed="):
        RandomModule(None, TWO, seed=seed)


@pytest.mark.parametrize("real_range", [5, (1.0,), (1.0, -1.0), (math.nan, 1.0), (0.0, math.inf), "ab"], ids=repr)
def test_what_is_no_range_is_rejected(real_range):
    with pytest.raises(ModuleError, match=r"RandomModule: found `real_range=.*expected two finite numbers"):
        RandomModule(None, TWO, real_range=real_range)


def test_random_actions_of_one_seed_are_the_same():
    left, right, other = (RandomModule(None, spaces.Discrete(1000), seed=seed) for seed in (1, 1, 2))
    batch = {"obs": np.zeros(5)}

    first = left.forward_inference(batch)["actions"].tolist()

    assert right.forward_inference(batch)["actions"].tolist() == first
    assert other.forward_inference(batch)["actions"].tolist() != first


def test_random_actions_go_on_from_a_state():
    left, right = (RandomModule(None, spaces.Discrete(1000), seed=seed) for seed in (1, 2))
    batch = {"obs": np.zeros(5)}
    left.forward_inference(batch)

    right.set_state(left.get_state())

    assert right.forward_inference(batch)["actions"].tolist() == left.forward_inference(batch)["actions"].tolist()


NEGATIVE = RandomModule(None, TWO, seed=1).get_state()["generator"] | {"state": {"state": -1, "inc": 1}}


@pytest.mark.parametrize(
    "state",
    [{}, None, {"generator": {"bit_generator": "MT19937"}}, {"generator": 3}, {"generator": NEGATIVE}],
    ids=["empty", "None", "another generator", "a number", "a negative number inside"],
)
def test_a_state_of_something_else_is_rejected(state):
    module = RandomModule(None, spaces.Discrete(3), seed=1)
    before = module.get_state()

    with pytest.raises(ModuleError, match="RandomModule: found a state that does not fit"):
        module.set_state(state)
    assert module.get_state() == before


def test_spaces_without_random_actions_are_rejected():
    with pytest.raises(BatchError, match="cannot be drawn at random"):
        RandomModule(None, spaces.Text(3)).forward_inference({"obs": np.zeros(2)})
