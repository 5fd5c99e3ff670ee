"""The recurrent actor-critic: stepping equals one pass, and padding reaches nothing."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import Columns
from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules import DistributionModule, LSTMActorCritic, ValueModule

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
CELL = 6
LOGITS, VALUES, STATE_OUT = Columns.ACTION_DIST_INPUTS, Columns.VF_PREDS, Columns.STATE_OUT


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def module(seed=0, hidden=(5,)):
    return LSTMActorCritic(BOX, spaces.Discrete(4), hidden, cell_size=CELL, generator=seeded(seed))


def state_of(rows, seed=1):
    h, c = torch.randn(2, rows, CELL, generator=seeded(seed))
    return {"h": h, "c": c}


def batch_of(rows, steps, lengths=None, padding=None):
    """Return a batch of sequences; where it is padded, with `padding`, or with zeros."""
    obs = torch.randn(rows, steps, 3, generator=seeded(2))
    batch = {Columns.OBS: obs, Columns.STATE_IN: state_of(rows)}
    if lengths is not None:
        batch[Columns.SEQ_LENS] = torch.tensor(lengths)
        padded = torch.arange(steps) >= batch[Columns.SEQ_LENS][:, None]
        obs[padded] = 0.0 if padding is None else padding
    return batch


def close(left, right):
    return torch.allclose(left, right, atol=1e-5)


def stepwise(net, obs, state):
    """Return logits, values and the last state of one sequence `[T, 3]`, computed step by step."""
    logits, values = [], []
    for observation in obs:
        outputs = net.forward_train({Columns.OBS: observation[None, None], Columns.STATE_IN: state})
        logits.append(outputs[LOGITS][0, 0])
        values.append(outputs[VALUES][0, 0])
        state = outputs[STATE_OUT]
    return logits, values, state


def test_it_is_a_stateful_module_with_distribution_and_values():
    net = module()
    state = net.get_initial_state()

    assert isinstance(net, DistributionModule)
    assert isinstance(net, ValueModule)
    assert net.is_stateful()
    assert list(state) == ["h", "c"]
    assert all(np.array_equal(part, np.zeros(CELL)) and part.dtype == np.float32 for part in state.values())


def test_outputs_have_rows_and_steps_and_the_state_has_rows():
    outputs = module().forward_train(batch_of(2, 7))

    assert outputs[LOGITS].shape == (2, 7, 4)
    assert outputs[VALUES].shape == (2, 7)
    assert {name: part.shape for name, part in outputs[STATE_OUT].items()} == {"h": (2, CELL), "c": (2, CELL)}


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_stepping_one_by_one_equals_one_padded_pass(lengths):
    net, batch = module(), batch_of(len(lengths), 5, lengths, padding=9.0)
    with torch.no_grad():
        whole = net.forward_train(batch)
        for row, length in enumerate(lengths):
            start = {name: part[row : row + 1] for name, part in batch[Columns.STATE_IN].items()}
            logits, values, last = stepwise(net, batch[Columns.OBS][row, :length], start)

            assert all(close(whole[LOGITS][row, t], logits[t]) for t in range(length))
            assert all(close(whole[VALUES][row, t], values[t]) for t in range(length))
            assert all(close(whole[STATE_OUT][name][row], last[name][0]) for name in ("h", "c"))


def test_a_pass_can_be_cut_anywhere_if_the_state_is_handed_on():
    net, batch = module(), batch_of(3, 6)
    whole = net.forward_train(batch)

    first = net.forward_train({**batch, Columns.OBS: batch[Columns.OBS][:, :2]})
    second = net.forward_train({Columns.OBS: batch[Columns.OBS][:, 2:], Columns.STATE_IN: first[STATE_OUT]})

    assert close(torch.cat([first[LOGITS], second[LOGITS]], 1), whole[LOGITS])
    assert close(second[STATE_OUT]["c"], whole[STATE_OUT]["c"])


def test_the_first_step_is_that_of_a_plain_numpy_lstm():
    net, batch = module(hidden=()), batch_of(1, 1)
    w = {name: value.detach().numpy() for name, value in net.trunk.memory.named_parameters()}
    x, h, c = (part[0].numpy() for part in (batch[Columns.OBS][0], *batch[Columns.STATE_IN].values()))
    gates = x @ w["weight_ih_l0"].T + h @ w["weight_hh_l0"].T + w["bias_ih_l0"] + w["bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)

    new_c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    state = net.forward_inference(batch)[STATE_OUT]

    assert np.allclose(state["c"][0].detach().numpy(), new_c, atol=1e-5)
    assert np.allclose(state["h"][0].detach().numpy(), np.tanh(new_c) / (1 + np.exp(-o)), atol=1e-5)


LENGTHS = [4, 1, 0, 2]


def valid(lengths, steps):
    return torch.arange(steps) < torch.tensor(lengths)[:, None]


def test_what_stands_in_the_padding_changes_nothing():
    net, mask = module(), valid(LENGTHS, 4)
    zeros, others = (net.forward_train(batch_of(4, 4, LENGTHS, padding)) for padding in (0.0, 1e6))

    assert torch.equal(zeros[LOGITS][mask], others[LOGITS][mask])
    assert torch.equal(zeros[VALUES][mask], others[VALUES][mask])
    assert torch.equal(zeros[STATE_OUT]["h"], others[STATE_OUT]["h"])
    assert torch.equal(zeros[STATE_OUT]["c"], others[STATE_OUT]["c"])


def test_values_of_valid_steps_do_not_depend_on_the_padding():
    net, mask = module(), valid(LENGTHS, 4)
    zeros, others = (net.compute_values(batch_of(4, 4, LENGTHS, padding)) for padding in (0.0, 1e6))

    assert torch.equal(zeros[mask], others[mask])
    assert close(zeros[mask], net.forward_train(batch_of(4, 4, LENGTHS))[VALUES][mask])


def test_the_gradient_of_valid_steps_does_not_depend_on_the_padding():
    gradients = []
    for padding in (0.0, 5.0):
        net = module()
        net.forward_train(batch_of(4, 4, LENGTHS, padding))[VALUES][valid(LENGTHS, 4)].sum().backward()
        gradients.append(net.trunk.tower[0].weight.grad)

    assert torch.equal(*gradients)
    assert bool(gradients[0].abs().sum() > 0)


def test_a_sequence_without_steps_keeps_its_state():
    batch = batch_of(2, 3, [0, 3])

    state = module().forward_train(batch)[STATE_OUT]

    assert torch.equal(state["h"][0], batch[Columns.STATE_IN]["h"][0])
    assert torch.equal(state["c"][0], batch[Columns.STATE_IN]["c"][0])


def test_lengths_of_full_sequences_change_nothing():
    net = module()

    left, right = net.forward_train(batch_of(2, 3)), net.forward_train(batch_of(2, 3, [3, 3]))

    assert torch.equal(left[LOGITS], right[LOGITS])


def test_all_passes_agree():
    net, batch = module(), batch_of(2, 3)
    trained = net.forward_train(batch)

    assert torch.equal(net.forward_inference(batch)[LOGITS], trained[LOGITS])
    assert torch.equal(net.forward_exploration(batch)[LOGITS], trained[LOGITS])
    assert close(net.compute_values(batch), trained[VALUES])
    assert torch.equal(net.compute_values({}, trained[Columns.EMBEDDINGS]), trained[VALUES])
    assert VALUES not in net.forward_inference(batch)


def test_gradients_reach_all_weights_and_earlier_steps():
    net, batch = module(), batch_of(2, 4)
    batch[Columns.OBS].requires_grad_()
    outputs = net.forward_train(batch)

    (outputs[VALUES][:, -1].sum() + outputs[LOGITS][:, -1, 0].sum()).backward()

    assert all(bool(weight.grad.abs().sum() > 0) for weight in net.parameters())
    assert bool((batch[Columns.OBS].grad[:, 0].abs().sum(-1) > 0).all())


def test_weights_depend_on_the_generator_only():
    before = torch.get_rng_state()
    weights = [torch.nn.utils.parameters_to_vector(module(seed).parameters()) for seed in (1, 1, 2)]

    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_saved_module_is_loaded_with_the_same_outputs():
    source, target = module(seed=1), module(seed=2)

    target.load_state_dict(source.state_dict())

    assert torch.equal(target.compute_values(batch_of(2, 3)), source.compute_values(batch_of(2, 3)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({Columns.OBS: torch.zeros(2, 3)}, r"1 leading axes, expected \[B, T, \.\.\.\].*AddTimeDimToBatchAndZeroPad"),
        ({Columns.STATE_IN: state_of(5)}, r"float32\[5, 6\] as state_in\['h'\], expected a tensor \[2, 6\]"),
        ({Columns.STATE_IN: {"h": torch.zeros(2, CELL)}}, r"NoneType as state_in\['c'\]"),
        ({Columns.SEQ_LENS: torch.tensor([1, 4])}, r"seq_lens \[1, 4\], expected 2 numbers from 0 to 3"),
        ({Columns.SEQ_LENS: torch.tensor([-1, 2])}, r"seq_lens \[-1, 2\]"),
        ({Columns.SEQ_LENS: torch.tensor([3])}, r"seq_lens \[3\], expected 2 numbers"),
    ],
)
def test_batches_of_another_form_are_rejected(change, words):
    with pytest.raises(ModuleError, match=words):
        module().forward_train({**batch_of(2, 3), **change})


@pytest.mark.parametrize("column", [Columns.OBS, Columns.STATE_IN])
def test_a_missing_column_is_named(column):
    batch = batch_of(2, 3)
    del batch[column]

    with pytest.raises(EpisodeKeyError, match=f"no column '{column}'"):
        module().forward_train(batch)


@pytest.mark.parametrize("size", [0, 2.5])
def test_the_cell_size_is_a_positive_integer(size):
    with pytest.raises(ModuleError, match="`cell_size`"):
        LSTMActorCritic(BOX, spaces.Discrete(2), cell_size=size)
