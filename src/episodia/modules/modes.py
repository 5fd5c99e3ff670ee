"""Networks that behave differently while they learn: dropout, batch normalisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def mode(modules: Iterable[object], *, training: bool) -> Iterator[None]:
    """Let `modules`, and all parts of them, be in the mode in which torch's modules learn, or in the one in which they act.

    Afterwards each part is in the mode in which it was. What is no `nn.Module` has none.

    >>> network = nn.Sequential(nn.Dropout())
    >>> with mode([network], training=False):
    ...     network[0].training
    False
    >>> network[0].training
    True
    """
    parts = [part for module in modules if isinstance(module, nn.Module) for part in module.modules()]
    others = [part for part in parts if part.training is not training]
    for part in others:
        part.training = training
    try:
        yield
    finally:
        for part in others:
            part.training = not training
