"""The pending step on its own: what an environment step makes of one agent, as a table and against plain lists."""

import copy
import pickle

import pytest
from hypothesis import given

from agent_lives import flagged, life_of
from episodia.episodes.multi_agent.pending_step import NOTHING, AgentData, Outcome, PendingStep, advance
from episodia.errors import EpisodeError
from episodia.testing import multi_agent_trajectories

ACTED = PendingStep(action="left", extra_model_outputs={"logp": -1.0}, reward=2.0, infos=None)
ACTED_FOR_NOTHING = PendingStep(action="left", reward=None)
ACTED_WITH_INFOS = PendingStep(action="left", reward=2.0, infos={"lives": 3, "goal": 1})
WAITS = PendingStep(reward=2.0)
WAITS_WITH_INFOS = PendingStep(reward=None, infos={"lives": 3})

# What was pending, what the step holds, and what comes out of it. `pending` and `completed` are (action, reward).
UNSEEN = {
    "nothing for an agent that is not there": (None, {}, {}),
    "it comes": (None, {"observation": 5}, {"starts": True}),
    "it comes with a reward, which belongs to no action": (
        None,
        {"observation": 5, "reward": 1.0},
        {"starts": True, "early_reward": 1.0},
    ),
    "a reward before it comes belongs to no action": (None, {"reward": 1.0}, {"early_reward": 1.0}),
    "infos before it comes wait, a reward does not": (
        WAITS_WITH_INFOS,
        {"reward": 1.0},
        {"pending": (NOTHING, None), "early_reward": 1.0},
    ),
    "infos before it comes are kept": (
        WAITS_WITH_INFOS,
        {"observation": 5},
        {"starts": True, "infos": {"lives": 3}},
    ),
    "who never came cannot end": (WAITS_WITH_INFOS, {"terminated": True}, {"pending": (NOTHING, None)}),
    "who never came cannot be stopped": (None, {"truncated": True, "reward": 1.0}, {"early_reward": 1.0}),
    "it comes and ends at once": (None, {"observation": 5, "terminated": True}, {"starts": True}),
}
TO_ACT = {
    "nothing for an agent that could act": (None, {}, {}),
    "it acts and is shown what follows": (
        None,
        {"observation": 5, "action": "up", "reward": 1.0},
        {"completed": ("up", 1.0)},
    ),
    "it acts": (None, {"action": "up"}, {"pending": ("up", None)}),
    "it acts for a reward": (None, {"action": "up", "reward": 1.0}, {"pending": ("up", 1.0)}),
    "an action may be None": (None, {"action": None, "reward": 1.0}, {"pending": (None, 1.0)}),
    "a reward before it acts waits": (None, {"reward": 1.0}, {"pending": (NOTHING, 1.0)}),
    "what waited belongs to the action": (WAITS, {"action": "up", "reward": 1.0}, {"pending": ("up", 3.0)}),
    "what waited belongs to the step": (
        WAITS,
        {"observation": 5, "action": "up", "reward": 1.0},
        {"completed": ("up", 3.0)},
    ),
    "it is shown another observation instead": (None, {"observation": 5}, {"replaces_observation": True}),
    "what waited goes on waiting": (
        WAITS,
        {"observation": 5, "reward": 1.0},
        {"replaces_observation": True, "pending": (NOTHING, 3.0)},
    ),
    "infos without an observation are kept": (
        None,
        {"infos": {"lives": 3}},
        {"pending": (NOTHING, None)},
    ),
    "infos are kept up to the next observation": (
        WAITS_WITH_INFOS,
        {"observation": 5, "infos": {"goal": 1}},
        {"replaces_observation": True, "infos": {"lives": 3, "goal": 1}},
    ),
    "it ends without having acted": (None, {"terminated": True}, {}),
    "it is stopped without having acted": (None, {"truncated": True, "reward": 1.0}, {"reward_after_end": 1.0}),
    "what waited belongs to the step before": (WAITS, {"terminated": True, "reward": 1.0}, {"reward_after_end": 3.0}),
    "it ends with another observation": (
        WAITS,
        {"terminated": True, "observation": 5},
        {"replaces_observation": True, "reward_after_end": 2.0},
    ),
    "it acts and ends, unseen": (
        None,
        {"action": "up", "reward": 1.0, "terminated": True},
        {"completed": ("up", 1.0), "repeats_observation": True},
    ),
    "it acts and ends": (
        None,
        {"action": "up", "reward": 1.0, "terminated": True, "observation": 5},
        {"completed": ("up", 1.0)},
    ),
}
HAS_ACTED = {
    "nothing for an agent that waits": (ACTED, {}, {"pending": ("left", 2.0)}),
    "a reward while it waits": (ACTED, {"reward": 1.0}, {"pending": ("left", 3.0)}),
    "the first reward while it waits": (ACTED_FOR_NOTHING, {"reward": 1.0}, {"pending": ("left", 1.0)}),
    "it is shown what follows": (ACTED, {"observation": 5}, {"completed": ("left", 2.0)}),
    "a last reward with what follows": (ACTED, {"observation": 5, "reward": 1.0}, {"completed": ("left", 3.0)}),
    "no reward at all": (ACTED_FOR_NOTHING, {"observation": 5}, {"completed": ("left", 0.0)}),
    "later infos hide earlier ones": (
        ACTED_WITH_INFOS,
        {"observation": 5, "infos": {"lives": 2}},
        {"completed": ("left", 2.0), "infos": {"lives": 2, "goal": 1}},
    ),
    "it ends, unseen": (
        ACTED,
        {"terminated": True},
        {"completed": ("left", 2.0), "repeats_observation": True},
    ),
    "it ends, unseen, with a reward and infos": (
        ACTED_WITH_INFOS,
        {"terminated": True, "reward": -1.0},
        {"completed": ("left", 1.0), "repeats_observation": True, "infos": {"lives": 3, "goal": 1}},
    ),
    "it ends": (ACTED, {"terminated": True, "observation": 5}, {"completed": ("left", 2.0)}),
    "it is stopped": (ACTED, {"truncated": True, "observation": 5}, {"completed": ("left", 2.0)}),
    "it ends and is stopped, unseen": (
        ACTED,
        {"terminated": True, "truncated": True},
        {"completed": ("left", 2.0), "repeats_observation": True},
    ),
}


