"""Saving and loading states: nested dicts of tensors, arrays and JSON values, with checksums and without pickle."""

from episodia.checkpoints.save_and_load import CHECKPOINT_NAME, checkpoint_directory, load_state, save_state

__all__ = ["CHECKPOINT_NAME", "checkpoint_directory", "load_state", "save_state"]


def __dir__() -> list[str]:
    return sorted(__all__)
