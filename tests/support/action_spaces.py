"""For tests of action distributions: supported spaces by name, and what torch.distributions says about them."""

import itertools

import numpy as np
import torch
from gymnasium import spaces
from torch import distributions as td

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)

FINITE = {
    "discrete": spaces.Discrete(4),
    "one action": spaces.Discrete(1),
    "discrete from 5": spaces.Discrete(3, start=5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-discrete of one size": spaces.MultiDiscrete([3, 3]),
    "multi-discrete matrix": spaces.MultiDiscrete(np.array([[2, 3], [1, 2]])),
    "multi-discrete from 1": spaces.MultiDiscrete([3, 2], start=[1, -1]),
    "multi-binary": spaces.MultiBinary(3),
    "multi-binary matrix": spaces.MultiBinary([2, 2]),
    "tuple": spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiBinary(2)]),
    "dict": spaces.Dict(a=spaces.MultiDiscrete([2, 3]), b=spaces.Discrete(2)),
}

CONTINUOUS = {
    "box": BOX,
    "box scalar": spaces.Box(-1.0, 1.0, (), np.float32),
    "box matrix float64": spaces.Box(0.0, 10.0, (2, 3), np.float64),
    "box unbounded": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "box bounded below": spaces.Box(0.0, np.inf, (1,), np.float32),
    "box without elements": spaces.Box(0.0, 1.0, (0,), np.float32),
    "dict with integer keys": spaces.Dict({1: spaces.Discrete(3), 0: BOX}),
    "deep": spaces.Dict(
        arm=spaces.Tuple([BOX, spaces.Dict(grip=spaces.Discrete(2, start=1))]),
        base=spaces.Dict(w=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([3, 2])])),
    ),
}

ACTION_SPACES = {**FINITE, **CONTINUOUS}

UNSUPPORTED = {
    "text": spaces.Text(8),
    "sequence": spaces.Sequence(BOX),
    "graph": spaces.Graph(BOX, None),
    "one of": spaces.OneOf([spaces.Discrete(3), BOX]),
    "box of integers": spaces.Box(-5, 5, (2,), np.int64),
    "box of bytes": spaces.Box(0, 255, (2,), np.uint8),
    "box bool": spaces.Box(0, 1, (2,), np.bool_),
    "empty dict": spaces.Dict({}),
    "empty tuple": spaces.Tuple([]),
}


def all_actions(space):
    """Return all actions of a finite space as one batch."""
    if isinstance(space, spaces.Discrete):
        return torch.arange(space.start, space.start + space.n)
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape).ravel()
        ranges = [range(s, s + n) for s, n in zip(starts, space.nvec.ravel(), strict=True)]
        return torch.tensor(list(itertools.product(*ranges))).reshape(-1, *space.nvec.shape)
    if isinstance(space, spaces.MultiBinary):
        bits = itertools.product((0, 1), repeat=int(np.prod(space.shape)))
        return torch.tensor(list(bits), dtype=torch.int8).reshape(-1, *space.shape)
    children = list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)
    parts = [all_actions(child) for child in children]
    rows = torch.tensor(list(itertools.product(*(range(len(part)) for part in parts))))
    chosen = [part[rows[:, index]] for index, part in enumerate(parts)]
    return dict(zip(space.spaces, chosen, strict=True)) if isinstance(space, spaces.Dict) else tuple(chosen)


def torch_leaves(space, inputs, actions=None):
    """Return pairs of a torch.distributions object and its values, one for each leaf; inputs are used up in order."""
    leaves = []
    rest = _collect(space, inputs, actions, leaves)
    assert rest.shape[-1] == 0
    return leaves


def _collect(space, inputs, actions, leaves):
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            inputs = _collect(child, inputs, None if actions is None else actions[key], leaves)
        return inputs
    if isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            inputs = _collect(child, inputs, None if actions is None else actions[index], leaves)
        return inputs
    return _leaf(space, inputs, actions, leaves)


def _leaf(space, inputs, actions, leaves):
    axes = inputs.dim() - 1
    flat = None if actions is None else actions.reshape(*actions.shape[:axes], int(np.prod(space.shape)))
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        normal = td.Normal(inputs[..., :size], inputs[..., size : 2 * size].exp(), validate_args=False)
        leaves.append((td.Independent(normal, 1, validate_args=False), None if flat is None else flat.to(inputs.dtype)))
        return inputs[..., 2 * size :]
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        bernoulli = td.Independent(td.Bernoulli(logits=inputs[..., :size]), 1)
        leaves.append((bernoulli, None if flat is None else flat.to(inputs.dtype)))
        return inputs[..., size:]
    starts = np.broadcast_to(space.start, space.shape).ravel()
    sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
    for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        value = None if flat is None else flat[..., index] - int(start)
        leaves.append((td.Categorical(logits=inputs[..., : int(size)]), value))
        inputs = inputs[..., int(size) :]
    return inputs


def leaf_tensors(actions):
    """Return the tensors of nested actions."""
    if isinstance(actions, dict):
        return [leaf for part in actions.values() for leaf in leaf_tensors(part)]
    if isinstance(actions, tuple):
        return [leaf for part in actions for leaf in leaf_tensors(part)]
    return [actions]


def rows_of(actions):
    """Return nested batches `[B, ...]` as a list of items with NumPy leaves."""
    if isinstance(actions, dict):
        columns = [rows_of(part) for part in actions.values()]
        return [dict(zip(actions, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(actions, tuple):
        return list(zip(*map(rows_of, actions), strict=True))
    return list(actions.numpy())
