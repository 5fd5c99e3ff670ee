"""A policy of a module that declares views shows them to it, step by step."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import View
from episodia.connectors.policy import Policy
from episodia.errors import PolicyError
from episodia.modules import Rule


class Adds(Rule):
    """Acts with the sum of the last two observations and the last reward."""

    views = {"pair": View("obs", [-1, 0]), "paid": View("rewards", -1)}  # noqa: RUF012

    def act(self, batch):
        return (batch["pair"].sum(1) + batch["paid"]).astype(np.int64)


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
