"""The oracle, second part: what an episode, a chunk or a slice should answer, worked out from the log of its environment.

Its only state is that log, a list with one dict for each environment step; see `agent_lives`.
"""

from dataclasses import dataclass, replace

from agent_lives import ALL, Step, life_of, times
from plain_column import NOTHING, filled, filled_like, plain, read

# --- A chunk of it --------------------------------------------------------------------------------------------------


@dataclass
class AgentView:
    """What one agent has in a chunk, the lookback included."""

    seen: list
    observations: list
    infos: list
    actions: list
    rewards: list
    extras: list
    columns: tuple
    lookback: int
    t_started: int
    pending: Step | None
    waiting: object
    terminated: bool
    truncated: bool
    ended: int | None

    def __len__(self):
        return len(self.rewards) - self.lookback

    @property
    def hangs(self):
        return self.pending is not None or self.waiting is not None

    def track(self, column):
        """A column of complete steps; an extra one may be missing, or begin later than the others."""
        if not isinstance(column, tuple):
            return getattr(self, column)
        _, key = column
        if key not in self.columns:
            return None
        since = max((place + 1 for place, extras in enumerate(self.extras) if key not in extras), default=0)
        return [extras[key] for extras in self.extras[since:]]

    def pending_item(self, column):
        if self.pending is None or column in ("observations", "infos"):
            return NOTHING
        if isinstance(column, tuple):
            return self.pending.extras.get(column[1], NOTHING)
        return self.pending.action if column == "actions" else self.pending.reward

    def track_with_pending(self, column):
        track, item = self.track(column), self.pending_item(column)
        return track if item is NOTHING else [*(track or []), item]

    def lookback_of(self, column):
        """How many items of a column are the past; an extra column may have fewer than there are steps."""
        return max(0, len(self.track(column) or []) - len(self)) if isinstance(column, tuple) else self.lookback

    def at(self, column, env_t):
        """What stands at an environment step."""
        if env_t not in self.seen:
            return NOTHING
        place, track = self.seen.index(env_t), self.track(column)
        if column in ("observations", "infos"):
            return track[place]
        if place == len(self.rewards):
            return self.pending_item(column)
        place -= len(self.rewards) - len(track or [])
        return track[place] if track and place >= 0 else NOTHING


