"""A policy of a module that declares views shows them to it, step by step."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import AddViews, View, defaults
from episodia.errors import PipelineError, PolicyError
from episodia.modules import Rule, register_module
from episodia.policies.policy import Policy


@register_module("tests.views.Adds")
class Adds(Rule):
    """Acts with the sum of the last two observations and the last reward."""

    views = {"pair": View("obs", [-1, 0]), "paid": View("rewards", -1)}  # noqa: RUF012

    def act(self, batch):
        return (batch["pair"].sum(1) + batch["paid"]).astype(np.int64)

    def get_config(self):
        return {}


def new_policy():
    return Policy(Adds(spaces.Discrete(10), spaces.Discrete(50)))


def test_a_policy_shows_its_module_the_views():
    policy = new_policy()
    first = policy(3)
    policy.observe(4.0)

    assert (int(first), int(policy(5))) == (3, 3 + 5 + 4)


def test_rewards_that_a_view_shows_have_to_be_told():
    policy = new_policy()
    policy(3)

    with pytest.raises(PolicyError, match="observe"):
        policy(5)


def test_a_policy_with_views_acts_alike_after_it_was_saved(tmp_path):
    new_policy().save(tmp_path / "saved")
    policy = Policy.load(tmp_path / "saved")
    first = policy(3)
    policy.observe(4.0)

    assert (int(first), int(policy(5))) == (3, 3 + 5 + 4)


@pytest.mark.parametrize(
    "view", [View("obs", range(-3, 1), fill=2), View("rewards", -2, every=4), View("actions", [-5, -1])]
)
def test_every_part_of_a_view_is_saved(view, tmp_path):
    policy_with({"seen": view}).save(tmp_path / "saved")
    pieces = Policy.load(tmp_path / "saved")._parts.env_to_module

    assert pieces["mine"].views["seen"] == View(
        view.source, list(view.shifts) if view.is_window else view.shift, view.fill, every=view.every
    )


def test_a_view_that_calls_a_function_cannot_be_saved(tmp_path):
    with pytest.raises(PipelineError, match="`views` of piece 'mine': found a function"):
        policy_with({"seen": View("obs", -1, agent=lambda *_: None)}).save(tmp_path / "saved")


def policy_with(views):
    """Return a policy with more views than its module has declared."""
    sides = spaces.Discrete(10), spaces.Discrete(50)
    module = Adds(*sides)
    return Policy(module, defaults.env_to_module(*sides, custom=[AddViews(views, name="mine")], module=module))
