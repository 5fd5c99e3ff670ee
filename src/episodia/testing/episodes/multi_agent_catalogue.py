"""Named schedules and named multi-agent episodes, over which laws are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from episodia.episodes import MultiAgentEpisode
from episodia.testing.episodes.agent_schedule import Schedule
from episodia.testing.episodes.multi_agent_strategies import ITEM_KINDS, Content


def scheduled(*rows: str, kind: str = "numbers", extras: tuple[str, ...] = (), **fields: Any) -> Schedule:
    """Return the schedule that a picture shows: a row for each agent, a word for each environment step.

    The letters of a word say what happens to the agent: A it acts, O it is shown an observation, R it gets a reward,
    I an info, T it terminates, X it is truncated; a dot means nothing. The agent `"all"` ends everybody.

    Args:
        *rows: An agent's name, a colon, and its words, the first of which is the reset.
        kind: What observations and actions are made of, one of `ITEM_KINDS`.
        extras: Names of extra model outputs, given with each action.
        **fields: Any other field of a schedule.

    >>> scheduled("white: O AR OR", "black: . O  A").stepped()
    MultiAgentEpisode(len=2, agents=2, return=..., id_='schedule')
    """
    words = {}
    for row in rows:
        agent, _, moves = row.partition(":")
        words["__all__" if agent == "all" else agent] = moves.replace(".", "-").split()
    lengths = {len(moves) for moves in words.values()}
    if len(lengths) != 1:
        raise ValueError(f"found rows with {sorted(lengths)} words, expected one length.")
    content = Content(kind=kind, extras=extras)
    log = [
        content.record({agent: moves[step].strip("-") for agent, moves in words.items()}, step)
        for step in range(lengths.pop())
    ]
    return Schedule(log=log, **fields)


def _in_space(kind: str, *rows: str, **fields: Any) -> Schedule:
    by_agent = {row.partition(":")[0]: ITEM_KINDS[kind] for row in rows}
    return scheduled(*rows, kind=kind, observation_space=by_agent, action_space=by_agent, **fields)


def _renamed(schedule: Schedule, names: dict[Any, Any]) -> Schedule:
    log = [
        {
            column: {names.get(agent, agent): value for agent, value in by_agent.items()}
            for column, by_agent in entry.items()
        }
        for entry in schedule.log
    ]
    return Schedule(log=log)


_FIRST, _SECOND = ("walker: O  AOR AORI AOR AOR", "flyer:  OI AOR AOR  AOR AORT")

#: Functions that return a new schedule each time, by name.
#:
#: >>> len(MULTI_AGENT_SCHEDULES["turns"]())
#: 6
MULTI_AGENT_SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "only reset": lambda: scheduled("walker: O", "flyer: OI"),
    "nobody at the reset": lambda: scheduled("walker: . OR AOR", "flyer: . . O"),
    "nobody at all": lambda: scheduled("walker: . . ."),
    "one agent": lambda: scheduled("walker: O AOR AORI AOR"),
    "all step always": lambda: scheduled("walker: O AOR AOR AOR", "flyer: O AOR AOR AOR", "swimmer: O AOR AOR AOR"),
    "turns": lambda: scheduled("white: O AR OR A O AR O", "black: . O AR OR A O AR"),
    "every fourth step": lambda: scheduled("boss: O AR R R OR A . . O", "worker: O AOR AOR AOR AOR AOR AOR AOR AOR"),
    "hierarchy": lambda: scheduled(
        "planner: O AR R RI OR A R", "arm: . O AOR AOR . O AOR", "leg: . O AOR AOR . O AORT"
    ),
    "a late joiner": lambda: scheduled("walker: O AOR AOR AOR AOR", "flyer: . R RI OR AOR"),
    "gaps": lambda: scheduled("walker: O A . OR AOR . AR . O", "flyer: O AOR A . . . OR AOR A"),
    "idle agents": lambda: scheduled("walker: O R . AR OR R OI", "flyer: OI O OR AOR AOR AOR AOR"),
    "a death on another's turn": lambda: scheduled("white: O AR OR AR O", "black: . O AR RT ."),
    "deaths at different times": lambda: scheduled(
        "walker: O AORT . .", "flyer: O AOR AORX .", "swimmer: O AOR AOR AOR"
    ),
    "a death while idle": lambda: scheduled("walker: O AOR R RT .", "flyer: O AOR AOR AOR AOR"),
    "a repeated last observation": lambda: scheduled(
        "walker: O AOR AR RX .", "flyer: O AOR AOR AOR AOR", missing_final_observation="repeat"
    ),
    "rewards after the end": lambda: scheduled(
        "walker: O AOR AORT R R", "flyer: O AOR AOR AOR AOR", rewards_after_done="add"
    ),
    "all terminated": lambda: scheduled(_FIRST, _SECOND, "all: . . . . T"),
    "all truncated": lambda: scheduled(_FIRST.replace("T", ""), _SECOND.strip("T"), "all: . . . . X"),
    "terminated one by one": lambda: scheduled("walker: O AORT . .", "flyer: O AOR A T"),
    "truncated one by one": lambda: scheduled("walker: O AORX . .", "flyer: O AOR A OX"),
    "with extra outputs": lambda: scheduled(
        "white: O AR OR A O AR", "black: . O AR OR A O", extras=("logp", "logits", "state")
    ),
    "with custom data": lambda: scheduled(_FIRST, _SECOND, custom_data={"notes": ["a"], 5: {"x": np.arange(3)}}),
    "vectors in spaces": lambda: _in_space("vectors", "white: O AR OR AOR AR", "black: . O AR R OR"),
    "nested in spaces": lambda: _in_space("nested", "white: O AR OR AOR AR", "black: . O AR R ORT"),
    "nested without spaces": lambda: scheduled("white: O AR OR AOR AR", "black: . O AR R OR", kind="nested"),
    "mixed ids": lambda: _renamed(
        scheduled("a: O AR OR AOR A", "b: . O AR R OR", "c: O AOR AOR AORT .", "d: . . O AR O"),
        {"a": 0, "b": "0", "c": ("team", 1), "d": "team"},
    ),
}


def _growing(make: Callable[[], Schedule]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().stepped()


def _finalized(make: Callable[[], Schedule]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().stepped().finalize()


def _then_finalized(make: Callable[[], MultiAgentEpisode]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().finalize()


def _chunk(name: str, env_t: int, lookback: int) -> Callable[[], MultiAgentEpisode]:
    """Return a function for the chunk that starts with a cut at `env_t`."""

    def make() -> MultiAgentEpisode:
        schedule = MULTI_AGENT_SCHEDULES[name]()
        chunk = schedule.until(env_t).stepped().cut(lookback)
        for step in range(env_t + 1, len(schedule.log)):
            chunk.add_env_step(**schedule.entry(step))
        return chunk

    return make


_CHUNKS = {
    "chunk of turns": _chunk("turns", 3, 2),
    "chunk right after a cut": _chunk("turns", 6, 1),
    "chunk with a pending step that began before its lookback": _chunk("every fourth step", 6, 1),
    "chunk without an agent that has died": _chunk("deaths at different times", 2, 5),
    "chunk with extra outputs": _chunk("with extra outputs", 2, 2),
}

#: Functions that return a new multi-agent episode each time, by name; every kind also as `"finalized ..."`.
#:
#: >>> MULTI_AGENT_EPISODES["all terminated"]()
#: MultiAgentEpisode(len=4, agents=2, return=..., terminated, id_='schedule')
MULTI_AGENT_EPISODES: dict[str, Callable[[], MultiAgentEpisode]] = {
    "empty": lambda: MultiAgentEpisode("empty"),
    "finalized empty": lambda: MultiAgentEpisode("empty").finalize(),
    **{name: _growing(make) for name, make in MULTI_AGENT_SCHEDULES.items()},
    **{f"finalized {name}": _finalized(make) for name, make in MULTI_AGENT_SCHEDULES.items()},
    **_CHUNKS,
    **{f"finalized {name}": _then_finalized(make) for name, make in _CHUNKS.items()},
}
