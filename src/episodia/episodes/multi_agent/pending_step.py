"""Pending steps, and the rules that say what an environment step makes of one agent.

An agent's own step is complete when it is shown its next observation. Until then it is pending: the action waits, and
rewards add up, whichever agents act meanwhile.

    observation ──► action ──► (reward) ──► (reward) ──► observation
                    └──────────── pending ─────────────┘

`rule_for` is all of the rules. Which rule holds depends only on the situation: which of its parts a step has for the
agent, and where the agent stands. So a rule that was found once holds whenever the situation is the same again.

    rule         what is stored                       the reward belongs to           infos belong to
    ABSENT       nothing: the agent has not come      no step (an early reward)       the first observation
    STARTS       its first observation                no step (an early reward)       that observation
    WAITS        nothing: the step stays pending      the pending step                the next observation
    COMPLETES    the step, with its observation       that step                       that observation
    REPEATS      the step, its observation repeated   that step                       the repeated observation
    REPLACES     another observation for the last     the pending step; at its end    that observation
                 one, which the agent did not act on  the step before
    ENDS         nothing: it did not act              the step before                 the last observation
    HAS_ENDED    nothing: it ended before             the step before                 the last observation
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, Final, Literal, final

from episodia.errors import EpisodeError


@final
class _Nothing:
    """Stands for what was not given; None may be an action."""

    def __repr__(self) -> str:
        return "nothing"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()

MissingFinalObservation = Literal["error", "repeat"]
RewardsAfterDone = Literal["error", "add"]


@final
@dataclass(slots=True)
class PendingStep:
    """The known parts of a step that has no next observation yet; `action` is `NOTHING` while the agent only waits."""

    action: Any = NOTHING
    extra_model_outputs: Mapping[str, Any] | None = None
    reward: Any = None
    infos: Mapping[str, Any] | None = None

    @property
    def has_action(self) -> bool:
        """Whether the agent has acted."""
        return self.action is not NOTHING


@final
class StepRule(Enum):
    """The effect of an environment step on one agent; see the table of the module."""

    ABSENT = auto()
    STARTS = auto()
    WAITS = auto()
    COMPLETES = auto()
    REPEATS = auto()
    REPLACES = auto()
    ENDS = auto()
    HAS_ENDED = auto()


# A situation is a sum of these. Where the agent stands:
NEW: Final = 0  # it has had no observation
IS_KNOWN: Final = 1  # it has an observation that it has not acted on
HAS_ACTED: Final = 2  # it has an observation, and its action is pending
IS_DONE: Final = 4  # it has ended, in this chunk or before
# What the step has for it:
SHOWN: Final = 8
ACTS: Final = 16
PAID: Final = 32
INFORMED: Final = 64
HAS_OUTPUTS: Final = 128
TERMINATES: Final = 256
TRUNCATES: Final = 512
# What the episode allows:
MAY_REPEAT: Final = 1024  # `missing_final_observation="repeat"`
MAY_ADD: Final = 2048  # `rewards_after_done="add"`

_NAMES = {SHOWN: "observation", ACTS: "action", HAS_OUTPUTS: "extra model outputs", PAID: "reward", INFORMED: "infos"}


@cache
def rule_for(situation: int) -> StepRule:
    """Return the rule that holds in a situation.

    >>> rule_for(IS_KNOWN + SHOWN + ACTS + PAID), rule_for(HAS_ACTED)
    (<StepRule.COMPLETES: 4>, <StepRule.WAITS: 3>)

    Raises:
        EpisodeError: If the agent acts without an observation or twice on the same one, has no reward for an action that
            was answered at once, has no final observation, or has something after its end.
    """
    if situation & IS_DONE:
        _check_after_end(situation)
        return StepRule.HAS_ENDED
    _check_action(situation)
    if not situation & (IS_KNOWN | HAS_ACTED):  # and so has nothing that could end
        return StepRule.STARTS if situation & SHOWN else StepRule.ABSENT
    has_action = situation & (HAS_ACTED | ACTS)
    if situation & SHOWN:
        return StepRule.COMPLETES if has_action else StepRule.REPLACES
    if not situation & (TERMINATES | TRUNCATES):
        return StepRule.WAITS
    if not has_action:
        return StepRule.ENDS
    if not situation & (TERMINATES | MAY_REPEAT):
        raise EpisodeError(
            "found a truncation after an action without a last observation, which the value of the last state is computed "
            "from; expected that observation. Let the environment return it, or make the episode with "
            '`missing_final_observation="repeat"` '
            "to take the agent's previous one."
        )
    return StepRule.REPEATS


def completes_at_once(parts: int) -> bool:
    """Tell whether a free agent, with an observation and nothing pending, completes a step by these parts.

    That leaves it free again, so the same holds for any number of steps with the same parts.

    >>> completes_at_once(SHOWN + ACTS + PAID), completes_at_once(ACTS + PAID)
    (True, False)
    """
    return rule_for(IS_KNOWN | parts) is StepRule.COMPLETES


def _check_after_end(situation: int) -> None:
    given = [_NAMES[part] for part in (SHOWN, ACTS, HAS_OUTPUTS) if situation & part]
    late = [_NAMES[part] for part in (PAID, INFORMED) if situation & part]
    if given or (late and not situation & MAY_ADD):
        hint = (
            "Use another agent id for an agent that comes back."
            if given
            else 'Make the episode with `rewards_after_done="add"` to add such rewards to the agent\'s last step, and such '
            "infos to its last info; or leave them out."
        )
        raise EpisodeError(f"found {' and '.join(given + late)} after its end, expected nothing. {hint}")


def _check_action(situation: int) -> None:
    if not situation & ACTS:
        if situation & HAS_OUTPUTS:
            raise EpisodeError(
                "found extra model outputs of an agent without an action, expected them together with the action that they "
                "were computed for. Leave them out, or pass the action."
            )
        return
    if not situation & (IS_KNOWN | HAS_ACTED):
        raise EpisodeError(
            "found an action of an agent that has had no observation, expected an observation first. "
            "Only an agent with an observation that it has not acted on can act."
        )
    if situation & HAS_ACTED:
        raise EpisodeError(
            "found a second action on the same observation, expected an observation in between. "
            "Only an agent with an observation that it has not acted on can act."
        )
    if situation & SHOWN and not situation & PAID:
        raise EpisodeError(
            "found an action and the observation that followed it but no reward, expected one. "
            "Pass `rewards` with 0.0 for an agent without a reward."
        )


def merged(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return two infos in one, the later one on top."""
    return {**first, **second} if first and second else second or first
