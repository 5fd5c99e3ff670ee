"""Limits of setups in files: a setup must not choose code or computers, nor much more memory than the file takes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

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


def check_network_fits(network: Mapping[str, Any], weights: object) -> None:
    """Check that a network is not larger than the weights beside its settings, before it is made.

    >>> check_network_fits({"hidden": (8, 8)}, {"0.weight": np.zeros((8, 4)), "2.weight": np.zeros((8, 8))})

    Raises:
        TrainingError: If it has more layers or weights.
    """
    parts = [part for part in _leaves(weights) if isinstance(part, (np.ndarray, Tensor))]
    num_weights = sum(int(np.prod(part.shape)) for part in parts)
    hidden = network.get("hidden")
    sizes = [_whole(size) for size in hidden] if isinstance(hidden, (list, tuple)) else []
    cell, atoms, critics = (_whole(network.get(name)) for name in ("cell_size", "atoms", "num_critics"))
    # Biases and the weights of inputs and heads come on top.
    least = critics * sum(before * after for before, after in pairwise([1, *sizes, atoms])) + cell * cell
    if critics * len(sizes) > len(parts) or least > num_weights:
        raise TrainingError(
            f"setup: found a network with {len(sizes)} hidden layers and at least {least} weights, expected one for the "
            f"{num_weights} weights in the same file. Another program wrote it; use another checkpoint."
        )


def _leaves(tree: object) -> list[Any]:
    return [leaf for part in tree.values() for leaf in _leaves(part)] if isinstance(tree, Mapping) else [tree]
