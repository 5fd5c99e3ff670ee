"""Layers that are computed directly give what calling them gives, also after user code changed them."""

import pytest
import torch
from torch import nn

from episodia.modules.networks.layers import Tower, can_step, one_step, passed


def _tower() -> Tower:
    torch.manual_seed(0)
    return Tower(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))


def _rows() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 20).reshape(5, 4)


def test_a_tower_computes_what_a_sequential_of_the_same_layers_does():
    tower = _tower()

    assert torch.equal(passed(tower, _rows()), nn.Sequential(*tower)(_rows()))


def test_a_tower_names_its_weights_as_a_sequential_does():
    tower = _tower()

    assert list(tower.state_dict()) == list(nn.Sequential(*tower).state_dict())


@pytest.mark.parametrize("place", [0, 1, 2])
def test_hooks_on_layers_of_a_tower_are_called(place):
    tower, seen = _tower(), []
    tower[place].register_forward_hook(lambda _module, _inputs, outputs: seen.append(outputs))
    passed(tower, _rows())

    assert len(seen) == 1


def test_hooks_may_change_what_goes_into_a_tower_and_what_comes_out():
    tower = _tower()
    tower.register_forward_pre_hook(lambda _module, inputs: (2 * inputs[0],))
    tower.register_forward_hook(lambda _module, _inputs, outputs: outputs + 1)

    assert torch.equal(passed(tower, _rows()), nn.Sequential(*tower)(2 * _rows()) + 1)


def test_hooks_on_all_modules_are_called():
    tower, seen = _tower(), []
    handle = nn.modules.module.register_module_forward_hook(lambda module, _inputs, _outputs: seen.append(type(module)))
    try:
        passed(tower, _rows())
    finally:
        handle.remove()

    assert seen == [nn.Linear, nn.Tanh, nn.Linear, Tower]


def test_a_forward_that_was_replaced_is_called():
    tower = _tower()
    tower[0].forward = lambda inputs: torch.ones(len(inputs), 8)

    assert torch.equal(passed(tower, _rows()), nn.Sequential(*tower)(_rows()))


def test_weights_that_are_swapped_for_a_call_are_used():
    tower = _tower()
    swapped = {name: torch.zeros_like(weight) for name, weight in tower.named_parameters()}

    assert torch.equal(torch.func.functional_call(tower, swapped, _rows()), torch.zeros(5, 3))


def test_parametrised_weights_are_used():
    tower = _tower()
    nn.utils.parametrizations.weight_norm(tower[0])
    with torch.no_grad():
        tower[0].parametrizations.weight.original0.mul_(3.0)

    assert torch.equal(passed(tower, _rows()), nn.Sequential(*tower)(_rows()))


def test_gradients_reach_all_weights():
    tower = _tower()
    passed(tower, _rows()).sum().backward()

    assert all(weight.grad is not None for weight in tower.parameters())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bias", [True, False])
def test_one_step_of_a_recurrent_layer_is_what_the_layer_does_with_sequences_of_one_step(kind, bias):
    torch.manual_seed(0)
    cell, h, c = kind(4, 6, batch_first=True, bias=bias), torch.randn(5, 6), torch.randn(5, 6)
    is_lstm = kind is nn.LSTM
    expected = cell(_rows()[:, None], (h[None], c[None]) if is_lstm else h[None])[1]
    found = one_step(cell, _rows(), (h, c) if is_lstm else h)

    torch.testing.assert_close(found, tuple(part[0] for part in expected) if is_lstm else expected[0])


def test_a_recurrent_layer_with_a_hook_is_not_stepped_past_it():
    cell = nn.LSTM(4, 6, batch_first=True)
    assert can_step(cell)

    cell.register_forward_hook(lambda *_: None)

    assert not can_step(cell)
