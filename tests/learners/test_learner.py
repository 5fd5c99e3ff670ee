"""Updates: what is reported, what is skipped, what is rejected."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.connectors import PiecewiseLinearSchedule
from episodia.errors import LearnerError, ModuleError, NonFiniteError, PipelineError
from episodia.learners import ALL_MODULES, A2CConfig, AdaptiveKL, Learner, PPOConfig, ReinforceConfig
from episodia.learners.minibatches import on_device
from episodia.modules import MLPActorCritic
from tables import Table

CONFIGS = [ReinforceConfig(), A2CConfig(), PPOConfig()]


def mlp():
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(8,), generator=torch.Generator().manual_seed(0))


def rows(returns):
    """Return a batch of one situation in which action 1 brought these returns."""
    return {
        "obs": torch.zeros(len(returns), dtype=torch.int64),
        "actions": torch.ones(len(returns), dtype=torch.int64),
        "returns_to_go": torch.tensor(returns),
    }


def weights(learner):
    return {key: value for part in learner.get_weights().values() for key, value in part.items()}


def same_weights(left, right):
    return all(torch.equal(left[name], right[name]) for name in right)


def test_a_pickled_learner_learns_on_as_the_other_does():
    learner = Learner(mlp(), PPOConfig(), seed=0)
    learner.update([drive(7, end="terminated")])

    other = pickle.loads(pickle.dumps(learner))
    for each in (learner, other):
        each.update([drive(4, end="truncated")])

    assert same_weights(weights(learner), weights(other))


def test_its_text_names_modules_and_settings_in_one_line():
    shown = repr(Learner(mlp(), PPOConfig(clip=0.1)))

    assert shown.startswith("Learner(default_policy: MLPActorCritic, PPOConfig(gamma=0.99")
    assert "clip=0.1" in shown
    assert "\n" not in shown


# --- What an update does and says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=type)
def test_metrics_are_plain_finite_numbers(config):
    episodes = [drive(7, end="terminated"), drive(4, end="truncated")]

    metrics = Learner(mlp(), config).update(episodes, num_epochs=2, minibatch_size=4)

    numbers = [value for part in metrics.values() for value in part.values()]
    assert list(metrics) == ["default_policy", ALL_MODULES]
    assert all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
    assert {"loss", "policy_loss", "entropy", "gradient_norm"} <= metrics["default_policy"].keys()


def test_counters_add_up():
    learner = Learner(mlp(), PPOConfig())

    learner.update([drive(7), drive(4)], num_epochs=2, minibatch_size=4)
    found = learner.update([drive(3)])[ALL_MODULES]

    # Minibatches of 4, 4 and 3 steps, twice, and then one of 3.
    assert {name: found[name] for name in ("num_updates", "num_gradient_steps", "num_steps", "num_skipped")} == {
        "num_updates": 2,
        "num_gradient_steps": 7,
        "num_steps": 14,
        "num_skipped": 0,
    }


def test_metrics_are_averages_over_steps_not_over_minibatches():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig(learning_rate=0.0))

    metrics = learner.update_batch({"default_policy": rows([1.0, 1.0, 1.0, 5.0])}, minibatch_size=3, shuffle=False)

    assert metrics["default_policy"]["loss"] == pytest.approx(math.log(2.0) * 2.0, rel=1e-6)


def test_episodes_are_not_changed():
    episodes = [drive(5), drive(3)]
    before = [str(episode.get_state()) for episode in episodes]

    Learner(mlp(), PPOConfig()).update(episodes, num_epochs=2)

    assert [str(episode.get_state()) for episode in episodes] == before


def test_the_same_seed_gives_the_same_weights_and_another_order_others():
    def trained(seed, **kwargs):
        learner = Learner(mlp(), A2CConfig(), seed=seed)
        learner.update([drive(20)], num_epochs=2, minibatch_size=5, **kwargs)
        return weights(learner)

    assert same_weights(trained(1), trained(1))
    assert not same_weights(trained(1), trained(2))
    assert same_weights(trained(1, shuffle=False), trained(2, shuffle=False))


def test_no_episodes_change_nothing():
    learner = Learner(mlp(), A2CConfig())
    before = weights(learner)

    metrics = learner.update([])

    assert list(metrics) == [ALL_MODULES]
    assert metrics[ALL_MODULES]["num_steps"] == 0
    assert same_weights(weights(learner), before)


def test_coefficients_follow_their_schedules():
    learner = Learner(mlp(), A2CConfig(entropy_coefficient=PiecewiseLinearSchedule([(0, 1.0), (10, 0.0)])))

    found = [learner.update([drive(5)])["default_policy"]["entropy_coefficient"] for _ in range(3)]

    assert found == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(("target", "expected"), [(1e-12, [0.5, 1.0, 2.0]), (1e3, [0.5, 0.25, 0.125])])
def test_the_penalty_on_the_divergence_adapts(target, expected):
    config = PPOConfig(kl_coefficient=AdaptiveKL(initial=0.5, target=target), learning_rate=1e-2)
    learner = Learner(mlp(), config)

    found = [learner.update([drive(9)], num_epochs=2)["default_policy"]["kl_coefficient"] for _ in range(3)]

    assert found == expected


def test_the_penalty_adapts_to_the_divergence_of_the_last_epoch():
    # In the first epoch the policy has not moved: an average over both epochs would be below the target.
    probe = Learner(mlp(), PPOConfig(kl_coefficient=0.5, learning_rate=1e-2))
    episodes = [drive(9)]
    stored = probe.batch_of(episodes)["default_policy"]
    with torch.no_grad():
        stored["action_dist_inputs"] = probe.modules["default_policy"].forward_train(stored)["action_dist_inputs"]
    mean = probe.update_batch({"default_policy": stored}, num_epochs=2)["default_policy"]["kl"]

    rule = AdaptiveKL(initial=0.5, target=1.2 * mean)
    learner = Learner(mlp(), PPOConfig(kl_coefficient=rule, learning_rate=1e-2))
    learner.update_batch({"default_policy": stored}, num_epochs=2)

    # The last epoch has twice the mean.
    assert learner.get_state()["coefficients"] == {"default_policy": {"kl_coefficient": 1.0}}


# --- Numbers that are not finite ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_minibatch_whose_loss_is_not_finite_is_skipped_and_counted(bad):
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    batch = {"default_policy": rows([1.0, bad, 2.0])}

    metrics = learner.update_batch(batch, minibatch_size=1, shuffle=False)

    reference = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    reference.update_batch({"default_policy": rows([1.0, 2.0])}, minibatch_size=1, shuffle=False)
    assert same_weights(weights(learner), weights(reference))
    assert metrics["default_policy"]["num_skipped"] == metrics[ALL_MODULES]["num_skipped"] == 1
    assert metrics[ALL_MODULES]["num_gradient_steps"] == 2
    assert math.isfinite(metrics["default_policy"]["loss"])


def test_numbers_that_are_not_finite_are_an_error_by_choice():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig(on_non_finite="raise"))
    before = weights(learner)

    with pytest.raises(NonFiniteError, match=r"found a loss of nan for 'default_policy'.*unchanged by this step"):
        learner.update_batch({"default_policy": rows([math.nan])})

    assert same_weights(weights(learner), before)


def test_observations_that_are_not_finite_are_skipped_like_losses():
    learner = Learner(mlp(), ReinforceConfig())
    before = weights(learner)
    batch = learner.batch_of([drive(3, end="terminated")])
    batch["default_policy"]["obs"][1] = math.nan

    metrics = learner.update_batch(batch)

    assert metrics["default_policy"]["num_skipped"] == 1
    assert same_weights(weights(learner), before)


def test_a_loss_that_is_finite_with_gradients_that_are_not_is_skipped():
    class Root(Table):
        def forward_train(self, batch):
            return {"action_dist_inputs": self.logits[batch["obs"]].clamp(min=0.0).sqrt()}

    learner = Learner(Root([[0.0, 0.0]]), ReinforceConfig())

    metrics = learner.update_batch({"default_policy": rows([1.0])})

    assert metrics["default_policy"]["num_skipped"] == 1
    assert weights(learner)["logits"].tolist() == [[0.0, 0.0]]


def test_one_module_that_is_skipped_does_not_keep_the_others_from_learning():
    learner = Learner({"left": Table([[0.0, 0.0]]), "right": Table([[0.0, 0.0]])}, ReinforceConfig())

    metrics = learner.update_batch({"left": rows([math.nan]), "right": rows([1.0])})

    found = learner.get_weights()
    assert found["left"]["logits"].tolist() == [[0.0, 0.0]]
    assert found["right"]["logits"][0, 1] > 0.0
    assert (metrics["left"]["num_skipped"], metrics["right"]["num_skipped"]) == (1, 0)


def test_averages_that_are_not_finite_are_skipped_too():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())

    metrics = learner.apply_gradients(
        [{"logits": np.array([[np.nan, 0.0]])}, {"logits": np.ones((1, 2))}], weights=[1, 1]
    )

    assert metrics["default_policy"] == {"num_skipped": 1}
    assert weights(learner)["logits"].tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("lost", ["outputs", "loss"])
def test_a_place_where_a_module_is_lost_is_noticed_where_its_gradients_are_applied(lost):
    learner = Learner(mlp(), ReinforceConfig())
    before = weights(learner)
    sound, broken = (learner.batch_of([drive(3, seed, end="terminated")]) for seed in (0, 1))
    if lost == "outputs":
        broken["default_policy"]["obs"][1] = math.nan
    else:
        broken["default_policy"]["returns_to_go"] = torch.full((3,), math.inf)

    metrics = learner.apply_gradients([learner.compute_gradients(batch) for batch in (sound, broken)], weights=[3, 3])

    assert metrics["default_policy"] == {"num_skipped": 1}
    assert metrics[ALL_MODULES]["num_skipped"] == 1
    assert same_weights(weights(learner), before)


def test_a_lost_module_is_an_error_where_its_gradients_are_applied_by_choice():
    learner = Learner(mlp(), ReinforceConfig(on_non_finite="raise"))
    batch = learner.batch_of([drive(3, end="terminated")])
    batch["default_policy"]["obs"][1] = math.nan
    gradients = learner.compute_gradients(batch)

    with pytest.raises(NonFiniteError, match="gradients of norm nan for 'default_policy'"):
        learner.apply_gradients([gradients], weights=[3])


def test_a_lost_place_without_steps_does_not_count():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    gradients = [learner.compute_gradients({"default_policy": rows([number])}) for number in (1.0, math.nan)]

    metrics = learner.apply_gradients(gradients, weights=[1, 0])

    assert metrics["default_policy"]["num_skipped"] == 0
    assert math.isfinite(metrics["default_policy"]["loss"])
    assert weights(learner)["logits"][0, 1] > 0.0


def _spoiled(module_id):
    def spoil(gradients):
        return {
            key: [tensor * (math.nan if key == module_id else 1.0) for tensor in tensors]
            for key, tensors in gradients.items()
        }

    return spoil


def test_what_a_gradient_processor_spoils_is_skipped_and_counted():
    config = ReinforceConfig(gradient_processors=(_spoiled("left"),))
    learner = Learner({"left": Table([[0.0, 0.0]]), "right": Table([[0.0, 0.0]])}, config)

    metrics = learner.update_batch({"left": rows([1.0]), "right": rows([1.0])})

    found = learner.get_weights()
    assert found["left"]["logits"].tolist() == [[0.0, 0.0]]
    assert found["right"]["logits"][0, 1] > 0.0
    assert (metrics["left"]["num_skipped"], metrics["right"]["num_skipped"]) == (1, 0)


def test_what_a_gradient_processor_spoils_is_an_error_by_choice():
    config = ReinforceConfig(gradient_processors=(_spoiled("default_policy"),), on_non_finite="raise")
    learner = Learner(Table([[0.0, 0.0]]), config)

    with pytest.raises(NonFiniteError, match="gradients of norm nan for 'default_policy'"):
        learner.update_batch({"default_policy": rows([1.0])})

    assert weights(learner)["logits"].tolist() == [[0.0, 0.0]]


# --- What is rejected ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [("left", "left.arm"), ("a.b.c", "x", "a.b")])
def test_ids_that_would_not_tell_parameters_apart_are_rejected(ids):
    with pytest.raises(LearnerError, match="do not begin with another id and a dot"):
        Learner({module_id: Table([[0.0, 0.0]]) for module_id in ids}, ReinforceConfig())


def test_ids_may_have_dots_as_long_as_they_tell_parameters_apart():
    ids = ("team.left", "team.right", "team2")

    learner = Learner({module_id: Table([[0.0, 0.0]]) for module_id in ids}, ReinforceConfig())

    assert list(learner.compute_gradients({"team.right": rows([1.0])})) == ["team.right.logits"]


@pytest.mark.parametrize("arguments", [{"num_epochs": 0}, {"minibatch_size": 0}, {"num_epochs": 1.5}])
def test_invalid_counts_are_rejected(arguments):
    learner = Learner(mlp(), A2CConfig())
    before = weights(learner)

    with pytest.raises(LearnerError, match=f"`{next(iter(arguments))}="):
        learner.update([drive(3)], **arguments)

    assert same_weights(weights(learner), before)


def test_columns_of_other_modules_only_are_rejected():
    with pytest.raises(LearnerError, match=r"found columns of \['left'\], expected .*\['default_policy'\]"):
        Learner(mlp(), A2CConfig()).update_batch({"left": {}})


def test_something_that_is_not_module_is_rejected():
    with pytest.raises(ModuleError, match="found str"):
        Learner("module", A2CConfig())


def test_a_module_without_weights_cannot_be_trained_alone():
    class Rule:
        observation_space = action_space = None

        def forward_train(self, batch):
            return {}

        forward_inference = forward_exploration = forward_train

        def get_initial_state(self):
            return {}

        def is_stateful(self):
            return False

    with pytest.raises(LearnerError, match="found no parameters to train"):
        Learner(Rule(), A2CConfig())


def test_an_actor_without_values_cannot_learn_with_an_algorithm_that_needs_them():
    class Actor(Table):
        compute_values = None  # a method that is not there

    with pytest.raises(
        PipelineError, match=r"GeneralAdvantageEstimation' at 4.*a module \(Actor\) without `compute_values`"
    ):
        Learner(Actor([[0.0, 0.0]]), A2CConfig(standardize_advantages=False))


# --- Devices --------------------------------------------------------------------------------------------------------


def test_columns_go_to_the_device_and_objects_stay():
    infos = np.array([{}, {}], object)

    moved = on_device({"obs": {"x": torch.zeros(2)}, "infos": infos}, torch.device("meta"))

    assert moved["obs"]["x"].device.type == "meta"
    assert moved["infos"] is infos


def test_on_the_cpu_nothing_is_moved():
    columns = {"obs": torch.zeros(2)}

    assert on_device(columns, torch.device("cpu")) is columns
