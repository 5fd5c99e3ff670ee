"""RLlib's interfaces of modules beside values, and the helpers with which such modules are built."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn

NetworkType: TypeAlias = nn.Module
TARGET_NETWORK_ACTION_DIST_INPUTS = "target_network_action_dist_inputs"
# Close to the smallest and the largest float32, for masks of actions.
FLOAT_MIN, FLOAT_MAX = -3.4e38, 3.4e38


class InferenceOnlyAPI(ABC):
    """A module that names what acting does not need. Nothing here asks for it: runners use the whole module."""

    @abstractmethod
    def get_non_inference_attributes(self) -> list[str]:
        """Return the names of the attributes that acting does not need."""


class TargetNetworkAPI(ABC):
    """A module with target networks for a loss of its own; the learners of episodia keep target networks themselves."""

    @abstractmethod
    def make_target_networks(self) -> None:
        """Make the target networks, see `make_target_network`."""

    @abstractmethod
    def get_target_network_pairs(self) -> list[tuple[NetworkType, NetworkType]]:
        """Return each network with its target network."""

    @abstractmethod
    def forward_target(self, batch: dict[str, Any]) -> Any:
        """Return what the target networks make of `batch`."""


def make_target_network(main_net: NetworkType) -> NetworkType:
    """Return a copy of a network whose weights get no gradients."""
    return copy.deepcopy(main_net).requires_grad_(False)


def normc_initializer(std: float = 1.0) -> Callable[[torch.Tensor], None]:
    """Return a function that fills the weights of a layer with normal numbers; those of each output have the norm `std`.

    >>> weights = torch.empty(2, 9)
    >>> normc_initializer(0.5)(weights)
    >>> [round(float(row.norm()), 3) for row in weights]
    [0.5, 0.5]
    """

    def initialize(tensor: torch.Tensor) -> None:
        with torch.no_grad():
            tensor.normal_()
            tensor *= std / tensor.norm(dim=1, keepdim=True)

    return initialize


def same_padding(
    in_size: tuple[int, int], filter_size: int | tuple[int, int], stride_size: int | tuple[int, int]
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Return the padding `(left, right, top, bottom)` of an image, and the size of the output, the input by the stride.

    >>> same_padding((42, 42), 4, 2)
    ((1, 1, 1, 1), (21, 21))
    """
    padding, sizes = [], []
    for size, width, stride in zip(in_size, _pair(filter_size), _pair(stride_size), strict=True):
        count = -(-size // stride)
        missing = max((count - 1) * stride + width - size, 0)
        padding.append((missing // 2, missing - missing // 2))
        sizes.append(count)
    (top, bottom), (left, right) = padding
    return (left, right, top, bottom), (sizes[0], sizes[1])


def valid_padding(
    in_size: tuple[int, int], filter_size: int | tuple[int, int], stride_size: int | tuple[int, int]
) -> tuple[int, int]:
    """Return the size of the output of a convolution without padding.

    >>> valid_padding((42, 42), 4, 2)
    (20, 20)
    """
    height, width = (
        -(-(size - reach + 1) // stride)
        for size, reach, stride in zip(in_size, _pair(filter_size), _pair(stride_size), strict=True)
    )
    return height, width


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])