def in_short(outcome):
    """The fields of an outcome that are not empty."""
    short = {name: getattr(outcome, name) for name in Outcome.__dataclass_fields__}
    for name in ("completed", "pending"):
        if short[name] is not None:
            short[name] = short[name].action, short[name].reward
    infos = short.pop("infos")
    return {name: value for name, value in short.items() if value is not None and value is not False}, infos


def check(case, known):
    pending, data, expected = copy.deepcopy(case)
    infos = expected.pop("infos", None)

    found, found_infos = in_short(advance(pending, AgentData(**data), known=known, missing_final_observation="error"))

    assert found == expected
    assert (found_infos or None) == infos or not (set(found) & {"starts", "completed", "replaces_observation"})
    assert pending == case[0]


@pytest.mark.parametrize("case", UNSEEN.values(), ids=UNSEEN)
def test_an_agent_that_has_had_no_observation(case):
    check(case, known=False)


@pytest.mark.parametrize("case", TO_ACT.values(), ids=TO_ACT)
def test_an_agent_that_can_act(case):
    check(case, known=True)


@pytest.mark.parametrize("case", HAS_ACTED.values(), ids=HAS_ACTED)
def test_an_agent_that_has_acted(case):
    check(case, known=True)


# --- What is refused, and what is a choice ---


@pytest.mark.parametrize(
    ("pending", "data", "known", "message"),
    [
        (None, {"action": "up"}, False, "an action of an agent that has had no observation"),
        (WAITS, {"action": "up", "observation": 5, "reward": 1.0}, False, "an action of an agent that has had no"),
        (ACTED, {"action": "up"}, True, "a second action on the same observation"),
        (ACTED, {"action": "up", "observation": 5, "reward": 1.0}, True, "a second action on the same observation"),
        (None, {"action": "up", "observation": 5}, True, "but no reward"),
        (ACTED, {"truncated": True}, True, "missing_final_observation"),
        (None, {"truncated": True, "action": "up"}, True, "missing_final_observation"),
    ],
)
def test_what_cannot_be_is_refused(pending, data, known, message):
    with pytest.raises(EpisodeError, match=message):
        advance(pending, AgentData(**data), known=known, missing_final_observation="error")


