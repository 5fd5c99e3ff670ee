"""A pipeline is edited like a list; a failing edit leaves it as it was."""

import pytest
from gymnasium.spaces import Discrete
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors import ConnectorPipelineV2, EnvToModulePipeline, LearnerConnectorPipeline
from episodia.errors import PieceLookupError, PipelineError
from tiny_connectors import Other, Third, Tiny, adds, changes, run

OPERATIONS = ("prepend", "append", "insert_before", "insert_after", "replace", "remove")

edits = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 100), st.sampled_from(["index", "name"])), max_size=20
)


def edited_list(pieces, operation, position, new):
    """The oracle: what the edit means for a Python list."""
    pieces = list(pieces)
    match operation:
        case "prepend":
            pieces.insert(0, new)
        case "append":
            pieces.append(new)
        case "insert_before":
            pieces.insert(position, new)
        case "insert_after":
            pieces.insert(position + 1, new)
        case "replace":
            pieces[position] = new
        case "remove":
            del pieces[position]
    return pieces


def edit(pipeline, operation, key, new):
    if operation in ("prepend", "append"):
        getattr(pipeline, operation)(new)
    elif operation == "remove":
        pipeline.remove(key)
    else:
        getattr(pipeline, operation)(key, new)


@given(edits=edits)
def test_edits_by_index_and_by_name_agree_with_a_list(edits):
    pipeline, expected = ConnectorPipelineV2(), []
    for number, (operation, drawn, by) in enumerate(edits):
        if not expected and operation not in ("prepend", "append"):
            continue
        position = drawn % max(1, len(expected))
        new = Tiny(str(number))
        key = None if not expected else position if by == "index" else expected[position].name
        edit(pipeline, operation, key, new)
        expected = edited_list(expected, operation, position, new)

    assert list(pipeline) == expected
    assert run(pipeline).get("ran", []) == [piece.tag for piece in expected]
    assert len({piece.name for piece in pipeline}) == len(pipeline)


@given(edits=edits, inner_length=st.integers(1, 4))
def test_edits_inside_of_a_nested_pipeline_agree_with_a_list(edits, inner_length):
    expected = [Other(f"inner {number}") for number in range(inner_length)]
    inner = ConnectorPipelineV2(connectors=expected, name="inner")
    pipeline = ConnectorPipelineV2(connectors=[Tiny("first"), inner, Tiny("last")])
    for number, (operation, drawn, _) in enumerate(edits):
        if operation in ("prepend", "append") or (operation == "remove" and len(expected) == 1):
            continue
        position = drawn % len(expected)
        new = Other(str(number))
        edit(pipeline, operation, f"inner/{expected[position].name}", new)
        expected = edited_list(expected, operation, position, new)

    assert list(inner) == expected
    assert run(pipeline)["ran"] == ["first", *(piece.tag for piece in expected), "last"]


@given(edits=edits)
def test_pieces_keep_their_names_while_others_come_and_go(edits):
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Tiny(), Tiny()])
    for operation, drawn, _ in edits:
        before = {id(piece): piece.name for piece in pipeline}
        if len(pipeline) or operation in ("prepend", "append"):
            edit(pipeline, operation, drawn % max(1, len(pipeline)), Tiny())

        assert all(before.get(id(piece), piece.name) == piece.name for piece in pipeline)


@pytest.mark.parametrize("operation", ["insert_before", "insert_after", "replace"])
def test_edits_by_class_reach_into_nested_pipelines(operation):
    inner = ConnectorPipelineV2(connectors=[Tiny("a"), Other("b"), Tiny("c")])
    pipeline = ConnectorPipelineV2(connectors=[Tiny("x"), inner])
    new = Third("new")
    edit(pipeline, operation, Other, new)

    expected = edited_list(["a", "b", "c"], operation, 1, "new")
    assert run(pipeline)["ran"] == ["x", *expected]


def test_edits_return_the_piece_that_was_named():
    first, second = Tiny(), Other()
    pipeline = ConnectorPipelineV2(connectors=[first, second])

    assert pipeline.insert_before("Tiny", Third()) is first
    assert pipeline.insert_after(Other, Third()) is second
    assert pipeline.replace(Other, Third()) is second
    assert pipeline.remove("Tiny") is first


def test_lookup_takes_indices_names_paths_and_classes():
    deep = Other(name="deep")
    inner = ConnectorPipelineV2(connectors=[Tiny(), deep], name="inner")
    first = Tiny()
    pipeline = ConnectorPipelineV2(connectors=[first, inner])

    assert pipeline[0] is first
    assert pipeline[-1] is pipeline["inner"] is pipeline[ConnectorPipelineV2] is inner
    assert pipeline["deep"] is pipeline["inner/deep"] is pipeline[Other] is deep
    assert pipeline["Tiny"] is first
    assert pipeline["inner/Tiny"] is inner[0]


