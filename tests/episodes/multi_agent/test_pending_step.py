"""The record of one agent: what an environment step makes of it, as a table and against plain lists."""

import copy
import pickle

import pytest
from hypothesis import given

from agent_lives import flagged, life_of
from episodia import MultiAgentEpisode
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.multi_agent_stepping import EnvStep
from episodia.episodes.multi_agent.pending_step import NOTHING, PendingStep
from episodia.errors import EpisodeError
from episodia.testing import multi_agent_trajectories
from refusals import same

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


PLURALS = {"extra_model_outputs": "extra_model_outputs", "infos": "infos"}
PARTS = ("observations", "actions", "rewards", "infos", "extra_model_outputs")


def record_of(pending=None, *, known):
    """The record of an agent; if it is known, it has made one step and got 0.0 for it."""
    record = AgentRecord("a")
    if known:
        episode = MultiAgentEpisode("game")
        episode.add_env_reset(observations={"a": 3})
        outputs = pending.extra_model_outputs if pending is not None else None
        episode.add_env_step({"a": 4}, {"a": "wait"}, {"a": 0.0}, extra_model_outputs={"a": outputs})
        record = episode.roster.records["a"]
    record.pending = pending
    return record


def step_with(data, missing_final_observation="error"):
    """The step that has `data` for the agent."""
    by_agent = {PLURALS.get(name, f"{name}s"): {"a": value} for name, value in data.items()}
    flags = [{"a": True} if by_agent.get(name, {}).get("a") else {} for name in ("terminateds", "truncateds")]
    episode = MultiAgentEpisode("game", missing_final_observation=missing_final_observation, env_t_started=1)
    return EnvStep(episode, tuple(by_agent.get(name, {}) for name in PARTS), *flags)


def advance(record, data, missing_final_observation="error"):
    """Store a step in the record; return in short what it has made of it, and the infos of its last observation."""
    single = record.episode
    before = (single.get_observations(), single.get_rewards()) if single else ([], [])
    early = len(record.early_rewards)
    record.store(step_with(data, missing_final_observation))
    short = {"starts": not single and record.episode is not None}
    single = record.episode
    if single is not None:
        rewards, observations = single.get_rewards(), single.get_observations()
        if len(rewards) > len(before[1]):
            short["completed"] = single.get_actions(-1), rewards[-1]
            short["repeats_observation"] = "observation" not in data and observations[-1] == observations[-2]
        elif rewards and rewards[-1] != before[1][-1]:
            short["reward_after_end"] = rewards[-1] - before[1][-1]
        short["replaces_observation"] = len(observations) == len(before[0]) and observations != before[0]
    if record.pending is not None:
        short["pending"] = record.pending.action, record.pending.reward
    if len(record.early_rewards) > early:
        short["early_reward"] = record.early_rewards[-1][1]
    infos = None if single is None else single.get_infos(-1)
    return {name: value for name, value in short.items() if value is not False}, infos


def check(case, known):
    pending, data, expected = copy.deepcopy(case)
    infos = expected.pop("infos", None)

    found, found_infos = advance(record_of(pending, known=known), data)

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


# --- What is rejected, and what is a choice ---


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
def test_what_cannot_be_is_rejected(pending, data, known, message):
    with pytest.raises(EpisodeError, match=message):
        advance(record_of(pending, known=known), data)


@pytest.mark.parametrize("data", [{"truncated": True}, {"truncated": True, "reward": 1.0}])
def test_a_missing_final_observation_can_be_repeated(data):
    found, _ = advance(record_of(ACTED, known=True), data, missing_final_observation="repeat")

    assert found["repeats_observation"]
    assert found["completed"] == ("left", 2.0 + data.get("reward", 0.0))


def test_extra_model_outputs_stay_with_their_action():
    record = record_of(ACTED, known=True)

    record.store(step_with({"observation": 5}))

    assert record.episode.get_extra_model_outputs("logp", -1) == -1.0


@pytest.mark.parametrize("cases", [UNSEEN, TO_ACT, HAS_ACTED], ids=["unseen", "to act", "has acted"])
def test_what_was_stored_can_be_taken_back(cases):
    for pending, data, _ in cases.values():
        record = record_of(copy.deepcopy(pending), known=cases is not UNSEEN)
        before = record.get_state(lambda single: single.get_state())
        step = step_with(data)

        record.store(step)
        step.take_back()

        assert record.get_state(lambda single: single.get_state()) == before


def test_nothing_is_still_nothing_after_a_pickle():
    waiting = pickle.loads(pickle.dumps(PendingStep(reward=1.0)))

    assert waiting.action is NOTHING
    assert not waiting.has_action
    assert copy.deepcopy(NOTHING) is NOTHING
    assert repr(NOTHING) == "nothing"


# --- Against plain lists ---


def data_of(entry, agent):
    """What one entry of a log holds for an agent; as for an episode, `"__all__"` counts for the rest."""
    parts = {"observations": "observation", "actions": "action", "rewards": "reward"}
    parts.update(infos="infos", extra_model_outputs="extra_model_outputs")
    data = {part: entry[name][agent] for name, part in parts.items() if agent in entry[name]}
    return {**data, **{name: flagged(entry, f"{name}s", agent) for name in ("terminated", "truncated")}}


def walk_through(log, agent, choice):
    """The record of one agent after a log, up to its end, and how many entries of the log that were."""
    record = AgentRecord("a")
    for count, entry in enumerate(log, 1):
        step = step_with(data_of(entry, agent), choice)
        step.env_t = count - 1
        record.store(step)
        if record.ended_at is not None:
            return record, count
    return record, len(log)


def columns_of(single):
    """The extra model outputs of each step."""
    return [
        {name: single.get_extra_model_outputs(name, t) for name in single.extra_model_outputs}
        for t in range(len(single))
    ]


def paid_for(life, single):
    """The rewards of each step, without what was added to the last one after it was complete."""
    rewards = single.get_rewards()
    late = sum(reward for _, reward in life.late)
    return [*rewards[:-1], rewards[-1] - late] if rewards and late else rewards


@given(schedule=multi_agent_trajectories(max_agents=2))
def test_a_drawn_history_is_what_the_plain_lists_say(schedule):
    log = list(schedule.entries())
    for agent in schedule.agents:
        record, count = walk_through(log, agent, schedule.missing_final_observation)
        life, single, pending = life_of(log[:count], agent), record.episode, record.pending
        if single is None:
            assert life is None
            continue

        assert same(single.get_actions(), [step.action for step in life.complete])
        assert same(columns_of(single), [step.extras for step in life.complete])
        assert paid_for(life, single) == [step.reward for step in life.complete]
        assert record.timeline.env_steps == life.seen
        assert same(single.get_observations(), life.observations)
        assert single.get_infos() == life.infos
        if pending is not None and pending.has_action:
            assert same(pending.action, life.pending.action)
            assert (pending.reward or 0) == life.pending.reward
        else:
            assert (None if pending is None else pending.reward) == life.waiting


@given(schedule=multi_agent_trajectories(max_agents=2))
def test_every_reward_of_a_drawn_history_is_somewhere(schedule):
    log = list(schedule.entries())
    for agent in schedule.agents:
        record, count = walk_through(log, agent, schedule.missing_final_observation)
        given = [entry["rewards"].get(agent, 0) for entry in log[:count]]

        found = [] if record.episode is None else record.episode.get_rewards()
        found = [*found, *(reward for _, reward in record.early_rewards)]
        waiting = 0 if record.pending is None or record.pending.reward is None else record.pending.reward
        assert sum(found) + waiting == sum(given)
