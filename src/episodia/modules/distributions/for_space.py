"""The distribution of each action space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces

from episodia.arguments import checked_flag
from episodia.errors import ModuleError
from episodia.modules.distributions.action_distribution import DistributionSpec
from episodia.modules.distributions.bernoulli import BernoulliSpec
from episodia.modules.distributions.categorical import CategoricalSpec
from episodia.modules.distributions.gaussian import GaussianSpec
from episodia.modules.distributions.multi_categorical import MultiCategoricalSpec
from episodia.modules.distributions.nested import NestedSpec
from episodia.modules.distributions.squashed_gaussian import SquashedGaussianSpec
from episodia.spaces import short_name


def dist_for(space: Space[Any], *, squashed: bool = False) -> DistributionSpec:
    """Return the spec that makes action distributions for `space` of a module's outputs.

    Args:
        space: Discrete, MultiDiscrete, MultiBinary, a Box of floats, or a Dict or Tuple of these, to any depth.
        squashed: For Boxes, which then need bounds and full precision: a Gaussian squashed by tanh, see
            `SquashedGaussianSpec`.

    Raises:
        ModuleError: For any other space, or if `squashed` is not a bool.

    >>> spec = dist_for(spaces.Discrete(3, start=1))
    >>> distribution = spec.from_logits(torch.tensor([[0.0, 0.0, 9.0]]), action_mask=torch.tensor([[1, 1, 0]]))
    >>> distribution.mode(), distribution.entropy()
    (tensor([1]), tensor([0.6931]))
    """
    return _spec(space, "action_space", checked_flag(ModuleError, "action distribution", "squashed", squashed))


def _spec(space: Space[Any], path: str, squashed: bool) -> DistributionSpec:
    if isinstance(space, spaces.Discrete):
        return CategoricalSpec(int(space.n), int(space.start), _torch_dtype(space, path))
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape)
        return MultiCategoricalSpec(
            _integers(space.nvec), _integers(starts), space.nvec.shape, _torch_dtype(space, path)
        )
    if isinstance(space, spaces.MultiBinary):
        return BernoulliSpec(tuple(space.shape), _torch_dtype(space, path))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box_spec(space, path, squashed)
    if isinstance(space, spaces.Dict) and space.spaces:
        parts = tuple(_spec(child, f"{path}[{key!r}]", squashed) for key, child in space.spaces.items())
        return NestedSpec(parts, tuple(space.spaces))
    if isinstance(space, spaces.Tuple) and space.spaces:
        return NestedSpec(tuple(_spec(child, f"{path}[{index}]", squashed) for index, child in enumerate(space.spaces)))
    raise _unsupported(space, path)


def _box_spec(space: spaces.Box, path: str, squashed: bool) -> DistributionSpec:
    if not squashed:
        return GaussianSpec(space.shape, _torch_dtype(space, path))
    if not space.is_bounded():
        raise ModuleError(
            f"{path}: found {short_name(space)}, which has no bounds at some sides, expected a bounded Box for `squashed`. "
            "Give the space bounds, or use the Gaussian without them, `squashed=False`."
        )
    if space.dtype == np.float16:
        raise ModuleError(
            f"{path}: found {short_name(space)}, expected float32 or float64 for `squashed`: many actions would be "
            "rounded to the bounds, and their log-probabilities would not be theirs. Give the space another dtype, or use the "
            "Gaussian without bounds, `squashed=False`."
        )
    return SquashedGaussianSpec(space.shape, _torch_dtype(space, path))


def _integers(array: np.ndarray) -> tuple[int, ...]:
    return tuple(map(int, array.ravel()))


def _torch_dtype(space: Space[Any], path: str) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, space.dtype)).dtype
    except TypeError as error:
        raise ModuleError(
            f"{path}: found {short_name(space)}, whose dtype {space.dtype} torch does not have; expected float32, float64 or "
            "another one of torch's. Give the space such a dtype."
        ) from error


def _unsupported(space: Space[Any], path: str) -> ModuleError:
    remedy = "Use one of these, or write a module that returns `actions` itself."
    if isinstance(space, spaces.Box):
        remedy = "For whole numbers, use MultiDiscrete(nvec, start=low)."
    return ModuleError(
        f"{path}: found {short_name(space)}, for which there is no action distribution; expected Discrete, MultiDiscrete, "
        f"MultiBinary, a Box of floats, or a Dict or Tuple with at least one of these. {remedy}"
    )
