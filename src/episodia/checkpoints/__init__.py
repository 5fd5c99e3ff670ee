"""Saving and loading states: nested dicts of tensors, arrays and JSON values, with checksums and without pickle.

The names below are imported when they are first used, because they import torch and the safe reading of files does not.
"""

import typing as _typing
from importlib import import_module as _import_module

if _typing.TYPE_CHECKING:
    from episodia.checkpoints.save_and_load import load_state, save_state

__all__ = ["load_state", "save_state"]


if not _typing.TYPE_CHECKING:  # a type checker would take every name for one of ours

    def __getattr__(name: str) -> _typing.Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(_import_module("episodia.checkpoints.save_and_load"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
