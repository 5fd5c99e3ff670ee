"""Named spaces and named episodes, over which laws are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.testing.episodes.multi_agent_strategies import ITEM_KINDS, Content
from episodia.testing.episodes.multi_agent_trajectory import MultiAgentTrajectory
from episodia.testing.episodes.trajectory import Trajectory

_UNIT_BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)

_BOXES: dict[str, Space[Any]] = {
    "box scalar float32": spaces.Box(-1.0, 1.0, (), np.float32),
    "box vector float32": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "box vector float64": spaces.Box(0.0, 10.0, (2,), np.float64),
    "box with a bound per element": spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64),
    "box matrix int64": spaces.Box(-5, 5, (2, 3), np.int64),
    "box image uint8": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "box bool": spaces.Box(0, 1, (2,), np.bool_),
    "box unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "box bounded below": spaces.Box(0.0, np.inf, (2,), np.float32),
    "box bounded above": spaces.Box(-np.inf, 0.0, (2,), np.float64),
    "box without elements": spaces.Box(0.0, 1.0, (0,), np.float32),
}

_DISCRETE: dict[str, Space[Any]] = {
    "discrete": spaces.Discrete(4),
    "discrete from 5": spaces.Discrete(3, start=5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-discrete matrix": spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    "multi-discrete from 1": spaces.MultiDiscrete([3, 2], start=[1, -1]),
    "multi-binary": spaces.MultiBinary(4),
    "multi-binary matrix": spaces.MultiBinary([2, 3]),
}

_NESTED: dict[str, Space[Any]] = {
    "dict": spaces.Dict({"camera": spaces.Box(0, 255, (2, 2), np.uint8), "speed": spaces.Box(-1.0, 1.0, ())}),
    "dict with integer keys": spaces.Dict({1: spaces.Discrete(3), 0: _UNIT_BOX}),  # type: ignore[dict-item]  # gymnasium allows them
    "dict with mixed keys": spaces.Dict({1: spaces.Discrete(3), "a": _UNIT_BOX}),  # type: ignore[dict-item]  # gymnasium allows them
    "tuple": spaces.Tuple([spaces.Discrete(3), _UNIT_BOX]),
    "deep": spaces.Dict(
        {
            "arm": spaces.Tuple([_UNIT_BOX, spaces.Dict({"grip": spaces.Discrete(2, start=1)})]),
            "base": spaces.Dict({"w": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([3, 3])])}),
        }
    ),
    "dict with text": spaces.Dict({"goal": spaces.Text(6), "position": _UNIT_BOX}),
}

_OBJECTS: dict[str, Space[Any]] = {
    "text": spaces.Text(8, charset="abcdef"),
    "sequence": spaces.Sequence(_UNIT_BOX),
    "sequence of dicts": spaces.Sequence(spaces.Dict({"x": _UNIT_BOX, "kind": spaces.Discrete(3)})),
    "sequence in stacks": spaces.Sequence(_UNIT_BOX, stack=True),
    "graph": spaces.Graph(_UNIT_BOX, spaces.Discrete(3)),
    "one of": spaces.OneOf([spaces.Discrete(3), _UNIT_BOX]),
}

#: Named spaces of every kind that gymnasium has: boxes of ranks 0 to 3 and several dtypes, discrete ones,
#: nested ones, and those whose items have no fixed shape.
SPACES: dict[str, Space[Any]] = {**_BOXES, **_DISCRETE, **_NESTED, **_OBJECTS}

_CART = (SPACES["box vector float32"], SPACES["discrete"])
_EXTRAS = {
    "action_logp": [-0.5, -1.5, -2.5, -3.5],
    "logits": [np.full(3, step, np.float32) for step in range(4)],
    "state": [{"h": np.full(2, step, np.float32), "c": (step, step + 1)} for step in range(4)],
}
_INFOS = [
    {"lives": 3},
    {},
    {"frame": np.arange(3), "history": [1, np.ones(2)]},
    {"deep": {"reason": "fell", "none": None}},
]


def _walk(steps: int, **fields: Any) -> Trajectory:
    return Trajectory.sampled(*_CART, steps, **fields)


def _in(name: str, **fields: Any) -> Trajectory:
    return Trajectory.sampled(SPACES[name], SPACES[name], 3, **fields)


_TRAJECTORIES: dict[str, Callable[[], Trajectory]] = {
    "only reset": lambda: _walk(0),
    "one step": lambda: _walk(1),
    "running": lambda: _walk(4),
    "terminated": lambda: _walk(4, terminated=True),
    "truncated": lambda: _walk(4, truncated=True),
    "terminated and truncated": lambda: _walk(4, terminated=True, truncated=True),
    "with lookback": lambda: _walk(5, lookback=2),
    "only lookback": lambda: _walk(3, lookback=3, t_started=3),
    "chunk in the middle": lambda: _walk(5, lookback=2, t_started=7),
    "last chunk": lambda: _walk(5, lookback=2, t_started=7, terminated=True),
    "with extra outputs": lambda: _walk(4, extra_model_outputs=_EXTRAS),
    "with extra outputs and lookback": lambda: _walk(4, extra_model_outputs=_EXTRAS, lookback=2, t_started=2),
    "with infos": lambda: _walk(3, infos=_INFOS),
    "with ids": lambda: _walk(3, id_="e1", agent_id="left", module_id="shared", multi_agent_episode_id="m1"),
    "with custom data": lambda: _walk(3, custom_data={"notes": ["a"], "counts": np.arange(3), 5: {"x": 1.5}}),
    "with weights versions": lambda: _walk(5, lookback=1, t_started=1, weights_versions={0: 3, 2: 4, 5: 6}),
    "without spaces": lambda: Trajectory(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0]),
    "in nested spaces": lambda: _in("deep", lookback=1, t_started=1),
    "in mixed dicts": lambda: _in("dict with mixed keys"),
    "in spaces with text": lambda: _in("dict with text", terminated=True),
    "in sequences": lambda: _in("sequence of dicts"),
    "in graphs": lambda: _in("graph"),
}


def _growing(make: Callable[[], Trajectory]) -> Callable[[], SingleAgentEpisode]:
    return lambda: make().built()


def _finalized(make: Callable[[], Trajectory]) -> Callable[[], SingleAgentEpisode]:
    return lambda: make().built().finalize()


#: Functions that return a new episode each time, by name; every kind of episode also as `"finalized ..."`.
#:
#: >>> EPISODES["terminated"]()
#: SingleAgentEpisode(len=4, return=..., terminated, id_='trajectory')
EPISODES: dict[str, Callable[[], SingleAgentEpisode]] = {
    "empty": SingleAgentEpisode,
    "finalized empty": lambda: SingleAgentEpisode().finalize(),
    **{name: _growing(make) for name, make in _TRAJECTORIES.items()},
    **{f"finalized {name}": _finalized(make) for name, make in _TRAJECTORIES.items()},
}


def pictured(*rows: str, kind: str = "numbers", extras: tuple[str, ...] = (), **fields: Any) -> MultiAgentTrajectory:
    """Return the trajectory that a picture shows: a row for each agent, a word for each environment step.

    The letters of a word say what happens to the agent: A it acts, O it is shown an observation, R it gets a reward,
    I an info, T it terminates, X it is truncated; a dot means nothing. The agent `"all"` ends everybody.

    Args:
        *rows: An agent's name, a colon, and its words, the first of which is the reset.
        kind: What observations and actions are made of, one of `ITEM_KINDS`.
        extras: Names of extra model outputs, given with each action.
        **fields: Any other field of a trajectory.

    >>> pictured("white: O AR OR", "black: . O  A").stepped()
    MultiAgentEpisode(len=2, agents=2, return=..., id_='trajectory')
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
    return MultiAgentTrajectory(log=log, **fields)


