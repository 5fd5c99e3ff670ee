"""What the default networks make of observations first: convolutions for images, numbers and one-hot vectors for the rest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from episodia.modules.features import Features, flat_features, floats, leading_axes
from episodia.modules.layers import HIDDEN_GAIN, convolution, linear

# The smallest side of an image that is convolved; smaller ones are as well off as plain numbers.
_SMALLEST_SIDE = 8
_NUM_IMAGE_FEATURES = 256


class _Filters(NamedTuple):
    channels: int
    kernel: int
    stride: int
    padding: int


# From this side on, the filters that are usual for screens of games; below, small ones.
_LARGE_SIDE = 36
_LARGE = (_Filters(32, 8, 4, 0), _Filters(64, 4, 2, 0), _Filters(64, 3, 1, 0))
_SMALL = (_Filters(16, 3, 2, 1), _Filters(32, 3, 2, 1))


def encoder_for(space: Space[Any], generator: torch.Generator | None = None) -> Features:
    """Return what turns batches of observations into vectors, with an encoder for each leaf of `space`.

    Images, `[height, width, channels]` or `[channels, height, width]`, go through convolutions: Boxes of three axes, or of two
    if they are bytes. Bytes are scaled to [0, 1]. Classes become one-hot, all other numbers stay as they are. The vectors of
    all leaves are joined.

    Args:
        space: See `flat_features`.
        generator: Where the initial weights of convolutions come from; None takes torch's global generator.

    Raises:
        ModuleError: For spaces whose observations have no fixed size.

    >>> space = spaces.Dict(screen=spaces.Box(0, 255, (84, 84, 3), np.uint8), speed=spaces.Box(-1.0, 1.0, (2,)))
    >>> encoder_for(space).num_features
    258
    """
    return flat_features(space, lambda box, path: _box_encoder(box, path, generator))


def _box_encoder(space: spaces.Box, path: str, generator: torch.Generator | None) -> Features:
    scale = 1.0 / 255.0 if space.dtype == np.uint8 else 1.0
    size = _image_size(space)
    if size is not None:
        return ImageEncoder(space.shape, size, scale, path=path, generator=generator)
    plain = floats(space, path)
    return plain if scale == 1.0 else _Scaled(plain, scale)


class _ImageSize(NamedTuple):
    channels: int
    height: int
    width: int


def _image_size(space: spaces.Box) -> _ImageSize | None:
    """Return the size of an image; None if `space` does not look like one."""
    shape = space.shape
    if len(shape) == 2 and space.dtype == np.uint8:
        size = _ImageSize(1, *shape)
    elif len(shape) == 3:
        size = _ImageSize(shape[2], *shape[:2]) if _channels_last(shape) else _ImageSize(*shape)
    else:
        return None
    return size if min(size.height, size.width) >= _SMALLEST_SIDE and size.channels else None


def _channels_last(shape: tuple[int, ...]) -> bool:
    # Images have more rows and columns than channels.
    return len(shape) == 3 and shape[2] <= shape[0]


@final
class _Scaled(Features):
    """Numbers, multiplied by one number."""

    def __init__(self, features: Features, scale: float) -> None:
        super().__init__()
        self.features = features
        self._scale = scale
        self.num_features = features.num_features

    def forward(self, observations: Tensor) -> Tensor:
        scaled: Tensor = self.features(observations) * self._scale
        return scaled


@final
class ImageEncoder(Features):
    """Convolutions, then one linear layer, with ReLU after each.

    Args:
        shape: The shape of an image.
        size: Its channels, height and width.
        scale: What pixels are multiplied by.
        path: Where the image is in an observation, for messages.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        size: tuple[int, int, int],
        scale: float,
        *,
        path: str,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._shape, self._scale, self._path = shape, scale, path
        channels, *sides = size
        layers: list[nn.Module] = []
        for filters in _LARGE if min(sides) >= _LARGE_SIDE else _SMALL:
            pair = (channels, filters.channels)
            layers += [convolution(pair, filters.kernel, filters.stride, filters.padding, generator), nn.ReLU()]
            channels = filters.channels
            sides = [(side + 2 * filters.padding - filters.kernel) // filters.stride + 1 for side in sides]
        self.convolutions = nn.Sequential(*layers)
        self.linear = linear(channels * math.prod(sides), _NUM_IMAGE_FEATURES, HIDDEN_GAIN, generator)
        self.num_features = _NUM_IMAGE_FEATURES

    def forward(self, observations: Tensor) -> Tensor:
        """Return `[..., num_features]`."""
        lead = leading_axes(observations, self._shape, self._path)
        images = observations.reshape((math.prod(lead), *self._shape)).float() * self._scale
        if len(self._shape) == 2:
            images = images.unsqueeze(1)
        elif _channels_last(self._shape):
            images = images.permute(0, 3, 1, 2)
        encoded = torch.relu(self.linear(self.convolutions(images).flatten(1)))
        return encoded.reshape((*lead, self.num_features))
