"""Checks of arguments: integers, numbers in a range, flags, choices, paths, lists of keys.

The first argument of each check is the error class to raise, because each part of the library has its own. `where` names the
class or function that was given the argument, `name` names the argument.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np

from episodia.errors import EpisodiaError, UnknownArgumentError
from episodia.trees import describe, shown

Error: TypeAlias = type[EpisodiaError]
Made = TypeVar("Made")

# Of a file or a directory, in bytes, on all systems.
_LONGEST_NAME = 255


def is_whole(value: object) -> TypeGuard[int | np.integer]:
    """Tell whether `value` is a Python or NumPy integer; bools do not count.

    >>> is_whole(3), is_whole(np.int64(3)), is_whole(True), is_whole(3.0)
    (True, True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float | np.integer | np.floating]:
    """Tell whether `value` is a real Python or NumPy number; infinity counts, NaN and bools do not.

    >>> is_number(3), is_number(np.float32(0.5)), is_number(math.inf), is_number(math.nan), is_number("3")
    (True, True, True, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:  # an integer beyond the range of floats
        return False


def checked_whole(error: Error, where: str, name: str, value: object, least: int, *, below: int | None = None) -> int:
    """Return `value` if it is an integer of at least `least` and below `below`.

    Raises:
        EpisodiaError: The given error, if it is not.

    >>> from episodia.errors import PipelineError
    >>> checked_whole(PipelineError, "NStepReturns", "n", 3, least=1)
    3
    """
    if (type(value) is not int and not is_whole(value)) or value < least or (below is not None and value >= below):
        limit = "" if below is None else f" and below {below}"
        raise error(
            f"{where}: found `{name}={shown(value)}`, expected an integer of at least {least}{limit}. Correct the value."
        )
    return int(value)


def checked_seed(error: Error, where: str, value: object) -> int | None:
    """Return `value` if it is None, or an integer that all random generators accept as a seed.

    Raises:
        EpisodiaError: The given error, if it is not.
    """
    return None if value is None else checked_whole(error, where, "seed", value, 0, below=2**64)


def checked_number(
    error: Error, where: str, name: str, value: object, low: float = -math.inf, high: float = math.inf
) -> float:
    """Return `value` if it is a number from `low` to `high`.

    Raises:
        EpisodiaError: The given error, if it is not.

    >>> from episodia.errors import PipelineError
    >>> checked_number(PipelineError, "ClipRewards", "low", -1)
    -1.0
    """
    if not is_number(value) or not low <= value <= high:
        raise error(f"{where}: found `{name}={shown(value)}`, expected {range_of(low, high)}. Correct the value.")
    return float(value)


def range_of(low: float, high: float) -> str:
    """Return the range from `low` to `high` in words.

    >>> range_of(0.0, 1.0), range_of(0.0, math.inf), range_of(-math.inf, math.inf)
    ('a number from 0 to 1', 'a number of at least 0', 'a number')
    """
    if math.isfinite(high):
        return f"a number from {low:g} to {high:g}"
    return f"a number of at least {low:g}" if math.isfinite(low) else "a number"


def checked_flag(error: Error, where: str, name: str, value: object) -> bool:
    """Return `value` if it is a bool; other values, such as "no", are rejected although Python accepts them as conditions.

    Raises:
        EpisodiaError: The given error, if it is not.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{where}: found `{name}={shown(value)}`, expected True or False. Pass one of them.")
    return bool(value)


