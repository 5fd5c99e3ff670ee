"""Functions on nested arrays that plugins for RLlib import from its `utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from gymnasium import Space

from episodia.connectors import BatchedNdArray
from episodia.errors import BatchError
from episodia.spaces import filled_item, one_hot_space, structure_of
from episodia.stacking import stack, unstack
from episodia.trees import leaves, map_batch
from episodia.types import Item

T = TypeVar("T")


def batch(
    list_of_structs: Sequence[Item], *, individual_items_already_have_batch_dim: bool | Literal["auto"] = False
) -> Item:
    """Return items of one nesting as one batch.

    Args:
        list_of_structs: At least one item.
        individual_items_already_have_batch_dim: Whether items are batches, which are then joined; "auto" asks whether the first
            item consists of `BatchedNdArray`.

    Raises:
        BatchError: If there is no item.

    >>> batch([{"x": 1}, {"x": 2}])
    {'x': array([1, 2])}
    """
    if not len(list_of_structs):
        raise BatchError("batch: found no items, expected at least one. Leave the column out if there are no rows.")
    items = list(list_of_structs)
    are_batches = individual_items_already_have_batch_dim
    if are_batches == "auto":
        are_batches = any(isinstance(leaf, BatchedNdArray) for _, leaf in leaves(items[0]))
    return map_batch(lambda *parts: np.concatenate(parts), *items) if are_batches else stack(items)


def unbatch(batches_struct: Item) -> list[Item]:
    """Return the items of a batch, the inverse of `batch`."""
    return unstack(batches_struct)


def flatten_to_single_ndarray(input_: Item) -> np.ndarray:
    """Return all numbers of an item as one vector; the entries of dicts in the order of their sorted keys.

    >>> flatten_to_single_ndarray({"b": [1.0, 2.0], "a": 3})
    array([3., 1., 2.])
    """
    return np.concatenate(_flat_parts(input_))


def _flat_parts(item: Any) -> list[np.ndarray]:
    if isinstance(item, dict):
        item = tuple(item[key] for key in sorted(item))
    if isinstance(item, (tuple, list)):
        return [part for child in item for part in _flat_parts(child)]
    return [np.reshape(convert_to_numpy(item, reduce_type=False), -1)]


def convert_to_numpy(x: Item, reduce_type: bool = True) -> Item:
    """Return `x` with NumPy arrays instead of tensors, and numbers instead of tensors without axes.

    Args:
        x: Nested data, also in lists; other leaves than arrays and tensors stay.
        reduce_type: Whether float64 and int64 arrays become float32 and int32.
    """

    def converted(leaf: Any) -> Any:
        if isinstance(leaf, list):
            return [map_batch(converted, item) for item in leaf]
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().cpu().numpy() if leaf.ndim else leaf.item()
        reduced = {"f": np.float32, "i": np.int32}.get(leaf.dtype.kind) if isinstance(leaf, np.ndarray) else None
        return leaf.astype(reduced) if reduce_type and reduced and leaf.dtype.itemsize == 8 else leaf

    return map_batch(converted, x)


def one_hot(
    x: Item, depth: int = 0, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = np.float32
) -> np.ndarray:
    """Return one vector for each class in `x`.

    Args:
        x: Classes: an integer, or an array or tensor of integers.
        depth: The number of classes; 0 takes one more than the highest class.
        on_value: The number at the position of the class.
        off_value: The number at all other positions.
        dtype: The dtype of the result.

    Raises:
        BatchError: If a class is negative, or not below `depth`.

    >>> one_hot(np.array([0, 2]), depth=3)
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    classes = np.asarray(convert_to_numpy(x, reduce_type=False)).astype(np.int64)
    size = depth or int(classes.max(initial=-1)) + 1
    if classes.size and not 0 <= classes.min() <= classes.max() < size:
        raise BatchError(
            f"one_hot: found classes from {classes.min()} to {classes.max()}, expected them from 0 to {size - 1}. "
            "Correct `depth`."
        )
    return np.where(np.arange(size) == classes[..., None], on_value, off_value).astype(dtype)


