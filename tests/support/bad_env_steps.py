"""Environment steps that an episode has to reject, because of one agent; what they hold for the others is right."""

from hypothesis import strategies as st

from episodia.testing import next_env_steps


def put(record, column, agent, value):
    record[column][agent] = value


def drop(record, column, agent):
    record[column].pop(agent, None)


def an_item(content, letter, column):
    return content.record({"": letter}, 1)[column][""]


def acts(record, agent, content):
    put(record, "actions", agent, an_item(content, "A", "actions"))


def observes(record, agent, content):
    put(record, "observations", agent, an_item(content, "O", "observations"))


def gets_a_reward(record, agent, content):
    put(record, "rewards", agent, content.reward(1))


def is_told_something(record, agent, _):
    put(record, "infos", agent, {"too": "late"})


def computes_something(record, agent, _):
    put(record, "extra_model_outputs", agent, {"logp": 0.0})


def acts_twice(record, agent, content):
    drop(record, "observations", agent)
    acts(record, agent, content)


def acts_for_no_reward(record, agent, content):
    acts(record, agent, content)
    observes(record, agent, content)
    drop(record, "rewards", agent)


def gets_no_number(record, agent, _):
    put(record, "rewards", agent, "much")


def gets_no_dict(record, agent, _):
    put(record, "infos", agent, 5)


def observes_what_is_in_no_space(record, agent, _):
    put(record, "observations", agent, "nothing of the kind")


def acts_outside_of_its_space(record, agent, _):
    put(record, "actions", agent, "nothing of the kind")


def is_stopped_without_an_observation(record, agent, _):
    for column in ("observations", "terminateds"):
        drop(record, column, agent)
    put(record, "truncateds", agent, True)


def mistakes(schedule, agent):
    """What can go wrong for an agent in the step that follows a schedule."""
    status = schedule.status(agent)
    found = {
        "unseen": [acts, gets_no_number, gets_no_dict],
        "idle": [acts_for_no_reward, gets_no_number, gets_no_dict],
        "pending": [acts_twice, gets_no_number, gets_no_dict],
        "done": [acts, observes, computes_something],
    }[status]
    if status == "done" and schedule.rewards_after_done == "error":
        found = [*found, gets_a_reward, is_told_something]
    if status == "pending" and schedule.missing_final_observation == "error":
        found = [*found, is_stopped_without_an_observation]
    if status != "done" and schedule.observation_space:
        found = [*found, observes_what_is_in_no_space]
    if status == "idle" and schedule.action_space:
        found = [*found, acts_outside_of_its_space]
    return found


@st.composite
def bad_env_steps(draw, schedule, agents, content):
    """Draw a step that is right but for one agent; any step is wrong if the schedule is over."""
    if schedule.is_over:
        return schedule.then({}).entry(-1)
    record = schedule.then(draw(next_env_steps(schedule, agents, content, may_end=False))).entry(-1)
    agent = draw(st.sampled_from(agents))
    draw(st.sampled_from(mistakes(schedule, agent)))(record, agent, content)
    return record
