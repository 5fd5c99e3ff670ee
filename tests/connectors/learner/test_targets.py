"""What learners aim at, against references of a few lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drives import drive, run
from episodia import Columns, EpisodeList
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.learner.add_loss_mask import AddLossMask
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from episodia.connectors.learner.compute_returns_to_go import ComputeReturnsToGo
from episodia.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
from episodia.connectors.learner.ignore_terminations import IgnoreTerminations
from episodia.connectors.learner.n_step_returns import NStepReturns
from episodia.connectors.learner.standardize import Standardize
from episodia.errors import BatchError
from valued_modules import MemoryModule, SumModule

drives = st.builds(
    lambda length, seed, end, finalized: drive(length, seed, end=end, finalized=finalized),
    st.integers(0, 6),
    st.integers(0, 50),
    st.sampled_from(["", "terminated", "truncated"]),
    st.booleans(),
)
lists_of_drives = st.lists(drives, min_size=1, max_size=4)

COLUMNS = [AddObservationsFromEpisodesToBatch(), AddColumnsFromEpisodesToTrainBatch()]


def columns_of(pieces, episodes, rl_module=None):
    """Return the columns of the one module, as arrays."""
    batch = run([*COLUMNS, AgentToModuleMapping(), *pieces, BatchIndividualItems()], episodes, rl_module)
    return batch["default_policy"]


def gae(rewards, values, last_value, gamma, lambda_):
    """The reference: five lines."""
    advantage, advantages = 0.0, []
    for reward, value, following in zip(rewards[::-1], values[::-1], [last_value, *values[:0:-1]], strict=False):
        advantage = reward + gamma * following - value + gamma * lambda_ * advantage
        advantages.insert(0, advantage)
    return advantages


@given(lists_of_drives, st.floats(0, 1), st.floats(0, 1))
def test_advantages_agree_with_a_loop_over_each_episode(episodes, gamma, lambda_):
    found = columns_of([GeneralAdvantageEstimation(gamma=gamma, lambda_=lambda_)], episodes, SumModule())

    expected, targets = [], []
    for episode in episodes:
        values = [float(row.sum()) for row in episode.get_observations()]
        last = 0.0 if episode.is_terminated else values[-1]
        advantages = gae(list(episode.get_rewards()), values[:-1], last, gamma, lambda_)
        expected += advantages
        targets += [advantage + value for advantage, value in zip(advantages, values, strict=False)]
    np.testing.assert_allclose(found[Columns.ADVANTAGES], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[Columns.VALUE_TARGETS], targets, rtol=1e-4, atol=1e-5)
    assert len(found[Columns.OBS]) == sum(map(len, episodes))


def test_recurrent_modules_bootstrap_in_the_state_after_the_last_step():
    episode = drive(4, stateful=True)
    pieces = [AddStatesFromEpisodesToBatch(), GeneralAdvantageEstimation(gamma=1.0, lambda_=0.0)]

    found = columns_of(pieces, [episode], MemoryModule())

    states = [2.0, *(float(h.sum()) for h in episode.get_extra_model_outputs("state_out")["h"])]
    sums = [float(row.sum()) for row in episode.get_observations()]
    # Sequences of three: values add up within each, from the state at its beginning.
    values = [states[0] + sums[0], states[0] + sums[0] + sums[1], states[0] + sum(sums[:3]), states[3] + sums[3]]
    last = states[4] + sums[4]
    expected = [r + after for r, after in zip(episode.get_rewards(), [*values[1:], last], strict=True)]
    np.testing.assert_allclose(found[Columns.VALUE_TARGETS], expected, rtol=1e-5)


def test_advantages_need_the_observation_after_the_last_step():
    pieces = [BatchIndividualItems(), GeneralAdvantageEstimation()]

    with pytest.raises(BatchError, match="place this piece before `BatchIndividualItems`"):
        columns_of(pieces, [drive(2)], SumModule())


@given(lists_of_drives, st.floats(0, 1))
def test_returns_to_go_agree_with_a_loop(episodes, gamma):
    found = columns_of([ComputeReturnsToGo(gamma=gamma)], episodes)

    expected = [
        sum(gamma**k * reward for k, reward in enumerate(episode.get_rewards()[t:]))
        for episode in episodes
        for t in range(len(episode))
    ]
    np.testing.assert_allclose(found[Columns.RETURNS_TO_GO], expected, rtol=1e-4, atol=1e-5)


@given(lists_of_drives, st.integers(1, 4), st.floats(0, 1))
def test_n_step_returns_agree_with_a_loop(episodes, n, gamma):
    found = columns_of([NStepReturns(n=n, gamma=gamma)], episodes)

    rows = [(episode, t, min(n, len(episode) - t)) for episode in episodes for t in range(len(episode))]
    np.testing.assert_allclose(
        found[Columns.REWARDS],
        [sum(gamma**i * e.get_rewards()[t + i] for i in range(k)) for e, t, k in rows],
        rtol=1e-4,
        atol=1e-5,
    )
    at_end = [t + k == len(e) for e, t, k in rows]
    np.testing.assert_allclose(
        found[Columns.DISCOUNTS],
        [0.0 if end and e.is_terminated else gamma**k for (e, t, k), end in zip(rows, at_end, strict=True)],
        rtol=1e-6,
        atol=1e-30,
    )
    if rows:
        np.testing.assert_array_equal(found[Columns.NEXT_OBS], [e.get_observations(t + k) for e, t, k in rows])
    for name, flag in ((Columns.TERMINATEDS, "is_terminated"), (Columns.TRUNCATEDS, "is_truncated")):
        expected = [end and getattr(e, flag) for (e, _, _), end in zip(rows, at_end, strict=True)]
        assert found[name].tolist() == expected


@given(lists_of_drives)
def test_next_observations_are_the_same_track_one_later(episodes):
    found = columns_of([AddNextObservationsFromEpisodesToTrainBatch()], episodes)

    expected = [row for episode in episodes for row in episode.get_observations()[1:]]
    assert len(found[Columns.NEXT_OBS]) == len(expected)
    for row, item in zip(found[Columns.NEXT_OBS], expected, strict=True):
        np.testing.assert_array_equal(row, item)


def test_next_observations_without_observations_are_rejected():
    with pytest.raises(
        BatchError,
        match=r"column 'obs': found no such column, only \[\]; expected it from `AddObs.*Place this piece after",
    ):
        run([AddNextObservationsFromEpisodesToTrainBatch()], [drive(2)])


@given(lists_of_drives)
def test_next_observations_may_be_added_before_the_mapping(episodes):
    pieces = [*COLUMNS, AddNextObservationsFromEpisodesToTrainBatch(), BatchIndividualItems()]

    after = columns_of([AddNextObservationsFromEpisodesToTrainBatch()], episodes)

    np.testing.assert_array_equal(run(pieces, episodes)[Columns.NEXT_OBS], after[Columns.NEXT_OBS])


def test_steps_that_do_not_count_are_not_counted_when_standardising():
    class Mask:
        """Lets only the first two steps count."""

        def __call__(self, *, batch, **kwargs):
            columns = batch["default_policy"]
            mask = columns[Columns.LOSS_MASK]
            columns[Columns.LOSS_MASK] = mask.with_values(np.arange(mask.num_steps) < 2)
            return batch

    found = columns_of([AddLossMask(), Mask(), Standardize(column=Columns.REWARDS)], [drive(3), drive(2)])

    first, second = drive(3).get_rewards()[:2]
    scale = abs(first - second) / 2
    np.testing.assert_allclose(found[Columns.REWARDS][:2], [(first - second) / 2 / scale, (second - first) / 2 / scale])
    assert found[Columns.REWARDS][2:].tolist() == [0.0, 0.0, 0.0]


def test_ignored_terminations_are_truncations():
    episodes = [drive(2, end="terminated"), drive(1), drive(1, end="truncated")]

    found = columns_of([IgnoreTerminations()], episodes)

    assert not found[Columns.TERMINATEDS].any()
    assert found[Columns.TRUNCATEDS].tolist() == [False, True, False, True]


def test_values_after_an_ignored_termination_count():
    episodes = [drive(2, end="terminated")]

    ignored = columns_of([IgnoreTerminations(), GeneralAdvantageEstimation()], episodes, SumModule())

    running = columns_of([GeneralAdvantageEstimation()], [drive(2)], SumModule())
    np.testing.assert_array_equal(ignored[Columns.ADVANTAGES], running[Columns.ADVANTAGES])


def test_columns_are_the_ones_of_the_episodes():
    episodes = [drive(2, 1), drive(3, 2, finalized=False)]

    found = columns_of([], episodes)

    assert sorted(found) == ["action_logp", "actions", "obs", "rewards", "terminateds", "truncateds"]
    assert found[Columns.ACTIONS].tolist() == [a for e in episodes for a in e.get_actions()]
    assert found["action_logp"].tolist() == [x for e in episodes for x in e.get_extra_model_outputs("action_logp")]


def test_skipped_columns_are_not_added():
    batch = run([AddColumnsFromEpisodesToTrainBatch(skip_columns=["action_logp", Columns.REWARDS])], [drive(2)])

    assert sorted(batch) == ["actions", "terminateds", "truncateds"]


def test_a_column_that_is_there_stays():
    class OwnRewards:
        """A plugin that has rewards of its own."""

        def __call__(self, *, batch, **kwargs):
            return {**batch, Columns.REWARDS: [7.0, 8.0]}

    batch = run([OwnRewards(), AddColumnsFromEpisodesToTrainBatch(), BatchIndividualItems()], [drive(2)])

    assert batch[Columns.REWARDS].tolist() == [7.0, 8.0]


def test_an_empty_list_gives_empty_columns():
    assert columns_of([ComputeReturnsToGo()], EpisodeList())[Columns.RETURNS_TO_GO].tolist() == []


@pytest.mark.parametrize("module", [SumModule(), MemoryModule()])
def test_without_episodes_there_are_no_advantages_whatever_the_module_takes(module):
    class Strict(type(module)):
        def compute_values(self, batch, embeddings=None):
            assert batch["obs"].shape[-1] == 2, "observations of another space"
            return super().compute_values(batch, embeddings)

    found = columns_of([AddStatesFromEpisodesToBatch(), GeneralAdvantageEstimation()], EpisodeList(), Strict())

    assert found[Columns.ADVANTAGES].tolist() == found[Columns.VALUE_TARGETS].tolist() == []