def _in_space(kind: str, *rows: str, **fields: Any) -> MultiAgentTrajectory:
    by_agent = {row.partition(":")[0]: ITEM_KINDS[kind] for row in rows}
    return pictured(*rows, kind=kind, observation_space=by_agent, action_space=by_agent, **fields)


def _renamed(trajectory: MultiAgentTrajectory, names: dict[Any, Any]) -> MultiAgentTrajectory:
    log = [
        {
            column: {names.get(agent, agent): value for agent, value in by_agent.items()}
            for column, by_agent in entry.items()
        }
        for entry in trajectory.log
    ]
    return MultiAgentTrajectory(log=log)


_FIRST, _SECOND = ("walker: O  AOR AORI AOR AOR", "flyer:  OI AOR AOR  AOR AORT")

#: Functions that return a new trajectory each time, by name.
#:
#: >>> len(MULTI_AGENT_TRAJECTORIES["turns"]())
#: 6
MULTI_AGENT_TRAJECTORIES: dict[str, Callable[[], MultiAgentTrajectory]] = {
    "only reset": lambda: pictured("walker: O", "flyer: OI"),
    "no agent at the reset": lambda: pictured("walker: . OR AOR", "flyer: . . O"),
    "no agent at all": lambda: pictured("walker: . . ."),
    "one agent": lambda: pictured("walker: O AOR AORI AOR"),
    "all step always": lambda: pictured("walker: O AOR AOR AOR", "flyer: O AOR AOR AOR", "swimmer: O AOR AOR AOR"),
    "turns": lambda: pictured("white: O AR OR A O AR O", "black: . O AR OR A O AR"),
    "every fourth step": lambda: pictured("boss: O AR R R OR A . . O", "worker: O AOR AOR AOR AOR AOR AOR AOR AOR"),
    "hierarchy": lambda: pictured("planner: O AR R RI OR A R", "arm: . O AOR AOR . O AOR", "leg: . O AOR AOR . O AORT"),
    "a late joiner": lambda: pictured("walker: O AOR AOR AOR AOR", "flyer: . R RI OR AOR"),
    "gaps": lambda: pictured("walker: O A . OR AOR . AR . O", "flyer: O AOR A . . . OR AOR A"),
    "idle agents": lambda: pictured("walker: O R . AR OR R OI", "flyer: OI O OR AOR AOR AOR AOR"),
    "a death on another's turn": lambda: pictured("white: O AR OR AR O", "black: . O AR RT ."),
    "deaths at different times": lambda: pictured(
        "walker: O AORT . .", "flyer: O AOR AORX .", "swimmer: O AOR AOR AOR"
    ),
    "a death while idle": lambda: pictured("walker: O AOR R RT .", "flyer: O AOR AOR AOR AOR"),
    "a repeated last observation": lambda: pictured(
        "walker: O AOR AR RX .", "flyer: O AOR AOR AOR AOR", missing_final_observation="repeat"
    ),
    "rewards after the end": lambda: pictured(
        "walker: O AOR AORT R R", "flyer: O AOR AOR AOR AOR", rewards_after_done="add"
    ),
    "all terminated": lambda: pictured(_FIRST, _SECOND, "all: . . . . T"),
    "all truncated": lambda: pictured(_FIRST.replace("T", ""), _SECOND.strip("T"), "all: . . . . X"),
    "terminated one by one": lambda: pictured("walker: O AORT . .", "flyer: O AOR A T"),
    "truncated one by one": lambda: pictured("walker: O AORX . .", "flyer: O AOR A OX"),
    "with extra outputs": lambda: pictured(
        "white: O AR OR A O AR", "black: . O AR OR A O", extras=("logp", "logits", "state")
    ),
    "with custom data": lambda: pictured(_FIRST, _SECOND, custom_data={"notes": ["a"], 5: {"x": np.arange(3)}}),
    "vectors in spaces": lambda: _in_space("vectors", "white: O AR OR AOR AR", "black: . O AR R OR"),
    "nested in spaces": lambda: _in_space("nested", "white: O AR OR AOR AR", "black: . O AR R ORT"),
    "nested without spaces": lambda: pictured("white: O AR OR AOR AR", "black: . O AR R OR", kind="nested"),
    "mixed ids": lambda: _renamed(
        pictured("a: O AR OR AOR A", "b: . O AR R OR", "c: O AOR AOR AORT .", "d: . . O AR O"),
        {"a": 0, "b": "0", "c": ("team", 1), "d": "team"},
    ),
}


