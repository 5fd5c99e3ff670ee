"""Hypothesis strategies for what happens to several agents: trajectories, their next step, and episodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from episodia.episodes import MultiAgentEpisode
from episodia.testing.episodes.multi_agent_trajectory import EnvRecord, MultiAgentTrajectory

#: Agents' ids of all kinds; one looks like another, and one is a tuple of two others.
AGENT_IDS: tuple[Any, ...] = ("walker", 0, ("team", 1), "0", "team", 1)

#: What observations and actions may be made of: the space of each kind, whose items are made from a number.
ITEM_KINDS: dict[str, Space[Any]] = {
    "numbers": spaces.Discrete(100_000),
    "vectors": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "nested": spaces.Dict(
        {"position": spaces.Box(-np.inf, np.inf, (2,), np.float32), "rest": spaces.Tuple([spaces.Discrete(100_000)])}
    ),
}

# What may happen to an agent in one step. A: it acts, O: it is shown an observation, R: it gets a reward, I: an info,
# T: it terminates, X: it is truncated.
_MOVES = {
    "unseen": ("", "O", "", "OR", "R", "OI", "I"),
    "idle": ("AOR", "AR", "AORI", "", "A", "AOR", "R", "O", "OR", "I", "AI", "AOR", "AR", "ORI"),
    "pending": ("O", "R", "", "OR", "RI", "ORI", "I", "O", "OR", "R", "OI"),
    "done": ("",),
}
_ENDS = {
    "unseen": ("OT", "RT", "OX"),
    "idle": ("AORT", "AORX", "AT", "ART", "T", "RT", "ORT", "X", "RX", "OX", "IT", "AORTX"),
    "pending": ("T", "RT", "OT", "ORT", "ORX", "ITX"),
    "done": ("",),
}
# These need an episode that takes them.
_ENDS_WITHOUT_OBSERVATION = {"idle": ("AX", "ARX"), "pending": ("X", "RX", "IX")}
_MOVES_AFTER_THE_END = ("", "R", "RI", "I")
# One of so many moves, and one of so many steps, may be an end.
_MOVES_PER_END = 8
_STEPS_PER_END = 16


def item_of(kind: str, number: int) -> Any:
    """Return the item of one of `ITEM_KINDS` that belongs to a number.

    >>> item_of("numbers", 3), item_of("vectors", 3)
    (3, array([ 3., -3.], dtype=float32))
    """
    if kind == "numbers":
        return number
    vector = np.array([number, -number], np.float32)
    return vector if kind == "vectors" else {"position": vector, "rest": (number,)}


@dataclass(frozen=True)
class Content:
    """The content of a drawn trajectory: kinds of items, of rewards, names of extra model outputs.

    No two steps or agents of a trajectory have the same items, so that none can be taken for another.
    """

    kind: str = "numbers"
    reward_type: type = float
    extras: tuple[str, ...] = ()

    def reward(self, number: int) -> Any:
        """Return a reward; sums of a few of them are exact in every type of reward."""
        quarters = number * 7 % 33 - 16
        return quarters if self.reward_type is int else self.reward_type(quarters / 4)

    def extra_outputs(self, number: int) -> dict[str, Any]:
        """Return the extra model outputs of one step."""
        made = {"logp": -number / 8, "logits": np.array([number, 1], np.float32), "state": {"h": np.full(2, number)}}
        return {name: made[name] for name in self.extras}

    def record(self, moves: dict[Any, str], number: int) -> dict[str, dict[Any, Any]]:
        """Return the environment step in which agents do what `moves` say."""
        record: dict[str, dict[Any, Any]] = {}
        for place, (agent, move) in enumerate(moves.items()):
            unique = number * 8 + place
            for letter in move:
                name, item = self._entry(letter, unique)
                record.setdefault(name, {})[agent] = item
            if "A" in move and self.extras:
                record.setdefault("extra_model_outputs", {})[agent] = self.extra_outputs(unique)
        return record

    def _entry(self, letter: str, unique: int) -> tuple[str, Any]:
        if letter == "O":
            return "observations", item_of(self.kind, unique)
        if letter == "A":
            return "actions", item_of(self.kind, 50_000 + unique)
        if letter == "R":
            return "rewards", self.reward(unique)
        if letter == "I":
            return "infos", {"number": unique, f"only at {unique}": np.array([unique])}
        return ("terminateds" if letter == "T" else "truncateds"), True


def contents() -> SearchStrategy[Content]:
    """Draw what the items of a trajectory are made of."""
    return st.builds(
        Content,
        kind=st.sampled_from(list(ITEM_KINDS)),
        reward_type=st.sampled_from([float, int, np.float32]),
        extras=st.sampled_from([(), ("logp",), ("logp", "logits", "state")]),
    )


def agent_groups(*, max_agents: int = 4) -> SearchStrategy[list[Any]]:
    """Draw different ids of agents, of all kinds."""
    return st.lists(st.sampled_from(AGENT_IDS), min_size=1, max_size=max_agents, unique=True)


def reset_trajectories(
    agents: Sequence[Any], content: Content, *, choices: SearchStrategy[tuple[str, str]] | None = None
) -> SearchStrategy[MultiAgentTrajectory]:
    """Draw a trajectory that has only been reset, with some of the agents present, with or without spaces.

    Args:
        agents: The agents that may take part.
        content: What items are made of.
        choices: `missing_final_observation` and `rewards_after_done` of the episode.
    """
    return _reset_trajectories(agents, content, _CHOICES if choices is None else choices)


_CHOICES = st.sampled_from([("error", "error"), ("repeat", "add")])


@st.composite
def _reset_trajectories(
    draw: DrawFn, agents: Sequence[Any], content: Content, choices: SearchStrategy[tuple[str, str]]
) -> MultiAgentTrajectory:
    fewest = draw(st.sampled_from([1, 1, 1, 0]))
    present = draw(st.lists(st.sampled_from(agents), min_size=fewest, max_size=len(agents), unique=True))
    missing_final_observation, rewards_after_done = draw(choices)
    by_agent = dict.fromkeys(agents, ITEM_KINDS[content.kind]) if draw(st.booleans()) else None
    moves = {agent: draw(st.sampled_from(["O", "OI"])) for agent in present}
    return MultiAgentTrajectory(
        log=[content.record(moves, 0)],
        observation_space=by_agent,
        action_space=by_agent,
        missing_final_observation=missing_final_observation,  # type: ignore[arg-type]  # one of the two
        rewards_after_done=rewards_after_done,  # type: ignore[arg-type]  # one of the two
    )


def next_env_steps(
    trajectory: MultiAgentTrajectory, agents: Sequence[Any], content: Content, *, may_end: bool = True
) -> SearchStrategy[EnvRecord]:
    """Draw an environment step that may follow a trajectory.

    Agents may join, act, wait, be passed over, get rewards while they wait, be shown a second observation, and end,
    each for itself or all at once.

    Args:
        trajectory: What was before; it must not be over.
        agents: The agents that may take part.
        content: What items are made of.
        may_end: Whether the trajectory may be over afterwards.

    >>> from hypothesis import find
    >>> start = MultiAgentTrajectory(log=[{"observations": {"walker": 0}}])
    >>> step = find(next_env_steps(start, ["walker"], Content()), lambda step: "observations" in step)
    >>> step["actions"], step["observations"], step["rewards"]
    ({'walker': 50008}, {'walker': 8}, {'walker': 1.75})
    """
    return _next_env_steps(trajectory, agents, content, may_end)


@st.composite
def _next_env_steps(
    draw: DrawFn, trajectory: MultiAgentTrajectory, agents: Sequence[Any], content: Content, may_end: bool
) -> EnvRecord:
    moves = {agent: draw(_moves(trajectory, agent)) for agent in draw(st.permutations(agents))}
    alive = [agent for agent in agents if _lives_on(trajectory, agent, moves[agent])]
    known = [agent for agent in agents if trajectory.status(agent) != "unseen" or "O" in moves[agent]]
    if known and not alive and not may_end:
        last = next(agent for agent in known if trajectory.status(agent) != "done")
        moves[last] = moves[last].strip("TX")
    record = content.record({agent: move for agent, move in moves.items() if move}, len(trajectory.log))
    if may_end and draw(st.integers(1, _STEPS_PER_END)) == _STEPS_PER_END:
        _end_all(trajectory, moves, record, draw(st.sampled_from(["terminateds", "truncateds"])))
    return record


@st.composite
def _moves(draw: DrawFn, trajectory: MultiAgentTrajectory, agent: Any) -> str:
    status = trajectory.status(agent)
    moves = _MOVES[status]
    if status == "done" and trajectory.rewards_after_done == "add":
        moves = _MOVES_AFTER_THE_END
    elif draw(st.integers(1, _MOVES_PER_END)) == _MOVES_PER_END:
        moves = _ENDS[status]
        if trajectory.missing_final_observation == "repeat":
            moves += _ENDS_WITHOUT_OBSERVATION.get(status, ())
    return draw(st.sampled_from(moves))


def _lives_on(trajectory: MultiAgentTrajectory, agent: Any, move: str) -> bool:
    known = trajectory.status(agent) in ("idle", "pending") or "O" in move
    return known and not set(move) & set("TX")


def _end_all(
    trajectory: MultiAgentTrajectory, moves: dict[Any, str], record: dict[str, dict[Any, Any]], flags: str
) -> None:
    waiting = [agent for agent, move in moves.items() if "O" not in move and _acted(trajectory, agent, move)]
    if waiting and trajectory.missing_final_observation == "error":
        flags = "terminateds"
    record.setdefault(flags, {})["__all__"] = True


def _acted(trajectory: MultiAgentTrajectory, agent: Any, move: str) -> bool:
    return "A" in move or trajectory.status(agent) == "pending"


def multi_agent_trajectories(
    *,
    lengths: SearchStrategy[int] | None = None,
    max_agents: int = 4,
    content: SearchStrategy[Content] | None = None,
    done: bool | None = None,
    choices: SearchStrategy[tuple[str, str]] | None = None,
) -> SearchStrategy[MultiAgentTrajectory]:
    """Draw a `MultiAgentTrajectory` with late joiners, gaps, turns, deaths, idle agents, early rewards and ids of all kinds.

    Args:
        lengths: The number of environment steps; there are fewer if the trajectory is over before.
        max_agents: How many agents there can be.
        content: What items are made of.
        done: Whether the last step ends the episode; by default either.
        choices: `missing_final_observation` and `rewards_after_done` of the episode.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(trajectory=multi_agent_trajectories())
    ... def an_episode_is_as_long_as_its_trajectory(trajectory):
    ...     assert len(trajectory.stepped()) == len(trajectory)
    >>> an_episode_is_as_long_as_its_trajectory()
    """
    return _trajectories(
        st.integers(0, 10) if lengths is None else lengths,
        agent_groups(max_agents=max_agents),
        contents() if content is None else content,
        done,
        choices,
    )


@st.composite
def _trajectories(
    draw: DrawFn,
    lengths: SearchStrategy[int],
    groups: SearchStrategy[list[Any]],
    contents: SearchStrategy[Content],
    done: bool | None,
    choices: SearchStrategy[tuple[str, str]] | None,
) -> MultiAgentTrajectory:
    length, agents, content = draw(lengths), draw(groups), draw(contents)
    trajectory = draw(reset_trajectories(agents, content, choices=choices))
    while len(trajectory) < length and not trajectory.is_over:
        trajectory = trajectory.then(draw(next_env_steps(trajectory, agents, content, may_end=done is not False)))
    if done and not trajectory.is_over:
        trajectory = trajectory.then({"terminateds": {"__all__": True}})
    return trajectory


def multi_agent_episodes(*, finalized: bool | None = None, **options: Any) -> SearchStrategy[MultiAgentEpisode]:
    """Draw a multi-agent episode, growing or finalized.

    Args:
        finalized: Its form; by default either.
        **options: Those of `multi_agent_trajectories`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(episode=multi_agent_episodes(finalized=True, done=False))
    ... def a_cut_starts_where_its_episode_stops(episode):
    ...     assert episode.cut().env_t_started == episode.env_t
    >>> a_cut_starts_where_its_episode_stops()
    """
    forms = st.booleans() if finalized is None else st.just(finalized)
    return st.builds(_in_form, multi_agent_trajectories(**options), forms)


def _in_form(trajectory: MultiAgentTrajectory, finalized: bool) -> MultiAgentEpisode:
    return trajectory.stepped().finalize() if finalized else trajectory.stepped()


def chunked_multi_agent_episodes(
    *, finalized: bool | None = None, chunk_lookbacks: SearchStrategy[int] | None = None, **options: Any
) -> SearchStrategy[tuple[MultiAgentEpisode, list[MultiAgentEpisode]]]:
    """Draw a multi-agent episode, and the same one as a list of chunks, which were cut while it was played.

    Args:
        finalized: The form of the episode and its chunks; by default either.
        chunk_lookbacks: How many environment steps the chunks can look back, as far as there are so many.
        **options: Those of `multi_agent_trajectories`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(drawn=chunked_multi_agent_episodes())
    ... def chunks_hold_all_steps(drawn):
    ...     whole, chunks = drawn
    ...     assert whole.env_steps() == sum(chunk.env_steps() for chunk in chunks)
    >>> chunks_hold_all_steps()
    """
    lookbacks = st.integers(0, 3) if chunk_lookbacks is None else chunk_lookbacks
    return _chunked(
        multi_agent_trajectories(**options), lookbacks, st.booleans() if finalized is None else st.just(finalized)
    )


@st.composite
def _chunked(
    draw: DrawFn,
    trajectories: SearchStrategy[MultiAgentTrajectory],
    lookbacks: SearchStrategy[int],
    forms: SearchStrategy[bool],
) -> tuple[MultiAgentEpisode, list[MultiAgentEpisode]]:
    trajectory, lookback, is_finalized = draw(trajectories), draw(lookbacks), draw(forms)
    cuts = sorted(draw(st.sets(st.integers(0, max(0, len(trajectory) - 1)), max_size=3)))
    chunks = [trajectory.until(cuts[0] if cuts else len(trajectory)).stepped()]
    for start, stop in itertools.pairwise([*cuts, len(trajectory)]):
        chunks.append(chunks[-1].cut(len_lookback_buffer=lookback))
        for step in range(start, stop):
            chunks[-1].add_env_step(**trajectory.entry(step + 1))
    whole = trajectory.stepped()
    return (whole.finalize(), [chunk.finalize() for chunk in chunks]) if is_finalized else (whole, chunks)
