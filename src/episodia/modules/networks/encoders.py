"""What the default networks make of observations first: convolutions for images, numbers and one-hot vectors for the rest."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from episodia.modules.networks.features import Features, flat_features, floats, leading_axes
from episodia.modules.networks.layers import HIDDEN_GAIN, convolution, linear

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
    if they are bytes. Two equal axes beside each other are height and width; where that does not decide it, there are no more
    channels than rows. Of stacked images, which have a fourth axis before or behind these, each channel of each frame is a
    channel. Bytes are scaled to [0, 1]: divided by the largest bound of their space, which is 255 for pixels. Classes become
    one-hot, all other numbers stay as they are. The vectors of all leaves are joined.

    Args:
        space: See `flat_features`.
        generator: Where the initial weights of convolutions come from; None takes torch's global generator.

    Raises:
        ModuleError: See `flat_features`.

    >>> space = spaces.Dict(screen=spaces.Box(0, 255, (84, 84, 3), np.uint8), speed=spaces.Box(-1.0, 1.0, (2,)))
    >>> encoder_for(space).num_features
    258
    """
    return flat_features(space, lambda box, path: _box_encoder(box, path, generator))


def _box_encoder(space: spaces.Box, path: str, generator: torch.Generator | None) -> Features:
    # Not always 255: of bytes that are flags or small counts hardly anything would be left.
    scale = 1.0 / max(int(space.high.max(initial=0)), 1) if space.dtype == np.uint8 else 1.0
    height = _height_axis(space)
    if height is not None:
        return ImageEncoder(space.shape, height, scale, path=path, generator=generator)
    plain = floats(space, path)
    return plain if scale == 1.0 else _Scaled(plain, scale)


def _height_axis(space: spaces.Box) -> int | None:
    """Return the axis of the rows of an image, right before that of its columns; None if `space` does not look like one."""
    shape = space.shape
    axes = [0] if len(shape) == 2 and space.dtype == np.uint8 else []
    if len(shape) in (3, 4):
        # Frames are stacked behind the axes of an image, or in front of them.
        starts = range(len(shape) - 2)
        axes = [start if _channels_last(shape[start : start + 3]) else start + 1 for start in starts]
    return next((axis for axis in axes if all(shape) and min(shape[axis : axis + 2]) >= _SMALLEST_SIDE), None)


def _channels_last(shape: tuple[int, ...]) -> bool:
    first, middle, last = shape
    # Boards are square, and may have more channels than rows; other images have more rows and columns than channels.
    if (first == middle) != (middle == last):
        return first == middle
    return last <= first


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
        height: The axis of its rows, right before that of its columns; all others are channels.
        scale: What pixels are multiplied by.
        path: Where the image is in an observation, for messages.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        height: int,
        scale: float,
        *,
        path: str,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._shape, self._scale, self._path = shape, scale, path
        channel_axes = [axis for axis in range(len(shape)) if axis not in (height, height + 1)]
        # With the axis of rows of the batch in front.
        self._order = (0, *(axis + 1 for axis in (*channel_axes, height, height + 1)))
        channels, sides = math.prod(shape[axis] for axis in channel_axes), shape[height : height + 2]
        self._size = (channels, *sides)
        layers: list[nn.Module] = []
        for filters in _LARGE if min(sides) >= _LARGE_SIDE else _SMALL:
            pair = (channels, filters.channels)
            layers += [convolution(pair, filters.kernel, filters.stride, filters.padding, generator), nn.ReLU()]
            channels = filters.channels
            sides = tuple((side + 2 * filters.padding - filters.kernel) // filters.stride + 1 for side in sides)
        self.convolutions = nn.Sequential(*layers)
        self.linear = linear(channels * math.prod(sides), _NUM_IMAGE_FEATURES, HIDDEN_GAIN, generator)
        self.num_features = _NUM_IMAGE_FEATURES

    def forward(self, observations: Tensor) -> Tensor:
        """Return `[..., num_features]`."""
        lead = leading_axes(observations, self._shape, self._path)
        images = observations.reshape((math.prod(lead), *self._shape)).to(self.dtype) * self._scale
        images = images.permute(self._order).reshape((len(images), *self._size))
        encoded = torch.relu(self.linear(self.convolutions(images).flatten(1)))
        return encoded.reshape((*lead, self.num_features))
