"""Losses of algorithms that learn from replay, compared with plain arithmetic."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from episodia import SingleAgentEpisode
from episodia.errors import LearnerError
from episodia.learners import (
    DDPGConfig,
    DiscreteSACConfig,
    DQNConfig,
    Learner,
    LossInputs,
    OptimizerConfig,
    SACConfig,
    TD3Config,
)
from episodia.learners.losses.q_targets import projected
from episodia.modules import ActorWithCritics, MLPActorCritic, QNetwork, default_module
from episodia.replay import ReplayBuffer

BOX, TWO, REACH = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2, start=3), spaces.Box(-2.0, 2.0, (1,))
SEED = 0


def seeded():
    return torch.Generator().manual_seed(SEED)


def rows(actions):
    """Three steps, of which the last one ends its episode."""
    obs = torch.rand(4, 2, generator=seeded())
    return {
        "obs": obs[:3],
        "new_obs": obs[1:],
        "actions": torch.as_tensor(actions),
        "rewards": torch.tensor([1.0, -1.0, 2.0]),
        "terminateds": torch.tensor([False, False, True]),
    }


def outputs_of(config, module, batch, **changes):
    """Return the outputs of the loss, with a target network of weights that are half as large."""
    learner = Learner(module, config)
    target = learner.target_networks["default_policy"]["target"]
    with torch.no_grad():
        for name, weight in target.state_dict().items():
            if config.target_networks()["target"].of is None or name.startswith("critics"):
                weight.mul_(0.5)
    due = frozenset(optimizer.loss for optimizer in config.optimizers)
    given = {**batch, **changes}
    return config.loss(LossInputs(module, given, {}, {"target": target}, due)), target


def huber(error):
    return 0.5 * error**2 if abs(error) <= 1.0 else abs(error) - 0.5


@pytest.mark.parametrize("double", [False, True])
def test_q_learning_compares_with_the_discounted_value_of_the_best_next_action(double):
    module, batch = QNetwork(BOX, TWO, hidden=(8,), generator=seeded()), rows([3, 4, 3])
    found, target = outputs_of(DQNConfig(gamma=0.9, double=double), module, batch)

    values, later = module.get_q_values(batch).tolist(), target.get_q_values({"obs": batch["new_obs"]}).tolist()
    choosing = module.get_q_values({"obs": batch["new_obs"]}).tolist() if double else later
    errors = []
    for step, (action, reward, gamma) in enumerate([(0, 1.0, 0.9), (1, -1.0, 0.9), (0, 2.0, 0.0)]):
        best = int(np.argmax(choosing[step]))
        errors.append(values[step][action] - (reward + gamma * later[step][best]))
    assert found.losses["loss"].item() == pytest.approx(np.mean([huber(error) for error in errors]), rel=1e-5)
    assert found.rows["td_error"].tolist() == pytest.approx([abs(error) for error in errors], rel=1e-5)


def test_weights_scale_the_errors_of_their_rows():
    module, batch = QNetwork(BOX, TWO, hidden=(8,), generator=seeded()), rows([3, 4, 3])
    plain, _ = outputs_of(DQNConfig(), module, batch)
    first, _ = outputs_of(DQNConfig(), module, batch, weights=torch.tensor([3.0, 0.0, 0.0]))

    assert first.losses["loss"].item() == pytest.approx(huber(plain.rows["td_error"][0].item()), rel=1e-5)


def test_discounts_of_n_steps_replace_gamma():
    module, batch = QNetwork(BOX, TWO, hidden=(8,), generator=seeded()), rows([3, 4, 3])

    found, _ = outputs_of(DQNConfig(gamma=0.5), module, batch, discounts=torch.tensor([0.9, 0.9, 0.0]))
    same, _ = outputs_of(DQNConfig(gamma=0.9), module, batch)

    torch.testing.assert_close(found.losses["loss"], same.losses["loss"])


def test_a_mask_in_the_next_observation_rules_out_its_best_action():
    space = spaces.Dict({"observations": BOX, "action_mask": spaces.MultiBinary(2)})
    module = QNetwork(space, TWO, hidden=(8,), generator=seeded())
    batch = rows([3, 4, 3])
    masks = torch.tensor([[1, 0], [0, 1], [1, 1]])
    nested = {
        **batch,
        "obs": {"observations": batch["obs"], "action_mask": torch.ones(3, 2)},
        "new_obs": {"observations": batch["new_obs"], "action_mask": masks},
    }

    found, target = outputs_of(DQNConfig(gamma=1.0, double=False), module, nested)

    values, later = module.get_q_values(nested).tolist(), target.get_q_values({"obs": nested["new_obs"]}).tolist()
    expected = [abs(values[0][0] - (1.0 + later[0][0])), abs(values[1][1] - (-1.0 + later[1][1]))]
    assert found.rows["td_error"][:2].tolist() == pytest.approx(expected, rel=1e-5)


def distributions_after(module, target, batch):
    """Return the target network's distribution of the action that the module finds best, for each next observation."""
    following = {"obs": batch["new_obs"]}
    best = module.get_q_values(following).argmax(-1)
    return target.get_q_value_distributions(following)[range(3), best].tolist()


