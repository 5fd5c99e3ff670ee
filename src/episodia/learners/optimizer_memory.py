"""What an optimizer remembers of each parameter, and whether what is loaded can be it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.nn import Parameter

from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import LearnerError

# Of a number, whether Python's or a tensor: the shape of one.
Shapes: TypeAlias = dict[str, tuple[int, ...]]


def usual_shapes(
    make: Callable[[list[Parameter]], torch.optim.Optimizer], parameters: Sequence[Parameter]
) -> list[Shapes]:
    """Return the shapes of what an optimizer remembers of each parameter, by its own names, after one step.

    Only the optimizer itself knows that, so one like it takes a step, with parameters of its own. Of those that cannot, because
    they need more than gradients, nothing is known, and so nothing is expected.

    >>> sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    >>> usual_shapes(sgd, [Parameter(torch.zeros(3, 2))])
    [{'momentum_buffer': (3, 2)}]
    """
    copies = [Parameter(torch.zeros_like(parameter)) for parameter in parameters]
    for copied in copies:
        copied.grad = torch.zeros_like(copied)
    try:
        optimizer = make(copies)
        optimizer.step()
    except Exception:  # noqa: BLE001  # whatever an optimizer of someone else raises
        return [{} for _ in parameters]
    found = optimizer.state_dict()["state"]
    return [_shapes(found.get(index, {})) for index in range(len(copies))]


def _shapes(memory: Mapping[str, Any]) -> Shapes:
    # What is None after one step may be something else later.
    return {name: shape for name, value in memory.items() if (shape := _shape(value)) is not None}


def _shape(value: object) -> tuple[int, ...] | None:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return () if isinstance(value, (int, float)) else None


def check_memory(name: str, memory: Any, usual: Shapes) -> None:
    """Check that an optimizer can go on with what it is to remember of the parameter `name`.

    Raises:
        LearnerError: If something is missing, has another shape, or is neither a number nor a tensor.

    >>> check_memory("w", {"momentum_buffer": torch.zeros(3, 2)}, {"momentum_buffer": (3, 2)})
    """
    if (
        isinstance(memory, Mapping)
        and all(value is None or _shape(value) is not None for value in memory.values())
        and all(key in memory and _shape(memory[key]) == shape for key, shape in usual.items())
    ):
        return
    raise LearnerError(
        f"state of optimizers: found {describe_column(memory)} as the memory of {name!r}, expected a dict of numbers and "
        f"tensors, with {usual} (names and shapes) among them. Load what `get_state` returned."
    )
