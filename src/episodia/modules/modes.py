"""The mode of networks, training or acting, which matters for dropout and batch normalisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def mode(modules: Iterable[object], *, training: bool) -> Iterator[None]:
    """Return a context in which `modules` and all their parts are in torch's training mode, or in evaluation mode.

    Afterwards each part is in its earlier mode. Modules other than `nn.Module` have no mode.

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
