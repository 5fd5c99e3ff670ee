"""Numbers that pieces are made with."""

from __future__ import annotations

import re

import pytest

from episodia.connectors import (
    AddTimeDimToBatchAndZeroPad,
    ComputeReturnsToGo,
    GeneralAdvantageEstimation,
    NStepReturns,
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
