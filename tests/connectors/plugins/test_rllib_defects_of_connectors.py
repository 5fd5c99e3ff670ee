"""What RLlib 2.60 gets wrong in connectors and pipelines, each named after what is right."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from episodia.connectors import ConnectorPipelineV2, ConnectorV2, EnvToModulePipeline
from episodia.errors import PieceLookupError
from tiny_connectors import Count, Other, Tiny, run


# Silent there: states are paired with pieces by position among the stateful ones.
def test_merging_states_pairs_each_state_with_the_piece_that_it_came_from():
    pipelines = [EnvToModulePipeline(connectors=[Tiny(reads=(), writes=()), Count()]) for _ in range(3)]
    for pipeline in pipelines:
        run(pipeline)

    assert pipelines[0].merge_states([pipeline.get_state() for pipeline in pipelines]) == {"Count": {"calls": 3}}


# Silent there: the last of them wins.
def test_two_pieces_of_one_class_have_states_of_their_own():
    first, second = Count(), Count()
    pipeline = ConnectorPipelineV2(connectors=[first, second])
    pipeline.set_state({"Count": {"calls": 3}, "Count_2": {"calls": 5}})

    assert (first.calls, second.calls) == (3, 5)
    assert pipeline.get_state() == {"Count": {"calls": 3}, "Count_2": {"calls": 5}}


# Silent there: the piece is inserted next to the last one.
@pytest.mark.parametrize("edit", ["insert_before", "insert_after"])
@pytest.mark.parametrize("key", ["Unknown", Other])
def test_inserting_next_to_an_unknown_piece_raises(edit, key):
    pipeline = ConnectorPipelineV2(connectors=[Tiny()])

    with pytest.raises(PieceLookupError, match="no piece for"):
        getattr(pipeline, edit)(key, Count())
    assert len(pipeline) == 1


# Only a warning in a log there.
def test_removing_an_unknown_piece_raises():
    with pytest.raises(PieceLookupError, match="no piece for 'Unknown'"):
        ConnectorPipelineV2(connectors=[Tiny()]).remove("Unknown")


# An AttributeError there, because spaces are computed before the constructor has ended.
def test_a_piece_can_be_constructed_with_spaces_although_its_attributes_are_set_later():
    class Stack(ConnectorV2):
        def __init__(self, input_observation_space=None, input_action_space=None, *, num_frames=1, **kwargs):
            super().__init__(input_observation_space, input_action_space, **kwargs)
            self.num_frames = num_frames

        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            return Box(-1.0, 1.0, (self.num_frames, *input_observation_space.shape), np.float32)

        def __call__(self, *, batch, **kwargs):
            return batch

    piece = Stack(Box(-1.0, 1.0, (2,), np.float32), Discrete(2), num_frames=4)

    assert piece.observation_space.shape == (4, 2)
    assert piece.action_space == Discrete(2)


# An AttributeError there.
def test_a_piece_is_found_by_its_name():
    piece = Tiny()

    assert ConnectorPipelineV2(connectors=[Other(), piece])["Tiny"] is piece


# A TypeError there.
def test_a_pipeline_can_be_made_without_pieces():
    assert len(ConnectorPipelineV2()) == 0
