"""Limits of setups in files: a setup must not choose code or computers, nor much more memory than the file takes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

from episodia.errors import TrainingError

# A file must not start more environments, threads and processes; a user may.
_MAX_ENVS = 4096
_MAX_WORKERS = 256


def check_asks_for_little(env: object, options: Mapping[str, Any], given: Collection[str]) -> None:
    """Check the environment and the options of a setup from a file, before anything is made.

    Args:
        env: The environment.
        options: The options, after what the user has given.
        given: The names of the options that the user has given.

    Raises:
        TrainingError: If they choose code or a computer, or ask for too much.
    """
    _check_imports_nothing(env)
    if options.get("address") is not None and "address" not in given:
        raise TrainingError(
            f"setup: found `address={options['address']!r}` in a file, expected None, because a file must not choose which "
            "computer is connected to. If you trust it, pass the address yourself, to `resume` as `address=` (`--address`) and "
            'to `load_training` in `workers=`; or pass another engine, such as `engine="local"`.'
        )
    num_envs, num_runners, num_learners = (
        _whole(options.get(name)) for name in ("num_envs", "num_runners", "num_learners")
    )
    each = num_envs if options.get("vectorization") == "async" else 0
    beside = 0 if options.get("engine") == "local" else num_runners + num_learners
    _check_number("environments", num_envs * num_runners, _MAX_ENVS)
    _check_number("threads and processes", each * num_runners + beside, _MAX_WORKERS)


def _whole(found: object) -> int:
    # Other values are rejected later, and 0 is one runner.
    return max(found, 1) if isinstance(found, int) else 1


def _check_number(what: str, found: int, most: int) -> None:
    if found > most:
        raise TrainingError(
            f"setup: found {found} {what} in a file, expected at most {most}. If you want so many, pass the setup as `setup=`."
        )


def _check_imports_nothing(env: object) -> None:
    """Check that making the environment `env`, an id from a file, imports no module: importing runs code.

    >>> _check_imports_nothing("CartPole-v1")
    >>> _check_imports_nothing("json:CartPole-v1")  # the user has imported `json`

    Raises:
        TrainingError: If gymnasium would import the module before the colon.
    """
    if not isinstance(env, str):
        raise TrainingError(
            f"setup: found the environment {env!r}, expected a gymnasium id. The data is not that of a setup."
        )
    module, colon, _ = env.partition(":")
    if colon and module not in sys.modules:
        raise TrainingError(
            f"setup: found the environment {env!r}, which imports the module {module!r}; expected an id that imports "
            "nothing, because a file must not choose which code runs. If you trust the module, import it first "
            f"(`import {module}`, on the command line `--import {module}`)."
        )
