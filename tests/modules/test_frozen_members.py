"""Members of a multi-module that do not learn: frozen by name, by their weights, or because they are rules."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import MultiAgentEpisode
from episodia.errors import ModuleError
from episodia.learners import A2CConfig, Learner
from episodia.modules import MLPActorCritic, MultiModule, RandomModule

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
AGENTS = ("left", "right")


def mlp(seed=0):
    return MLPActorCritic(BOX, ACTIONS, hidden=(4,), generator=torch.Generator().manual_seed(seed))


def episode(steps=6, seed=0):
    """Return an episode of two agents, each served by the module of its name."""
    rng = np.random.default_rng(seed)
    made = MultiAgentEpisode(f"game-{seed}", agent_to_module_mapping_fn=lambda agent, _: agent)
    made.add_env_reset(observations={agent: rng.normal(size=2).astype(np.float32) for agent in AGENTS})
    for t in range(steps):
        made.add_env_step(
            {agent: rng.normal(size=2).astype(np.float32) for agent in AGENTS},
            {agent: int(rng.integers(3)) for agent in AGENTS},
            {agent: float(rng.normal()) for agent in AGENTS},
            terminateds={"__all__": t == steps - 1},
            extra_model_outputs={agent: {"action_logp": -1.0} for agent in AGENTS},
        )
    return made.finalize()


def changed(modules):
    """Let the modules learn, and return the ids of those whose weights are others afterwards."""
    learner = Learner(modules, A2CConfig(learning_rate=0.1), seed=0)
    before = learner.get_weights()
    learner.update([episode()])
    after = learner.get_weights()
    return {
        module_id
        for module_id, weights in after.items()
        if any(not torch.equal(value, before[module_id][name]) for name, value in weights.items())
    }


def test_without_frozen_members_all_learn():
    assert changed(MultiModule({"left": mlp(0), "right": mlp(1)})) == {"left", "right"}


def test_a_frozen_member_does_not_learn():
    assert changed(MultiModule({"left": mlp(0), "right": mlp(1)}, frozen={"right"})) == {"left"}


def test_weights_that_want_no_gradient_do_not_learn():
    still = mlp(1).requires_grad_(False)

    assert changed(MultiModule({"left": mlp(0), "right": still})) == {"left"}


def test_a_rule_beside_a_network_does_not_disturb_it():
    assert changed(MultiModule({"left": mlp(0), "right": RandomModule(BOX, ACTIONS)})) == {"left"}


def test_a_shared_member_learns_under_the_id_that_is_not_frozen():
    weights = []
    for frozen in ((), ("right",)):
        shared = mlp(0)
        assert changed(MultiModule({"left": shared, "right": shared}, frozen=frozen)) == {"left", "right"}
        weights.append(torch.nn.utils.parameters_to_vector(shared.parameters()))
    alone = mlp(0)
    changed(MultiModule({"left": alone, "right": mlp(1)}, frozen={"right"}))

    # Frozen under one id, it learns as if no agent had acted under that id.
    assert not torch.equal(*weights)
    torch.testing.assert_close(weights[1], torch.nn.utils.parameters_to_vector(alone.parameters()))


def test_frozen_members_are_named():
    modules = MultiModule({"left": mlp(0), "right": mlp(1)}, frozen=["right"])

    assert modules.frozen == {"right"}
    assert "frozen=['right']" in repr(modules)
    assert MultiModule({"left": mlp()}, frozen="left").frozen == {"left"}


def test_freezing_what_is_not_there_is_rejected():
    with pytest.raises(ModuleError, match=r"found \['middle'\] in `frozen`, expected some of \['left'\]"):
        MultiModule({"left": mlp()}, frozen={"middle"})


@pytest.mark.parametrize("frozen", [None, 3, [["left"]], [None], {"left": 1}.values(), np.zeros((2, 3))], ids=repr)
def test_what_names_no_modules_freezes_none(frozen):
    with pytest.raises(
        ModuleError, match=r"^MultiModule: found .*`?frozen.*expected (a list of keys|some of \['left'\])"
    ):
        MultiModule({"left": mlp()}, frozen=frozen)
