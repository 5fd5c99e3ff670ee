"""Encoders of observations: numbers and one-hot vectors, joined to one flat vector per row, and convolutions for images.

The order of parts is that of `gymnasium.spaces.flatten`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from episodia.errors import ModuleError
from episodia.modules.distributions.action_distribution import describe
from episodia.modules.networks.layers import HIDDEN_GAIN, convolution, linear
from episodia.spaces import short_name
from episodia.types import Item

# One-hot vectors of more classes than this would fill the memory with zeros.
_MOST_CLASSES = 2**22


def flat_features(space: Space[Any] | None, box: _MakeBoxFeatures | None = None) -> Features:
    """Return the features that turn batches of observations of `space` into `[..., num_features]`.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these, to any depth.
        box: Called with a Box and its path, returns its features; None takes the plain numbers.

    Raises:
        ModuleError: For spaces whose observations have no fixed size, or no elements at all.

    >>> features = flat_features(spaces.Dict(room=spaces.Discrete(3, start=1), speed=spaces.Box(-1.0, 1.0, (2,))))
    >>> features({"room": torch.tensor([3]), "speed": torch.tensor([[0.5, -0.5]])})
    tensor([[ 0.0000,  0.0000,  1.0000,  0.5000, -0.5000]])
    """
    features = _features(space, "observation_space", box or floats)
    if not features.num_features:
        raise ModuleError(
            f"observation_space: found {space}, whose observations have no elements, expected some. Write your own module, "
            "or extend the observation space."
        )
    return features


class Features(nn.Module):
    """Turns observations into flat vectors. `num_features` is their length, and `dtype` that of the weights above."""

    num_features: int

    def __init__(self) -> None:
        super().__init__()
        self.dtype = torch.get_default_dtype()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # Most features have no weights, so the dtype is tracked here.
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch gives it no types


_MakeBoxFeatures = Callable[[spaces.Box, str], Features]


def floats(space: spaces.Box, path: str) -> Features:
    """Return features that are the plain numbers of `space`."""
    return _Floats(path, tuple(space.shape))


def _features(space: Space[Any] | None, path: str, box: _MakeBoxFeatures) -> Features:
    if isinstance(space, spaces.Dict):
        children = {key: _features(child, f"{path}[{key!r}]", box) for key, child in space.spaces.items()}
        return _Joined(path, list(children), list(children.values()))
    if isinstance(space, spaces.Tuple):
        parts = [_features(child, f"{path}[{index}]", box) for index, child in enumerate(space.spaces)]
        return _Joined(path, list(range(len(parts))), parts)
    if isinstance(space, spaces.Discrete):
        return _OneHot(path, (), [(int(space.start), int(space.n))])
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape).ravel().tolist()
        return _OneHot(path, space.nvec.shape, list(zip(starts, space.nvec.ravel().tolist(), strict=True)))
    if isinstance(space, spaces.Box):
        return box(space, path)
    if isinstance(space, spaces.MultiBinary):
        return _Floats(path, tuple(space.shape))
    found = "no space" if space is None else short_name(space)
    raise ModuleError(
        f"{path}: found {found}, expected Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these. "
        "Preprocess such observations with a connector, or write a module of your own."
    )


@final
class _Floats(Features):
    """Numbers as they are; images are not scaled."""

    def __init__(self, path: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        self._path = path
        self._shape = shape
        self._flat_shape = shape if len(shape) == 1 else None
        self.num_features = math.prod(shape)

    def forward(self, observations: Tensor) -> Tensor:
        # Objects other than tensors may lack a dtype; `_leading_axes` rejects them.
        if getattr(observations, "dtype", None) is self.dtype and observations.shape[-1:] == self._flat_shape:
            return observations
        lead = _leading_axes(observations, self._shape, self._path)
        return observations.reshape((*lead, self.num_features)).to(self.dtype)


@final
class _OneHot(Features):
    """One-hot vectors, one after another for several choices."""

    def __init__(self, path: str, shape: tuple[int, ...], choices: list[tuple[int, int]]) -> None:
        super().__init__()
        self._path = path
        self._shape = shape
        self.num_features = sum(size for _, size in choices)
        if self.num_features > _MOST_CLASSES:
            raise ModuleError(
                f"{path}: found {self.num_features:,} classes, expected at most {_MOST_CLASSES:,}: each of them is a number "
                "in a one-hot vector. Write your own module, for example with an `nn.Embedding`, or encode them in a "
                "connector."
            )
        starts, sizes = np.array(choices, np.int64).reshape(-1, 2).T
        # NumPy, since on the meta device torch would load half a second of code for this.
        sources = np.arange(len(sizes)).repeat(sizes)
        firsts = sizes.cumsum() - sizes
        values = np.arange(self.num_features) + (starts - firsts)[sources]
        # Buffers follow the module to its device; these are not saved.
        self.register_buffer("sources", torch.as_tensor(sources), persistent=False)
        self.register_buffer("values", torch.as_tensor(values), persistent=False)

    sources: Tensor  # for each feature: which choice it is about
    values: Tensor  # for each feature: which value it stands for

    def forward(self, observations: Tensor) -> Tensor:
        lead = _leading_axes(observations, self._shape, self._path)
        if observations.dtype.is_floating_point:
            raise ModuleError(
                f"{self._path}: found observations {describe(observations)}, expected integers. If a connector makes them "
                "one-hot, build the module with the observation space of the pipeline."
            )
        flat = observations.reshape((*lead, math.prod(self._shape)))
        # A comparison, unlike an index, gives zeros for padding that is outside of the space.
        return (flat.index_select(-1, self.sources) == self.values).to(self.dtype)


@final
class _Joined(Features):
    """The features of all parts, one after another."""

    def __init__(self, path: str, keys: list[Any], parts: list[Features]) -> None:
        super().__init__()
        self._path = path
        self._keys = keys
        self.parts = nn.ModuleList(parts)
        self.num_features = sum(part.num_features for part in parts)

    def forward(self, observations: Item) -> Tensor:
        if isinstance(observations, Tensor):  # which has rows where a tuple has parts
            raise self._other_nesting(observations)
        try:
            found = [observations[key] for key in self._keys]
        except (KeyError, IndexError, TypeError):
            raise self._other_nesting(observations) from None
        parts: Any = self._modules["parts"]
        return torch.cat([part(observation) for part, observation in zip(parts, found, strict=True)], -1)

    def _other_nesting(self, observations: Any) -> ModuleError:
        return ModuleError(
            f"{self._path}: found observations {describe(observations)}, expected a dict or a tuple with {self._keys}. Nest "
            "them as the observation space is nested."
        )


def _leading_axes(observations: Item, shape: tuple[int, ...], path: str) -> torch.Size:
    """Return the axes before those of one observation, whose shape must be `shape`."""
    axes = observations.dim() - len(shape) if isinstance(observations, Tensor) else -1
    if axes < 0 or observations.shape[axes:] != shape:
        raise ModuleError(
            f"{path}: found observations {describe(observations)}, expected a tensor [..., {', '.join(map(str, shape))}]. "
            "Build the module with the observation space of the pipeline in front of it, which makes tensors."
        )
    lead: torch.Size = observations.shape[:axes]
    return lead


# --- Images ---------------------------------------------------------------------------------------------------------

# The smallest side of an image that is convolved; smaller ones are taken as plain numbers.
_SMALLEST_SIDE = 8
_NUM_IMAGE_FEATURES = 256


class _Filters(NamedTuple):
    channels: int
    kernel: int
    stride: int
    padding: int


# From this side on, the usual filters for screens of games; below, small ones.
_LARGE_SIDE = 36
_LARGE = (_Filters(32, 8, 4, 0), _Filters(64, 4, 2, 0), _Filters(64, 3, 1, 0))
_SMALL = (_Filters(16, 3, 2, 1), _Filters(32, 3, 2, 1))


def encoder_for(space: Space[Any], generator: torch.Generator | None = None) -> Features:
    """Return an encoder of batches of observations into vectors, with a part for each leaf of `space`.

    Images, `[height, width, channels]` or `[channels, height, width]`, go through convolutions: Boxes of three axes, or of two
    if they are bytes. Two equal neighbouring axes are height and width; if that is ambiguous, channels are not more than
    rows. Of stacked images, which have a fourth axis before or behind these, each channel of each frame is a
    channel. Bytes are scaled to [0, 1]: divided by the largest bound of their space, which is 255 for pixels. Classes become
    one-hot, all other numbers stay as they are. The vectors of all leaves are joined.

    Args:
        space: See `flat_features`.
        generator: The source of the initial weights of convolutions; None takes torch's global generator.

    Raises:
        ModuleError: See `flat_features`.

    >>> space = spaces.Dict(screen=spaces.Box(0, 255, (84, 84, 3), np.uint8), speed=spaces.Box(-1.0, 1.0, (2,)))
    >>> encoder_for(space).num_features
    258
    """
    return flat_features(space, lambda box, path: _box_encoder(box, path, generator))


def _box_encoder(space: spaces.Box, path: str, generator: torch.Generator | None) -> Features:
    # The largest bound instead of 255, so that flags and small counts stay visible.
    scale = 1.0 / max(int(space.high.max(initial=0)), 1) if space.dtype == np.uint8 else 1.0
    height = _height_axis(space)
    if height is not None:
        return ImageEncoder(space.shape, height, scale, path=path, generator=generator)
    plain = floats(space, path)
    return plain if scale == 1.0 else _Scaled(plain, scale)


def _height_axis(space: spaces.Box) -> int | None:
    """Return the axis of the rows of an image, right before that of its columns; None if `space` is not an image."""
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
        scale: The factor of the pixels.
        path: The path of the image in an observation, for messages.
        generator: The source of the initial weights.
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
        # The axis of the batch comes first.
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
        lead = _leading_axes(observations, self._shape, self._path)
        images = observations.reshape((math.prod(lead), *self._shape)).to(self.dtype) * self._scale
        images = images.permute(self._order).reshape((len(images), *self._size))
        encoded = torch.relu(self.linear(self.convolutions(images).flatten(1)))
        return encoded.reshape((*lead, self.num_features))
