"""Action distributions agree with torch.distributions, with enumeration, and with the space that they belong to."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from action_spaces import ACTION_SPACES, CONTINUOUS, FINITE, all_actions, leaf_tensors, rows_of, torch_leaves
from episodia.errors import ModuleError
from episodia.modules import dist_for
from episodia.trees import map_batch

every_space = pytest.mark.parametrize("space", ACTION_SPACES.values(), ids=ACTION_SPACES.keys())
finite_spaces = pytest.mark.parametrize("space", FINITE.values(), ids=FINITE.keys())
batch_shapes = pytest.mark.parametrize("batch", [(4,), (2, 3), (0,), ()], ids=str)
# torch.distributions rejects batches without rows.
filled_batch_shapes = pytest.mark.parametrize("batch", [(4,), (2, 3), ()], ids=str)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def inputs_for(space, *batch, seed=0):
    return torch.randn(*batch, dist_for(space).num_inputs, generator=seeded(seed))


def leaf_arrays(actions):
    """Return the arrays in `actions`, in the order of `leaf_tensors`."""
    return [tensor.numpy() for tensor in leaf_tensors(map_batch(torch.as_tensor, actions))]


def close(left, right):
    return torch.allclose(left, right, rtol=1e-5, atol=1e-5)


# --- Against torch.distributions ------------------------------------------------------------------------------------


@every_space
@filled_batch_shapes
def test_logp_is_what_torch_says(space, batch):
    inputs = inputs_for(space, *batch)
    distribution = dist_for(space).from_logits(inputs)
    actions = distribution.sample(seeded())

    expected = sum(leaf.log_prob(value) for leaf, value in torch_leaves(space, inputs, actions))

    assert distribution.logp(actions).shape == batch
    assert close(distribution.logp(actions), expected)


@every_space
@filled_batch_shapes
def test_entropy_is_what_torch_says(space, batch):
    inputs = inputs_for(space, *batch)

    expected = sum(leaf.entropy() for leaf, _ in torch_leaves(space, inputs))

    assert close(dist_for(space).from_logits(inputs).entropy(), expected)


@every_space
@filled_batch_shapes
def test_kl_is_what_torch_says(space, batch):
    left, right = inputs_for(space, *batch, seed=1), inputs_for(space, *batch, seed=2)
    spec = dist_for(space)

    pairs = zip(torch_leaves(space, left), torch_leaves(space, right), strict=True)
    expected = sum(torch.distributions.kl_divergence(mine, theirs) for (mine, _), (theirs, _) in pairs)

    assert close(spec.from_logits(left).kl(spec.from_logits(right)), expected)


@every_space
def test_a_batch_without_rows_has_no_values(space):
    distribution = dist_for(space).from_logits(inputs_for(space, 0))

    values = (distribution.logp(distribution.sample()), distribution.entropy(), distribution.kl(distribution))

    assert all(value.shape == (0,) for value in values)


@every_space
def test_kl_with_itself_is_zero(space):
    distribution = dist_for(space).from_logits(inputs_for(space, 3))

    assert close(distribution.kl(distribution), torch.zeros(3))


@settings(max_examples=50)
@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=6),
    start=st.integers(-3, 3),
)
def test_probabilities_are_the_plain_softmax(logits, start):
    distribution = dist_for(spaces.Discrete(len(logits), start=start)).from_logits(torch.tensor([logits]))
    weights = [math.exp(value - max(logits)) for value in logits]

    for index, weight in enumerate(weights):
        logp = distribution.logp(torch.tensor([start + index])).item()
        assert logp == pytest.approx(math.log(weight / sum(weights)), abs=1e-4)


# --- By enumeration -------------------------------------------------------------------------------------------------


def each_logp(space, inputs):
    actions = all_actions(space)
    count = len(leaf_tensors(actions)[0])
    return dist_for(space).from_logits(inputs.expand(count, -1)).logp(actions)


@finite_spaces
def test_probabilities_of_all_actions_sum_to_one(space):
    assert each_logp(space, inputs_for(space, 1)).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


@finite_spaces
def test_entropy_is_the_mean_surprise_over_all_actions(space):
    inputs = inputs_for(space, 1)
    logp = each_logp(space, inputs)

    entropy = dist_for(space).from_logits(inputs).entropy()

    assert entropy.item() == pytest.approx(-(logp.exp() * logp).sum().item(), abs=1e-5)


@finite_spaces
def test_the_mode_has_the_greatest_probability(space):
    inputs = inputs_for(space, 1)
    distribution = dist_for(space).from_logits(inputs)

    assert distribution.logp(distribution.mode()).item() == pytest.approx(each_logp(space, inputs).max().item())


def plain_rows(actions):
    columns = [leaf.reshape(len(leaf), -1).double() for leaf in leaf_tensors(actions)]
    return [tuple(row) for row in torch.cat(columns, 1).tolist()]


@finite_spaces
def test_actions_are_drawn_as_often_as_their_probability_says(space):
    rows = 20_000
    inputs = inputs_for(space, 1)
    drawn = dist_for(space).from_logits(inputs.expand(rows, -1)).sample(seeded(3))
    counts = Counter(plain_rows(drawn))

    probabilities = each_logp(space, inputs).exp().tolist()
    frequencies = [counts[row] / rows for row in plain_rows(all_actions(space))]

    # Five standard deviations.
    assert all(
        abs(f - p) <= 5 * math.sqrt(p * (1 - p) / rows) + 1e-6 for f, p in zip(frequencies, probabilities, strict=True)
    )


@pytest.mark.parametrize("space", [CONTINUOUS["box"], CONTINUOUS["box matrix float64"]], ids=str)
def test_gaussian_actions_have_the_mean_and_deviation_of_the_inputs(space):
    rows = 20_000
    inputs = inputs_for(space, 1)
    drawn = dist_for(space).from_logits(inputs.expand(rows, -1)).sample(seeded(3)).reshape(rows, -1).float()
    mean, log_std = inputs[0].chunk(2)

    assert torch.all((drawn.mean(0) - mean).abs() < 5 * log_std.exp() / math.sqrt(rows))
    assert torch.allclose(drawn.std(0), log_std.exp(), rtol=0.05)


# --- Actions and their space ----------------------------------------------------------------------------------------


@finite_spaces
def test_drawn_actions_are_in_their_space(space):
    drawn = dist_for(space).from_logits(inputs_for(space, 50)).sample(seeded())

    assert all(space.contains(row) for row in rows_of(drawn))


@pytest.mark.parametrize("space", [CONTINUOUS["box unbounded"], CONTINUOUS["box scalar"]], ids=str)
def test_clipped_gaussian_actions_are_in_their_box(space):
    drawn = dist_for(space).from_logits(inputs_for(space, 50)).sample(seeded()).numpy()

    assert all(space.contains(np.asarray(np.clip(row, space.low, space.high))) for row in drawn)


@every_space
@batch_shapes
@pytest.mark.parametrize("how", ["sample", "mode"])
def test_actions_have_shapes_and_dtypes_of_their_space(space, batch, how):
    actions = getattr(dist_for(space).from_logits(inputs_for(space, *batch)), how)()

    item = space.sample()
    expected = [np.asarray(leaf) for leaf in leaf_tensors(_in_order(space, item))]
    assert [tuple(leaf.shape) for leaf in leaf_tensors(actions)] == [(*batch, *leaf.shape) for leaf in expected]
    assert [leaf.numpy().dtype for leaf in leaf_tensors(actions)] == [leaf.dtype for leaf in expected]


def _in_order(space, item):
    if isinstance(space, spaces.Dict):
        return {key: _in_order(child, item[key]) for key, child in space.spaces.items()}
    return item


@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_discrete_actions_have_the_dtype_of_their_space(dtype):
    space = spaces.MultiDiscrete([2, 3], dtype=dtype)

    actions = dist_for(space).from_logits(torch.zeros(4, 5)).sample(seeded())

    assert actions.numpy().dtype == dtype


def test_nested_actions_are_nested_as_their_space_is():
    actions = dist_for(ACTION_SPACES["deep"]).from_logits(inputs_for(ACTION_SPACES["deep"], 4)).sample()

    assert list(actions) == ["arm", "base"]
    assert isinstance(actions["arm"], tuple)
    assert list(actions["arm"][1]) == ["grip"]
    assert actions["base"]["w"][1].shape == (4, 2)


# --- Randomness -----------------------------------------------------------------------------------------------------


@every_space
def test_the_same_seed_draws_the_same_actions(space):
    distribution = dist_for(space).from_logits(inputs_for(space, 20))

    first, second = distribution.sample(seeded(7)), distribution.sample(seeded(7))

    assert all(map(torch.equal, leaf_tensors(first), leaf_tensors(second)))


@every_space
@batch_shapes
def test_shorter_ways_draw_what_the_distribution_draws(space, batch):
    spec, inputs = dist_for(space), inputs_for(space, *batch)
    actions, logp = spec.from_logits(inputs).sample_with_logp(seeded())
    drawn, drawn_logp = spec.sampled(inputs, seeded())
    arrays, array_logp = spec.sampled_arrays(inputs, seeded())

    for leaf, tensor, array in zip(*map(leaf_tensors, (actions, drawn)), leaf_arrays(arrays), strict=True):
        assert torch.equal(leaf, tensor)
        np.testing.assert_array_equal(array, leaf.numpy(), strict=True)
    assert torch.equal(logp, drawn_logp)
    np.testing.assert_array_equal(array_logp, logp.numpy(), strict=True)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@finite_spaces
def test_shorter_ways_reject_inputs_that_are_not_finite(space, bad):
    spec, inputs = dist_for(space), inputs_for(space, 3)
    inputs[1, 0] = bad

    for draw in (spec.sampled, spec.sampled_arrays):
        with pytest.raises(ModuleError, match="expected finite numbers"):
            draw(inputs, seeded())


def test_arrays_can_be_drawn_where_gradients_are_kept():
    inputs = inputs_for(spaces.Discrete(3), 4).requires_grad_()
    actions, logp = dist_for(spaces.Discrete(3)).sampled_arrays(inputs, seeded())

    assert actions.shape == logp.shape == (4,)


def test_an_explicit_generator_leaves_the_global_one_alone():
    before = torch.get_rng_state()

    for space in ACTION_SPACES.values():
        dist_for(space).from_logits(inputs_for(space, 5)).sample(seeded())

    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_the_global_one_is_used():
    distribution = dist_for(spaces.Discrete(100)).from_logits(torch.zeros(20, 100))
    draws = []
    with torch.random.fork_rng():
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            draws.append(distribution.sample().tolist())

    assert draws[0] == draws[1] != draws[2]


# --- Deterministic --------------------------------------------------------------------------------------------------


@every_space
@batch_shapes
def test_the_deterministic_distribution_always_takes_the_mode(space, batch):
    distribution = dist_for(space).from_logits(inputs_for(space, *batch))
    point = distribution.to_deterministic()

    assert all(map(torch.equal, leaf_tensors(point.sample(seeded())), leaf_tensors(distribution.mode())))
    assert torch.equal(point.logp(point.mode()), torch.zeros(batch))
    assert torch.equal(point.entropy(), torch.zeros(batch))


def test_other_actions_are_impossible_for_the_deterministic_distribution():
    distribution = dist_for(spaces.MultiDiscrete([2, 2])).from_logits(torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 2))

    logp = distribution.to_deterministic().logp(torch.tensor([[0, 1], [1, 1]]))

    assert logp.tolist() == [0.0, -math.inf]


def test_kl_from_the_mode_is_its_surprise():
    distribution = dist_for(spaces.Discrete(2)).from_logits(torch.zeros(1, 2))

    assert distribution.to_deterministic().kl(distribution).item() == pytest.approx(math.log(2))


# --- Gradients, precision, identity ---------------------------------------------------------------------------------


@every_space
def test_logp_and_entropy_have_finite_gradients_and_actions_have_none(space):
    inputs = inputs_for(space, 4).requires_grad_()
    distribution = dist_for(space).from_logits(inputs)
    actions = distribution.sample(seeded())

    (distribution.logp(actions) + distribution.entropy()).sum().backward()

    assert not any(leaf.requires_grad for leaf in leaf_tensors(actions))
    assert bool(torch.isfinite(inputs.grad).all())


def test_the_gradient_of_logp_is_chosen_minus_probability():
    inputs = torch.tensor([[0.5, -1.0, 2.0]], requires_grad=True)

    dist_for(spaces.Discrete(3)).from_logits(inputs).logp(torch.tensor([1])).sum().backward()

    assert close(inputs.grad, torch.tensor([[0.0, 1.0, 0.0]]) - inputs.detach().softmax(-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_space
def test_half_precision_inputs_are_computed_in_full_precision(space, dtype):
    inputs = inputs_for(space, 4).to(dtype)
    half, full = dist_for(space).from_logits(inputs), dist_for(space).from_logits(inputs.float())
    actions = full.sample(seeded())

    assert torch.equal(half.logp(actions), full.logp(actions))


def test_double_precision_stays():
    assert (
        dist_for(spaces.Discrete(2)).from_logits(torch.zeros(1, 2, dtype=torch.float64)).entropy().dtype
        == torch.float64
    )


@every_space
def test_specs_of_one_space_are_equal_hashable_and_survive_pickling(space):
    spec = dist_for(space)

    assert spec == dist_for(space) == pickle.loads(pickle.dumps(spec))
    assert hash(spec) == hash(dist_for(space))


def test_the_inputs_of_a_box_are_means_then_log_deviations():
    distribution = dist_for(spaces.Box(-1.0, 1.0, (2,))).from_logits(torch.tensor([[1.0, 2.0, -9.0, -9.0]]))

    assert distribution.mode().tolist() == [[1.0, 2.0]]
    assert torch.allclose(distribution.sample(seeded()), torch.tensor([[1.0, 2.0]]), atol=1e-2)


def test_a_part_without_choices_is_certain_and_changes_nothing():
    inputs = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    alone = dist_for(spaces.Discrete(2)).from_logits(inputs)
    beside = dist_for(spaces.Dict(a=spaces.MultiDiscrete([]), b=spaces.Discrete(2))).from_logits(inputs)

    actions, logp = beside.sample_with_logp(seeded())

    assert actions["a"].shape == beside.mode()["a"].shape == (2, 0)
    assert torch.equal(logp, alone.logp(actions["b"]))
    assert torch.equal(beside.entropy(), alone.entropy())
    assert torch.equal(beside.kl(beside), alone.kl(alone))