@dataclass
class EpisodeView:
    """What a multi-agent episode should answer."""

    agents: dict
    env_t_started: int
    env_t: int
    lookback: int
    is_terminated: bool
    is_truncated: bool
    # Rewards that belong to no step here, with when they came.
    early: dict
    observation_space: dict | None = None
    action_space: dict | None = None

    # --- Getters ---

    def get(
        self, column, index=None, agent_ids=None, *, env_steps=True, as_lookback=False, fill=None, return_list=False
    ):
        """What a getter should return, in plain form; an IndexError if it should raise one."""
        chosen = self.chosen(agent_ids)
        if not env_steps:
            return self.by_agent_steps(column, index, chosen, as_lookback, fill)
        places = read(self.ticks(column), self.lookback, index, as_lookback=as_lookback, **_filling(fill, None))
        if return_list and isinstance(places, list):
            return [self.row(column, env_t, chosen, fill) for env_t in places]
        if not isinstance(places, list):
            return self.row(column, places, chosen, fill)
        rows = [(agent, [self.cell(agent, column, env_t, fill) for env_t in places]) for agent in chosen]
        found = {agent: [plain(item) for item in cells if item is not NOTHING] for agent, cells in rows}
        return {agent: items for agent, items in found.items() if items or self.shows_nothing(agent, column, fill)}

    def shows_nothing(self, agent, column, fill):
        """Whether an agent is in a result that has no item of it."""
        return fill is not None and self.agents[agent].track_with_pending(column) is not None

    def chosen(self, agent_ids):
        if agent_ids is None:
            return list(self.agents)
        return [agent for agent in self.agents if agent in agent_ids]

    def ticks(self, column):
        """The environment steps of a column: actions stand at all but the last."""
        stop = self.env_t + 1 if column in ("observations", "infos") else self.env_t
        return list(range(self.env_t_started - self.lookback, stop))

    def row(self, column, env_t, chosen, fill):
        cells = {agent: self.cell(agent, column, env_t, fill) for agent in chosen}
        return {agent: plain(item) for agent, item in cells.items() if item is not NOTHING}

    def cell(self, agent, column, env_t, fill):
        view = self.agents[agent]
        item = view.at(column, env_t)
        if item is not NOTHING or fill is None or view.track_with_pending(column) is None:
            return item
        return self.filler(agent, column, fill)

    def filler(self, agent, column, fill):
        """What stands for an item that is not there: nested and shaped like those that are."""
        spaces = {"observations": self.observation_space, "actions": self.action_space}.get(column)
        known = self.agents[agent].track_with_pending(column)
        if spaces is not None:
            return filled(spaces[agent], fill)
        return fill if column in ("rewards", "infos") or not known else filled_like(plain(known[0]), fill)

    def by_agent_steps(self, column, index, chosen, as_lookback, fill):
        found = {}
        for agent in chosen:
            view = self.agents[agent]
            track = view.track_with_pending(column)
            if track is None or (not track and fill is None):
                continue
            filling = _filling(fill, self.filler(agent, column, fill))
            items = plain(read(track, view.lookback_of(column), index, as_lookback=as_lookback, **filling))
            is_one = hasattr(index, "__index__") and not getattr(index, "ndim", 0)
            if is_one or fill is not None or items:
                found[agent] = items
        return found

    def get_extras(self, *args, **options):
        """All extra model outputs, by agent and name."""
        if not self.extra_names():
            return self.get("rewards", *args, agent_ids=[], **options)
        return by_agent_and_name({key: self.get(("extra", key), *args, **options) for key in self.extra_names()})

    def extra_names(self):
        pending = [view.pending.extras for view in self.agents.values() if view.pending]
        return sorted({name for view in self.agents.values() for name in view.columns} | set().union(*pending))

    # --- Facts ---

    def flags(self, name):
        by_agent = {agent: getattr(view, name) for agent, view in self.agents.items()}
        return {**by_agent, ALL: getattr(self, f"is_{name}")}

    def agents_that_stepped(self):
        return {agent for agent, view in self.agents.items() if view.seen[-1] == self.env_t}

    def agents_to_act(self):
        return {agent for agent in self.agents_that_stepped() if self.agents[agent].ended is None}

    def hanging_actions(self):
        return {agent: plain(view.pending.action) for agent, view in self.agents.items() if view.pending}

    def hanging_extras(self):
        return {agent: plain(view.pending.extras) for agent, view in self.agents.items() if view.pending}

    def hanging_rewards_end(self):
        hanging = {agent: view for agent, view in self.agents.items() if view.hangs}
        return {agent: plain(view.pending.reward if view.pending else view.waiting) for agent, view in hanging.items()}

    def hanging_rewards_begin(self):
        return {agent: plain(sum(reward for _, reward in rewards)) for agent, rewards in self.early.items()}

    def total(self, include_hanging):
        stored = sum(sum(view.rewards[view.lookback :]) for view in self.agents.values())
        hanging = sum(self.hanging_rewards_end().values()) + sum(self.hanging_rewards_begin().values())
        return plain(stored) + (hanging if include_hanging else 0)

    def agent_times(self):
        """For each agent and environment step, the agent's own time step, or "S"."""
        ticks = self.ticks("observations")
        return {
            agent: [view.t_started - view.lookback + view.seen.index(t) if t in view.seen else "S" for t in ticks]
            for agent, view in self.agents.items()
        }

    # --- Slices ---

    def sliced(self, start, stop, lookback):
        """The environment steps from `start` to just before `stop`, with up to `lookback` steps in front of them."""
        first, last = self.env_t_started + start, self.env_t_started + stop
        kept = min(lookback, start + self.lookback)
        agents = {agent: self.sliced_agent(view, first, last, kept) for agent, view in self.agents.items()}
        at_end = last == self.env_t
        return replace(
            self,
            agents={agent: view for agent, view in agents.items() if view is not None},
            env_t_started=first,
            env_t=last,
            lookback=kept,
            is_terminated=self.is_terminated and at_end,
            is_truncated=self.is_truncated and at_end,
            early=came_between(self.early, first, last),
        )

    def sliced_agent(self, view, first, last, kept):
        """One agent as after a cut at `first`, at `last`."""
        until_start = [place for place, t in enumerate(view.seen) if t <= first]
        until_stop = [place for place, t in enumerate(view.seen) if t <= last]
        is_gone = view.ended is not None and view.ended <= first and first > self.env_t_started
        if not until_stop or (is_gone and view.seen[-1] < first):
            return None
        ended = view.ended is not None and view.ended <= last
        stop = until_stop[-1]
        # The repeated last observation belongs to the end.
        repeats = ended and stop == len(view.seen) - 1 and len(view.observations) > len(view.seen)
        end = stop + repeats
        start = max([view.lookback, *until_start[-1:]])
        if start > end:
            # What it had seen when the chunk began was replaced after the slice; the lookback may still show it.
            if not any(t >= first - kept for t in view.seen[: stop + 1]):
                return None
            start = end
        lookback = sum(t >= first - kept for t in view.seen[:start])
        begin = start - lookback
        return replace(
            view,
            seen=view.seen[begin : stop + 1],
            observations=view.observations[begin : end + 1],
            infos=view.infos[begin : end + 1],
            actions=view.actions[begin:end],
            rewards=view.rewards[begin:end],
            extras=view.extras[begin:end],
            lookback=lookback,
            t_started=view.t_started + start - view.lookback,
            pending=None if ended else self.pending_in_slice(view, stop, last),
            waiting=view.waiting if last == self.env_t and not ended else None,
            terminated=view.terminated and ended,
            truncated=view.truncated and ended,
            ended=view.ended if ended else None,
        )

    def pending_in_slice(self, view, place, last):
        """The step that is not complete at the end of the slice, with all of its reward."""
        if last < self.env_t and view.seen[place] == last:
            return None  # that step is the next slice's
        if place == len(view.rewards):
            return view.pending
        extras = {key: view.at(("extra", key), view.seen[place]) for key in view.columns}
        there = {key: item for key, item in extras.items() if item is not NOTHING}
        return Step(view.seen[place], None, view.actions[place], there, view.rewards[place])


