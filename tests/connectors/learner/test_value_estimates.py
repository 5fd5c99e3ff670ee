"""Values of a batch: of one that is too large for a device, in pieces, and of one without the last observations."""

from __future__ import annotations

import pytest

from drives import drive, run
from episodia.connectors.batches.batch_columns import add_column
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.learner import value_estimates as values
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
from episodia.errors import BatchError
from episodia.trees import leaves
from valued_modules import MemoryModule, SumModule

EPISODES = [drive(length, seed, end="truncated", stateful=True) for seed, length in enumerate((5, 1, 9, 4))]


class Watched:
    """A module that remembers how many bytes it was shown at once."""

    def __init__(self, module):
        self._module, self.seen = module, []

    def __getattr__(self, name):
        return getattr(self._module, name)

    def compute_values(self, batch, embeddings=None):
        self.seen.append(sum(leaf.nbytes for _, leaf in leaves(batch)))
        return self._module.compute_values(batch, embeddings)


def advantages_and_bytes(recurrent):
    module = Watched(MemoryModule() if recurrent else SumModule())
    pieces = [
        AddObservationsFromEpisodesToBatch(),
        AddColumnsFromEpisodesToTrainBatch(),
        *([AddStatesFromEpisodesToBatch()] if recurrent else []),
        AgentToModuleMapping(),
        GeneralAdvantageEstimation(gamma=0.9, lambda_=0.8),
        BatchIndividualItems(),
    ]
    batch = run(pieces, EPISODES, module)["default_policy"]
    return batch["advantages"], module.seen


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("limit", [1, 100])
def test_pieces_give_the_same_values(limit, recurrent, monkeypatch):
    expected, at_once = advantages_and_bytes(recurrent)
    monkeypatch.setattr(values, "BYTES_AT_ONCE", limit)
    found, seen = advantages_and_bytes(recurrent)

    assert found == pytest.approx(expected, rel=1e-5)
    assert len(seen) > len(at_once)
    assert max(seen) < max(at_once)


def test_a_batch_that_fits_goes_at_once():
    assert len(advantages_and_bytes(recurrent=False)[1]) == 1


class WithoutTail(AddObservationsFromEpisodesToBatch):
    """Writes only the observations of the steps."""

    def __call__(self, *, batch, episodes, **kwargs):
        add_column(
            batch, "obs", episodes, lambda rows: rows.windows("obs", shifts=[0], fill=0.0).map(lambda leaf: leaf[:, 0])
        )
        return batch


def test_observations_without_the_last_one_are_an_error_that_says_who_should_keep_it():
    targets = [GeneralAdvantageEstimation(), BatchIndividualItems()]
    pieces = [WithoutTail(), AddColumnsFromEpisodesToTrainBatch(), AgentToModuleMapping(), *targets]

    with pytest.raises(BatchError, match=r"Let the piece that writes observations keep it \(`windows.*tail=True"):
        run(pieces, EPISODES, SumModule())
