"""Columns on their last step to plain arrays: one row for each step, however they were written."""

import numpy as np
import pytest
import torch

from episodia.connectors import defaults
from episodia.errors import ConnectorError
from tiny_connectors import Call, run, walk

EPISODES = [walk("one", 3), walk("two", 2)]


def made_with(column):
    """Return the train batch of five steps beside which a plugin has written `column`."""
    pipeline = defaults.learner(custom=[Call(lambda batch, _: batch.update(written=column))])
    return run(pipeline, EPISODES)["default_policy"]


@pytest.mark.parametrize("rows", [0, 1, 4, 6, 8])
@pytest.mark.parametrize("make", [np.arange, torch.arange, lambda n: {"x": np.arange(n)}, lambda n: list(range(n))])
def test_a_column_with_another_number_of_rows_is_rejected_by_its_name(make, rows):
    with pytest.raises(
        ConnectorError, match=rf"(?s)'BatchIndividualItems'.*found {rows} items.*expected 5.*column: 'written'"
    ):
        made_with(make(rows))


@pytest.mark.parametrize("make", [np.arange, torch.arange, lambda n: list(range(n))])
def test_the_item_after_the_last_step_of_each_episode_is_left_behind(make):
    assert made_with(make(5))["written"].tolist() == [0, 1, 2, 3, 4]
    assert made_with(make(7))["written"].tolist() == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("number", [3, np.array(3.0)])
def test_what_has_no_rows_is_left_alone(number):
    assert made_with(number)["written"] == number
