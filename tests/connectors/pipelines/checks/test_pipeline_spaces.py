"""Spaces flow from piece to piece; the module is built from what leaves the last one."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from episodia.connectors import ConnectorPipelineV2, ConnectorV2, EnvToModulePipeline
from episodia.errors import PipelineError
from tiny_connectors import Tiny


class Wider(Tiny):
    """Adds `more` to the length of observations, and one to the number of actions."""

    def __init__(self, observation_space=None, action_space=None, *, more=1, **kwargs):
        super().__init__(input_observation_space=observation_space, input_action_space=action_space, **kwargs)
        self.more = more

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return box(input_observation_space.shape[0] + self.more)

    def recompute_output_action_space(self, input_observation_space, input_action_space):
        return Discrete(input_action_space.n + 1)


class OneHotActions(Tiny):
    """Needs both spaces: appends the action to the observation."""

    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        return box(input_observation_space.shape[0] + int(input_action_space.n))


def box(length):
    return Box(-1.0, 1.0, (length,), np.float32)


def test_spaces_flow_through_all_pieces_also_nested_ones():
    inner = ConnectorPipelineV2(connectors=[Wider(more=10), Wider(more=100)])
    pipeline = ConnectorPipelineV2(box(1), Discrete(2), connectors=[Wider(more=1000), inner, Tiny()])

    assert [piece.input_observation_space for piece in pipeline] == [box(1), box(1001), box(1111)]
    assert pipeline.observation_space == inner.observation_space == box(1111)
    assert pipeline.action_space == Discrete(5)


def test_an_empty_pipeline_leaves_spaces_as_they_are():
    pipeline = ConnectorPipelineV2(box(3), Discrete(2))

    assert (pipeline.observation_space, pipeline.action_space) == (box(3), Discrete(2))


def test_without_spaces_nothing_is_known():
    pipeline = ConnectorPipelineV2(connectors=[Wider()])

    assert (pipeline.observation_space, pipeline.action_space) == (None, None)


def test_setting_the_input_spaces_lets_them_flow():
    pipeline = ConnectorPipelineV2(connectors=[Wider(), OneHotActions()])
    pipeline.input_action_space = Discrete(4)
    pipeline.input_observation_space = box(1)

    assert pipeline.observation_space == box(1 + 1 + 5)
    assert pipeline.action_space == Discrete(5)


@pytest.mark.parametrize(
    ("edit", "length"),
    [
        (lambda p: p.insert_before("last", Wider(more=5)), 1 + 10 + 20 + 5),
        (lambda p: p.prepend(Wider(more=5)), 1 + 10 + 20 + 5),
        (lambda p: p.remove(0), 1 + 20),
        (lambda p: p.replace(1, Wider(more=7)), 1 + 10 + 7),
        (lambda p: p["inner"].append(Wider(more=7)), 1 + 10 + 20 + 7),
    ],
)
def test_after_each_edit_spaces_flow_again(edit, length):
    inner = ConnectorPipelineV2(connectors=[Wider(more=20)], name="inner")
    pipeline = ConnectorPipelineV2(box(1), Discrete(2), connectors=[Wider(more=10), inner, Tiny(name="last")])
    edit(pipeline)

    assert pipeline.observation_space == pipeline["last"].input_observation_space == box(length)


def test_both_spaces_are_known_when_an_output_space_is_computed():
    assert ConnectorPipelineV2(box(1), Discrete(3), connectors=[OneHotActions()]).observation_space == box(4)


def test_a_new_action_space_also_changes_the_observation_space_that_depends_on_it():
    piece = OneHotActions(input_observation_space=box(1), input_action_space=Discrete(3))
    piece.input_action_space = Discrete(7)

    assert piece.observation_space == box(8)


def test_a_piece_keeps_its_own_spaces_where_the_pipeline_knows_none():
    piece = Wider(box(2), Discrete(2))
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), piece, Wider()])

    assert pipeline.observation_space == box(4)
    pipeline.remove(1)
    assert pipeline.observation_space is None


def test_the_spaces_of_the_pipeline_replace_those_of_a_piece():
    assert ConnectorPipelineV2(box(5), Discrete(2), connectors=[Wider(box(2))]).observation_space == box(6)


def test_a_piece_may_set_attributes_when_its_spaces_are_computed():
    class Remembers(Tiny):
        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            self.length = input_observation_space.shape[0]
            return input_observation_space

    alone = Remembers(input_observation_space=box(3))
    in_pipeline = ConnectorPipelineV2(box(4), connectors=[Remembers()])[0]

    assert (alone.length, in_pipeline.length) == (3, 4)


def test_a_piece_may_ask_for_its_output_space_while_it_is_computed():
    class Asks(Tiny):
        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            return box(9) if self.observation_space is None else box(1)

    assert Asks(input_observation_space=box(3)).observation_space == box(9)


def test_a_piece_that_does_not_call_the_base_constructor_works():
    class Forgetful(ConnectorV2):
        def __init__(self):
            self.mine = 1

        def __call__(self, *, batch, **kwargs):
            return batch

    pipeline = ConnectorPipelineV2(box(3), connectors=[Forgetful()])

    assert pipeline.observation_space == box(3)
    assert pipeline[0].name == "Forgetful"


class Picky(Tiny):
    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        if input_observation_space == box(2):
            raise KeyError("two")
        return input_observation_space


def test_a_piece_that_cannot_take_a_space_is_named_with_its_place_and_the_spaces():
    inner = ConnectorPipelineV2(connectors=[Wider(), Picky()], name="inner")

    with pytest.raises(PipelineError, match=r"'inner' at 0: .*piece 'Picky' at 1: .*\(2,\).*KeyError: 'two'") as caught:
        EnvToModulePipeline(box(1), Discrete(2), connectors=[inner])
    assert isinstance(caught.value.__cause__.__cause__, KeyError)


def test_a_rejected_space_leaves_all_spaces_as_they_were():
    pipeline = ConnectorPipelineV2(box(5), Discrete(2), connectors=[Wider(), Picky()])

    with pytest.raises(PipelineError):
        pipeline.input_observation_space = box(1)
    assert [piece.input_observation_space for piece in (pipeline, *pipeline)] == [box(5), box(5), box(6)]


def test_a_space_that_a_piece_alone_rejects_leaves_it_as_it_was():
    piece = Picky(input_observation_space=box(1))

    with pytest.raises(KeyError):
        piece.input_observation_space = box(2)
    assert piece.input_observation_space == piece.observation_space == box(1)


def test_recomputing_the_spaces_of_a_pipeline_lets_them_flow_as_in_rllib():
    pipeline = ConnectorPipelineV2(connectors=[Wider()])

    assert pipeline.recompute_output_observation_space(box(1), Discrete(2)) == box(2)
    assert pipeline.recompute_output_action_space(box(1), Discrete(2)) == Discrete(3)
