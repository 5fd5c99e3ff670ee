"""What a notebook shows for a pipeline: boxes, and the shapes of the last run on the arrows between them."""

import copy
import pickle

import numpy as np
import pytest

from episodia.connectors import ConnectorPipelineV2, LearnerConnectorPipeline
from episodia.connectors.pipelines import explaining as tracing
from episodia.errors import ConnectorError
from shown_html import Shown
from tiny_connectors import AddObservations, Call, Tiny, run, walk


def set_column(**columns):
    return Call(lambda batch, _: batch.update(columns))


def text_of(pipeline):
    return Shown(pipeline._repr_html_()).text


def nested():
    inner = ConnectorPipelineV2(connectors=[set_column(speed=np.zeros((2, 3), np.float32)), Tiny()], name="inner")
    return LearnerConnectorPipeline(connectors=[AddObservations(), inner, Tiny(name="last")])


def test_there_is_a_box_for_each_piece_and_one_around_the_pieces_of_a_nested_pipeline():
    html = nested()._repr_html_()

    assert Shown(html).folded == ["AddObservations", "Call", "Tiny", "last: Tiny"]
    assert html.count("border:1px solid") == 5
    assert html.index("inner: ConnectorPipelineV2") < html.index("Call") < html.index("</div></div>")


def test_a_box_tells_what_its_piece_declares():
    text = text_of(ConnectorPipelineV2(connectors=[Tiny(reads={"obs"}, writes={"speed"}, lookback=4)]))

    assert "reads obs" in text
    assert "writes speed" in text
    assert "lookback 4" in text


def test_before_a_run_the_arrows_are_bare_and_it_is_said_how_to_change_that():
    text = text_of(nested())

    assert "float32" not in text
    assert "explain(episodes)" in text


@pytest.mark.parametrize("how", ["run", "explain"])
def test_after_a_run_the_arrows_show_what_has_changed_in_shape(how):
    pipeline, episodes = nested(), [walk(length=3), walk(length=2)]
    _ = run(pipeline, episodes) if how == "run" else pipeline.explain(episodes)
    boxes = Shown(pipeline._repr_html_()).text.split("↓")

    assert "obs ragged float32[7, 2] (2 stretches, 5 steps + tails)" in boxes[1]
    assert "speed float32[2, 3]" in boxes[2]
    assert "1 of the same shape as before" in boxes[2]
    assert "2 of the same shape as before" in boxes[3]
    assert boxes[4].startswith(" returns")
    assert "obs float32[5, 2]" in boxes[4]
    assert len(boxes) == 5


def test_what_the_caller_gives_stands_on_the_first_arrow():
    pipeline = ConnectorPipelineV2(connectors=[Tiny()])
    run(pipeline, batch={"speed": np.zeros(3)})

    assert "↓ given\xa0\xa0speed float64[3]" in text_of(pipeline)


def test_a_column_that_vanishes_is_named():
    pipeline = ConnectorPipelineV2(connectors=[set_column(a=[1]), Call(lambda batch, _: batch.clear()), Tiny()])
    run(pipeline)

    assert "without a" in text_of(pipeline)


def test_after_an_edit_nothing_is_known_until_the_next_run():
    pipeline = nested()
    run(pipeline, [walk(length=3)])
    pipeline.remove("inner")

    assert "float32" not in text_of(pipeline)

    run(pipeline, [walk(length=3)])

    assert "obs float32[3, 2]" in text_of(pipeline)


def test_only_the_first_run_is_watched(monkeypatch):
    pipeline = nested()
    run(pipeline, [walk(length=3)])
    monkeypatch.setattr(tracing, "described", lambda _: pytest.fail("a later run is watched"))
    for module in (None, "one", "another", None):
        run(pipeline, [walk(length=3)], rl_module=module)


def test_a_run_that_fails_leaves_no_shapes():
    pipeline = ConnectorPipelineV2(connectors=[set_column(a=[1]), Call(lambda *_: 1 / 0)])
    with pytest.raises(ConnectorError):
        run(pipeline)

    assert "explain(episodes)" in text_of(pipeline)


def test_what_cannot_be_shown_stops_no_run():
    class Shy:
        def __repr__(self):
            raise RuntimeError("no text")

    shy = Shy()
    pipeline = ConnectorPipelineV2(connectors=[set_column(a=[shy])])

    assert run(pipeline)["a"] == [shy]
    assert "(<Shy>)" in text_of(pipeline)


def test_copies_and_pickles_have_no_shapes_of_their_own():
    pipeline = LearnerConnectorPipeline(connectors=[AddObservations()])
    fresh = len(pickle.dumps(pipeline))
    run(pipeline, [walk(length=3)])

    assert len(pickle.dumps(pipeline)) == fresh
    assert "explain(episodes)" in text_of(copy.deepcopy(pipeline))


def test_an_empty_pipeline_and_an_empty_part_are_shown():
    pipeline = ConnectorPipelineV2(connectors=[set_column(a=[1]), ConnectorPipelineV2(name="empty"), Tiny()])
    run(pipeline)

    assert "empty" in text_of(pipeline)
    assert "0 pieces" in text_of(ConnectorPipelineV2())


def test_text_from_outside_is_escaped_and_all_of_it_is_bounded():
    evil = "<script>alert('x')<script>" * 100
    columns = {f"{number}{evil}": np.zeros(2) for number in range(200)}
    pipeline = ConnectorPipelineV2(connectors=[set_column(**columns), *(Tiny(name=f"{n}{evil}") for n in range(200))])
    run(pipeline)
    html = pipeline._repr_html_()

    assert "<script>" in Shown(html).text
    assert "... and 141 more pieces" in Shown(html).text
    assert "... and 188 more columns" in Shown(html).text
    assert len(html) < 300_000