def checked_choice(error: Error, where: str, name: str, value: object, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`.

    Raises:
        EpisodiaError: The given error, if it is not.

    >>> from episodia.errors import LearnerError
    >>> checked_choice(LearnerError, "PPOConfig", "on_non_finite", "skip", ("skip", "raise"))
    'skip'
    """
    if not isinstance(value, str) or value not in choices:
        raise error(f"{where}: found `{name}={shown(value)}`, expected one of {list(choices)}. Choose one of them.")
    return value


def checked_each(
    error: Error, where: str, name: str, values: object, is_one: Callable[[Any], bool], wanted: str
) -> list[Any]:
    """Return `values` as a list if it is a list or a tuple, and `is_one` holds for each value; `wanted` says that in words.

    Raises:
        EpisodiaError: The given error, if it is not.

    >>> from episodia.errors import TrainingError
    >>> checked_each(TrainingError, "run", "watchers", [print], callable, "functions")
    [<built-in function print>]
    """
    if not isinstance(values, (list, tuple)) or not all(map(is_one, values)):
        raise error(
            f"{where}: found `{name}={shown(values)}`, expected a list of {wanted}. Put a single value into brackets."
        )
    return list(values)


def checked_registered_name(error: Error, where: str, value: object) -> str:
    """Return `value` if it is a valid name for the decorator `where`, which registers a class.

    Raises:
        EpisodiaError: The given error, if it is not a string, or empty.

    >>> from episodia.errors import ModuleError
    >>> checked_registered_name(ModuleError, "register_module", "my_game.Patient")
    'my_game.Patient'
    """
    if not isinstance(value, str) or not value:
        raise error(
            f"{where}: found {shown(value)} as the name, expected a string. Write `@{where}('my_package.MyClass')`."
        )
    return value


def checked_ids(error: Error, where: str, ids: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `ids` if all of them can be keys of dicts.

    Raises:
        EpisodiaError: The given error, if one of them cannot.

    >>> from episodia.errors import EpisodeError
    >>> checked_ids(EpisodeError, "SingleAgentEpisode", ("walk", None))
    ('walk', None)
    """
    try:
        hash(ids)
    except TypeError as other:
        raise error(f"{where}: found {shown(ids)} as ids, expected texts, numbers or None. Correct them.") from other
    return ids


def checked_path(error: Error, where: str, name: str, value: object) -> Path:
    """Return `value` as a `Path` if it is a valid name of a file or a directory.

    Raises:
        EpisodiaError: The given error, if it is not.

    >>> from episodia.errors import CheckpointError
    >>> checked_path(CheckpointError, "save", "path", "runs/mine").name
    'mine'
    """
    # The empty string would be the current directory, which is rarely meant.
    if not isinstance(value, (str, Path)) or str(value) == "" or not _is_name(str(value)):
        raise error(
            f"{where}: found `{name}={describe(value)}`, expected a path, as a string or a `pathlib.Path`. Correct it."
        )
    return Path(value)


def _is_name(path: str) -> bool:
    """Tell whether a file can have this name; null characters, lone surrogates and very long names are not possible."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return b"\0" not in name and max(map(len, name.split(os.fsencode(os.sep)))) <= _LONGEST_NAME


def checked_keys(error: Error, where: str, name: str, value: object) -> list[Any]:
    """Return the ids or keys in `value` as a list; a string is one key, not a collection of keys.

    Raises:
        EpisodiaError: The given error, if it is not a collection.

    >>> from episodia.errors import PipelineError
    >>> checked_keys(PipelineError, "FlattenObservations", "agent_ids", ("left", 1))
    ['left', 1]
    """
    has_no_items = isinstance(value, np.ndarray) and not value.ndim
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection) or has_no_items:
        raise error(f"{where}: found `{name}={shown(value)}`, expected a list of keys. Pass `[{shown(value)}]`.")
    return list(value)


def reject_unknown(method: Callable[..., Any], given: Collection[str], terminated: str, truncated: str) -> None:
    """Reject the keywords `given`, which a method of an episode does not have.

    Args:
        method: The method, or the constructor.
        given: Its unknown keywords; without unknown keywords, nothing happens.
        terminated: Its argument for episodes that ended by the rules of the environment.
        truncated: Its argument for episodes that were stopped from outside.

    Raises:
        UnknownArgumentError: If there are some.
    """
    for name in given:
        where = method.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        remedy = proposal([name], set(inspect.signature(method).parameters) - {"self", "unknown"}) or (
            "An episode that reached its end by the rules of the environment is terminated, one that was stopped from outside "
            "is truncated."
        )
        raise UnknownArgumentError(
            f"{where}: found the argument `{name}`, expected flags as `{terminated}=` and `{truncated}=`, or another argument "
            f"in `help({where})`. {remedy}"
        )


def check_known(where: str, given: Collection[str], known: Collection[str]) -> None:
    """Check that all names in `given` are among the arguments that are `known`.

    Raises:
        UnknownArgumentError: If one is not; the message proposes the known name that is most alike.

    >>> check_known("FrameStacking", ["num_frames"], ["num_frames", "axis"])
    """
    for name in given:
        if name not in known:
            raise UnknownArgumentError(
                f"{where}: found the argument `{name}`, expected one of {', '.join(f'`{one}`' for one in known)}. "
                f"{proposal([name], known) or 'Leave it out.'}"
            )


def names_nearest_argument(cls: type[Made]) -> type[Made]:
    """Let the constructor of a class reject an unknown keyword with the name that is most like it.

    >>> @names_nearest_argument
    ... class Clip:
    ...     def __init__(self, limit): ...
    >>> Clip(limt=2.0)
    Traceback (most recent call last):
    episodia.errors.UnknownArgumentError: Clip: found the argument `limt`, expected one of `limit`. Did you mean `limit`?
    """
    construct: Callable[..., None] = cls.__init__
    known = list(inspect.signature(construct).parameters)[1:]

    @functools.wraps(construct)
    def checked(self: Made, *args: Any, **kwargs: Any) -> None:
        check_known(type(self).__name__, kwargs, known)
        construct(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[assignment]  # the same signature
    return cls


def proposal(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return a question that names the known argument most like one of the `unknown` ones; empty if no argument is like it.

    >>> proposal(["gama"], ["gamma", "lambda_"])
    'Did you mean `gamma`?'
    """
    known = sorted(known)
    alike = [match for name in unknown for match in difflib.get_close_matches(str(name), known, n=1)]
    return f"Did you mean {', '.join(f'`{name}`' for name in alike)}?" if alike else ""
