"""Exceptions of the library: one root class; each exception also derives from the builtin that a Python user would catch.

Every message says where the error happened, what was found, what was expected, and what to do. An operation that raises
leaves the object as it was before the call.
"""


class EpisodiaError(Exception):
    """Root of all errors that the library raises on purpose."""


class UnknownArgumentError(EpisodiaError, TypeError):
    """A class or function got an unknown keyword argument; the message suggests the closest name."""


class EpisodeError(EpisodiaError, ValueError):
    """An operation does not fit the state of an episode, or its arguments are invalid."""


class SpaceError(EpisodeError):
    """A value is not an item of its declared space."""


class ShapeError(EpisodeError):
    """Items of one column do not fit together: their nesting or their shapes differ."""


class ReturnsError(EpisodiaError, ValueError):
    """An estimator got arrays that do not fit together, or a parameter outside its range."""


class EpisodeIndexError(EpisodiaError, IndexError):
    """An index is outside the stored items, or the number of items does not match the indices."""


class IndexTypeError(EpisodeIndexError, TypeError):
    """An index is not an integer, a list of integers, a slice or None."""


class EpisodeKeyError(EpisodiaError, KeyError):
    """The name of an extra model output or of an agent is unknown."""

    def __str__(self) -> str:
        # KeyError would show the repr of its message.
        return str(self.args[0]) if self.args else ""


class DroppedHistoryError(EpisodeIndexError):
    """A window reaches further back than the lookback of a chunk, into steps that were dropped."""

    def __init__(
        self,
        episode: int,
        needed: int,
        kept: int,
        t_started: int,
        *,
        remedy: str = "Before sampling, call `runner.require_lookback(learner.pipeline.lookback)`; by hand, cut with "
        "`cut(len_lookback_buffer=pipeline.lookback)`.",
    ) -> None:
        super().__init__(
            f"found a lookback of {kept} in episode {episode} of the list, which starts at t={t_started}, expected at least "
            f"{min(needed, t_started)}: the steps before were dropped and cannot be filled. {remedy}"
        )
        self.episode, self.needed, self.kept, self.t_started = episode, needed, kept, t_started


class NotYetError(EpisodeKeyError):
    """A column has no item for the current step yet; the next step adds it."""


class ModuleError(EpisodiaError, ValueError):
    """A module or an action distribution got an invalid argument."""


class BatchError(EpisodiaError, ValueError):
    """A batch lacks a column that a connector needs, or has it in another form."""


class PipelineError(EpisodiaError, ValueError):
    """A connector pipeline cannot be built or changed: an argument is invalid, or its pieces do not fit together."""


class PieceLookupError(PipelineError, KeyError, IndexError):
    """No piece, or more than one piece, matches a name, a class or an index."""

    def __str__(self) -> str:
        # KeyError would show the repr of its message.
        return str(self.args[0]) if self.args else ""


class PluginError(PipelineError):
    """A plugin cannot be imported, is not a connector or module, or has the name of another one."""


class ConnectorStateError(EpisodiaError, ValueError):
    """The state of a connector does not fit the connector, or holds more than JSON values and arrays."""


class LearnerError(EpisodiaError, ValueError):
    """A learner, or a part of a learner, got an invalid argument."""


class ReplayError(EpisodiaError, ValueError):
    """A replay buffer got data, or an argument, that it cannot store or sample from."""


class StaleSampleError(ReplayError):
    """A sample is read after some of its rows were overwritten in the buffer."""


class NonFiniteError(EpisodiaError, ArithmeticError):
    """A loss, a gradient or the input of a running statistic is NaN or infinite."""


class SubjectError(EpisodiaError, ValueError, TypeError):
    """A check got an object that cannot be checked, or options that do not fit the object."""


class EnvRunnerError(EpisodiaError, ValueError):
    """An env runner got an invalid argument."""


class EnvError(EpisodiaError, RuntimeError):
    """An environment failed and cannot be rebuilt, or not again; `__cause__` is the original exception."""


class LostWorkerError(EnvError, ConnectionError):
    """The process of an environment has ended, or does not answer in time."""


class CheckpointError(EpisodiaError, ValueError):
    """A checkpoint cannot be written or read: a part cannot be stored, is damaged, is missing, or does not belong to it."""


class StoreError(EpisodiaError, ValueError):
    """A store on disk cannot be written or read: a value cannot be stored, or the files are of another process or program."""


class DamagedStoreError(StoreError):
    """A file of a store on disk is damaged; the message names the file and, where known, the episode and the column.

    Attributes:
        file: The name of the file.
    """

    def __init__(self, message: str, *, file: str = "") -> None:
        super().__init__(message)
        self.file = file


class StoreWarning(UserWarning):
    """A store on disk holds rows that no whole line of its journal covers, or episodes that are damaged."""


class PolicyError(EpisodiaError, ValueError):
    """A policy got an invalid argument."""


class MissingExtraError(EpisodiaError, ImportError):
    """A required package is not installed; the message names the extra that installs it."""


class ConnectorError(EpisodiaError, RuntimeError):
    """A connector piece failed while a pipeline ran; `__cause__` is the original exception.

    All errors of a piece reach the caller of the pipeline as this type, so that an `except KeyError` around a pipeline never
    catches the error of a broken piece. Exceptions that do not derive from `Exception`, such as KeyboardInterrupt, pass
    unchanged.

    Attributes:
        piece: The name of the piece, with the names of the pipelines around it: `inner/Flatten`.
        place: The index of the piece, after the indices of the pipelines around it.
        column: The batch column that the piece was working on, if known.
        episode_id: The id of the episode that the piece was working on, if known.
        detail: The message without the place.
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


class EngineError(EpisodiaError, RuntimeError):
    """An engine, or a group of runners on it, was used in a way that cannot work."""


class WorkerDiedError(EngineError, ConnectionError):
    """A worker is gone, and with it a call; it is not known whether its method ran."""


class LostRankError(EngineError, ConnectionError):
    """A rank that learns together with this one is gone, or does not answer in time; the update was not finished."""


class RemoteTracebackError(Exception):
    """The traceback of an error of a worker, as text; it is the cause of that error where it is raised again."""


class LedgerError(EpisodiaError, RuntimeError):
    """A chunk of an episode came twice, or one is missing before it."""


class FlowError(EpisodiaError, ValueError):
    """A flow cannot be built, saved or resumed, or a stage raised a StopIteration."""


class FlowStalledError(FlowError):
    """A flow would wait for ever: nothing is on the way, and no gate is open; the message says what each part waits for."""


class TrainingError(EpisodiaError, ValueError):
    """A training cannot be set up, saved or resumed."""
