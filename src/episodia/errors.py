"""The exceptions of the library: one root, and under it the builtin that a Python user would catch.

Every message says where it happened, what was found, what was expected, and what to do about it. An operation that raises
leaves the object as it was before the call.
"""


class EpisodiaError(Exception):
    """Root of all errors that the library raises on purpose."""


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


class ModuleError(EpisodiaError, ValueError):
    """A module or the distribution of its actions was given something that it cannot work with."""
