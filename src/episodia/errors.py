"""The exceptions of the library: one root, and under it the builtin that a Python user would catch.

Every message says where it happened, what was found, what was expected, and what to do about it. An operation that raises
leaves the object as it was before the call.
"""


class EpisodiaError(Exception):
    """Root of all errors that the library raises on purpose."""


class UnknownArgumentError(EpisodiaError, TypeError):
    """A class or function was given a keyword argument that it does not know; the message proposes the nearest name."""


class EpisodeError(EpisodiaError, ValueError):
    """An episode was asked for something that its state or the given data does not allow."""


class SpaceError(EpisodeError):
    """A value does not belong to the space that was declared for it."""


class ShapeError(EpisodeError):
    """Items of one column do not fit together: their nesting or their shapes differ."""


class ReturnsError(EpisodiaError, ValueError):
    """An estimator was given arrays that do not fit together, or a parameter outside of its range."""


class EpisodeIndexError(EpisodiaError, IndexError):
    """An index points outside of what is stored, or the number of items does not match the indices."""


class IndexTypeError(EpisodeIndexError, TypeError):
    """An index is not an integer, a list of integers, a slice or None."""


class EpisodeKeyError(EpisodiaError, KeyError):
    """A name (of an extra model output, of an agent) is not known."""

    def __str__(self) -> str:
        # KeyError would show the repr of its message.
        return str(self.args[0]) if self.args else ""


class DroppedHistoryError(EpisodeIndexError):
    """A window reaches further back than the lookback of a chunk, into steps that the episode had."""

    def __init__(self, episode: int, needed: int, kept: int, t_started: int) -> None:
        super().__init__(
            f"found a lookback of {kept} in episode {episode} of the list, which starts at t={t_started}, expected at least "
            f"{min(needed, t_started)}: the steps before were dropped and cannot be filled. Cut with "
            "`cut(len_lookback_buffer=pipeline.lookback)`."
        )


class NotYetError(EpisodeKeyError):
    """A column was asked for at the present moment, and only the next step will add it."""


class ModuleError(EpisodiaError, ValueError):
    """A module or the distribution of its actions was given something that it cannot work with."""


class BatchError(EpisodiaError, ValueError):
    """A batch does not have the column, or not in the form, that a connector asked for."""


class PipelineError(EpisodiaError, ValueError):
    """A connector pipeline cannot be built or changed like this: its pieces do not fit together."""


class PieceLookupError(PipelineError, KeyError, IndexError):
    """No piece of a pipeline, or more than one, answers to a name, a class or an index."""

    def __str__(self) -> str:
        # KeyError would show the repr of its message.
        return str(self.args[0]) if self.args else ""


class PluginError(PipelineError):
    """A plugin cannot be imported, is not a connector, or has the name of another one."""


class ConnectorStateError(EpisodiaError, ValueError):
    """The state of a connector does not fit the connector, or holds more than JSON values and arrays."""


class LearnerError(EpisodiaError, ValueError):
    """A learner, or a part of one, was given something that it cannot work with."""


class NonFiniteError(EpisodiaError, ArithmeticError):
    """A loss or a gradient has become NaN or infinite, or what a piece adds up is it already."""


class SubjectError(EpisodiaError, ValueError, TypeError):
    """A check was given something that cannot be checked, or options that do not fit what is checked."""


class EnvRunnerError(EpisodiaError, ValueError):
    """An env runner was given something that it cannot work with."""


class EnvError(EpisodiaError, RuntimeError):
    """An environment failed, and cannot be made anew, or not once more; `__cause__` is what it raised."""


class CheckpointError(EpisodiaError, ValueError):
    """A checkpoint cannot be written or read: something in it cannot be stored, is damaged, missing, or foreign."""


class PolicyError(EpisodiaError, ValueError):
    """A policy was given something that it cannot work with."""


class MissingExtraError(EpisodiaError, ImportError):
    """Something needs a package that is not installed; the message names the extra that brings it."""


class ConnectorError(EpisodiaError, RuntimeError):
    """A connector piece failed while a pipeline ran; `__cause__` is what it raised.

    Whatever a piece raises reaches the caller of the pipeline as this one type, so that an `except KeyError` around a
    pipeline never mistakes a broken piece for something else. Only exceptions that are no errors, such as
    KeyboardInterrupt, pass untouched.

    Attributes:
        piece: The name of the piece, with the names of the pipelines around it: `inner/Flatten`.
        place: Its index, after the indices of the pipelines around it.
        column: The batch column that was being worked on, if that is known.
        episode_id: The id of the episode that was being worked on, if that is known.
        detail: What happened, without the place.
    """

    def __init__(
        self,
        message: str,
        *,
        piece: str = "",
        place: tuple[int, ...] = (),
        column: str | None = None,
        episode_id: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.piece = piece
        self.place = place
        self.column = column
        self.episode_id = episode_id
        self.detail = detail


class TrainingError(EpisodiaError, ValueError):
    """A training cannot be set up, saved or resumed like this."""
