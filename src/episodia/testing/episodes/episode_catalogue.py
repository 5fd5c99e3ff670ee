"""Named spaces and named episodes, over which laws are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.episodes import SingleAgentEpisode
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