def _filling(fill, filler):
    return {} if fill is None else {"fill": filler}


def by_agent_and_name(columns):
    """`{name: {agent: items}}` as `{agent: {name: items}}`, in each row of a list."""
    if any(isinstance(column, list) for column in columns.values()):
        rows = zip(*columns.values(), strict=True)
        return [by_agent_and_name(dict(zip(columns, row, strict=True))) for row in rows]
    found = {}
    for name, column in columns.items():
        for agent, items in column.items():
            found.setdefault(agent, {})[name] = items
    return found


# --- From the log to the chunk --------------------------------------------------------------------------------------


def view_of(log, *, cut_at=None, lookback=0, **spaces):
    """What an episode with this log should answer: from its reset, or the chunk since it was cut at an environment step."""
    lives = lives_in(log)
    start, since = (0, -1) if cut_at is None else (cut_at, cut_at)
    lookback = min(lookback, start)
    agents = {}
    for agent, life in lives.items():
        if life.ended is None or life.ended > since:
            first = sum(step.answered <= since for step in life.complete)
            past = sum(step.at >= start - lookback for step in life.complete[:first])
            late = [reward for t, reward in life.late if t > since]
            agents[agent] = agent_view(life, first, past, late if len(life.complete) > first else [])
    early = early_rewards(log, lives, lambda life: any(step.answered > since for step in life.complete))
    return episode_view(log, lives, agents, start, lookback, came_between(early, since, len(log)), **spaces)


def view_of_built(log, lookback, **spaces):
    """What an episode should answer that was made of lists, the first `lookback` environment steps of which are the past."""
    lives, agents = lives_in(log), {}
    for agent, life in lives.items():
        first = min(len(life.complete), sum(t < lookback for t in life.seen))
        view = agent_view(life, first, first, [reward for _, reward in life.late] if life.complete else [])
        agents[agent] = replace(view, t_started=0)
    early = early_rewards(log, lives, lambda life: bool(life.complete))
    return episode_view(log, lives, agents, lookback, lookback, came_between(early, lookback, len(log)), **spaces)


def lives_in(log):
    agents = dict.fromkeys(agent for entry in log for agent in entry["observations"])
    return {agent: life_of(log, agent) for agent in agents}


def episode_view(log, lives, agents, start, lookback, early, *, observation_space=None, action_space=None):
    terminated, truncated = ends(log, lives)
    return EpisodeView(
        agents=agents,
        env_t_started=start,
        env_t=len(log) - 1,
        lookback=lookback,
        is_terminated=terminated,
        is_truncated=truncated,
        early=early,
        observation_space=observation_space,
        action_space=action_space,
    )


def agent_view(life, first, lookback, late):
    """One agent in a chunk that has `lookback` steps before its step number `first`."""
    begin = first - lookback
    rewards = [step.reward for step in life.complete[begin:]]
    if late:
        rewards[-1] += sum(late)
    return AgentView(
        seen=life.seen[begin:],
        observations=life.observations[begin:],
        infos=life.infos[begin:],
        actions=[step.action for step in life.complete[begin:]],
        rewards=rewards,
        extras=[step.extras for step in life.complete[begin:]],
        columns=tuple(life.complete[-1].extras) if life.complete else (),
        lookback=lookback,
        t_started=first,
        pending=life.pending,
        waiting=life.waiting,
        terminated=life.terminated,
        truncated=life.truncated,
        ended=life.ended,
    )


def early_rewards(log, lives, has_steps):
    """Rewards that belong to no step: of who has not come yet, and of who has ended and has no step to add them to."""
    found = {}
    for agent in dict.fromkeys(agent for entry in log for agent in entry["rewards"]):
        life = lives.get(agent)
        came = len(log) if life is None else life.came
        rewards = [(t, log[t]["rewards"][agent]) for t in times(log, "rewards", agent) if t <= came]
        found[agent] = rewards + (life.late if life and not has_steps(life) else [])
    return found


def came_between(rewards, after, until):
    """Those of some rewards that came after one environment step, up to and including another."""
    kept = {agent: [(t, reward) for t, reward in given if after < t <= until] for agent, given in rewards.items()}
    return {agent: given for agent, given in kept.items() if given}


def ends(log, lives):
    """Whether the episode is terminated, and whether it is truncated."""
    terminated, truncated = (bool(log[-1][column].get(ALL)) for column in ("terminateds", "truncateds"))
    if not (terminated or truncated) and lives and all(life.ended is not None for life in lives.values()):
        terminated = any(life.terminated for life in lives.values())
        truncated = not terminated
    return terminated, truncated
