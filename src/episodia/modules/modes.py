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
    others = [part for part in _parts(modules) if part.training is not training]
    _set_training(others, training)
    try:
        yield
    finally:
        _set_training(others, not training)


def _parts(modules: Iterable[object]) -> list[nn.Module]:
    """Return `modules` and all that is in them; `nn.Module.modules` also makes names, which takes several times as long."""
    found = [module for module in modules if isinstance(module, nn.Module)]
    known = set(found)
    for part in found:
        # Parts that are added here are visited, too.
        for child in part._modules.values():
            if child is not None and child not in known:
                known.add(child)
                found.append(child)
    return found


def _set_training(parts: Iterable[nn.Module], training: bool) -> None:
    for part in parts:
        # `nn.Module` first looks for a weight of this name, which takes ten times as long. Subclasses may redirect attributes.
        if type(part).__setattr__ is nn.Module.__setattr__:
            object.__setattr__(part, "training", training)
        else:
            part.training = training
