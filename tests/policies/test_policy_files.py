"""Files of policies: only registered classes are made out of them, of sizes that fit, and everything else is rejected."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.checkpoints import load_state, save_state
from episodia.connectors import ConnectorPipelineV2, ConnectorV2, GetActions, defaults, register_connector
from episodia.errors import CheckpointError, ModuleError, PipelineError
from episodia.modules import ActorCritic, MLPActorCritic, Rule, RuleModule, default_module, register_module
from episodia.modules.module_registry import make_module
from episodia.policies import MultiAgentPolicy, Policy

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
OBSERVATION = np.array([0.5, -0.5], np.float32)


@register_module("tests.Counting")
class Counting(Rule):
    """Takes one action after another."""

    def __init__(self, observation_space=None, action_space=None, *, first=0):
        super().__init__(observation_space, action_space)
        self.first = self.next = first

    def act(self, batch):
        self.next += 1
        return np.full(len(batch["obs"]), self.next - 1)

    def get_config(self):
        return {"first": self.first}

    def get_state(self):
        return {"next": self.next}

    def set_state(self, state):
        self.next = state["next"]


@register_connector("tests.Shift", by="_by")
class Shift(ConnectorV2):
    """Adds a number to actions."""

    reads, writes, lookback = frozenset({"actions"}), frozenset({"actions_for_env"}), 0

    def __init__(self, *args, by, **kwargs):
        super().__init__(*args, **kwargs)
        self._by = by

    def __call__(self, *, batch, **kwargs):
        batch["actions_for_env"] = batch["actions"] + self._by
        return batch


class Stranger(ConnectorV2):
    """Is not registered."""

    def __call__(self, *, batch, **kwargs):
        return batch


def policy(custom=(), module=None):
    to_env = defaults.module_to_env(BOX, ACTIONS, custom=custom, normalize_actions=False)
    return Policy(MLPActorCritic(BOX, ACTIONS, (4,)) if module is None else module, None, to_env)


def changed(tmp_path, change):
    """Save a policy of whose state `change` has changed something."""
    state = Policy(default_module(BOX, ACTIONS, hidden=(4,))).get_state()
    change(state)
    save_state(tmp_path / "saved", {"policy": state})
    return tmp_path / "saved"


def test_registered_modules_and_pieces_come_back(tmp_path):
    mine = policy([Shift(by=10, name="mine")], Counting(BOX, ACTIONS, first=2))
    mine(OBSERVATION)
    mine.save(tmp_path / "saved")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 13


def test_nested_pipelines_come_back(tmp_path):
    nested = ConnectorPipelineV2(connectors=[Shift(by=1)], name="inner")
    policy([nested], Counting(BOX, ACTIONS)).save(tmp_path / "saved")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 1


@register_module("tests.Twice")
class Twice(ActorCritic):
    """Has weights under two names, and looks at them while it is made."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.first, self.second = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
        self.second.weight = self.first.weight
        self.largest = self.first.weight.abs().max().item()

    def forward(self, batch, *, actor=True, critic=True):
        return {"action_dist_inputs": self.first(batch["obs"]) - self.second(batch["obs"]).tanh()}

    def compute_values(self, batch, embeddings=None):
        return batch["obs"].sum(-1)

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False

    def get_config(self):
        return {}


def test_a_network_of_ones_own_may_look_at_its_weights_while_it_is_made(tmp_path):
    saved = policy(module=Twice(BOX, ACTIONS))
    saved.save(tmp_path / "saved")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == saved(OBSERVATION)


def test_weights_with_two_names_stay_one():
    module = Twice(BOX, ACTIONS)
    state = module.state_dict()
    loaded = make_module("tests.Twice", BOX, ACTIONS, {}, state)

    assert loaded.first.weight is loaded.second.weight
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in module.named_parameters()]
    assert all(torch.equal(weight, state[name]) for name, weight in loaded.state_dict().items())
    assert all(weight.requires_grad for weight in loaded.parameters())