def test_a_categorical_network_learns_the_cross_entropy_to_the_projected_returns():
    module = QNetwork(BOX, TWO, hidden=(8,), atoms=3, value_range=(-1.0, 1.0), generator=seeded())
    batch = rows([3, 4, 3])
    found, target = outputs_of(DQNConfig(gamma=0.5), module, batch)

    (first, second, _), errors = distributions_after(module, target, batch), []
    # Returns 1 + 0.5 · (-1, 0, 1) are 0.5, 1 and above the range; -1 + 0.5 · (-1, 0, 1) the same below; the end gives 2.
    wanted = [
        [0.0, 0.5 * first[0], 1.0 - 0.5 * first[0]],
        [1.0 - 0.5 * second[2], 0.5 * second[2], 0.0],
        [0.0, 0.0, 1.0],
    ]
    logs = module.forward(batch)["q_atoms"].log_softmax(-1)[range(3), [0, 1, 0]].tolist()
    for shares, own in zip(wanted, logs, strict=True):
        errors.append(-sum(share * log for share, log in zip(shares, own, strict=True)))
    assert found.rows["td_error"].tolist() == pytest.approx(errors, rel=1e-5)
    assert found.losses["loss"].item() == pytest.approx(np.mean(errors), rel=1e-5)


def rescaled(value):
    return math.copysign(math.sqrt(abs(value) + 1.0) - 1.0, value) + 1e-3 * value


def restored(value):
    root = math.sqrt(1.0 + 4e-3 * (abs(value) + 1.0 + 1e-3)) - 1.0
    return math.copysign((root / 2e-3) ** 2 - 1.0, value)


def test_returns_of_a_categorical_network_may_be_on_the_rescaled_scale():
    module = QNetwork(BOX, TWO, hidden=(8,), atoms=3, value_range=(-1.0, 1.0), generator=seeded())
    batch = rows([3, 4, 3])
    found, target = outputs_of(DQNConfig(gamma=0.5, rescales_values=True), module, batch)

    errors = []
    logs = module.forward(batch)["q_atoms"].log_softmax(-1)[range(3), [0, 1, 0]]
    for shares, own, reward, gamma in zip(
        distributions_after(module, target, batch), logs, [1.0, -1.0, 2.0], [0.5, 0.5, 0.0], strict=True
    ):
        shifted = [rescaled(reward + gamma * restored(value)) for value in (-1.0, 0.0, 1.0)]
        wanted = projected(torch.linspace(-1.0, 1.0, 3), torch.tensor(shifted), torch.tensor(shares))
        errors.append(-(wanted * own).sum().item())
    assert found.rows["td_error"].tolist() == pytest.approx(errors, rel=1e-3)


