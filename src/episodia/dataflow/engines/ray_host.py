"""The object that lives in a Ray actor: it makes one object, and answers calls of its methods."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, final

import gymnasium as gym
import torch

from episodia.dataflow.engines.outcome import Outcome
from episodia.dataflow.engines.ray_processes import own_place
from episodia.dataflow.engines.ray_session import ray_module
from episodia.errors import EngineError

_MAKES = "function that makes a worker"


class Failed(NamedTuple):
    """An error that a worker raised, if it can travel, and its traceback as text."""

    error: BaseException
    traceback: str


class Sent(NamedTuple):
    """The first message to a worker.

    Attributes:
        make: The function that makes the object, pickled.
        specs: Environments that the driver has registered, pickled, by their ids.
        paths: Where the driver looks for modules.
        num_threads: The number of threads that torch uses.
    """

    make: bytes
    specs: Mapping[str, bytes]
    paths: Sequence[str]
    num_threads: int


@final
@dataclass
class _Missing:
    """The entry point of an environment that could not be loaded here."""

    error: BaseException

    def __call__(self, **_: Any) -> NoReturn:
        raise self.error


@final
class RayHost:
    """Answers calls with one object. It is made without the object, so that a spare can wait for it."""

    def __init__(self) -> None:
        self._made = Outcome.died("is a spare")

    def place(self) -> tuple[str, int]:
        """Return the node of this process, and its id there."""
        return own_place()

    def prepare(self, sent: Sent) -> None:
        """Load the function that a worker was made with, without a call: it imports what a successor needs, too."""
        self._register(sent)
        Outcome.of(_loaded, _MAKES, sent.make)  # what is wrong with it, `make` says

    def make(self, sent: Sent) -> None:
        """Make the object. Environments and paths that are known here stay as they are."""
        _use_threads(sent.num_threads)
        self._register(sent)
        self._made = Outcome.of(_made_of, sent.make)

    def _register(self, sent: Sent) -> None:
        sys.path += [path for path in sent.paths if path not in sys.path]
        for id_ in sent.specs.keys() - gym.registry.keys():
            spec = Outcome.of(_loaded, f"environment {id_!r}", sent.specs[id_])
            missing = gym.envs.registration.EnvSpec(id_, _Missing(spec.error)) if spec.error is not None else None
            gym.registry[id_] = missing or spec.result()

    def call(self, method: str, arguments: tuple[Any, ...], num_threads: int) -> tuple[Any, Failed | None]:
        """Return what a method returns, or the error that came instead."""
        _use_threads(num_threads)
        outcome = Outcome.of_method(self._made, method, arguments)
        return (outcome.result(), None) if outcome.error is None else (None, _failed(outcome.error))

    def close(self) -> None:
        """Close the object, and end this process."""
        Outcome.of(self._made.close)  # errors have no reader any more
        ray_module().actor.exit_actor()


def _made_of(make: bytes) -> Any:
    return _loaded(_MAKES, make)()


def _loaded(what: str, pickled: bytes) -> Any:
    try:
        return ray_module().cloudpickle.loads(pickled)
    except Exception as error:  # foreign code may raise anything
        raise EngineError(
            f"{what}: found that a worker cannot load it ({type(error).__name__}: {error}), expected code that it can import. "
            'Install the package on all machines, or give workers your module with `RayEngine(runtime_env={"py_modules": '
            "[...]})`."
        ) from error


def _use_threads(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def _failed(error: BaseException) -> Failed:
    text = "".join(traceback.format_exception(error))
    # Many errors are pickled without a complaint, and then cannot be made again; a copy is made in the same way.
    reason = Outcome.of(copy.deepcopy, error).error
    if reason is None:
        return Failed(error, text)
    return Failed(
        EngineError(
            f"worker: found an error that cannot be sent ({reason}), expected one that can be pickled. It was "
            f"{type(error).__name__}: {error}"
        ),
        text,
    )
