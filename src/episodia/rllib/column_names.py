"""Column names of RLlib's older batches."""

from __future__ import annotations

from typing import Any, Final, final

from episodia.columns import Columns
from episodia.errors import BatchError


@final
class SampleBatch(Columns):
    """The names of columns, also those of RLlib's older stack. Batches themselves are dicts.

    >>> SampleBatch.CUR_OBS, SampleBatch.REWARDS
    ('obs', 'rewards')
    """

    CUR_OBS: Final = "obs"
    DONES: Final = "dones"
    PREV_ACTIONS: Final = "prev_actions"
    PREV_REWARDS: Final = "prev_rewards"
    ACTION_DIST: Final = "action_dist"
    ENV_ID: Final = Columns.ENV_INDEX
    UNROLL_ID: Final = Columns.FRAGMENT_ID
    OBS_EMBEDS: Final = "obs_embeds"
    ATTENTION_MASKS: Final = "attention_masks"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Raise a `BatchError`: only the names are here."""
        raise BatchError(
            "SampleBatch: found a call, expected its column names only. Use a dict of columns as the batch."
        )


@final
class Postprocessing:
    """The names of columns that learner pieces compute."""

    ADVANTAGES: Final = Columns.ADVANTAGES
    VALUE_TARGETS: Final = Columns.VALUE_TARGETS
