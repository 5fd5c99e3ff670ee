"""Pipelines in directories: saved with their pieces and their states, and loaded."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final, Self

import torch

from episodia.checkpoints import load_state, save_state
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.plugins.piece_codec import decoded_pipeline, encoded_pipeline
from episodia.errors import CheckpointError, EpisodiaError

# The key of a pipeline in a checkpoint.
_KEY: Final = "pipeline"
# The key of the kind of the pipeline, such as "EnvToModulePipeline".
_KIND: Final = "kind"


class SavedPipeline(ConnectorPipelineV2):
    """A pipeline that is saved in a directory, with its pieces and their states, and loaded from there."""

    def save_to_path(self, path: str | Path | None = None) -> Path:
        """Write spaces, pieces and their states into the directory `path`, by default a new temporary one, and return it.

        Raises:
            PipelineError: If the class of a piece has no name that it could be loaded by, see `register_connector`.
            CheckpointError: If the directory cannot be written.
            MissingExtraError: If safetensors is not installed.
        """
        state = {_KEY: encoded_pipeline(self), _KIND: _kind_of(type(self))}
        directory = tempfile.mkdtemp(prefix="episodia-") if path is None else path
        save_state(directory, state)
        return Path(directory)

    def restore_from_path(self, path: str | Path) -> None:
        """Give the pieces the states that the pipeline in the directory `path` had.

        Raises:
            CheckpointError: If `path` holds no pipeline of this kind, or is damaged.
            ConnectorStateError: If a state does not fit; nothing is changed then.
        """
        self.set_state(_saved_in(path, type(self))["state"])

    @classmethod
    def from_checkpoint(cls, path: str | Path) -> Self:
        """Return the pipeline that was saved in the directory `path`.

        Raises:
            CheckpointError: If `path` holds no pipeline of this kind, or is damaged.
            PipelineError: If the class of a piece is not known.
        """
        try:
            return decoded_pipeline(cls, _saved_in(path, cls), torch.device("cpu"))
        except EpisodiaError:
            raise
        except Exception as error:  # a damaged state can fail anywhere
            raise CheckpointError(
                f"{path}: found a pipeline that cannot be loaded ({type(error).__name__}: {error}), expected pieces with "
                "arguments that fit. Use another checkpoint."
            ) from error


def _kind_of(pipeline: type[SavedPipeline]) -> str:
    """Return the name of the kind of a pipeline: that of the class just below `SavedPipeline`, also for subclasses."""
    order = pipeline.__mro__
    return order[order.index(SavedPipeline) - 1].__name__


def _saved_in(path: str | Path, expected: type[SavedPipeline]) -> dict[str, Any]:
    state = load_state(path)
    found = state.get(_KEY)
    if not isinstance(found, dict) or not isinstance(found.get("state"), dict):
        raise CheckpointError(
            f"{path}: found a checkpoint of {sorted(map(str, state))}, expected one of a pipeline. Pass the directory that "
            "`save_to_path` has written."
        )
    kind = state.get(_KIND, _kind_of(expected))  # missing in files before 0.2
    if kind != _kind_of(expected):
        raise CheckpointError(
            f"{path}: found a pipeline of the kind {kind!r}, expected {_kind_of(expected)!r}. Load it with its own class."
        )
    return found