def get_base_struct_from_space(space: Space[Any]) -> Any:
    """Return the leaf spaces of `space` in its nesting of dicts and tuples."""
    return structure_of(space)


def get_dummy_batch_for_space(
    space: Space[Any],
    batch_size: int = 32,
    *,
    fill_value: float | Literal["random"] = 0.0,
    time_size: int | None = None,
    time_major: bool = False,
    one_hot_discrete: bool = False,
) -> Item:
    """Return items of `space` that are filled with one number, or drawn from it.

    Args:
        space: The space of one item.
        batch_size: The number of rows; 0 returns one item without further axes.
        fill_value: The number, or "random".
        time_size: The size of a time axis, if there is one.
        time_major: Whether the time axis comes first.
        one_hot_discrete: Whether classes are one-hot vectors.
    """
    axes = [size for size in (batch_size, time_size) if size]
    shape = tuple(reversed(axes) if time_major else axes)
    made = one_hot_space(space) if one_hot_discrete else space
    if fill_value != "random":
        item = filled_item(made, fill_value)
        return map_batch(lambda leaf: np.broadcast_to(leaf, shape + np.shape(leaf)).copy(), item)
    drawn = stack([made.sample() for _ in range(int(np.prod(shape)))])
    return map_batch(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), drawn)


def softmax(x: Item, axis: int = -1) -> np.ndarray:
    """Return the probabilities of logits."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    probabilities: np.ndarray = powers / powers.sum(axis=axis, keepdims=True)
    return probabilities


def sigmoid(x: Item) -> np.ndarray:
    """Return `1 / (1 + exp(-x))`, without an overflow."""
    values: np.ndarray = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x)))
    return values


def relu(x: Item, alpha: float = 0.0) -> np.ndarray:
    """Return positive numbers, and others times `alpha`.

    >>> relu([-2.0, 3.0], alpha=0.5)
    array([-1.,  3.])
    """
    numbers = np.asarray(convert_to_numpy(x))
    return np.where(numbers > 0, numbers, alpha * numbers)


def l2_loss(x: Item) -> Any:
    """Return half of the sum of squares.

    >>> float(l2_loss([1.0, 3.0]))
    5.0
    """
    return np.sum(np.square(convert_to_numpy(x))) / 2.0


def huber_loss(x: Item, delta: float = 1.0) -> np.ndarray:
    """Return half of the square of each number up to `delta`, and a straight line from there on.

    >>> huber_loss([0.5, -3.0])
    array([0.125, 2.5  ])
    """
    size = np.abs(np.asarray(convert_to_numpy(x)))
    losses: np.ndarray = np.where(size < delta, 0.5 * size**2, delta * (size - 0.5 * delta))
    return losses


def flatten_space(space: Space[Any]) -> list[Space[Any]]:
    """Return the spaces at the leaves of a Dict or Tuple space.

    >>> from gymnasium import spaces
    >>> flatten_space(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([spaces.Discrete(3)])}))
    [Discrete(2), Discrete(3)]
    """
    return [leaf for _, leaf in leaves(get_base_struct_from_space(space))]


def convert_to_torch_tensor(x: Item, device: Any = None, pin_memory: bool = False) -> Item:
    """Return arrays as tensors, nested or not; floats become float32, as RLlib's modules expect.

    >>> convert_to_torch_tensor({"x": np.zeros(2)})
    {'x': tensor([0., 0.])}
    """
    import torch  # noqa: PLC0415  # only where a module of torch is used

    def tensor(leaf: Any) -> Any:
        found = torch.as_tensor(leaf, device=device)
        found = found.float() if found.dtype == torch.float64 else found
        return found.pin_memory() if pin_memory else found

    return map_batch(tensor, x)


def override(cls: type) -> Callable[[T], T]:  # noqa: ARG001  # RLlib's signature
    """Return a decorator that returns the method unchanged; it says which class the method belongs to."""
    return lambda method: method


def try_import_torch(error: bool = False) -> tuple[Any, Any]:  # noqa: ARG001  # RLlib's signature
    """Return `torch` and `torch.nn`, which episodia always has."""
    return torch, torch.nn