@pytest.mark.parametrize("data", [{"truncated": True}, {"truncated": True, "reward": 1.0}])
def test_a_missing_final_observation_can_be_repeated(data):
    outcome = advance(ACTED, AgentData(**data), known=True, missing_final_observation="repeat")

    assert outcome.repeats_observation
    assert outcome.completed.reward == 2.0 + data.get("reward", 0.0)


def test_extra_model_outputs_stay_with_their_action():
    outcome = advance(ACTED, AgentData(observation=5), known=True, missing_final_observation="error")

    assert outcome.completed.extra_model_outputs == {"logp": -1.0}


def test_nothing_is_still_nothing_after_a_pickle():
    waiting = pickle.loads(pickle.dumps(PendingStep(reward=1.0)))

    assert waiting.action is NOTHING
    assert not waiting.has_action
    assert copy.deepcopy(NOTHING) is NOTHING
    assert repr(NOTHING) == "nothing"


# --- Against plain lists ---


def data_of(entry, agent):
    """What one entry of a log holds for an agent; as for an episode, `"__all__"` counts for the rest."""
    return AgentData(
        observation=entry["observations"].get(agent, NOTHING),
        action=entry["actions"].get(agent, NOTHING),
        reward=entry["rewards"].get(agent),
        infos=entry["infos"].get(agent),
        extra_model_outputs=entry["extra_model_outputs"].get(agent),
        **{name: flagged(entry, f"{name}s", agent) for name in ("terminated", "truncated")},
    )


def walk_through(log, agent, choice):
    """Everything that comes out of a log for one agent, up to its end: outcomes in order, and what is pending."""
    outcomes, pending, known = [], None, False
    for entry in log:
        data = data_of(entry, agent)
        outcomes.append(advance(pending, data, known=known, missing_final_observation=choice))
        pending, known = outcomes[-1].pending, known or outcomes[-1].starts
        if known and (data.terminated or data.truncated):
            break
    return outcomes, pending


@given(schedule=multi_agent_trajectories(max_agents=2))
def test_steps_of_a_drawn_history_are_what_the_plain_lists_say(schedule):
    log = list(schedule.entries())
    for agent in schedule.agents:
        life = life_of(log, agent)
        outcomes, pending = walk_through(log, agent, schedule.missing_final_observation)
        completed = [outcome.completed for outcome in outcomes if outcome.completed]

        assert [step.reward for step in completed] == [step.reward for step in life.complete]
        assert [step.action for step in completed] == [step.action for step in life.complete]
        assert [step.extra_model_outputs or {} for step in completed] == [step.extras for step in life.complete]
        assert sum(outcome.repeats_observation for outcome in outcomes) == len(life.observations) - len(life.seen)
        if pending is not None and pending.has_action:
            assert (pending.action, pending.reward or 0) == (life.pending.action, life.pending.reward)
        else:
            assert (None if pending is None else pending.reward) == life.waiting


@given(schedule=multi_agent_trajectories(max_agents=2))
def test_observations_and_infos_of_a_drawn_history_are_what_the_plain_lists_say(schedule):
    log = list(schedule.entries())
    for agent in schedule.agents:
        outcomes, _ = walk_through(log, agent, schedule.missing_final_observation)
        life = life_of(log[: len(outcomes)], agent)
        track, infos = [], []
        for t, outcome in enumerate(outcomes):
            if outcome.replaces_observation:
                track.pop()
                infos.pop()
            if outcome.starts or outcome.completed or outcome.replaces_observation:
                track.append("repeated" if outcome.repeats_observation else t)
                infos.append(outcome.infos or {})
            elif outcome.infos:
                infos[-1] = {**infos[-1], **outcome.infos}

        assert [t for t in track if t != "repeated"] == life.seen
        assert infos == life.infos


@given(schedule=multi_agent_trajectories(max_agents=2))
def test_every_reward_of_a_drawn_history_is_somewhere(schedule):
    for agent in schedule.agents:
        log = list(schedule.entries())
        outcomes, pending = walk_through(log, agent, schedule.missing_final_observation)
        given = [entry["rewards"].get(agent, 0) for entry in log[: len(outcomes)]]

        found = [step.completed.reward for step in outcomes if step.completed]
        found += [
            reward for step in outcomes for reward in (step.early_reward, step.reward_after_end) if reward is not None
        ]
        waiting = 0 if pending is None or pending.reward is None else pending.reward
        assert sum(found) + waiting == sum(given)
