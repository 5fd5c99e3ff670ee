"""Values of a batch that is too large for a device: the module gets it in pieces, and the results are the same."""

from __future__ import annotations

import pytest

from drives import drive, run
from episodia.connectors.common.add_observations_from_episodes_to_batch import AddObservationsFromEpisodesToBatch
from episodia.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from episodia.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.learner import value_estimates as values
from episodia.connectors.learner.add_columns_from_episodes_to_train_batch import AddColumnsFromEpisodesToTrainBatch
from episodia.connectors.learner.general_advantage_estimation import GeneralAdvantageEstimation
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
