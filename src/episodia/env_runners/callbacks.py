"""Callbacks: functions of users that are called while episodes are collected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, final

from episodia.env_runners.metrics_logger import MetricsLogger
from episodia.env_runners.rollout.delayed_reward_chunks import joined
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.errors import EnvRunnerError
from episodia.trees import shown

_Function: TypeAlias = Callable[..., Any]

EVENTS = (
    "on_environment_created",
    "on_episode_created",
    "on_episode_start",
    "on_episode_step",
    "on_episode_end",
    "on_sample_end",
    "on_evaluate_start",
    "on_evaluate_end",
)


class Callbacks:
    """A base for callbacks: override what you need; what is not overridden costs nothing.

    Runners call with keywords only, those that a method names; with `**kwargs`, it gets all. All events have `env_runner`,
    `env`, `rl_module` and `metrics_logger`, a `MetricsLogger`. Those about episodes have `episode` and `env_index`, the number
    of its environment. A runner also takes objects of any other class with some of these methods, and dicts of functions,
    `{"on_episode_end": function}`. A method whose name begins with `on_` and is no event is an error.
    """

    def on_environment_created(self, *args: Any, **kwargs: Any) -> None:
        """Called after the (vector) environment was made or rebuilt; `env_context` is an empty dict."""

    def on_episode_created(self, *args: Any, **kwargs: Any) -> None:
        """Called with `episode`, right before `on_episode_start`; it has its first observation already."""

    def on_episode_start(self, *args: Any, **kwargs: Any) -> None:
        """Called with `episode`, right after its reset."""

    def on_episode_step(self, *args: Any, **kwargs: Any) -> None:
        """Called with `episode`, the chunk that is being recorded, after each of its steps, the last one included."""

    def on_episode_end(self, *args: Any, **kwargs: Any) -> None:
        """Called with the whole `episode`, also if chunks of it were returned before; then it is a copy.

        `prev_episode_chunks` is therefore always empty.
        """

    def on_sample_end(self, *args: Any, **kwargs: Any) -> None:
        """Called with `samples`, the list of episodes that `sample` is about to return."""

    def on_evaluate_start(self, *args: Any, **kwargs: Any) -> None:
        """Called before `evaluate` plays. Its episodes have no events of their own."""

    def on_evaluate_end(self, *args: Any, **kwargs: Any) -> None:
        """Called with `samples`, the whole episodes that `evaluate` is about to return, and their `evaluation_metrics`."""


@final
class Listeners:
    """For each event, the functions to call. Runners look at the tuples, which are empty for events without functions."""

    __slots__ = EVENTS

    on_environment_created: tuple[_Function, ...]
    on_episode_created: tuple[_Function, ...]
    on_episode_start: tuple[_Function, ...]
    on_episode_step: tuple[_Function, ...]
    on_episode_end: tuple[_Function, ...]
    on_sample_end: tuple[_Function, ...]
    on_evaluate_start: tuple[_Function, ...]
    on_evaluate_end: tuple[_Function, ...]

    def __init__(self, callbacks: Iterable[Any] = ()) -> None:
        """Sort the methods and functions of `callbacks` by event.

        Args:
            callbacks: Objects with methods, and dicts of functions, that have the names of events.

        Raises:
            EnvRunnerError: If one of them is for no event at all, or has a function or a method for one that there is not.
        """
        found: dict[str, list[_Function]] = {event: [] for event in EVENTS}
        for callback in listed(callbacks):
            for event, function in _functions_of(callback):
                found[event].append(_by_its_names(function))
        for event, functions in found.items():
            setattr(self, event, tuple(functions))


def listed(callbacks: Any) -> list[Any]:
    """Return `callbacks` as a list.

    Raises:
        EnvRunnerError: If it is not iterable.
    """
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, Mapping):
        raise EnvRunnerError(
            f"callbacks: found {shown(callbacks)}, expected a list of them. Put a single one into a list."
        )
    return list(callbacks)


def _functions_of(callback: Any) -> list[tuple[str, _Function]]:
    if isinstance(callback, Mapping):
        unknown = [event for event in callback if event not in EVENTS]
        if unknown:
            raise EnvRunnerError(
                f"callbacks: found functions for {unknown}, expected the names of events, {list(EVENTS)}. Correct them."
            )
        return list(callback.items())
    if isinstance(callback, type):
        raise EnvRunnerError(f"callbacks: found the class {shown(callback)}, expected an instance. Call it.")
    kind = type(callback)
    methods = [name for name in dir(kind) if name.startswith("on_") and callable(getattr(kind, name))]
    unknown = [name for name in methods if name not in EVENTS]
    if unknown:
        raise EnvRunnerError(
            f"callbacks: found the methods {unknown} of {shown(callback)}, expected the names of events, {list(EVENTS)}. "
            "Correct the names, or let other methods begin with another word. For events of a training, pass a "
            "`TrainingCallback` to `train`."
        )
    found = [(event, getattr(callback, event)) for event in EVENTS if _is_overridden(callback, event)]
    if not found and not isinstance(callback, Callbacks):
        raise EnvRunnerError(
            f"callbacks: found {shown(callback)} without a method of any event, expected one of {list(EVENTS)}. Derive its "
            "class from `Callbacks`, or pass a dict of functions."
        )
    return found


def _by_its_names(function: _Function) -> _Function:
    """Return `function`, or one that passes only the keywords that it names."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin without a signature
        return function
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}
    return lambda **given: function(**{name: value for name, value in given.items() if name in names})


