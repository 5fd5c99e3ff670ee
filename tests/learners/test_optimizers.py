"""An optimizer for each component; what has none is frozen."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter
from torch.optim.optimizer import register_optimizer_step_post_hook

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.connectors import PiecewiseLinearSchedule
from episodia.errors import LearnerError
from episodia.learners import ALL_MODULES, A2CConfig, Learner, OptimizerConfig
from episodia.learners.optimizers import Optimizers
from episodia.modules import MLPActorCritic

SGD = torch.optim.SGD


def mlp():
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(8,), generator=torch.Generator().manual_seed(0))


def learner(*optimizers, modules=None, **config):
    return Learner(mlp() if modules is None else modules, A2CConfig(optimizers=optimizers, **config), seed=0)


def changed(made, **kwargs):
    """Return the names of the weights that an update changes."""
    before = made.get_weights()
    made.update([drive(6, seed) for seed in range(3)], **kwargs)
    after = made.get_weights()
    return {
        f"{module_id}.{name}"
        for module_id, weights in before.items()
        for name, value in weights.items()
        if not torch.equal(value, after[module_id][name])
    }


def test_components_without_an_optimizer_are_frozen():
    found = changed(learner(OptimizerConfig(components=("critic", "critic_head"))))

    names = ("critic.tower.0.weight", "critic.tower.0.bias", "critic_head.weight", "critic_head.bias")
    assert found == {f"default_policy.{name}" for name in names}


def test_a_component_ends_at_a_dot():
    found = changed(learner(OptimizerConfig(components=("actor",))))

    assert found == {"default_policy.actor.tower.0.weight", "default_policy.actor.tower.0.bias"}


def test_each_optimizer_has_its_own_class_and_learning_rate():
    made = learner(
        OptimizerConfig(
            components=("actor", "actor_head"), optimizer=SGD, learning_rate=0.1, options={"momentum": 0.9}
        ),
        OptimizerConfig(components=("critic", "critic_head")),
        learning_rate=0.01,
    )

    metrics = made.update([drive(6)])

    assert metrics[ALL_MODULES]["learning_rate_0"] == 0.1
    assert metrics[ALL_MODULES]["learning_rate_1"] == 0.01
    assert [part["class"] for part in made.get_state()["optimizers"]] == ["SGD", "Adam"]


def test_plain_descent_moves_weights_against_the_gradient_by_the_learning_rate():
    made = learner(OptimizerConfig(optimizer=SGD, learning_rate=0.5), gradient_processors=())
    batch = made.batch_of([drive(6)])
    before, gradients = made.get_weights()["default_policy"], made.compute_gradients(batch)

    made.update_batch(batch)

    for name, weight in made.get_weights()["default_policy"].items():
        torch.testing.assert_close(weight, before[name] - 0.5 * gradients[name])


def test_learning_rates_follow_their_schedule_over_the_steps_trained_on():
    made = learner(OptimizerConfig(), learning_rate=PiecewiseLinearSchedule([(0, 1.0), (10, 0.0)]))

    found = [made.update([drive(4)], num_epochs=3)[ALL_MODULES]["learning_rate"] for _ in range(4)]

    assert found == pytest.approx([1.0, 0.6, 0.2, 0.0])


def test_a_learning_rate_of_0_changes_nothing():
    assert changed(learner(OptimizerConfig(), learning_rate=0.0)) == set()


def test_a_component_that_is_not_there_is_an_error_that_lists_what_is():
    with pytest.raises(LearnerError, match=r"found the component 'acting'.*'actor.tower.0', 'actor_head'"):
        learner(OptimizerConfig(components=("acting",)))


def test_two_optimizers_for_one_parameter_are_an_error():
    with pytest.raises(
        LearnerError, match=r"optimizer 1: found the parameter 'actor.tower.0.weight', which optimizer 0"
    ):
        learner(OptimizerConfig(), OptimizerConfig(components=("actor",)))


def test_a_shared_module_has_one_optimizer_under_all_its_names():
    shared = mlp()

    with pytest.raises(LearnerError, match="which optimizer 0 trains already"):
        learner(
            OptimizerConfig(components=("left",)),
            OptimizerConfig(components=("right",)),
            modules={"left": shared, "right": shared},
        )


@pytest.mark.parametrize("components", ["actor", (), ["actor"]])
def test_components_are_a_tuple_of_names(components):
    with pytest.raises(LearnerError, match="expected a tuple of names"):
        OptimizerConfig(components=components)


def test_parameters_that_want_no_gradients_stay():
    module = mlp()
    module.critic_head.requires_grad_(False)

    found = changed(learner(OptimizerConfig(), modules=module))

    assert not any("critic_head" in name for name in found)
    assert "default_policy.critic.tower.0.weight" in found


def test_fused_kernels_are_left_to_who_asks_otherwise():
    made = learner(OptimizerConfig(options={"foreach": True}))
    fused = learner(OptimizerConfig())

    assert made._optimizers._optimizers[0].param_groups[0]["fused"] is None
    assert fused._optimizers._optimizers[0].param_groups[0]["fused"] is True


# --- What they remember ---------------------------------------------------------------------------------------------

REMEMBERING = {
    "Adam": OptimizerConfig(),
    "Adam, amsgrad": OptimizerConfig(options={"amsgrad": True}),
    "SGD": OptimizerConfig(optimizer=SGD),
    "SGD, momentum": OptimizerConfig(optimizer=SGD, options={"momentum": 0.9}),
    "RMSprop": OptimizerConfig(optimizer=torch.optim.RMSprop),
    # Remembers vectors for a matrix.
    "Adafactor": OptimizerConfig(optimizer=torch.optim.Adafactor),
}


def resumed_and_not(config):
    """Return a learner that goes on from a state, and the one that the state is of."""
    one, other = learner(config), learner(config)
    one.update([drive(6)])
    other.set_state(one.get_state())
    return other, one


@pytest.mark.parametrize("config", REMEMBERING.values(), ids=REMEMBERING)
def test_optimizers_go_on_with_what_they_remember(config):
    resumed, going_on = resumed_and_not(config)

    weights = []
    for each in (resumed, going_on):
        each.update([drive(5, seed) for seed in range(3)], num_epochs=2)
        weights.append(each.get_weights()["default_policy"])

    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())


@pytest.mark.parametrize("config", REMEMBERING.values(), ids=REMEMBERING)
def test_a_memory_that_lacks_something_is_rejected_and_changes_nothing(config):
    made, other = resumed_and_not(config)
    other.update([drive(3)])
    state, before = other.get_state(), str(made.get_state())
    memory = state["optimizers"][0]["parameters"].get("actor.tower.0.weight", {})
    names = [name for name, value in memory.items() if value is not None]

    for name in names:
        kept = memory.pop(name)
        with pytest.raises(LearnerError, match=rf"memory of 'actor.tower.0.weight', expected .*{name}"):
            made.set_state(state)
        memory[name] = kept

    assert str(made.get_state()) == before
    assert names or config.optimizer is SGD


def test_an_optimizer_that_cannot_take_a_step_by_itself_may_remember_anything():
    class Closed(SGD):
        def step(self, closure=None):
            if all(parameter.grad.count_nonzero() == 0 for parameter in self.param_groups[0]["params"]):
                raise RuntimeError("wants more than gradients")
            return super().step(closure)

    resumed, going_on = resumed_and_not(OptimizerConfig(optimizer=Closed, options={"momentum": 0.9}))

    assert str(resumed.get_state()) == str(going_on.get_state())


@pytest.mark.parametrize("register", ["own", "global"])
def test_hooks_of_an_optimizer_are_called(register):
    called = []
    weight = Parameter(torch.ones(1))

    def make(parameters, lr):
        made = torch.optim.Adam(parameters, lr=lr)
        if register == "own":
            made.register_step_post_hook(lambda *_: called.append(made))
        return made

    optimizers = Optimizers({"w": weight}, [OptimizerConfig(optimizer=make)], 0.1)
    handle = None
    if register == "global":
        handle = register_optimizer_step_post_hook(lambda *_: called.append(None))
    weight.grad = torch.ones(1)
    optimizers.step()
    if handle is not None:
        handle.remove()

    assert len(called) == 1


def test_a_step_equals_that_of_the_optimizer_itself():
    weights = [Parameter(torch.ones(3)) for _ in range(2)]
    ours = Optimizers({"w": weights[0]}, [OptimizerConfig()], 0.1)
    theirs = torch.optim.Adam([weights[1]], lr=0.1, fused=True)

    for scale in (1.0, -2.0, 0.5):
        for weight in weights:
            weight.grad = scale * torch.arange(3.0)
        ours.step()
        theirs.step()

    assert torch.equal(weights[0], weights[1])
