"""What a network remembers beside its weights, such as the statistics of batch normalisation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias, final

import torch
from torch import Tensor, nn

# Copies of buffers, by module.
Kept: TypeAlias = dict[str, list[Tensor]]


@final
class Buffers:
    """The buffers of some modules that are a part of their states. Forward passes write into them, whatever comes of the loss.

    Args:
        modules: The modules, by id.

    >>> buffers = Buffers({"net": nn.Sequential(nn.BatchNorm1d(2)), "plain": nn.Linear(2, 2)})
    >>> {module_id: len(copies) for module_id, copies in buffers.kept(["net", "plain"]).items()}
    {'net': 3}
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._modules = {module_id: module for module_id, module in modules.items() if _buffers(module)}

    def kept(self, module_ids: Collection[str]) -> Kept:
        """Return copies of the buffers of these modules; nothing for those that have none."""
        return {
            module_id: [buffer.clone() for buffer in _buffers(module)]
            for module_id, module in self._modules.items()
            if module_id in module_ids
        }

    def restore(self, kept: Kept, module_ids: Iterable[str] | None = None) -> None:
        """Let these modules, or all, have the buffers again of which `kept` has copies."""
        for module_id in kept if module_ids is None else [each for each in module_ids if each in kept]:
            with torch.no_grad():
                for buffer, copied in zip(_buffers(self._modules[module_id]), kept[module_id], strict=True):
                    buffer.copy_(copied)


def _buffers(module: nn.Module) -> list[Tensor]:
    return [
        buffer
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None and name not in part._non_persistent_buffers_set
    ]