def _is_overridden(callback: Any, event: str) -> bool:
    method = getattr(callback, event, None)
    return method is not None and getattr(method, "__func__", None) is not getattr(Callbacks, event)


@final
class Watcher:
    """Calls the callbacks of a runner.

    Episodes whose end a callback wants to see are kept until then, also if they are returned chunk by chunk.

    Args:
        callbacks: See `Listeners`.
        runner: What they get as `env_runner`.
        rl_module: What they get as `rl_module`.
        metrics: Where their `metrics_logger` puts what they log.

    Attributes:
        is_listening: Whether there is a callback about episodes.
        sees_steps: Whether there is one about single steps.
        sees_ends: Whether there is one about ends of episodes.
    """

    def __init__(self, callbacks: Iterable[Any], runner: Any, rl_module: Any, metrics: RunnerMetrics) -> None:
        self._listeners = listeners = Listeners(callbacks)
        self._common = {"env_runner": runner, "rl_module": rl_module, "metrics_logger": MetricsLogger(metrics)}
        self.sees_steps = bool(listeners.on_episode_step)
        self.sees_ends = bool(listeners.on_episode_end)
        self._sees_starts = bool(listeners.on_episode_created or listeners.on_episode_start)
        self.is_listening = self._sees_starts or self.sees_steps or self.sees_ends
        self._running: dict[int, str] = {}  # the id of the episode of each environment
        self._earlier: dict[str, list[Any]] = {}  # the chunks of running episodes that were cut, by id

    def created(self, env: Any, env_index: int = 0) -> None:
        """Tell that a (vector) environment was made."""
        self._notify("on_environment_created", env=env, env_index=env_index, env_context={})

    def started(self, episode: Any, env: Any, env_index: int) -> None:
        """Tell that `episode` has begun in the environment of this number."""
        if self.sees_ends:
            self._earlier.pop(self._running.get(env_index, ""), None)
            self._running[env_index] = episode.id_
        self._notify("on_episode_created", episode=episode, env=env, env_index=env_index)
        self._notify("on_episode_start", episode=episode, env=env, env_index=env_index)

    def stepped(self, episode: Any, env: Any, env_index: int) -> None:
        """Tell that `episode` has one step more."""
        self._notify("on_episode_step", episode=episode, env=env, env_index=env_index)

    def ended(self, episode: Any, env: Any, env_index: int) -> None:
        """Tell that `episode` has ended; callbacks get the whole, with the chunks that were cut before."""
        if self.sees_ends:
            whole = joined([*self._earlier.pop(episode.id_, ()), episode])
            self._notify("on_episode_end", episode=whole, prev_episode_chunks=[], env=env, env_index=env_index)

    def cut(self, chunks: Iterable[Any]) -> None:
        """Keep chunks of episodes that go on, for their ends."""
        if self.sees_ends:
            running = set(self._running.values())
            for chunk in chunks:
                if chunk.id_ in running and not chunk.is_done:
                    self._earlier.setdefault(chunk.id_, []).append(chunk)

    def sampled(self, samples: Any, env: Any) -> None:
        """Tell that a sample is complete."""
        self._notify("on_sample_end", samples=samples, env=env)

    def evaluates(self, env: Any) -> None:
        """Tell that an evaluation begins."""
        self._notify("on_evaluate_start", algorithm=None, env=env)

    def evaluated(self, samples: Any, metrics: RunnerMetrics, env: Any) -> None:
        """Tell that an evaluation is complete."""
        self._notify("on_evaluate_end", algorithm=None, samples=samples, evaluation_metrics=metrics, env=env)

    def _notify(self, event: str, **arguments: Any) -> None:
        for function in getattr(self._listeners, event):
            function(**arguments, **self._common)
