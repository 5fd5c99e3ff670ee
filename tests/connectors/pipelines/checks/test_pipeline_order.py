"""Pieces in an order in which a column changes after something was derived from it are rejected when the pipeline is built."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from episodia.connectors import (
    AddNextObservationsFromEpisodesToTrainBatch,
    ClipRewards,
    ComputeReturnsToGo,
    ConnectorPipelineV2,
    FlattenObservations,
    FrameStacking,
    GeneralAdvantageEstimation,
    IgnoreTerminations,
    Kind,
    MeanStdFilter,
    NStepReturns,
    OneHotObservations,
    PrevActionsPrevRewards,
    ScaleRewards,
    SignRewards,
    Standardize,
    defaults,
)
from episodia.errors import PipelineError
from tiny_connectors import Other, Tiny, adds, changes

BOX, ACTIONS = Box(-10, 10, (3,), np.float32), Discrete(4)


def looks_ahead(*, reads, writes, **kwargs):
    piece = Other(reads=frozenset(reads), writes=frozenset(writes), **kwargs)
    piece.kind = Kind.FORWARD_LOOKING
    return piece


AHEAD = {
    "next": AddNextObservationsFromEpisodesToTrainBatch,
    "n-step": lambda: NStepReturns(n=2),
    "gae": GeneralAdvantageEstimation,
}


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("piece", [MeanStdFilter, FlattenObservations, PrevActionsPrevRewards])
@pytest.mark.parametrize("ahead", AHEAD)
def test_observations_do_not_change_after_something_was_derived_from_them(ahead, piece, stateful):
    first, then = AHEAD[ahead](), piece()
    message = (
        rf"LearnerConnectorPipeline, piece '{then.name}' at \d: it changes the column 'obs', which piece '{first.name}' at "
        rf"\d has already .*Move '{then.name}' before '{first.name}'"
    )

    with pytest.raises(PipelineError, match=message):
        defaults.learner(BOX, ACTIONS, targets=[first, then], stateful=stateful)
    assert then in defaults.learner(BOX, ACTIONS, targets=[then, first], stateful=stateful).connectors


@pytest.mark.parametrize("ahead", AHEAD)
def test_discrete_observations_do_not_change_after_something_was_derived_from_them(ahead):
    with pytest.raises(PipelineError, match="Move 'OneHotObservations' before"):
        defaults.learner(Discrete(3), ACTIONS, targets=[AHEAD[ahead](), OneHotObservations()])


@pytest.mark.parametrize("ahead", AHEAD)
def test_frames_are_not_stacked_after_something_was_derived_from_observations(ahead):
    with pytest.raises(PipelineError, match="Move 'FrameStacking' before"):
        defaults.learner(BOX, ACTIONS, targets=[AHEAD[ahead](), FrameStacking(num_frames=2)])


@pytest.mark.parametrize(
    ("first", "then", "column"),
    [
        (lambda: NStepReturns(n=2), IgnoreTerminations, "terminateds"),
        (lambda: NStepReturns(n=2), lambda: ClipRewards(low=-1, high=1), "rewards"),
        (GeneralAdvantageEstimation, IgnoreTerminations, "terminateds"),
        (GeneralAdvantageEstimation, lambda: ClipRewards(low=-1, high=1), "rewards"),
        (GeneralAdvantageEstimation, SignRewards, "rewards"),
        (ComputeReturnsToGo, lambda: ScaleRewards(factor=2.0), "rewards"),
        (ComputeReturnsToGo, lambda: Standardize(column="rewards"), "rewards"),
    ],
)
def test_rewards_and_flags_do_not_change_after_something_was_derived_from_them(first, then, column):
    one, other = first(), then()

    with pytest.raises(
        PipelineError, match=rf"it changes the column '{column}'.*Move '{other.name}' before '{one.name}'"
    ):
        defaults.learner(BOX, ACTIONS, targets=[one, other])
    assert len(defaults.learner(BOX, ACTIONS, targets=[other, one])) == 7


@pytest.mark.parametrize("then", [GeneralAdvantageEstimation, ComputeReturnsToGo])
def test_no_view_looks_ahead_in_rewards_that_stand_for_several_steps(then):
    message = (
        rf"it looks ahead in the column 'rewards', .*'NStepReturns' at 3 has already replaced.*Move '{then.__name__}'"
    )

    with pytest.raises(PipelineError, match=message):
        defaults.learner(BOX, ACTIONS, targets=[NStepReturns(n=2), then()])
    assert len(defaults.learner(BOX, ACTIONS, targets=[then(), NStepReturns(n=2)])) == 7


def test_steps_are_not_taken_together_twice():
    plugin = looks_ahead(reads={"rewards"}, writes={"rewards"})

    with pytest.raises(PipelineError, match=r"'rewards'.*Move 'Other' before 'NStepReturns'"):
        defaults.learner(targets=[NStepReturns(n=2), plugin])


def test_what_was_derived_may_change():
    targets = [
        GeneralAdvantageEstimation(),
        Standardize(),
        ComputeReturnsToGo(),
        Standardize(column="returns_to_go"),
    ]

    assert len(defaults.learner(BOX, ACTIONS, targets=targets, stateful=True)) == 11


def test_an_edit_that_misorders_pieces_leaves_the_pipeline_as_it_was():
    pipeline = defaults.learner(BOX, ACTIONS, targets=[GeneralAdvantageEstimation()])
    before = list(pipeline)

    with pytest.raises(PipelineError, match="Move 'MeanStdFilter' before 'GeneralAdvantageEstimation'"):
        pipeline.insert_after(GeneralAdvantageEstimation, MeanStdFilter())
    assert list(pipeline) == before


def test_the_first_of_several_readers_is_the_one_to_go_before():
    ahead = [looks_ahead(reads={"x"}, writes={name}, name=name) for name in ("first", "second")]

    with pytest.raises(PipelineError, match="Move 'Other' before 'first'"):
        ConnectorPipelineV2(connectors=[adds("x"), *ahead, changes("x")])


def test_plugins_that_declare_nothing_may_stand_anywhere():
    targets = [Tiny(), GeneralAdvantageEstimation(), Tiny(), NStepReturns(n=2), Tiny()]

    assert len(defaults.learner(BOX, ACTIONS, targets=targets)) == 10


def test_a_piece_that_leaves_what_it_finds_may_come_later():
    fills = adds("obs")
    fills.fills = {"obs"}

    assert len(ConnectorPipelineV2(connectors=[adds("obs"), looks_ahead(reads={"obs"}, writes={"ahead"}), fills])) == 3
    fills.alters = {"obs"}
    with pytest.raises(PipelineError, match="Move 'Tiny_2' before 'Other'"):
        ConnectorPipelineV2(connectors=[adds("obs"), looks_ahead(reads={"obs"}, writes={"ahead"}), fills])
