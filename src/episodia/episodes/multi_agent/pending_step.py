"""What an agent has done or got since its last observation, and what the next environment step makes of it.

An agent's own step is complete when it is shown its next observation. Until then it is pending: the action waits, and
rewards add up, whoever's turn it is.

    observation ──► action ──► (reward) ──► (reward) ──► observation
                    └──────────── pending ─────────────┘

`advance` is the whole of the rules, as a pure function of one agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from episodia.episodes.columns.rewards import added
from episodia.errors import EpisodeError


class _Nothing:
    """Stands for what was not given; None may be an action."""

    def __repr__(self) -> str:
        return "nothing"

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()

MissingFinalObservation = Literal["error", "repeat"]
RewardsAfterDone = Literal["error", "add"]


@dataclass(slots=True)
class PendingStep:
    """What is known of a step that has no next observation yet; `action` is `NOTHING` while the agent only waits."""

    action: Any = NOTHING
    extra_model_outputs: Mapping[str, Any] | None = None
    reward: Any = None
    infos: Mapping[str, Any] | None = None

    @property
    def has_action(self) -> bool:
        """Whether the agent has acted, and does not only wait."""
        return self.action is not NOTHING


@dataclass(slots=True)
class AgentData:
    """What one environment step holds for one agent."""

    observation: Any = NOTHING
    action: Any = NOTHING
    reward: Any = None
    infos: Mapping[str, Any] | None = None
    extra_model_outputs: Mapping[str, Any] | None = None
    terminated: bool = False
    truncated: bool = False


@dataclass(slots=True)
class Outcome:
    """What one environment step makes of one agent: at most one of `starts`, `completed` and `replaces_observation`."""

    # The agent is seen for the first time.
    starts: bool = False
    # A step to store: it has its next observation now, or (then the last one is repeated) will never get one.
    completed: PendingStep | None = None
    repeats_observation: bool = False
    # The agent did not act on its last observation and is shown another: the new one takes its place.
    replaces_observation: bool = False
    # What is pending afterwards.
    pending: PendingStep | None = None
    # A reward for the step before, since the agent has ended and will not act again.
    reward_after_end: Any = None
    # A reward that belongs to no action at all.
    early_reward: Any = None
    # What the info of the new observation is, or (if there is none) is added to the last one.
    infos: Mapping[str, Any] | None = None


def advance(
    pending: PendingStep | None, data: AgentData, *, known: bool, missing_final_observation: MissingFinalObservation
) -> Outcome:
    """Return what an environment step with `data` makes of an agent.

    Args:
        pending: What is pending for it.
        data: What the step holds for it.
        known: Whether it had an observation before.
        missing_final_observation: What to do when an agent that has acted is truncated without a last observation.

    Raises:
        EpisodeError: If the agent acts without an observation or twice on the same one, or has no reward for an action that
            was answered at once, or has no final observation.
    """
    before = PendingStep() if pending is None else pending
    _check_action(before, data, known)
    step = PendingStep(
        *(
            (before.action, before.extra_model_outputs)
            if data.action is NOTHING
            else (data.action, data.extra_model_outputs)
        ),
        reward=added(before.reward, data.reward),
        infos=merged(before.infos, data.infos),
    )
    if data.observation is NOTHING:
        return _without_observation(step, data, known, missing_final_observation)
    return _with_observation(step, data, known)


def _with_observation(step: PendingStep, data: AgentData, known: bool) -> Outcome:
    if not known:
        return Outcome(starts=True, early_reward=step.reward, infos=step.infos)
    if step.has_action:
        step.reward = 0.0 if step.reward is None else step.reward
        return Outcome(completed=step, infos=step.infos)
    if data.terminated or data.truncated:
        return Outcome(replaces_observation=True, reward_after_end=step.reward, infos=step.infos)
    return Outcome(replaces_observation=True, pending=_waiting(step.reward, None), infos=step.infos)


def _without_observation(
    step: PendingStep, data: AgentData, known: bool, missing_final_observation: MissingFinalObservation
) -> Outcome:
    if not known:  # and so has nothing that could end
        return Outcome(pending=_waiting(None, step.infos), early_reward=step.reward)
    if not (data.terminated or data.truncated):
        return Outcome(pending=step if step.has_action else _waiting(step.reward, step.infos))
    if not step.has_action:
        return Outcome(reward_after_end=step.reward, infos=step.infos)
    if not data.terminated and missing_final_observation == "error":
        raise EpisodeError(
            "found a truncation after an action without a last observation, which the value of the last state is computed "
            "from; expected that observation. Let the environment return it, or make the episode with "
            '`missing_final_observation="repeat"` '
            "to take the agent's previous one."
        )
    step.reward = 0.0 if step.reward is None else step.reward
    return Outcome(completed=step, repeats_observation=True, infos=step.infos)


def _waiting(reward: Any, infos: Mapping[str, Any] | None) -> PendingStep | None:
    return None if reward is None and not infos else PendingStep(reward=reward, infos=infos)


def _check_action(before: PendingStep, data: AgentData, known: bool) -> None:
    if data.action is NOTHING:
        if data.extra_model_outputs:
            raise EpisodeError(
                "found extra model outputs of an agent without an action, expected them together with the action that they "
                "were computed for. Leave them out, or pass the action."
            )
        return
    if not known:
        raise EpisodeError(
            "found an action of an agent that has had no observation, expected an observation first. "
            "Only an agent with an observation that it has not acted on can act."
        )
    if before.has_action:
        raise EpisodeError(
            "found a second action on the same observation, expected an observation in between. "
            "Only an agent with an observation that it has not acted on can act."
        )
    if data.observation is not NOTHING and data.reward is None:
        raise EpisodeError(
            "found an action and the observation that followed it but no reward, expected one. "
            "Pass `rewards` with 0.0 if there is none."
        )


def merged(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return two infos in one, the later one on top."""
    return {**first, **second} if first and second else second or first