def _stepped(make: Callable[[], MultiAgentTrajectory]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().stepped()


def _stepped_and_finalized(make: Callable[[], MultiAgentTrajectory]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().stepped().finalize()


def _then_finalized(make: Callable[[], MultiAgentEpisode]) -> Callable[[], MultiAgentEpisode]:
    return lambda: make().finalize()


def _chunk(name: str, env_t: int, lookback: int) -> Callable[[], MultiAgentEpisode]:
    """Return a function for the chunk that starts with a cut at `env_t`."""

    def make() -> MultiAgentEpisode:
        trajectory = MULTI_AGENT_TRAJECTORIES[name]()
        chunk = trajectory.until(env_t).stepped().cut(lookback)
        for step in range(env_t + 1, len(trajectory.log)):
            chunk.add_env_step(**trajectory.entry(step))
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
#: MultiAgentEpisode(len=4, agents=2, return=..., terminated, id_='trajectory')
MULTI_AGENT_EPISODES: dict[str, Callable[[], MultiAgentEpisode]] = {
    "empty": lambda: MultiAgentEpisode("empty"),
    "finalized empty": lambda: MultiAgentEpisode("empty").finalize(),
    **{name: _stepped(make) for name, make in MULTI_AGENT_TRAJECTORIES.items()},
    **{f"finalized {name}": _stepped_and_finalized(make) for name, make in MULTI_AGENT_TRAJECTORIES.items()},
    **_CHUNKS,
    **{f"finalized {name}": _then_finalized(make) for name, make in _CHUNKS.items()},
}
