"""Each piece has a name of its own among its neighbours."""

import copy
import pickle

import pytest

from episodia.connectors import ConnectorPipelineV2
from episodia.errors import PipelineError
from tiny_connectors import Other, Tiny, run


def names(pipeline):
    return [piece.name for piece in pipeline]


def test_pieces_of_one_class_are_numbered_from_two():
    assert names(ConnectorPipelineV2(connectors=[Tiny(), Other(), Tiny(), Tiny()])) == [
        "Tiny",
        "Other",
        "Tiny_2",
        "Tiny_3",
    ]


def test_a_given_name_stands_and_others_make_way():
    assert names(ConnectorPipelineV2(connectors=[Tiny(), Other(name="Tiny")])) == ["Tiny_2", "Tiny"]


def test_two_pieces_of_one_given_name_are_rejected():
    with pytest.raises(PipelineError, match=r"name 'frames' for the Other at 1, which a Tiny.*`name=`"):
        ConnectorPipelineV2(connectors=[Tiny(name="frames"), Other(name="frames")])


def test_a_name_can_be_set_in_a_pipeline():
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Tiny()])
    pipeline[1].name = "second"

    assert names(pipeline) == ["Tiny", "second"]
    assert pipeline["second"] is pipeline[1]


def test_setting_the_name_of_a_neighbour_is_rejected():
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Tiny()])

    with pytest.raises(PipelineError, match="Tiny_2"):
        pipeline[0].name = "Tiny_2"
    assert names(pipeline) == ["Tiny", "Tiny_2"]


def test_a_class_may_have_a_name_of_its_own_but_only_once_in_a_pipeline():
    class Named(Tiny):
        name = "frames"

    assert names(ConnectorPipelineV2(connectors=[Named(), Tiny()])) == ["frames", "Tiny"]
    with pytest.raises(PipelineError, match="'frames'"):
        ConnectorPipelineV2(connectors=[Named(), Named()])


@pytest.mark.parametrize("name", ["", "a/b", 3, None])
def test_what_is_no_name_is_rejected(name):
    piece = Tiny()

    with pytest.raises(PipelineError, match="expected a string"):
        piece.name = name
    assert piece.name == "Tiny"


def test_names_only_have_to_differ_within_one_pipeline():
    inner = ConnectorPipelineV2(connectors=[Tiny()], name="inner")
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), inner])

    assert names(pipeline) == ["Tiny", "inner"]
    assert names(inner) == ["Tiny"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["deepcopy", "pickle"])
def test_a_copied_pipeline_is_a_pipeline_of_its_own(copied):
    inner = ConnectorPipelineV2(connectors=[Tiny(), Tiny()], name="inner")
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), inner])
    twin = copied(pipeline)
    twin["inner"].append(Other())
    twin[0].name = "renamed"

    assert run(twin)["ran"] == ["renamed", "Tiny", "Tiny_2", "Other"]
    assert run(pipeline)["ran"] == ["Tiny", "Tiny", "Tiny_2"]
    with pytest.raises(PipelineError):
        twin["inner"][0].name = "Other"


def test_a_name_that_a_neighbour_has_is_rejected_with_the_place_of_the_piece_that_was_to_get_it():
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Other()])

    with pytest.raises(PipelineError, match="the name 'Tiny' for the Other at 1, which a Tiny"):
        pipeline[1].name = "Tiny"


def test_a_copied_piece_belongs_to_no_pipeline():
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Other()])
    twin = copy.deepcopy(pipeline[0])
    twin.name = "Other"

    assert twin.name == "Other"


def test_a_piece_is_free_once_its_pipeline_is_gone():
    piece = Tiny()
    ConnectorPipelineV2(connectors=[piece, Other()])
    piece.name = "Other"

    assert piece.name == "Other"
