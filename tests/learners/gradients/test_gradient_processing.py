"""Clipping, and putting processors one after another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from episodia.errors import LearnerError
from episodia.learners import ClipByGlobalNorm, ClipByNorm, ClipByValue, Learner, ReinforceConfig
from tables import Table

GRADIENTS = {"a": [[3.0, -0.5], [4.0]], "b": [[0.6]], "c": []}


def given():
    return {module_id: [torch.tensor(values) for values in tensors] for module_id, tensors in GRADIENTS.items()}


def lists(gradients):
    return {module_id: [tensor.tolist() for tensor in tensors] for module_id, tensors in gradients.items()}


def flat(gradients):
    return np.array([number for tensors in gradients.values() for tensor in tensors for number in tensor])


def test_values_are_clipped_one_by_one():
    assert lists(ClipByValue(1.0)(given())) == {"a": [[1.0, -0.5], [1.0]], "b": [[pytest.approx(0.6)]], "c": []}


def test_norms_are_clipped_for_each_module():
    found = lists(ClipByNorm(1.0)(given()))

    norm = np.sqrt(9.0 + 0.25 + 16.0)
    np.testing.assert_allclose(flat({"a": found["a"]}), np.array([3.0, -0.5, 4.0]) / norm, rtol=1e-5)
    assert found["b"] == [[pytest.approx(0.6)]]


def test_the_global_norm_scales_all_modules_by_one_factor():
    found = lists(ClipByGlobalNorm(1.0)(given()))

    np.testing.assert_allclose(flat(found), flat(GRADIENTS) / np.linalg.norm(flat(GRADIENTS)), rtol=1e-5)


@pytest.mark.parametrize("clip", [ClipByValue(10.0), ClipByNorm(10.0), ClipByGlobalNorm(10.0)], ids=type)
def test_what_is_within_the_limit_stays_as_it_is(clip):
    assert lists(clip(given())) == lists(given())


@pytest.mark.parametrize("clip", [ClipByValue(0.1), ClipByNorm(0.1), ClipByGlobalNorm(0.1)], ids=type)
def test_the_given_gradients_are_not_changed(clip):
    gradients = given()

    clip(gradients)

    assert lists(gradients) == lists(given())


@pytest.mark.parametrize("clip", [ClipByValue, ClipByNorm, ClipByGlobalNorm])
@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_limit_that_is_not_positive_number_is_an_error(clip, limit):
    with pytest.raises(LearnerError, match="limit"):
        clip(limit)


def test_processors_run_in_the_order_in_which_they_are_listed():
    calls = []

    def note(name):
        def processor(gradients):
            calls.append((name, gradients["default_policy"][0].abs().max().item()))
            return gradients

        return processor

    processors = (note("first"), ClipByValue(1e-3), note("second"))
    batch = {"obs": torch.tensor([0]), "actions": torch.tensor([1]), "returns_to_go": torch.tensor([1.0])}
    Learner(Table([[0.0, 0.0]]), ReinforceConfig(gradient_processors=processors)).update_batch(
        {"default_policy": batch}
    )

    assert calls == [("first", 0.5), ("second", pytest.approx(1e-3))]
