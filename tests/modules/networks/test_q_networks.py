"""Q-networks, and actors with critics."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.connectors import defaults
from episodia.errors import ModuleError, UnknownArgumentError
from episodia.modules import ActorWithCritics, QNetwork, default_module
from episodia.modules.module_registry import make_module, module_config, module_name, module_state
from episodia.modules.networks.ensembles import Ensemble
from episodia.testing import check_module

BOX, FOUR = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(4, start=2)
REACH = spaces.Box(-2.0, 2.0, (2,))
OBSERVATIONS = {
    "vectors": BOX,
    "images": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "nested": spaces.Dict({"a": BOX, "b": spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)])}),
}


def seeded():
    return torch.Generator().manual_seed(0)


def batch(rows=5):
    return {"obs": torch.rand(rows, 3, generator=seeded()) * 2.0 - 1.0}


NETWORKS = {
    "plain": lambda space: QNetwork(space, FOUR, hidden=(8,)),
    "dueling": lambda space: QNetwork(space, FOUR, hidden=(8,), dueling=True),
    "categorical": lambda space: QNetwork(space, FOUR, hidden=(8,), atoms=5, value_range=(-1.0, 1.0)),
    "quantiles": lambda space: QNetwork(space, FOUR, hidden=(8,), atoms=5, dueling=True),
    "recurrent": lambda space: QNetwork(space, FOUR, hidden=(8,), recurrent="lstm", cell_size=4),
    "deterministic": lambda space: ActorWithCritics(space, REACH, policy="deterministic", hidden=(8,)),
    "soft": lambda space: ActorWithCritics(space, REACH, hidden=(8,)),
    "soft, shared": lambda space: ActorWithCritics(space, REACH, hidden=(8,), shared=True),
    "soft, discrete": lambda space: ActorWithCritics(space, FOUR, hidden=(8,)),
}


@pytest.mark.parametrize("space", OBSERVATIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_all_kinds_are_modules(name, space):
    assert check_module(NETWORKS[name](OBSERVATIONS[space]))


@pytest.mark.parametrize("name", [*NETWORKS, "noisy"])
def test_a_loaded_network_computes_the_same(name):
    made = {**NETWORKS, "noisy": lambda space: QNetwork(space, FOUR, hidden=(8,), noisy=True)}[name](BOX)
    loaded = make_module(
        module_name(made),
        observation_space=made.observation_space,
        action_space=made.action_space,
        config=module_config(made),
        state=module_state(made),
    )
    columns = batch()
    if made.is_stateful():
        columns = {"obs": columns["obs"][None], "state_in": {key: torch.zeros(1, 4) for key in ("h", "c")}}
    for module in (made, loaded):
        module.eval()

    torch.testing.assert_close(
        loaded.forward_inference(columns)["action_dist_inputs"],
        made.forward_inference(columns)["action_dist_inputs"],
        rtol=0.0,
        atol=0.0,
    )


def test_dueling_values_are_the_state_value_and_centered_advantages():
    module = QNetwork(BOX, FOUR, hidden=(8,), dueling=True)
    features = module.trunk.encoded(batch()["obs"])
    value, advantages = module.value_head(features), module.advantage_head(features)

    values = module.get_q_values(batch())

    torch.testing.assert_close(values, value + advantages - advantages.mean(-1, keepdim=True))


def test_categorical_values_are_means_of_returns():
    module = QNetwork(BOX, FOUR, hidden=(8,), atoms=3, value_range=(-1.0, 3.0))
    probabilities = module.get_q_value_distributions(batch())

    assert module.returns.tolist() == [-1.0, 1.0, 3.0]
    torch.testing.assert_close(module.get_q_values(batch()), probabilities @ torch.tensor([-1.0, 1.0, 3.0]))


def test_quantile_values_are_means_of_quantiles():
    module = QNetwork(BOX, FOUR, hidden=(8,), atoms=3)

    torch.testing.assert_close(module.get_q_values(batch()), module.get_q_value_distributions(batch()).mean(-1))


def test_greedy_actions_are_the_best_of_those_that_masks_allow():
    module = QNetwork(BOX, FOUR, hidden=(8,))
    columns = {**batch(), "action_mask": torch.tensor([[0, 1, 0, 1]] * 5)}
    outputs = {**module.forward_inference(columns), "action_mask": columns["action_mask"]}

    acted = defaults.module_to_env(BOX, FOUR)(rl_module=module, batch=outputs, episodes=[], explore=True)

    values = module.get_q_values(columns).detach().numpy()
    assert acted["actions"].tolist() == [2 + (1 if row[1] >= row[3] else 3) for row in values]
    assert "action_logp" not in acted


def test_the_state_value_is_that_of_the_best_allowed_action():
    module, columns = QNetwork(BOX, FOUR, hidden=(8,)), batch()
    mask = torch.tensor([[1, 1, 0, 0]] * 5)

    found = module.get_state_value({**columns, "action_mask": mask})

    torch.testing.assert_close(found, module.get_q_values(columns)[:, :2].amax(-1))


@pytest.mark.parametrize("make", [QNetwork, ActorWithCritics])
def test_masks_in_observations_hold_for_the_state_value(make):
    space = spaces.Dict({"observations": BOX, "action_mask": spaces.MultiBinary(4)})
    module, mask = make(space, FOUR, hidden=(8,)), torch.tensor([[0, 0, 0, 1]] * 5)
    columns = {"obs": {"observations": batch()["obs"], "action_mask": mask}}

    found = module.get_state_value(columns)

    values = module.get_q_values(columns)
    torch.testing.assert_close(found, (values if make is QNetwork else values.amin(0))[:, 3])


def test_noisy_heads_draw_noise_in_training_and_keep_it_for_exploration():
    module = QNetwork(BOX, FOUR, hidden=(8,), noisy=True)
    quiet = module.eval().forward_inference(batch())["action_dist_inputs"]
    torch.manual_seed(0)
    trained = module.train().forward_train(batch())["q_values"]

    explored = module.eval().forward_exploration(batch())["action_dist_inputs"]

    torch.testing.assert_close(explored, trained)
    assert not torch.equal(trained, quiet)
    torch.testing.assert_close(module.forward_inference(batch())["action_dist_inputs"], quiet)


def noise_of_values(atoms):
    """Return the size of the noise of values, in units of their spread, of a network whose atoms have learned the same."""
    module = QNetwork(BOX, FOUR, hidden=(64,), noisy=True, atoms=atoms, generator=seeded())
    weight = dict(module.named_parameters())["advantage_head.2.mean.weight"].view(4, atoms, 64)
    columns = {"obs": torch.rand(64, *BOX.shape, generator=seeded())}
    torch.manual_seed(0)
    with torch.no_grad():
        weight.copy_(weight[:, :1].clone().expand_as(weight))
        quiet = module.eval().forward_train(columns)["q_values"]
        noisy = torch.stack([module.train().forward_train(columns)["q_values"] for _ in range(100)])
    return float((noisy - quiet).std() / quiet.std())


def test_many_atoms_do_not_average_the_noise_away():
    assert noise_of_values(51) > 0.6 * noise_of_values(1) > 0.0


def test_an_ensemble_computes_what_its_members_compute():
    ensemble = Ensemble(3, 4, (6, 5), 2, seeded())
    inputs = torch.rand(7, 4)

    for member, found in enumerate(ensemble(inputs)):
        expected = inputs
        for layer, (weights, biases) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
            expected = expected @ weights[member] + biases[member]
            expected = expected.relu() if layer < 2 else expected
        torch.testing.assert_close(found, expected)


def test_members_of_an_ensemble_begin_with_different_weights():
    first, second = Ensemble(2, 4, (8,), 1, seeded())(torch.ones(1, 4))

    assert first.item() != second.item()


def test_deterministic_actions_lie_between_their_bounds():
    module = ActorWithCritics(BOX, REACH, policy="deterministic")
    torch.nn.init.constant_(module.actor.head.bias, 9.0)
    outputs = module.forward_inference(batch())

    acted = defaults.module_to_env(BOX, REACH)(rl_module=module, batch=outputs, episodes=[], explore=True)

    assert np.allclose(acted["actions_for_env"], 2.0, atol=1e-3)
    assert np.allclose(acted["actions"], 1.0, atol=1e-3)


def test_critics_value_the_actions_that_they_get():
    module = ActorWithCritics(BOX, REACH, hidden=(8,))
    actions = torch.rand(5, 2)

    found = module.get_q_values({**batch(), "actions": actions})

    assert found.shape == (2, 5)
    assert torch.equal(found, module.get_q_values(batch(), actions))
    assert not torch.equal(found, module.get_q_values(batch(), actions + 0.1))


def test_sequences_are_valued_step_by_step():
    module, actions = ActorWithCritics(BOX, REACH, hidden=(8,)), torch.rand(6, 2)
    rows = {"obs": torch.rand(6, 3)}
    steps = {"obs": rows["obs"].reshape(2, 3, 3)}

    found = module.get_q_values(steps, actions.reshape(2, 3, 2))

    torch.testing.assert_close(found.reshape(2, 6), module.get_q_values(rows, actions))


def test_a_shared_encoder_is_trained_by_critics_alone():
    module = ActorWithCritics(OBSERVATIONS["images"], REACH, hidden=(8,), shared=True)
    images = {"obs": torch.randint(0, 255, (2, 36, 36, 3), dtype=torch.uint8)}

    module.get_policy(images).sum().backward()

    assert all(weight.grad is None for weight in module.critics.encoder.parameters())
    assert all(weight.grad is not None for weight in module.actor.parameters())


def test_draws_with_gradients_have_the_log_density_of_their_actions():
    spec = ActorWithCritics(BOX, REACH).distribution
    inputs = torch.tensor([[0.3, -0.2, 0.1, -0.5]], requires_grad=True)
    distribution = spec.from_logits(inputs)

    actions, logp = distribution.rsample_with_logp(seeded())

    torch.testing.assert_close(logp, distribution.logp(actions), rtol=1e-4, atol=1e-4)
    assert torch.autograd.grad(actions.sum(), inputs)[0].abs().sum() > 0.0


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: QNetwork(BOX, REACH), "expected a Discrete space"),
        (lambda: QNetwork(BOX, FOUR, atoms=1, value_range=(0.0, 1.0)), "several atoms"),
        (lambda: QNetwork(BOX, FOUR, atoms=5, value_range=(1.0, 0.0)), "the smaller return first"),
        (lambda: QNetwork(BOX, FOUR, atoms=0), "`atoms`"),
        (lambda: ActorWithCritics(BOX, FOUR, policy="deterministic"), "expected a bounded Box"),
        (lambda: ActorWithCritics(BOX, spaces.Box(-np.inf, np.inf, (1,))), "no bounds"),
        (lambda: ActorWithCritics(BOX, REACH, policy="greedy"), "policy"),
        (lambda: default_module(BOX, FOUR, kind="dueling"), "kind"),
    ],
)
def test_networks_that_do_not_fit_are_rejected(make, problem):
    with pytest.raises(ModuleError, match=problem):
        make()


def test_a_misspelt_setting_is_named():
    with pytest.raises(UnknownArgumentError, match="Did you mean `dueling`"):
        default_module(BOX, FOUR, kind="q", duelling=True)
