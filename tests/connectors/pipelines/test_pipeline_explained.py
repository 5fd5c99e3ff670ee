"""`explain` runs a pipeline on copies and tells what each piece made of the batch."""

import threading

import numpy as np
import pytest
import torch

from episodia import SingleAgentEpisode
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    ConnectorPipelineV2,
    EnvToModulePipeline,
    Explanation,
    LearnerConnectorPipeline,
)
from episodia.connectors.batches.tracked_batch import fingerprint
from episodia.errors import ConnectorError, PipelineError
from tiny_connectors import AddObservations, Call, Count, Tiny, run, walk


def changes_of(explanation):
    return [{column.name: column.change for column in piece.columns} for piece in explanation.pieces]


def set_column(**columns):
    return Call(lambda batch, _: batch.update(columns))


def test_columns_appear_change_stay_and_vanish():
    def drop(batch, _episodes):
        del batch["a"]

    def in_place(batch, _episodes):
        batch["b"][0] = 7.0

    pipeline = ConnectorPipelineV2(
        connectors=[
            set_column(a=[1], b=np.zeros(3)),
            set_column(a=[2]),
            Call(in_place),
            Call(drop),
            Call(lambda *_: None),
        ]
    )

    assert changes_of(pipeline.explain([])) == [
        {"a": "new", "b": "new"},
        {"a": "changed", "b": "same"},
        {"a": "same", "b": "changed"},
        {"b": "same", "a": "gone"},
        {"b": "same"},
    ]


def test_pieces_are_told_with_their_paths_places_shapes_times_and_bytes():
    inner = ConnectorPipelineV2(connectors=[set_column(speed=np.zeros((2, 3), np.float32))], name="inner")
    explanation = LearnerConnectorPipeline(connectors=[AddObservations(), inner]).explain(
        [walk(length=3), walk(length=2)]
    )

    first, second = explanation.pieces
    assert (first.piece, first.place, second.piece, second.place) == ("AddObservations", (0,), "inner/Call", (1, 0))
    assert first.columns[0].content == "ragged float32[7, 2] (2 stretches, 5 steps + tails)"
    assert second.columns[1].content == "float32[2, 3]"
    assert (first.nbytes, second.nbytes) == (7 * 2 * 4, 7 * 2 * 4 + 2 * 3 * 4)
    assert first.seconds > 0


def test_the_result_is_what_the_pipeline_returns():
    pipeline = LearnerConnectorPipeline(connectors=[AddObservations()])
    episodes = [walk(length=3)]

    assert np.array_equal(pipeline.explain(episodes).batch["obs"], run(pipeline, episodes)["obs"])


def test_the_state_is_the_same_afterwards():
    pipeline = ConnectorPipelineV2(connectors=[Count()])
    run(pipeline)
    pipeline.explain([])

    assert pipeline.get_state() == {"Count": {"calls": 1}}


def test_what_a_piece_keeps_without_saying_so_is_the_same_afterwards():
    class Secret(Tiny):
        seen = ()

        def __call__(self, *, batch, **kwargs):
            self.seen = (*self.seen, 1)
            return batch

    pipeline = ConnectorPipelineV2(connectors=[Secret()])
    pipeline.explain([])

    assert pipeline[0].seen == ()


def test_the_state_of_a_pipeline_that_cannot_be_copied_is_put_back():
    count = Count()
    count.lock = threading.Lock()
    pipeline = ConnectorPipelineV2(connectors=[count])
    pipeline.explain([])

    assert len(pipeline.explain([]).pieces) == 1
    assert count.calls == 0


@pytest.mark.parametrize("kind", [EnvToModulePipeline, LearnerConnectorPipeline])
def test_episodes_are_the_same_afterwards(kind):
    def write(_batch, episodes):
        for episode in Tiny.single_agent_episode_iterator(episodes):
            episode.set_observations(new_data=np.full(2, 99.0, np.float32), at_indices=-1)

    episode = walk(length=2)
    kind(connectors=[Call(write), AddObservations()]).explain([episode])

    assert episode.get_observations(-1).tolist() == [2.0, 2.0]


