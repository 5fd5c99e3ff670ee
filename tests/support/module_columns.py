"""For tests of pieces between module and environment: action spaces, batches of actions, modules that do nothing."""

import numpy as np
from gymnasium import spaces

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.modules import dist_for

UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)

#: Bounds of all kinds, per element.
UNEVEN = spaces.Box(
    np.array([-2.0, 0.0, -np.inf, -np.inf], np.float64),
    np.array([2.0, np.inf, 3.0, np.inf], np.float64),
    dtype=np.float64,
)

BOXES = {
    "unit": UNIT,
    "scalar": spaces.Box(0.0, 10.0, (), np.float32),
    "matrix float64": spaces.Box(-3.0, 1.0, (2, 3), np.float64),
    "uneven": UNEVEN,
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "huge": spaces.Box(-3e38, 3e38, (2,), np.float32),
    "empty": spaces.Box(0.0, 1.0, (0,), np.float32),
}

WHOLE_BOXES = {
    "int64": spaces.Box(-5, 5, (2,), np.int64),
    "uint8": spaces.Box(10, 255, (3,), np.uint8),
    "bool": spaces.Box(0, 1, (2,), np.bool_),
    "unbounded int64": spaces.Box(-np.inf, np.inf, (2,), np.int64),
}

DISCRETE = {
    "discrete": spaces.Discrete(4),
    "discrete from 5": spaces.Discrete(3, start=5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-discrete matrix": spaces.MultiDiscrete(np.array([[2, 3], [1, 2]])),
    "multi-discrete from 1": spaces.MultiDiscrete([3, 2], start=[1, -1]),
    "multi-binary": spaces.MultiBinary(3),
}

NESTED = {
    "tuple": spaces.Tuple([spaces.Discrete(3, start=1), UNIT]),
    "deep": spaces.Dict(
        arm=spaces.Tuple([spaces.Box(0.0, 4.0, (2,), np.float32), spaces.Dict(grip=spaces.Discrete(2, start=1))]),
        base=spaces.Dict(w=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([3, 2])])),
    ),
}

#: All that modules of this library can act in.
ACTION_SPACES = {**BOXES, **DISCRETE, **NESTED}


class Acting:
    """A module that knows its action space and does nothing else."""

    observation_space = None

    def __init__(self, action_space, stateful=False):
        self.action_space = action_space
        self.distribution = None if action_space is None else dist_for(action_space)
        self.stateful = stateful

    def get_inference_action_dist_cls(self):
        return self.distribution

    get_exploration_action_dist_cls = get_inference_action_dist_cls

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return self.stateful


def leaf_spaces(space):
    """Return the leaves of a space in order."""
    if isinstance(space, spaces.Dict):
        return [leaf for child in space.spaces.values() for leaf in leaf_spaces(child)]
    if isinstance(space, spaces.Tuple):
        return [leaf for child in space.spaces for leaf in leaf_spaces(child)]
    return [space]


def leaves_of(batch):
    """Return the leaves of a nested batch or item in order."""
    if isinstance(batch, dict):
        return [leaf for part in batch.values() for leaf in leaves_of(part)]
    if isinstance(batch, tuple):
        return [leaf for part in batch for leaf in leaves_of(part)]
    return [batch]


def batch_of(space, leaf_batch):
    """Return a batch nested as `space`, made by `leaf_batch(leaf space)`."""
    if isinstance(space, spaces.Dict):
        return {key: batch_of(child, leaf_batch) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch_of(child, leaf_batch) for child in space.spaces)
    return leaf_batch(space)


def module_actions(space, rows, seed=0):
    """Return actions as a module puts them out: real ones around 0 and beyond 1, all others from their space."""
    rng = np.random.default_rng(seed)
    space.seed(seed)

    def leaf_batch(leaf):
        if isinstance(leaf, spaces.Box) and np.dtype(leaf.dtype).kind == "f":
            return (1.5 * rng.standard_normal((rows, *leaf.shape))).astype(leaf.dtype)
        return np.array([leaf.sample() for _ in range(rows)], leaf.dtype).reshape(rows, *leaf.shape)

    for leaf in leaf_spaces(space):
        leaf.seed(seed)
    return batch_of(space, leaf_batch)


def row(batch, index):
    """Return one row of a nested batch."""
    if isinstance(batch, dict):
        return {key: row(part, index) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row(part, index) for part in batch)
    return batch[index, ...]


def same(left, right):
    """Tell whether nested arrays have the same nesting, dtypes and values."""
    pairs = list(zip(leaves_of(left), leaves_of(right), strict=True))
    return all(np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b) for a, b in pairs)


def started(observation, **kwargs):
    """Return an episode that begins with `observation`."""
    episode = SingleAgentEpisode(**kwargs)
    episode.add_env_reset(observation)
    return episode


def started_match(id_, observations, module="shared"):
    """Return a multi-agent episode that begins with `observations`, all agents served by one module."""
    match = MultiAgentEpisode(id_, agent_to_module_mapping_fn=lambda *_, **__: module)
    match.add_env_reset(observations=observations)
    return match
