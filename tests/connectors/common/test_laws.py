"""The laws of connectors: shipped pieces obey them, and broken ones are found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drives import drive
from episodia import Columns
from episodia.connectors import ConnectorV2, Kind
from episodia.connectors.batches.batch_columns import add_column
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
)
from episodia.connectors.learner.add_loss_mask import AddLossMask
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    AddNextObservationsFromEpisodesToTrainBatch,
)
from episodia.connectors.learner.compute_returns_to_go import ComputeReturnsToGo
from episodia.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
from episodia.connectors.learner.ignore_terminations import IgnoreTerminations
from episodia.connectors.learner.n_step_returns import NStepReturns
from episodia.connectors.learner.standardize import Standardize
from episodia.testing.connectors.connector_laws import check_connector_laws
from valued_modules import MemoryModule, SumModule

lists_of_drives = st.lists(
    st.builds(
        lambda length, seed, end, finalized: drive(length, seed, end=end, finalized=finalized, stateful=True),
        st.integers(0, 5),
        st.integers(0, 50),
        st.sampled_from(["", "terminated", "truncated"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)

SHIPPED = {
    "observations": (lambda: [AddObservationsFromEpisodesToBatch()], None),
    "next observations": (lambda: [AddNextObservationsFromEpisodesToTrainBatch()], None),
    "columns": (lambda: [AddColumnsFromEpisodesToTrainBatch()], None),
    "infos": (lambda: [AddInfosFromEpisodesToTrainBatch()], None),
    "states": (lambda: [AddStatesFromEpisodesToBatch()], MemoryModule()),
    "advantages": (lambda: [GeneralAdvantageEstimation()], SumModule()),
    "returns to go": (lambda: [ComputeReturnsToGo()], None),
    "n-step returns": (lambda: [NStepReturns(n=2)], None),
    "standardised": (lambda: [Standardize(column=Columns.REWARDS)], None),
    "loss mask": (lambda: [AddColumnsFromEpisodesToTrainBatch(), AddLossMask()], None),
    "ignored terminations": (lambda: [IgnoreTerminations()], None),
}


@pytest.mark.parametrize("name", SHIPPED)
@settings(max_examples=15)
@given(episodes=lists_of_drives)
def test_shipped_pieces_obey_the_laws_of_their_kind(name, episodes):
    pieces, module = SHIPPED[name]

    laws = check_connector_laws(pieces, episodes, rl_module=module)

    assert "callers_data_stay_as_they_are" in laws


# --- Broken on purpose ----------------------------------------------------------------------------------------------


class ForgetsItsLookback(ConnectorV2):
    """Reads two steps back and declares none."""

    reads, writes, lookback = frozenset(), frozenset({"before"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            for t in range(1 if episodes.is_current else len(episode)):
                at = len(episode) if episodes.is_current else t
                value = episode.get_observations(at - 2, neg_index_as_lookback=True, fill=0.0)
                self.add_batch_item(batch, "before", value, episode)
        return batch


class LooksAhead(ConnectorV2):
    """Calls itself causal and uses the reward that is yet to come."""

    reads, writes, lookback = frozenset(), frozenset({"soon"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(batch, "soon", episodes, lambda rows: rows.windows(Columns.REWARDS, shifts=[1], fill=0.0))
        return batch


class MixesEpisodes(ConnectorV2):
    """Adds up rewards over the end of one episode into the next."""

    reads, writes, lookback = frozenset({Columns.REWARDS}), frozenset({Columns.REWARDS}), 0
    kind = Kind.FORWARD_LOOKING

    def __call__(self, *, batch, **kwargs):
        batch[Columns.REWARDS] = batch[Columns.REWARDS].map(np.cumsum)
        return batch


class WritesIntoTheCallersEpisode(ConnectorV2):
    """Keeps an episode of the caller, and doubles its rewards."""

    reads, writes, lookback = frozenset(), frozenset({"x"}), 0

    def __init__(self, episode):
        super().__init__()
        self.episode = episode

    def __call__(self, *, batch, episodes, **kwargs):
        self.episode.set_rewards(new_data=[2 * reward + 1 for reward in self.episode.get_rewards()])
        add_column(batch, "x", episodes, lambda rows: rows.flat(Columns.T))
        return batch


class CaresForTheForm(ConnectorV2):
    """Makes something else of lists than of arrays."""

    reads, writes, lookback = frozenset(), frozenset({"is_array"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes):
            is_array = isinstance(episode.get_rewards(), np.ndarray)
            self.add_n_batch_items(batch, "is_array", [is_array] * len(episode), len(episode), episode)
        return batch


class Counts(ConnectorV2):
    """Makes another column each time."""

    reads, writes, lookback = frozenset(), frozenset({"calls"}), 0
    calls = 0

    def __call__(self, *, batch, episodes, **kwargs):
        self.calls += 1
        add_column(batch, "calls", episodes, lambda rows: rows.flat(Columns.T).map(lambda t: t + self.calls))
        return batch


class Remembers(ConnectorV2):
    """Adds how many episodes it has seen while acting."""

    reads, writes, lookback = frozenset(), frozenset({"seen"}), 0
    is_stateful, seen = True, 0

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(
            batch, "seen", episodes, lambda rows: rows.flat(Columns.OBS).map(lambda x: np.full(len(x), self.seen))
        )
        self.seen += len(episodes) if episodes.is_current else 0
        return batch

    def get_state(self, *_, **__):
        return {"seen": self.seen}

    def set_state(self, state):
        self.seen = state["seen"]


class KeepsObjects(Remembers):
    """Has a state that only pickle could store."""

    def get_state(self, *_, **__):
        return {"seen": self.seen, "set": {1, 2}}


class Forgets(Remembers):
    """Takes a state and does nothing with it."""

    def set_state(self, state):
        pass


class ForgetsSomething(Remembers):
    """Says less than it remembers."""

    def get_state(self, *_, **__):
        return {"version": 1}

    def set_state(self, state):
        pass


def test_a_stateful_piece_whose_state_is_complete_obeys_the_law_of_states():
    laws = check_connector_laws(lambda: [Remembers()], [drive(2), drive(0)])

    assert "restored_pieces_go_on_alike" in laws


victim = drive(3, 4, finalized=False)
BROKEN = {
    "cutting changes nothing": (lambda: [ForgetsItsLookback()], drive(4)),
    "cutting changes nothing .*'soon'": (lambda: [LooksAhead()], drive(4)),
    "episodes do not depend on each other": (lambda: [MixesEpisodes()], drive(3)),
    "rewards": (lambda: [WritesIntoTheCallersEpisode(victim)], victim),
    "the form does not matter": (lambda: [CaresForTheForm()], drive(2, finalized=False)),
    "running again changes nothing": (lambda: [Counts()], drive(2)),
    "restored pieces go on alike: .*'set'.*found a set": (lambda: [KeepsObjects()], drive(2)),
    "restored pieces go on alike: found the state .*'seen': 0": (lambda: [Forgets()], drive(2)),
    r"restored pieces go on alike \(after `set_state`\), column 'seen'": (lambda: [ForgetsSomething()], drive(2)),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_piece_breaks_its_law(message):
    pieces, episode = BROKEN[message]

    with pytest.raises(AssertionError, match=message):
        check_connector_laws(pieces, [episode, drive(2, 9)])
