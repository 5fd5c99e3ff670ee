"""What pieces are made with."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    ClipRewards,
    ComputeReturnsToGo,
    ConnectorPipelineV2,
    ConnectorV2,
    EnvToModulePipeline,
    EpsilonGreedy,
    FlattenObservations,
    FrameStacking,
    GaussianNoise,
    GeneralAdvantageEstimation,
    GetActions,
    LearnerConnectorPipeline,
    MeanStdFilter,
    ModuleToEnvPipeline,
    NStepReturns,
    NumpyToTensor,
    PrevActionsPrevRewards,
    ScaleRewards,
    UniformNoise,
    defaults,
)
from episodia.errors import PipelineError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GeneralAdvantageEstimation(gamma=1.5), "GeneralAdvantageEstimation: found `gamma=1.5`"),
        (lambda: GeneralAdvantageEstimation(lambda_=-0.1), "`lambda_=-0.1`"),
        (lambda: GeneralAdvantageEstimation(max_seq_len=0), "`max_seq_len=0`, expected an integer of at least 1"),
        (lambda: ComputeReturnsToGo(gamma=float("nan")), "`gamma=nan`, expected a number from 0 to 1"),
        (lambda: NStepReturns(n=0), "`n=0`, expected an integer of at least 1"),
        (lambda: NStepReturns(n=2, gamma="much"), "`gamma='much'`"),
        (lambda: AddTimeDimToBatchAndZeroPad(max_seq_len=-2), "`max_seq_len=-2`"),
        (lambda: AddTimeDimToBatchAndZeroPad(burn_in=-1), "`burn_in=-1`, expected an integer of at least 0"),
    ],
)
def test_numbers_out_of_range_are_rejected_when_the_piece_is_made(make, message):
    with pytest.raises(PipelineError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("piece", "arguments"),
    [
        (FrameStacking, {"num_frames": True}),
        (FrameStacking, {"num_frames": 2, "axis": "last"}),
        (PrevActionsPrevRewards, {"n_prev_actions": 1.5}),
        (PrevActionsPrevRewards, {"n_prev_rewards": "all"}),
        (MeanStdFilter, {"clip_by_value": "x"}),
        (ClipRewards, {"low": None, "high": 1.0}),
        (ClipRewards, {"low": -1.0, "high": "x"}),
        (ScaleRewards, {"factor": "x"}),
        (ScaleRewards, {"factor": None}),
        (EpsilonGreedy, {"epsilon": 0.1, "real_range": 5}),
        (GaussianNoise, {"std": 0.1, "real_range": "ab"}),
        (GaussianNoise, {"std": 0.1, "seed": -1}),
        (UniformNoise, {"amplitude": 0.1, "seed": "x"}),
        (GetActions, {"seed": 1.5}),
        (GetActions, {"seed": 10**30}),
        (NumpyToTensor, {"device": "abacus"}),
        (NumpyToTensor, {"device": []}),
        (FlattenObservations, {"agent_ids": 5}),
        (FlattenObservations, {"keys_to_remove": "speed"}),
    ],
)
def test_junk_is_rejected_when_the_piece_is_made_with_its_name_and_value(piece, arguments):
    name, value = list(arguments.items())[0 if piece is ClipRewards and arguments["low"] is None else -1]
    with pytest.raises(PipelineError, match=re.escape(f"`{name}={value!r}`")):
        piece(**arguments)


# --- Spaces ---------------------------------------------------------------------------------------------------------

MAKERS = [
    *(AddObservationsFromEpisodesToBatch, MeanStdFilter, FlattenObservations, GetActions, NumpyToTensor),
    *(ConnectorPipelineV2, EnvToModulePipeline, ModuleToEnvPipeline, LearnerConnectorPipeline),
    *(defaults.env_to_module, defaults.module_to_env, defaults.learner),
]
NO_SPACES = [5, "Box", True, np.zeros(3), (3,), {"left": spaces.Discrete(2)}, spaces.Discrete, object()]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("junk", NO_SPACES, ids=lambda junk: type(junk).__name__)
def test_what_is_no_space_is_rejected_as_one(make, junk):
    for arguments, what in ((junk,), "observation space"), ((None, junk), "action space"):
        with pytest.raises(PipelineError, match=f"as its {what}, expected a gymnasium space"):
            make(*arguments)


def test_the_remedy_knows_dicts_and_classes():
    for junk, remedy in ({"a": spaces.Discrete(2)}, r"spaces\.Dict"), (spaces.Discrete, r"`Discrete\(\.\.\.\)`"):
        with pytest.raises(PipelineError, match=remedy):
            defaults.env_to_module(junk)


@pytest.mark.parametrize("name", ["input_observation_space", "input_action_space"])
@pytest.mark.parametrize("make", [GetActions, EnvToModulePipeline])
def test_a_rejected_space_leaves_the_piece_as_it_was(make, name):
    space = spaces.Discrete(4)
    piece = make(space, space)

    with pytest.raises(PipelineError, match="expected a gymnasium space"):
        setattr(piece, name, 5)

    assert piece.input_observation_space == piece.input_action_space == piece.observation_space == space


def test_a_piece_that_makes_something_else_of_a_space_is_named():
    class Odd(ConnectorV2):
        def __call__(self, *, batch, **kwargs):
            return batch

        def recompute_output_observation_space(self, input_observation_space, input_action_space):
            return input_observation_space.shape

    with pytest.raises(PipelineError, match=r"piece 'Odd' at 1.*found \(2,\) as its output observation space"):
        EnvToModulePipeline(spaces.Box(0, 1, (2,)), connectors=[AddObservationsFromEpisodesToBatch(), Odd()])


@pytest.mark.parametrize("make", [defaults.env_to_module, defaults.module_to_env, defaults.learner])
@pytest.mark.parametrize(
    "junk", [5, None, "pieces", GetActions(), ConnectorPipelineV2()], ids=lambda junk: type(junk).__name__
)
def test_the_pieces_of_a_default_pipeline_are_a_list(make, junk):
    with pytest.raises(PipelineError, match=r"`custom=.*expected a list of pieces"):
        make(custom=junk)