@pytest.mark.parametrize("rescales", [False, True])
def test_a_quantile_network_learns_the_quantiles_of_the_discounted_returns(rescales):
    module = QNetwork(BOX, TWO, hidden=(8,), atoms=2, generator=seeded())
    batch = rows([3, 4, 3])
    found, target = outputs_of(DQNConfig(gamma=0.5, rescales_values=rescales), module, batch)
    to_scale, from_scale = (rescaled, restored) if rescales else (float, float)

    own = module.get_q_value_distributions(batch)[range(3), [0, 1, 0]].tolist()
    errors = []
    for values, after, reward, gamma in zip(
        own, distributions_after(module, target, batch), [1.0, -1.0, 2.0], [0.5, 0.5, 0.0], strict=True
    ):
        for value, level in zip(values, [0.25, 0.75], strict=True):
            gaps = [to_scale(reward + gamma * from_scale(later)) - value for later in after]
            errors.append(np.mean([abs(level - (gap < 0.0)) * huber(gap) for gap in gaps]))
    assert found.losses["loss"].item() == pytest.approx(sum(errors) / 3, rel=1e-3 if rescales else 1e-5)


def test_all_extensions_of_q_learning_work_together():
    module = QNetwork(BOX, TWO, hidden=(8,), atoms=4, dueling=True, noisy=True, generator=seeded())

    found, _ = outputs_of(DQNConfig(), module, rows([3, 4, 3]))

    assert found.losses["loss"].item() > 0.0
    assert found.rows["td_error"].shape == (3,)


def test_ddpg_compares_with_the_value_of_the_target_networks_action():
    module = ActorWithCritics(BOX, REACH, policy="deterministic", hidden=(8,), num_critics=1, generator=seeded())
    batch = rows([[0.1], [-0.2], [0.3]])
    found, target = outputs_of(DDPGConfig(gamma=0.9), module, batch)

    following = {"obs": batch["new_obs"]}
    later = target.get_q_values(following, target.get_policy(following))[0].tolist()
    values = module.get_q_values(batch)[0].tolist()
    errors = [
        value - (reward + gamma * next_value)
        for value, reward, gamma, next_value in zip(values, [1.0, -1.0, 2.0], [0.9, 0.9, 0.0], later, strict=True)
    ]
    assert found.losses["critic"].item() == pytest.approx(np.mean([0.5 * error**2 for error in errors]), rel=1e-5)
    climbed = module.get_q_values(batch, module.get_policy(batch))[0].mean().item()
    assert found.losses["actor"].item() == pytest.approx(-climbed, rel=1e-5)


@pytest.mark.parametrize(("config", "num_critics"), [(DDPGConfig(), 1), (TD3Config(), 2), (SACConfig(), 2)])
def test_only_ddpg_has_a_single_critic(config, num_critics):
    assert default_module(BOX, REACH, **config.network()).num_critics == num_critics


def test_td3_takes_the_smaller_value_of_an_action_with_limited_noise():
    module = ActorWithCritics(BOX, REACH, policy="deterministic", hidden=(8,), generator=seeded())
    batch, config = rows([[0.1], [-0.2], [0.3]]), TD3Config(gamma=0.9, target_noise=2.0, target_noise_limit=0.25)
    torch.manual_seed(0)
    found, target = outputs_of(config, module, batch)

    torch.manual_seed(0)
    following = {"obs": batch["new_obs"]}
    noise = np.clip(2.0 * torch.randn(3, 1).numpy(), -0.25, 0.25)
    assert (np.abs(noise) == 0.25).any()
    actions = torch.as_tensor(np.clip(target.get_policy(following).detach().numpy() + noise, -1.0, 1.0))
    first, second = target.get_q_values(following, actions).tolist()
    later = [min(pair) for pair in zip(first, second, strict=True)]
    targets = [1.0 + 0.9 * later[0], -1.0 + 0.9 * later[1], 2.0]
    squares = [
        (value - wanted) ** 2
        for values in module.get_q_values(batch).tolist()
        for value, wanted in zip(values, targets, strict=True)
    ]
    assert found.losses["critic"].item() == pytest.approx(0.5 * sum(squares) / 3, rel=1e-5)


