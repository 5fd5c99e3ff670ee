"""The feed-forward actor-critic: what it puts out, for which spaces, and where its weights come from."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES
from episodia import Columns
from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules import DistributionModule, MLPActorCritic, ValueModule

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = spaces.Discrete(4)
# torch warns of layers without units.
WITH_ELEMENTS = {name: space for name, space in ACTION_SPACES.items() if name != "box without elements"}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def module(hidden=(8, 8), seed=0):
    return MLPActorCritic(BOX, ACTIONS, hidden, generator=seeded(seed))


def batch_of(*shape, seed=5):
    return {Columns.OBS: torch.randn(*shape, 3, generator=seeded(seed))}


def test_it_is_a_module_with_distribution_and_values():
    assert isinstance(module(), DistributionModule)
    assert isinstance(module(), ValueModule)
    assert isinstance(module(), torch.nn.Module)
    assert not module().is_stateful()
    assert module().get_initial_state() == {}


def test_acting_computes_no_values():
    outputs = module().forward_inference(batch_of(5))

    assert list(outputs) == [Columns.ACTION_DIST_INPUTS]
    assert outputs[Columns.ACTION_DIST_INPUTS].shape == (5, 4)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (0,)], ids=str)
def test_training_gives_distribution_inputs_and_values(shape):
    outputs = module().forward_train(batch_of(*shape))

    assert outputs[Columns.ACTION_DIST_INPUTS].shape == (*shape, 4)
    assert outputs[Columns.VF_PREDS].shape == shape


def test_all_passes_agree():
    net, batch = module(), batch_of(5)
    trained = net.forward_train(batch)
    expected = trained[Columns.ACTION_DIST_INPUTS]

    assert torch.equal(net.forward_inference(batch)[Columns.ACTION_DIST_INPUTS], expected)
    assert torch.equal(net.forward_exploration(batch)[Columns.ACTION_DIST_INPUTS], expected)
    assert torch.equal(net(batch)[Columns.ACTION_DIST_INPUTS], expected)
    assert torch.equal(net.compute_values(batch), trained[Columns.VF_PREDS])
    assert torch.equal(net.compute_values({}, trained[Columns.EMBEDDINGS]), trained[Columns.VF_PREDS])


def test_outputs_are_those_of_a_plain_numpy_network():
    net, batch = module(hidden=(8,)), batch_of(5)
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}
    hidden = np.tanh(batch[Columns.OBS].numpy() @ weights["actor.tower.0.weight"].T + weights["actor.tower.0.bias"])

    expected = hidden @ weights["actor_head.weight"].T + weights["actor_head.bias"]

    assert np.allclose(net.forward_train(batch)[Columns.ACTION_DIST_INPUTS].detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("space", WITH_ELEMENTS.values(), ids=WITH_ELEMENTS.keys())
def test_actions_of_every_supported_space_can_be_drawn(space):
    net = MLPActorCritic(BOX, space, (4,), generator=seeded())
    outputs = net.forward_exploration(batch_of(6))[Columns.ACTION_DIST_INPUTS]
    distribution = net.get_exploration_action_dist_cls().from_logits(outputs)

    logp = distribution.logp(distribution.sample(seeded()))

    assert logp.shape == (6,)
    assert bool(torch.isfinite(logp).all())


def test_nested_observations_are_taken_as_they_are():
    space = spaces.Dict(room=spaces.Discrete(3), speed=BOX)
    net = MLPActorCritic(space, ACTIONS, (4,), generator=seeded())

    values = net.compute_values({Columns.OBS: {"room": torch.tensor([0, 2]), "speed": torch.zeros(2, 3)}})

    assert values.shape == (2,)
    assert values[0] != values[1]


def test_each_loss_reaches_its_own_weights():
    net = module()
    outputs = net.forward_train(batch_of(5))
    distribution = net.get_train_action_dist_cls().from_logits(outputs[Columns.ACTION_DIST_INPUTS])

    distribution.logp(torch.zeros(5, dtype=torch.int64)).sum().backward()

    reached = {name.split(".")[0] for name, weight in net.named_parameters() if weight.grad is not None}
    assert reached == {"actor", "actor_head"}
    outputs[Columns.VF_PREDS].sum().backward()
    assert all(bool(weight.grad.abs().sum() > 0) for weight in net.parameters())


def test_gradients_are_the_callers_matter():
    net, batch = module(), batch_of(2)

    assert net.forward_inference(batch)[Columns.ACTION_DIST_INPUTS].requires_grad
    with torch.no_grad():
        assert not net.forward_inference(batch)[Columns.ACTION_DIST_INPUTS].requires_grad


def test_weights_depend_on_the_generator_only():
    before = torch.get_rng_state()
    weights = [torch.nn.utils.parameters_to_vector(module(seed=seed).parameters()) for seed in (1, 1, 2)]

    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_weights_depend_on_the_global_seed():
    weights = []
    with torch.random.fork_rng():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            weights.append(MLPActorCritic(BOX, ACTIONS, (4,)).actor_head.weight)

    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_actions_are_about_equally_probable_at_first():
    outputs = module().forward_train(batch_of(50))[Columns.ACTION_DIST_INPUTS]

    assert outputs.softmax(-1).min() > 0.2


def test_without_hidden_layers_it_is_linear():
    net = module(hidden=())
    once, twice = batch_of(5), {Columns.OBS: 2 * batch_of(5)[Columns.OBS]}

    assert torch.allclose(net.compute_values(twice), 2 * net.compute_values(once), atol=1e-6)


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "8"])
def test_sizes_of_layers_are_positive_integers(size):
    with pytest.raises(ModuleError, match=r"`hidden`: found .* expected positive integers"):
        MLPActorCritic(BOX, ACTIONS, (size,))


def test_a_batch_without_observations_is_rejected():
    with pytest.raises(
        EpisodeKeyError, match=r"no column 'obs' .*only \['rewards'\].*AddObservationsFromEpisodesToBatch"
    ):
        module().forward_inference({"rewards": torch.zeros(2)})


@pytest.mark.parametrize("batch", [None, torch.zeros(2, 3), [torch.zeros(2, 3)]], ids=["None", "tensor", "list"])
def test_what_is_no_batch_is_rejected(batch):
    with pytest.raises(ModuleError, match=r"expected a batch: a dict of columns\. Pass `\{'obs': \.\.\.\}`"):
        module().forward_inference(batch)
