"""States on disk: nested dicts of tensors, arrays and JSON values in one directory, without pickle, checked by checksums."""

from episodia.state.directory import load_state, save_state

__all__ = ["load_state", "save_state"]
