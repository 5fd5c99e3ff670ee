"""Pieces work on either side of the mapping to modules, or say that they cannot."""

from __future__ import annotations

import pytest

from drives import drive
from episodia import MultiAgentEpisode
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
    AddLossMask,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AgentToModuleMapping,
    BatchIndividualItems,
    ComputeReturnsToGo,
    ConnectorV2,
    FrameStacking,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
)
from episodia.errors import ConnectorError
from valued_modules import MemoryModule, SumModule


def game():
    """Return two steps of two agents, each with a module of its own; one of them has an extra output."""
    return MultiAgentEpisode(
        "game",
        observations=[{"left": [t, 0.0], "right": [t, 1.0]} for t in range(3)],
        infos=[{"left": {"t": t}, "right": {}} for t in range(3)],
        actions=[{"left": 0, "right": 1}] * 2,
        rewards=[{"left": 1.0, "right": 2.0}] * 2,
        extra_model_outputs=[{"left": {"logp": -0.5}}] * 2,
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda agent, _: f"{agent}-module",
    )


def columns_with(piece, episodes, *, first, rl_module=None):
    """Return the columns of each module, of a pipeline with `piece` before or after the mapping."""
    pieces = [piece, AgentToModuleMapping()] if first else [AgentToModuleMapping(), piece]
    columns = LearnerConnectorPipeline(connectors=[ComesFirst(), *pieces, BatchIndividualItems()])
    batch = columns(rl_module=rl_module, episodes=episodes)
    return {module: {name: repr(column) for name, column in part.items()} for module, part in batch.items()}


class ComesFirst(ConnectorV2):
    """Adds the time steps, so that there is something to map."""

    reads, writes, lookback = frozenset(), frozenset({"t"}), 0

    def __call__(self, *, batch, episodes, **kwargs):
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            self.add_n_batch_items(batch, "t", list(range(len(episode))), len(episode), episode)
        return batch


PIECES = [
    AddObservationsFromEpisodesToBatch,
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
    lambda: FrameStacking(num_frames=2),
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("episodes", [[drive(3), drive(2, 1)], [game(), game()]], ids=["single", "multi"])
def test_pieces_that_add_columns_stand_on_either_side(piece, episodes):
    after = columns_with(piece(), episodes, first=False)

    assert after == columns_with(piece(), episodes, first=True)
    assert all(len(columns) > 1 for columns in after.values())


def test_states_are_added_on_either_side():
    episodes = [drive(3, stateful=True)]
    after = columns_with(AddStatesFromEpisodesToBatch(), episodes, first=False, rl_module=MemoryModule())

    assert after == columns_with(AddStatesFromEpisodesToBatch(), episodes, first=True, rl_module=MemoryModule())
    assert "state_in" in after["default_policy"]


@pytest.mark.parametrize("piece", [ComputeReturnsToGo, GeneralAdvantageEstimation, BatchIndividualItems])
def test_pieces_for_one_module_at_a_time_reject_columns_of_several(piece):
    columns = [AddObservationsFromEpisodesToBatch(), AddColumnsFromEpisodesToTrainBatch()]
    pipeline = LearnerConnectorPipeline(connectors=[*columns, piece(), AgentToModuleMapping()])

    with pytest.raises(ConnectorError, match=r"left-module.*after `AgentToModuleMapping`"):
        pipeline(rl_module=SumModule(), episodes=[game()])


def test_next_observations_leave_the_observations_of_all_modules_as_they_are():
    pieces = [AddObservationsFromEpisodesToBatch(), AddNextObservationsFromEpisodesToTrainBatch()]
    pipeline = LearnerConnectorPipeline(connectors=[*pieces, AgentToModuleMapping(), BatchIndividualItems()])

    left = pipeline(rl_module=None, episodes=[game()])["left-module"]

    assert left["obs"].tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert left["new_obs"].tolist() == [[1.0, 0.0], [2.0, 0.0]]


def test_a_loss_mask_is_added_where_no_column_is_yet():
    pipeline = LearnerConnectorPipeline(connectors=[AddLossMask(), AgentToModuleMapping(), BatchIndividualItems()])

    batch = pipeline(rl_module=None, episodes=[game()])

    assert {module: columns["loss_mask"].tolist() for module, columns in batch.items()} == {
        "left-module": [True, True],
        "right-module": [True, True],
    }