def test_a_piece_that_is_not_registered_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(PipelineError, match=r"piece 'Stranger': .*not registered.*`register_connector\(name\)`"):
        policy([Stranger()]).save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_is_not_registered_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(ModuleError, match=r"RuleModule, which is not registered.*`register_module\(name\)`"):
        policy(module=RuleModule(len, BOX, ACTIONS)).save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_an_argument_that_is_not_plain_value_is_named(tmp_path):
    with pytest.raises(PipelineError, match=r"`by` of piece 'Shift': found a builtin_function_or_method"):
        policy([Shift(by=len)]).save(tmp_path / "saved")


def test_a_name_stands_for_one_class():
    with pytest.raises(
        ModuleError, match=r"'MLPActorCritic', the name of episodia.modules.networks.default_actor_critic"
    ):
        register_module("MLPActorCritic")(Counting)
    with pytest.raises(PipelineError, match=r"'GetActions', the name of episodia.connectors.module_to_env.get_actions"):
        register_connector("GetActions")(Shift)
    assert register_module("tests.Counting")(Counting) is Counting


@pytest.mark.parametrize("name", [3, None, "", Counting, Shift], ids=repr)
def test_a_name_is_a_string(name):
    for register, error in ((register_module, ModuleError), (register_connector, PipelineError)):
        with pytest.raises(error, match=rf"{register.__name__}: found .* as the name, expected a string"):
            register(name)


@pytest.mark.parametrize("made", [Counting(), 3, None, len, Shift(by=1)], ids=lambda made: type(made).__name__)
def test_only_classes_are_registered(made):
    with pytest.raises(ModuleError, match=r"register_module: found .*, expected a class"):
        register_module("tests.z")(made)
    with pytest.raises(PipelineError, match=r"register_connector: found .*, expected a subclass of `ConnectorV2`"):
        register_connector("tests.z")(made)


def test_only_classes_of_pieces_are_registered_as_such():
    with pytest.raises(PipelineError, match=r"found .*Counting.*, expected a subclass of `ConnectorV2`"):
        register_connector("tests.z")(Counting)


def test_a_class_without_a_config_cannot_be_registered():
    with pytest.raises(ModuleError, match="RuleModule without a method `get_config`"):
        register_module("tests.rule")(RuleModule)


class Bare(Rule):
    """Has a config, and no state."""

    def act(self, batch):
        return [0] * len(batch["obs"])

    def get_config(self):
        return {}