def test_weights_of_a_sample_scale_errors_of_critics_and_not_what_the_actor_climbs():
    module = ActorWithCritics(BOX, REACH, policy="deterministic", hidden=(8,), generator=seeded())
    batch = rows([[0.1], [-0.2], [0.3]])
    plain, _ = outputs_of(DDPGConfig(), module, batch)
    first, _ = outputs_of(DDPGConfig(), module, batch, weights=torch.tensor([3.0, 0.0, 0.0]))
    alone, _ = outputs_of(DDPGConfig(), module, {name: column[:1] for name, column in batch.items()})

    torch.testing.assert_close(first.losses["critic"], alone.losses["critic"])
    torch.testing.assert_close(first.losses["actor"], plain.losses["actor"])


def test_sac_adds_entropy_to_values():
    module = ActorWithCritics(BOX, REACH, hidden=(8,), generator=seeded())
    nn.init.constant_(module.log_temperature, math.log(0.5))
    batch = rows([[0.1], [-0.2], [0.3]])
    torch.manual_seed(0)
    found, target = outputs_of(SACConfig(gamma=0.9), module, batch)

    torch.manual_seed(0)
    following = {"obs": batch["new_obs"]}
    drawn, logp = module.distribution.from_logits(module.get_policy(following)).rsample_with_logp()
    soft = target.get_q_values(following, drawn).amin(0) - 0.5 * logp
    targets = batch["rewards"] + torch.tensor([0.9, 0.9, 0.0]) * soft
    errors = module.get_q_values(batch) - targets
    torch.testing.assert_close(found.losses["critic"], 0.5 * errors.square().sum(0).mean())
    entropy = found.metrics["entropy"].item()
    assert found.losses["temperature"].item() == pytest.approx(math.log(0.5) * (entropy + 1.0), rel=1e-5)


def test_discrete_sac_takes_means_over_allowed_actions():
    module = ActorWithCritics(BOX, TWO, hidden=(8,), generator=seeded())
    batch = rows([3, 4, 3])
    found, target = outputs_of(DiscreteSACConfig(gamma=0.9), module, batch)

    following = {"obs": batch["new_obs"]}
    p = module.get_policy(following).softmax(-1)
    soft = (p * (target.get_q_values(following).amin(0) - p.log())).sum(-1)
    targets = batch["rewards"] + torch.tensor([0.9, 0.9, 0.0]) * soft
    taken = module.get_q_values(batch)[:, range(3), [0, 1, 0]]
    torch.testing.assert_close(found.losses["critic"], 0.5 * (taken - targets).square().sum(0).mean())


def test_discrete_sac_never_counts_masked_actions():
    space = spaces.Dict({"observations": BOX, "action_mask": spaces.MultiBinary(2)})
    module, batch = ActorWithCritics(space, TWO, hidden=(8,), generator=seeded()), rows([3, 4, 3])
    masks = torch.tensor([[1, 0], [0, 1], [0, 1]])
    nested = {
        **batch,
        "obs": {"observations": batch["obs"], "action_mask": masks},
        "new_obs": {"observations": batch["new_obs"], "action_mask": masks},
    }
    found, target = outputs_of(DiscreteSACConfig(gamma=1.0), module, nested)

    # One action is allowed: its value is the mean, and there is no entropy.
    later = target.get_q_values({"obs": nested["new_obs"]}).amin(0)[range(2), [0, 1]]
    targets = torch.tensor([1.0 + later[0], -1.0 + later[1], 2.0])
    values = module.get_q_values(nested)
    torch.testing.assert_close(
        found.losses["critic"], 0.5 * (values[:, range(3), [0, 1, 0]] - targets).square().sum(0).mean()
    )
    torch.testing.assert_close(found.losses["actor"], -values.amin(0)[range(3), [0, 1, 1]].mean())
    assert found.metrics["entropy"].item() == 0.0


