"""What counts as a module: anything with the methods, torch or not; and several of them under one roof."""

import ast
import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules import (
    DistributionClass,
    DistributionModule,
    MLPActorCritic,
    Module,
    MultiModule,
    ValueModule,
    dist_for,
)
from episodia.modules import __all__ as public_names

OBSERVATIONS, ACTIONS = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)


class Rule:
    """Always takes the same action."""

    observation_space, action_space = OBSERVATIONS, ACTIONS

    def forward_inference(self, batch):
        return {"actions": np.full(len(batch["obs"]), 2)}

    forward_exploration = forward_train = forward_inference

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


class Incomplete:
    observation_space = OBSERVATIONS

    def forward_inference(self, batch):
        return batch


def imported_modules(name):
    tree = ast.parse(Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8"))
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return froms | plain


def test_a_rule_without_torch_is_a_module():
    assert isinstance(Rule(), Module)
    assert not isinstance(Rule(), DistributionModule)
    assert not isinstance(Rule(), ValueModule)
    assert Rule().forward_inference({"obs": np.zeros((2, 2))})["actions"].tolist() == [2, 2]


def test_a_class_without_all_methods_is_none():
    assert not isinstance(Incomplete(), Module)


def test_specs_stand_where_rllib_has_distribution_classes():
    class Shaped:
        @classmethod
        def from_logits(cls, logits):
            return logits

    assert isinstance(dist_for(ACTIONS), DistributionClass)
    assert isinstance(Shaped, DistributionClass)


@pytest.mark.parametrize("name", ["episodia.modules.protocol", "episodia.modules.multi_module"])
def test_the_protocol_itself_needs_no_torch(name):
    assert not any(module.split(".")[0] == "torch" for module in imported_modules(name))


def test_public_names_can_be_imported():
    import episodia.modules  # noqa: PLC0415

    assert all(getattr(episodia.modules, name) is not None for name in public_names)


# --- Several modules ------------------------------------------------------------------------------------------------


def test_a_multi_module_is_a_mapping_of_modules():
    left, right = Rule(), MLPActorCritic(OBSERVATIONS, ACTIONS, (4,))
    modules = MultiModule({"left": left, "right": right})

    assert list(modules) == list(modules.keys()) == ["left", "right"]
    assert modules["left"] is left
    assert "right" in modules
    assert "middle" not in modules
    assert len(modules) == 2
    assert repr(modules) == "MultiModule({'left': Rule, 'right': MLPActorCritic})"


def test_one_module_may_have_several_ids():
    shared = Rule()

    modules = MultiModule({"a": shared, "b": shared})

    assert modules["a"] is modules["b"]


def test_changing_the_given_dict_changes_nothing():
    given = {"a": Rule()}
    modules = MultiModule(given)

    given["b"] = Rule()

    assert list(modules) == ["a"]


def test_an_unknown_module_is_named_with_those_that_there_are():
    with pytest.raises(EpisodeKeyError, match=r"no module 'c', expected one of \['a', 'b'\]"):
        MultiModule({"a": Rule(), "b": Rule()})["c"]


def test_no_modules_are_rejected():
    with pytest.raises(ModuleError, match="found no modules"):
        MultiModule({})


@pytest.mark.parametrize("modules", [[Rule()], Rule(), None, 3], ids=lambda given: type(given).__name__)
def test_modules_without_ids_are_rejected(modules):
    with pytest.raises(ModuleError, match=rf"found {type(modules).__name__}, expected modules by their ids"):
        MultiModule(modules)


def test_what_is_no_module_is_rejected_with_what_it_lacks():
    with pytest.raises(
        ModuleError, match=r"found Incomplete as 'a', which lacks \['action_space', 'forward_exploration'"
    ):
        MultiModule({"a": Incomplete()})


def test_a_multi_module_survives_pickling():
    modules = MultiModule({"net": MLPActorCritic(OBSERVATIONS, ACTIONS, (4,))})

    restored = pickle.loads(pickle.dumps(modules))

    assert list(restored) == ["net"]
    assert isinstance(restored["net"], MLPActorCritic)