def test_the_batch_and_further_arguments_are_passed_on():
    class Explores(Tiny):
        def __call__(self, *, batch, explore, rl_module, **kwargs):
            return {**batch, "seen": (explore, rl_module, kwargs["infos"])}

    batch = {"a": [1]}
    explanation = ConnectorPipelineV2(connectors=[Explores()]).explain([], "module", batch=batch, explore=True, infos=3)

    assert explanation.batch == {"a": [1], "seen": (True, "module", 3)}
    assert batch == {"a": [1]}


def test_columns_of_modules_are_told_apart():
    pipeline = ConnectorPipelineV2(connectors=[set_column(left={"obs": [1], "actions": [2]}, obs={"obs": np.zeros(2)})])

    assert changes_of(pipeline.explain([])) == [{"left/obs": "new", "left/actions": "new", "obs": "new"}]


def test_a_failing_piece_raises_as_in_a_run():
    with pytest.raises(ConnectorError, match="piece 'Call' at 1: ZeroDivisionError"):
        ConnectorPipelineV2(connectors=[Tiny(), Call(lambda *_: 1 / 0)]).explain([])


def test_a_stateful_module_without_its_piece_raises_as_in_a_run():
    class Stateful:
        def is_stateful(self):
            return True

    with pytest.raises(PipelineError, match="state_in"):
        EnvToModulePipeline().explain([], Stateful())


def test_it_prints_as_a_table():
    lines = str(LearnerConnectorPipeline(connectors=[AddObservations(), Tiny()]).explain([walk(length=3)])).splitlines()

    assert lines[0].startswith("LearnerConnectorPipeline: ")
    assert lines[1].split() == ["piece", "time", "bytes", "column", "content"]
    assert lines[2].split()[:2] == ["0", "AddObservations"]
    assert lines[3].split()[:3] == ["+", "obs", "ragged"]
    assert len(lines) == 2 + 2 + 3 + 2  # the notes on stretches and tails


def test_notebooks_get_a_table_with_text_escaped():
    html = ConnectorPipelineV2(connectors=[set_column(**{"<i>": [1]})]).explain([])._repr_html_()

    assert "<table>" in html
    assert "&lt;i&gt;" in html


def test_an_empty_pipeline_can_be_explained():
    explanation = ConnectorPipelineV2().explain([])

    assert isinstance(explanation, Explanation)
    assert explanation.pieces == ()
    assert "ConnectorPipelineV2" in str(explanation)


VALUES = [
    np.zeros(2),
    np.ones(2),
    np.zeros(2, np.float32),
    np.zeros((2, 1)),
    torch.zeros(2),
    torch.ones(2),
    torch.zeros(2, dtype=torch.bfloat16),
    [0.0, 0.0],
    {"a": [0]},
    {"b": [0]},
    np.array([None, "a"]),
    np.array([None, "b"]),
    np.zeros(0),
]


@pytest.mark.parametrize("first", range(len(VALUES)))
def test_fingerprints_are_equal_for_equal_values_only(first):
    equal = [position for position, value in enumerate(VALUES) if fingerprint(value) == fingerprint(VALUES[first])]

    assert equal == [first]


def test_nothing_is_cut_off_and_stretches_are_explained():
    names = [f"a rather long name of a sensor {number:02}" for number in range(30)]
    observations = [dict.fromkeys(names, np.zeros(2)) for _ in range(3)]
    sensed = SingleAgentEpisode(observations=observations, actions=[0, 0], rewards=[0.0, 0.0], len_lookback_buffer=0)
    explanation = LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch()]).explain([sensed])

    for shown in (str(explanation), explanation._repr_html_()):
        assert all(name in shown for name in names)
        assert "a stretch is the rows of one episode" in shown
        assert "the observation after its last step" in shown
    assert "stretch" not in str(LearnerConnectorPipeline().explain([sensed]))
