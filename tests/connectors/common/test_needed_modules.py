"""Pieces that need something of a module, or of an earlier piece, say so: no column is left out in silence."""

from __future__ import annotations

import pytest

from drives import ACTIONS, OBSERVATIONS, drive, run
from episodia import Columns
from episodia.connectors import (
    AddColumnsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    ComputeReturnsToGo,
    GeneralAdvantageEstimation,
    IgnoreTerminations,
    LearnerConnectorPipeline,
    Standardize,
    defaults,
)
from episodia.errors import BatchError, ConnectorError, PipelineError
from episodia.modules import MLPActorCritic, MultiModule, RuleModule
from tables import Table
from valued_modules import MemoryModule, SumModule

RULE = RuleModule(lambda observations: observations)


class Actor(Table):
    """Learns, and values nothing."""

    compute_values = None  # as Python's protocols mark a method that a subclass does not have


def actor():
    return Actor([[0.0, 0.0]])


def advantages(**kwargs):
    return defaults.learner(targets=[GeneralAdvantageEstimation(), Standardize()], **kwargs)


def of_two_modules():
    """Episodes of two agents, each with a module of its own."""
    return [drive(3, agent_id=name, module_id=name) for name in ("left", "right")]


@pytest.mark.parametrize("module", [actor(), RULE])
def test_a_module_without_values_is_rejected_where_the_pipeline_is_built(module):
    with pytest.raises(
        PipelineError, match=rf"'GeneralAdvantageEstimation' at 3: found a module \({type(module).__name__}\)"
    ):
        advantages(module=module)


@pytest.mark.parametrize("module", [actor(), RULE])
def test_a_module_without_values_is_rejected_when_a_pipeline_first_meets_it(module):
    with pytest.raises(PipelineError, match="Give it `compute_values"):
        advantages()(rl_module=module, episodes=[drive(2)])


def test_without_a_module_there_are_no_advantages_and_that_is_said():
    with pytest.raises(PipelineError, match=r"'GeneralAdvantageEstimation' at 3.*`rl_module=None`.*with `rl_module=`"):
        advantages()(rl_module=None, episodes=[drive(2)])


def test_a_module_that_was_left_out_is_asked_for_only_where_it_is_needed():
    with pytest.raises(PipelineError, match=r"'GeneralAdvantageEstimation' at 3.*`rl_module=None`.*with `rl_module=`"):
        advantages()(episodes=[drive(2)])
    pipeline = LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch()])
    assert len(pipeline(episodes=[drive(2)])[Columns.OBS]) == 2


def test_an_explanation_asks_for_the_module_too():
    with pytest.raises(PipelineError, match=r"`rl_module=None`"):
        advantages().explain([drive(2)])


@pytest.mark.parametrize("module", [None, actor()])
def test_the_piece_alone_rejects_as_the_pipeline_does(module):
    pieces = [AddObservationsFromEpisodesToBatch(), AddColumnsFromEpisodesToTrainBatch(), GeneralAdvantageEstimation()]

    with pytest.raises(PipelineError, match="GeneralAdvantageEstimation: found"):
        run(pieces, [drive(2)], module)


def frozen_weights():
    return actor().requires_grad_(False)


@pytest.mark.parametrize(
    "container",
    [
        {"left": SumModule(), "right": RULE},
        {"left": SumModule(), "right": frozen_weights()},
        MultiModule({"left": MLPActorCritic(OBSERVATIONS, ACTIONS), "right": actor()}, frozen=["right"]),
        {"left": SumModule()},
    ],
    ids=["a rule", "weights without gradients", "frozen", "not there"],
)
def test_only_who_does_not_learn_in_a_container_gets_no_advantages(container):
    pieces = [ComputeReturnsToGo(), GeneralAdvantageEstimation(), Standardize()]

    batch = defaults.learner(targets=pieces)(rl_module=container, episodes=of_two_modules())

    assert len(batch["left"][Columns.ADVANTAGES]) == 3
    assert Columns.ADVANTAGES not in batch["right"]
    assert Columns.RETURNS_TO_GO in batch["right"]


def test_a_member_that_learns_without_values_is_rejected_by_name():
    container = {"left": SumModule(), "right": actor()}

    with pytest.raises(PipelineError, match=r"the modules 'right' \(Actor\) without.*frozen"):
        advantages(module=container)


def test_a_container_without_a_module_that_computes_values_is_rejected():
    with pytest.raises(PipelineError, match=r"'left' \(RuleModule\), 'right' \(RuleModule\)"):
        advantages(module={"left": RULE, "right": RULE})


def test_a_container_that_knows_no_module_of_the_episodes_is_rejected_and_the_agents_are_named():
    episode = drive(3, agent_id="left", module_id="learned")
    pieces = [AddObservationsFromEpisodesToBatch(), AddColumnsFromEpisodesToTrainBatch(), AgentToModuleMapping()]
    pipeline = LearnerConnectorPipeline(connectors=[*pieces, GeneralAdvantageEstimation()])

    with pytest.raises(ConnectorError, match=r"'learned' \(agents: left\), and a container of the modules \['other'\]"):
        pipeline(rl_module={"other": SumModule()}, episodes=[episode])


# --- Columns of earlier pieces --------------------------------------------------------------------------------------


def test_standardising_a_column_that_who_learns_does_not_have_is_rejected():
    pieces = [AddColumnsFromEpisodesToTrainBatch(), AgentToModuleMapping(), Standardize()]

    with pytest.raises(
        BatchError, match=r"column 'advantages': found no such column, only \['actions', 'rewards'.*General"
    ):
        run(pieces, [drive(2)])


@pytest.mark.parametrize("mapping", [[], [AgentToModuleMapping()]])
def test_terminations_that_are_not_there_cannot_be_ignored(mapping):
    pieces = [AddObservationsFromEpisodesToBatch(), *mapping, IgnoreTerminations()]

    with pytest.raises(BatchError, match=r"column 'terminateds': found no such column"):
        run(pieces, [drive(2)])


# --- States ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [AddStatesFromEpisodesToBatch, AddTimeDimToBatchAndZeroPad])
def test_pieces_for_states_ask_for_the_module(piece):
    with pytest.raises(PipelineError, match=rf"{piece.__name__}: found `rl_module=None`"):
        run([AddObservationsFromEpisodesToBatch(), piece()], [drive(2)])


def test_modules_that_a_container_does_not_have_get_no_states():
    episodes = [
        drive(3, stateful=True, agent_id="left", module_id="left"),
        drive(3, agent_id="right", module_id="right"),
    ]
    pipeline = defaults.learner(stateful=True)

    batch = pipeline(rl_module={"left": MemoryModule()}, episodes=episodes)

    assert batch["left"][Columns.OBS].shape == (1, 3, 2)
    assert batch["right"][Columns.OBS].shape == (3, 2)
    assert Columns.STATE_IN not in batch["right"]
