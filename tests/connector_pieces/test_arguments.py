"""What pieces are made with."""

from __future__ import annotations

import re

import pytest

from episodia.connectors import (
    AddTimeDimToBatchAndZeroPad,
    ClipRewards,
    ComputeReturnsToGo,
    EpsilonGreedy,
    FlattenObservations,
    FrameStacking,
    GaussianNoise,
    GeneralAdvantageEstimation,
    GetActions,
    MeanStdFilter,
    NStepReturns,
    NumpyToTensor,
    PrevActionsPrevRewards,
    ScaleRewards,
    UniformNoise,
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
def test_numbers_out_of_range_are_refused_when_the_piece_is_made(make, message):
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
def test_junk_is_refused_when_the_piece_is_made_with_its_name_and_value(piece, arguments):
    name, value = list(arguments.items())[0 if piece is ClipRewards and arguments["low"] is None else -1]
    with pytest.raises(PipelineError, match=re.escape(f"`{name}={value!r}`")):
        piece(**arguments)
