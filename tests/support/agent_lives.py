"""The oracle, first part: what the log of an environment says of one agent. It shares no code with the library.

A log has one dict for each environment step, the reset first: `observations`, `actions`, `rewards`, `infos`,
`terminateds`, `truncateds` and `extra_model_outputs`, each by agent. Nothing is kept on the way; whatever is asked is
worked out from the whole log: which observation an action answers, when it was answered itself, which rewards came in
between.
"""

from collections import ChainMap
from dataclasses import dataclass, field

ALL = "__all__"
FLAGS = ("terminateds", "truncateds")


def times(log, column, agent):
    """The environment steps at which a column has something for an agent."""
    return [t for t, entry in enumerate(log) if agent in entry[column]]


def flagged(entry, column, agent):
    """Whether an agent ends in one way: as its own flags say, and if they say nothing, as those of all agents."""
    says = agent if any(entry[flags].get(agent) for flags in FLAGS) else ALL
    return bool(entry[column].get(says))


def has_ended(entry, agent):
    return any(flagged(entry, flags, agent) for flags in FLAGS)


def rewards_between(log, agent, after, until):
    """The rewards from just after one environment step up to and including another."""
    return [log[t]["rewards"][agent] for t in times(log, "rewards", agent) if after < t <= until]


def infos_between(log, agent, after, until):
    """The infos of several environment steps in one dict; later ones hide earlier ones."""
    given = [log[t]["infos"][agent] for t in times(log, "infos", agent) if after < t <= until]
    return dict(ChainMap(*reversed(given))) if given else {}


@dataclass
class Step:
    """An action: the observation that it answers, and the time of the one that answers it (None while it is pending)."""

    at: int
    answered: int | None
    action: object
    extras: dict
    reward: object


@dataclass
class Life:
    """All that a log says of one agent that has had an observation."""

    came: int
    seen: list
    observations: list
    infos: list
    steps: list
    ended: int | None
    terminated: bool
    truncated: bool
    # The reward before the first observation, and since the last complete step if the agent has not acted on it.
    early: object = None
    waiting: object = None
    # Rewards that came after the last complete step of an agent that has ended, and when they did.
    late: list = field(default_factory=list)

    @property
    def complete(self):
        return [step for step in self.steps if step.answered is not None]

    @property
    def pending(self):
        return self.steps[-1] if self.steps and self.steps[-1].answered is None else None


def life_of(log, agent):
    """What a log says of one agent; None if it had no observation."""
    seen = times(log, "observations", agent)
    if not seen:
        return None
    end = next((t for t in range(seen[0], len(log)) if has_ended(log[t], agent)), None)
    steps = steps_of(log, agent, seen, end)
    # An observation that was not acted on made room for the next one.
    kept = [t for t in seen if t == seen[-1] or t in {step.at for step in steps}]
    before = dict(zip(seen, [-1, *seen], strict=False))
    life = Life(
        came=seen[0],
        seen=kept,
        observations=[log[t]["observations"][agent] for t in kept],
        infos=[infos_between(log, agent, before[t], t) for t in kept],
        steps=steps,
        ended=end,
        terminated=end is not None and flagged(log[end], "terminateds", agent),
        truncated=end is not None and flagged(log[end], "truncateds", agent),
        early=sum_of(rewards_between(log, agent, -1, seen[0])),
    )
    if steps and steps[-1].answered not in (None, *seen):
        # It was not shown its last observation.
        life.observations.append(life.observations[-1])
        life.infos.append(infos_between(log, agent, seen[-1], len(log)))
    elif end is not None:
        # What it is told when it ends, and later, it is told with its last observation.
        life.infos[-1] = {**life.infos[-1], **infos_between(log, agent, seen[-1], len(log))}
    settle_the_rest(log, agent, life)
    return life


def steps_of(log, agent, seen, end):
    steps, before = [], seen[0]
    for acted in times(log, "actions", agent):
        answered = min((t for t in seen if t >= acted), default=end)
        until = len(log) - 1 if answered is None else answered
        steps.append(
            Step(
                at=max(t for t in seen if t < acted),
                answered=answered,
                action=log[acted]["actions"][agent],
                extras=log[acted]["extra_model_outputs"].get(agent, {}),
                reward=sum(rewards_between(log, agent, before, until)),
            )
        )
        before = until
    return steps


def settle_the_rest(log, agent, life):
    """Note the rewards after the last complete step of an agent that has not acted since."""
    if life.pending:
        return
    before = life.steps[-1].answered if life.steps else life.came
    if life.ended is None:
        life.waiting = sum_of(rewards_between(log, agent, before, len(log)))
        return
    rest = rewards_between(log, agent, before, life.ended)
    after = [t for t in times(log, "rewards", agent) if t > life.ended]
    life.late = [(life.ended, sum(rest))] if rest else []
    life.late += [(t, log[t]["rewards"][agent]) for t in after]


def sum_of(rewards):
    """The sum of some rewards, None without rewards."""
    return sum(rewards) if rewards else None
