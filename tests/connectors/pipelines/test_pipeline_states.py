"""States of pieces are kept by name, and consist of JSON values and arrays."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors import ConnectorPipelineV2, check_state
from episodia.errors import ConnectorStateError
from tiny_connectors import Count, Tiny, run


def nested(calls=0):
    """Return a pipeline with three counting pieces, one of them nested, that has run `calls` times."""
    inner = ConnectorPipelineV2(connectors=[Tiny(), Count()], name="inner")
    pipeline = ConnectorPipelineV2(connectors=[Tiny(), Count(), inner, Count()])
    for _ in range(calls):
        run(pipeline)
    return pipeline


def state(first, inner, last):
    return {"Count": {"calls": first}, "inner": {"Count": {"calls": inner}}, "Count_2": {"calls": last}}


def test_only_pieces_with_a_state_have_an_entry():
    assert nested(calls=2).get_state() == state(2, 2, 2)
    assert ConnectorPipelineV2(connectors=[Tiny()]).get_state() == {}


def test_setting_a_state_restores_it():
    pipeline = nested()
    pipeline.set_state(state(3, 4, 5))

    assert pipeline.get_state() == state(3, 4, 5)


def test_pieces_that_a_state_does_not_name_keep_theirs():
    pipeline = nested(calls=1)
    pipeline.set_state({"inner": {"Count": {"calls": 7}}})

    assert pipeline.get_state() == state(1, 7, 1)


def test_resetting_reaches_all_pieces():
    pipeline = nested(calls=3)
    pipeline.reset_state()

    assert pipeline.get_state() == state(0, 0, 0)


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), max_size=4))
def test_merging_merges_piece_by_piece(counts):
    merged = nested().merge_states([state(*numbers) for numbers in counts])

    assert merged == (state(*map(sum, zip(*counts, strict=True))) if counts else {})


def test_merging_takes_the_states_that_there_are():
    assert nested().merge_states([{"Count": {"calls": 1}}, {}, {"Count_2": {"calls": 2}}]) == {
        "Count": {"calls": 1},
        "Count_2": {"calls": 2},
    }


def test_a_stateful_piece_that_does_not_say_how_to_merge_is_an_error():
    class Forgets(Count):
        merge_states = Tiny.merge_states

    pipeline = ConnectorPipelineV2(connectors=[Forgets()])

    with pytest.raises(ConnectorStateError, match=r"'Forgets': found 2 states to merge.*`merge_states"):
        pipeline.merge_states([pipeline.get_state()] * 2)


@pytest.mark.parametrize(
    ("components", "not_components", "expected"),
    [
        ("Count", None, ["Count"]),
        (["Count", "inner/Count"], None, ["Count", "inner"]),
        ("inner", None, ["inner"]),
        ("inner/Tiny", None, []),
        (None, "inner", ["Count", "Count_2"]),
        (None, ["inner/Count", "Count_2"], ["Count"]),
        (["inner", "Count"], "inner/Count", ["Count"]),
    ],
)
def test_components_choose_whose_state_is_wanted(components, not_components, expected):
    assert list(nested().get_state(components, not_components=not_components)) == expected


@pytest.mark.parametrize("argument", ["components", "not_components"])
@pytest.mark.parametrize("names", ["Cuont", ["Count", "nope"], ["inner/nope"], "nope/Count", [3], 5])
def test_names_of_no_piece_are_rejected(argument, names):
    with pytest.raises(ConnectorStateError, match=rf"in `{argument}`, expected names of its pieces"):
        nested(calls=1).get_state(**{argument: names})


@pytest.mark.parametrize("bad", [{"Unknown": {}}, {"Count": {"calls": 9}, "inner": {"Unknown": {}}}])
def test_an_unknown_name_is_rejected_and_nothing_is_changed(bad):
    pipeline = nested(calls=1)

    with pytest.raises(
        ConnectorStateError, match=r"states of \['Unknown'\], expected states of its pieces, \['Tiny', 'Count'"
    ):
        pipeline.set_state(bad)
    with pytest.raises(ConnectorStateError, match="Unknown"):
        pipeline.merge_states([bad])
    assert pipeline.get_state() == state(1, 1, 1)


def test_a_state_that_a_piece_rejects_changes_nothing():
    pipeline = nested(calls=1)

    with pytest.raises(ConnectorStateError, match=r"piece 'Count_2' at 3: found a state.*KeyError: 'calls'") as caught:
        pipeline.set_state({"Count": {"calls": 5}, "Count_2": {}})
    assert isinstance(caught.value.__cause__, KeyError)
    assert pipeline.get_state() == state(1, 1, 1)


def test_a_plugin_whose_get_state_takes_no_arguments_works():
    class Plain(Count):
        def get_state(self):
            return {"calls": self.calls}

    assert ConnectorPipelineV2(connectors=[Plain()]).get_state() == {"Plain": {"calls": 0}}


# --- What a state is made of ----------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json_values)
def test_every_json_value_is_a_state(value):
    check_state(value)

    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, "<U3"])
def test_arrays_are_states(dtype):
    check_state({"Filter": {"mean": np.zeros(3, dtype)}})

    assert np.zeros(3, dtype).dtype != object


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({1: 2}, "the key 1"),
        ((1, 2), "a tuple"),
        ({1, 2}, "a set"),
        (np.float32(1.0), "a float32"),
        (np.int64(1), "a int64"),
        (np.array([None]), "dtype object"),
        (b"bytes", "a bytes"),
        (object(), "a object"),
        (1j, "a complex"),
    ],
)
def test_everything_else_is_rejected_with_its_path(value, found):
    with pytest.raises(ConnectorStateError, match=rf"state\['Filter'\]\[1\].*{found}.*`get_state` has to convert"):
        check_state({"Filter": [0, value]})


def test_states_of_pipelines_pass_the_check():
    pipeline = nested(calls=2)
    check_state(pipeline.get_state())

    assert json.loads(json.dumps(pipeline.get_state())) == pipeline.get_state()


@pytest.mark.parametrize("junk", [None, 5, [], "Count", {"inner": 5}, {"Count": {"calls": 9}, "inner": None}])
def test_what_is_no_state_is_rejected_and_changes_nothing(junk):
    pipeline = nested(calls=2)

    with pytest.raises(ConnectorStateError, match=r"expected a dict of the states.*what `get_state` returned"):
        pipeline.set_state(junk)
    with pytest.raises(ConnectorStateError, match="expected a dict of the states"):
        pipeline.merge_states([junk])
    assert pipeline.get_state() == state(2, 2, 2)


def test_a_single_state_in_place_of_several_is_rejected():
    with pytest.raises(ConnectorStateError, match=r"expected a list of states. Pass `\[state\]`"):
        nested().merge_states(state(1, 1, 1))