def test_a_class_means_pieces_of_exactly_that_class_if_there_are_any():
    exact = Tiny()
    pipeline = ConnectorPipelineV2(connectors=[Other(), exact])

    assert pipeline[Tiny] is exact
    pipeline.remove(exact.name)
    assert type(pipeline[Tiny]) is Other


@pytest.mark.parametrize("key", ["Unknown", "inner/Unknown", 3, -4, Third, 1.5, True, None, slice(0, 1)])
def test_an_unknown_piece_raises_and_the_message_lists_what_there_is(key):
    inner = ConnectorPipelineV2(connectors=[Other(name="deep")], name="inner")
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), inner, Other()])
    before = list(pipeline)

    for call in (lambda: pipeline[key], lambda: pipeline.insert_after(key, Tiny()), lambda: pipeline.remove(key)):
        with pytest.raises(PieceLookupError, match=r"no piece for .*'Tiny'.*'inner'.*'inner/deep'.*'Other'"):
            call()
    assert list(pipeline) == before


def test_an_ambiguous_class_or_name_raises_and_the_message_lists_the_candidates():
    inner = ConnectorPipelineV2(connectors=[Other(name="same")], name="inner")
    outer = ConnectorPipelineV2(connectors=[Other(name="same")], name="outer")
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), inner, outer])

    with pytest.raises(PieceLookupError, match=r"2 pieces for 'same': 1\.0: 'inner/same', 2\.0: 'outer/same'"):
        pipeline.remove("same")
    with pytest.raises(PieceLookupError, match="2 pieces for the class Other"):
        pipeline.replace(Other, Third())


def test_lookup_errors_are_key_errors_and_index_errors():
    pipeline = ConnectorPipelineV2()

    with pytest.raises(KeyError, match="the pipeline is empty"):
        pipeline["Unknown"]
    with pytest.raises(IndexError):
        pipeline[0]


REFUSED = {
    "reads what is written later": lambda p: p.prepend(changes("obs")),
    "removes what a later piece reads": lambda p: p.remove("source"),
    "replaces what a later piece reads": lambda p: p.replace("source", adds("other")),
    "writes what is there": lambda p: p.append(adds("obs")),
    "inside of the nested pipeline": lambda p: p["inner"].append(changes("missing")),
    "name clash": lambda p: p.append(Third(name="source")),
    "no piece": lambda p: p.append("Flatten"),
    "a class": lambda p: p.append(Tiny),
    "itself": lambda p: p.append(p),
    "inside of itself": lambda p: p["inner"].append(p),
    "twice": lambda p: p.append(p["inner/deep"]),
    "a space that it cannot take": lambda p: p.insert_after("source", NoSpace()),
}


class NoSpace(Third):
    def recompute_output_observation_space(self, input_observation_space, input_action_space):
        self.touched = True
        raise ValueError("no such space")


@pytest.mark.parametrize("call", list(REFUSED.values()), ids=list(REFUSED))
def test_a_rejected_edit_leaves_everything_as_it_was(call):
    inner = ConnectorPipelineV2(connectors=[changes("obs", name="deep")], name="inner")
    pipeline = LearnerConnectorPipeline(Discrete(3), Discrete(2), connectors=[adds("obs", name="source"), inner])
    everything = [pipeline, *pipeline, *inner]
    before = [dict(vars(piece)) for piece in everything]

    with pytest.raises(PipelineError):
        call(pipeline)
    assert [vars(piece) for piece in everything] == before


def test_a_piece_whose_adding_was_rejected_is_as_it_was():
    piece = changes("obs")
    before = dict(vars(piece))

    with pytest.raises(PipelineError):
        EnvToModulePipeline(connectors=[piece])
    assert vars(piece) == before


def test_an_edit_of_a_nested_pipeline_is_checked_with_the_whole():
    inner = ConnectorPipelineV2()
    pipeline = EnvToModulePipeline(connectors=[adds("obs"), inner])
    inner.append(changes("obs"))

    assert pipeline.writes == {"obs"}
    with pytest.raises(
        PipelineError, match=r"EnvToModulePipeline, piece 'ConnectorPipelineV2/Other_2' at 1\.1.*'rewards'"
    ):
        inner.append(changes("rewards"))


def test_a_removed_piece_can_go_elsewhere_under_its_own_name():
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Tiny()])
    removed = pipeline.remove("Tiny_2")

    assert removed.name == "Tiny"
    assert ConnectorPipelineV2(connectors=[removed])["Tiny"] is removed


def test_the_pieces_of_a_pipeline_cannot_be_changed_behind_its_back():
    assert isinstance(ConnectorPipelineV2(connectors=[Tiny()]).connectors, tuple)