CASES = {
    "dqn": (DQNConfig(), lambda: QNetwork(BOX, TWO, hidden=(8,)), [3, 4, 3]),
    "ddpg": (DDPGConfig(), lambda: ActorWithCritics(BOX, REACH, policy="deterministic", hidden=(8,)), [[0.1]] * 3),
    "td3": (TD3Config(), lambda: ActorWithCritics(BOX, REACH, policy="deterministic", hidden=(8,)), [[0.1]] * 3),
    "sac": (SACConfig(), lambda: ActorWithCritics(BOX, REACH, hidden=(8,)), [[0.1]] * 3),
    "discrete sac": (DiscreteSACConfig(), lambda: ActorWithCritics(BOX, TWO, hidden=(8,)), [3, 4, 3]),
}


ACTOR_CRITICS = [name for name in CASES if name != "dqn"]


@pytest.mark.parametrize("name", ACTOR_CRITICS)
def test_gradients_of_critics_actor_and_temperature_are_those_of_their_own_loss_alone(name):
    config, make, actions = CASES[name]
    learner, batch = Learner(make(), config), rows(actions)
    module = learner.modules["default_policy"]
    followed = {optimizer.loss: optimizer.components[0] for optimizer in config.optimizers}
    inputs = LossInputs(module, batch, {}, learner.target_networks["default_policy"], frozenset(followed))

    gradients = learner.compute_gradients({"default_policy": batch})

    # The learner draws noise from this seed before its first update.
    torch.manual_seed(0)
    losses = config.loss(inputs).losses
    for loss, component in followed.items():
        weights = {key: weight for key, weight in module.named_parameters() if key.startswith(component)}
        expected = torch.autograd.grad(losses[loss], list(weights.values()), retain_graph=True)
        for key, gradient in zip(weights, expected, strict=True):
            torch.testing.assert_close(gradients[key], gradient)


@pytest.mark.parametrize("name", ACTOR_CRITICS)
def test_the_loss_of_the_actor_reaches_critics_and_that_of_the_critics_no_actor(name):
    """So the gradients of critics would change if both losses were added, and the test above would fail."""
    config, make, actions = CASES[name]
    learner = Learner(make(), config)
    module = learner.modules["default_policy"]
    due = frozenset(optimizer.loss for optimizer in config.optimizers)
    target_networks = learner.target_networks["default_policy"]
    losses = config.loss(LossInputs(module, rows(actions), {}, target_networks, due)).losses

    weights = {"actor": list(module.actor.parameters()), "critic": list(module.critics.parameters())}
    reached = {
        (loss, part)
        for loss in weights
        for part in weights
        if any(
            found is not None and bool(found.any())
            for found in torch.autograd.grad(losses[loss], weights[part], retain_graph=True, allow_unused=True)
        )
    }
    # Discrete SAC values all actions without gradients: its actor needs none through them.
    through = set() if name == "discrete sac" else {("actor", "critic")}
    assert reached == {("actor", "actor"), ("critic", "critic")} | through


@pytest.mark.parametrize("name", CASES)
def test_samples_of_a_buffer_are_learned_from(name):
    config, make, actions = CASES[name]
    module = make()
    episode = SingleAgentEpisode(
        observations=list(np.random.default_rng(0).random((4, 2)).astype(np.float32)),
        actions=[np.asarray(action, module.action_space.dtype) for action in actions],
        rewards=[1.0, -1.0, 2.0],
        terminated=True,
        observation_space=BOX,
        action_space=module.action_space,
        len_lookback_buffer=0,
    )
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([episode])
    learner = Learner(module, config, observation_space=BOX, action_space=module.action_space, seed=0)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}

    found = [learner.update(buffer.sample(8, config.draw()), env_steps=3) for _ in range(2)]

    assert found[1].rows["default_policy"]["td_error"].shape == (8,)
    changed = {key.split(".")[0] for key, weight in module.state_dict().items() if not torch.equal(weight, before[key])}
    wanted = {"dqn": {"trunk", "advantage_head"}, "ddpg": {"actor", "critics"}, "td3": {"actor", "critics"}}
    assert changed == wanted.get(name, {"actor", "critics", "log_temperature"})