INCOMPLETE = {
    "config": ({"get_config": lambda _: None}, r"get_config: found None, expected a dict"),
    "list": ({"get_config": lambda _: [1]}, r"get_config: found \[1\], expected a dict"),
    "state": ({"get_state": lambda _: None, "set_state": print}, r"get_state: found None, expected a dict"),
    "way back": ({"get_state": lambda _: {"x": 1}}, r"found a method `get_state` without `set_state`"),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_a_module_that_could_not_be_loaded_is_not_saved(tmp_path, name):
    methods, words = INCOMPLETE[name]
    module = register_module(f"tests.without.{name}")(type(f"Without_{name}", (Bare,), methods))(BOX, ACTIONS)

    for it in (policy(module=module), MultiAgentPolicy({"a": module, "b": Bare(BOX, ACTIONS)})):
        with pytest.raises(ModuleError, match=words):
            it.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_remembers_nothing_needs_no_way_back(tmp_path):
    made = type("Forgetful", (Bare,), {"get_state": lambda _: {}})
    policy(module=register_module("tests.Forgetful")(made)(BOX, ACTIONS)).save(tmp_path / "saved")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 0


# --- Files that are not true ----------------------------------------------------------------------------------------


def set_at(*path, to):
    def change(state):
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = to

    return change


CHANGES = {
    "unknown module": (set_at("module", "class", to="os.system"), "os.system"),
    "module of another type": (set_at("module", "class", to=["MLPActorCritic"]), "expected a registered one"),
    "unknown piece": (set_at("env_to_module", "pieces", 0, "class", to="subprocess.Popen"), "subprocess.Popen"),
    "unknown argument": (set_at("module_to_env", "pieces", 0, "arguments", to={"nothing": 1}), "its own arguments"),
    "chosen device": (set_at("env_to_module", "pieces", -1, "arguments", to={"device": "cuda"}), "its own arguments"),
    "no pieces": (set_at("env_to_module", "pieces", to=None), "expected a list of at most 256 saved pieces"),
    "unknown config": (set_at("module", "config", "nothing", to=1), "nothing"),
    "other layers": (set_at("module", "config", "hidden", to=[1]), "names and shapes"),
    "many layers": (set_at("module", "config", "hidden", to=[10**4] * 50), "for the 44 weights in the same file"),
    "huge layers": (set_at("module", "config", "hidden", to=[10**9]), "for the 44 weights in the same file"),
    "no space": (set_at("module", "spaces", 0, to={"space": "Callable"}), "expected a space"),
    "missing weight": (lambda state: state["module"]["state"].popitem(), "names and shapes"),
    "other weight": (set_at("module", "state", "actor_head.bias", to=torch.zeros(7)), "names and shapes"),
    "weight of another type": (set_at("module", "state", "actor_head.bias", to=[0.0] * 3), "names and shapes"),
    "state of another piece": (set_at("env_to_module", "state", to={"MeanStdFilter": {}}), "MeanStdFilter"),
    "no generator": (set_at("generator", "state", to=3), "TypeError"),
    "later version": (set_at("version", to=2), "found a policy of version 2, expected 1"),
    "nothing": (lambda state: state.clear(), "version None"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_untrue_file_is_rejected_with_its_name(tmp_path, name):
    change, words = CHANGES[name]
    path = changed(tmp_path, change)

    with pytest.raises(CheckpointError, match=words) as caught:
        Policy.load(path)
    assert str(path) in str(caught.value)


def test_every_part_of_a_policy_is_needed(tmp_path):
    whole = Policy(MLPActorCritic(BOX, ACTIONS, (4,))).get_state()
    for key in whole:
        save_state(tmp_path / "saved", {"policy": {name: part for name, part in whole.items() if name != key}})

        with pytest.raises(CheckpointError, match="policy"):
            Policy.load(tmp_path / "saved")


def test_a_checkpoint_of_something_else_is_rejected(tmp_path):
    save_state(tmp_path / "saved", {"learner": {}, "steps": 3})

    with pytest.raises(CheckpointError, match=r"checkpoint of \['learner', 'steps'\], expected one with 'policy'"):
        Policy.load(tmp_path / "saved")


def test_a_policy_is_loaded_out_of_a_larger_checkpoint(tmp_path):
    saved = policy(module=Counting(BOX, ACTIONS, first=7))
    save_state(tmp_path / "saved", {"policy": saved.get_state(), "learner": {"steps": 3}})

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 7


@pytest.mark.parametrize("part", ["manifest", "state", "tensors"])
def test_damage_is_detected_here_too(tmp_path, part):
    policy().save(tmp_path / "saved")
    file = next(file for file in (tmp_path / "saved").iterdir() if file.name.startswith(part))
    content = file.read_bytes()
    for place in range(0, len(content), 97):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])

        with pytest.raises(CheckpointError):
            Policy.load(tmp_path / "saved")


def test_a_saved_policy_is_plain_data(tmp_path):
    policy([Shift(by=(1, [2.5, None]))]).save(tmp_path / "saved")

    data = load_state(tmp_path / "saved")["policy"]
    assert data["module"]["class"] == "MLPActorCritic"
    assert data["module"]["config"] == {"hidden": [4]}
    assert {"class": "tests.Shift", "arguments": {"by": (1, [2.5, None])}} in data["module_to_env"]["pieces"]


def test_saving_over_a_saved_policy_replaces_it(tmp_path):
    for first in (3, 8):
        policy(module=Counting(BOX, ACTIONS, first=first)).save(tmp_path / "saved")

    assert Policy.load(tmp_path / "saved")(OBSERVATION) == 8


def test_pieces_with_a_generator_of_their_own_go_on_drawing(tmp_path):
    to_env = defaults.module_to_env(BOX, ACTIONS)
    to_env.replace(GetActions, GetActions(seed=5))
    drawing = Policy(MLPActorCritic(BOX, ACTIONS, (4,)), None, to_env, explore=True)
    drawing(OBSERVATION)
    drawing.save(tmp_path / "saved")
    loaded = Policy.load(tmp_path / "saved")

    assert [loaded(OBSERVATION) for _ in range(20)] == [drawing(OBSERVATION) for _ in range(20)]