def test_a_missing_column_is_named_with_the_piece_that_adds_it():
    batch = rows([3, 4, 3])
    del batch["new_obs"]

    with pytest.raises(LearnerError, match="AddNextObservationsFromEpisodesToTrainBatch"):
        Learner(QNetwork(BOX, TWO), DQNConfig()).update_batch({"default_policy": batch})


def test_rewards_with_a_surplus_axis_are_rejected():
    batch = {**rows([3, 4, 3]), "rewards": torch.ones(3, 1)}

    with pytest.raises(LearnerError, match="expected one number for each step"):
        Learner(QNetwork(BOX, TWO), DQNConfig()).update_batch({"default_policy": batch})


@pytest.mark.parametrize(
    ("config", "actions", "kind"),
    [
        (SACConfig(), TWO, "a Box space"),
        (DDPGConfig(), TWO, "a Box space"),
        (DiscreteSACConfig(), REACH, "a Discrete space"),
    ],
)
def test_actions_of_another_kind_are_rejected_before_anything_is_collected(config, actions, kind):
    with pytest.raises(LearnerError, match=f"found the action space .*expected {kind}"):
        Learner(ActorWithCritics(BOX, actions), config)


@pytest.mark.parametrize(
    ("config", "actions", "settings", "found"),
    [
        (
            DDPGConfig(),
            REACH,
            {"policy": "stochastic"},
            "with SquashedGaussianSpec.*expected.*PointSpec.*policy='deterministic'",
        ),
        (SACConfig(), REACH, {"policy": "deterministic"}, "with PointSpec.*expected.*SquashedGaussianSpec"),
    ],
)
def test_a_policy_of_another_kind_is_rejected_before_anything_is_collected(config, actions, settings, found):
    with pytest.raises(LearnerError, match=found):
        Learner(ActorWithCritics(BOX, actions, **settings), config)


class Foreign(nn.Module):
    """A network of somebody else, whose values have no axis of critics."""

    observation_space, action_space = BOX, REACH

    def __init__(self):
        super().__init__()
        self.actor, self.critics = nn.Linear(2, 1), nn.Linear(3, 1)

    def get_policy(self, batch):
        return self.actor(batch["obs"]).tanh()

    def get_q_values(self, batch, actions=None):
        taken = batch["actions"] if actions is None else actions
        return self.critics(torch.cat([batch["obs"], taken], -1)).squeeze(-1)

    def forward_train(self, batch):
        return {"actions": self.get_policy(batch)}

    forward_inference = forward_exploration = forward_train

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


def test_the_parts_that_a_foreign_network_lacks_are_named():
    optimizers = (OptimizerConfig(components=("critics",), loss="critic"),)

    with pytest.raises(LearnerError, match=r"found Foreign without \['distribution', 'log_temperature'\]"):
        Learner(Foreign(), SACConfig(optimizers=optimizers))


def test_values_without_an_axis_of_critics_are_named():
    batch = rows([[0.0], [1.0], [2.0]])

    with pytest.raises(LearnerError, match=r"float32\[3\] from `Foreign.get_q_values`, expected.*\['critics', 3\]"):
        Learner(Foreign(), DDPGConfig()).update_batch({"default_policy": batch})


def test_a_network_without_q_values_is_named_with_what_it_returns():
    found = r"only \['action_dist_inputs', 'embeddings', 'vf_preds'\] from `MLPActorCritic.forward_train`"

    with pytest.raises(LearnerError, match=f"{found}, expected 'q_values' with a value of each of the 2 actions"):
        Learner(MLPActorCritic(BOX, TWO), DQNConfig()).update_batch({"default_policy": rows([3, 4, 3])})


def test_a_recurrent_module_does_not_learn_from_several_steps_as_one():
    with pytest.raises(LearnerError, match=r"found `n_step=3` for a recurrent module"):
        Learner(QNetwork(BOX, TWO, recurrent="gru"), DQNConfig(n_step=3))


def test_burn_in_without_sequences_is_rejected():
    with pytest.raises(LearnerError, match=r"found `burn_in=3` without `max_seq_len`"):
        DQNConfig(burn_in=3)
