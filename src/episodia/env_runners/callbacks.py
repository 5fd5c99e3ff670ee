"""Callbacks: functions of users that are called while episodes are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

from episodia.env_runners.rollout.delayed_reward_chunks import joined
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import EnvRunnerError

if TYPE_CHECKING:
    from episodia.env_runners.rollout.single_agent_loop import Rollout


Function: TypeAlias = Callable[..., Any]

EVENTS = ("on_environment_created", "on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end")


class Callbacks:
    """A base for callbacks: override what you need; what is not overridden costs nothing.

    Runners call with keywords only, and may pass more in the future: end each signature with `**kwargs`. All get
    `env_runner` and `env`. Those about episodes get `episode` and `env_index`, the number of its environment. A runner also
    takes objects of any other class with some of these methods, and dicts of functions, `{"on_episode_end": function}`.
    """

    def on_environment_created(self, *args: Any, **kwargs: Any) -> None:
        """Called after the (vector) environment was made, or made anew."""

    def on_episode_start(self, *args: Any, **kwargs: Any) -> None:
        """Called with `episode`, right after its reset."""

    def on_episode_step(self, *args: Any, **kwargs: Any) -> None:
        """Called with `episode`, the chunk that is being recorded, after each of its steps, the last one included."""

    def on_episode_end(self, *args: Any, **kwargs: Any) -> None:
        """Called with the whole `episode`, also if chunks of it were handed out before; these come as a copy."""

    def on_sample_end(self, *args: Any, **kwargs: Any) -> None:
        """Called with `samples`, the list of episodes that `sample` is about to return."""


@final
class Listeners:
    """For each event, the functions to call. Runners look at the tuples, which are empty where nobody listens."""

    __slots__ = EVENTS

    on_environment_created: tuple[Function, ...]
    on_episode_start: tuple[Function, ...]
    on_episode_step: tuple[Function, ...]
    on_episode_end: tuple[Function, ...]
    on_sample_end: tuple[Function, ...]

    def __init__(self, callbacks: Iterable[Any] = ()) -> None:
        """Sort what `callbacks` want to be called for.

        Args:
            callbacks: Objects with methods, and dicts of functions, that have the names of events.

        Raises:
            EnvRunnerError: If one of them is for no event at all, or names one that there is not.
        """
        found: dict[str, list[Function]] = {event: [] for event in EVENTS}
        for callback in listed(callbacks):
            for event, function in _functions_of(callback):
                found[event].append(function)
        for event, functions in found.items():
            setattr(self, event, tuple(functions))


def listed(callbacks: Any) -> list[Any]:
    """Return `callbacks` as a list.

    Raises:
        EnvRunnerError: If there are none to iterate over.
    """
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, Mapping):
        raise EnvRunnerError(f"callbacks: found {callbacks!r}, expected a list of them. Put a single one into a list.")
    return list(callbacks)


def notify(functions: tuple[Function, ...], **arguments: Any) -> None:
    """Call all `functions` with the same arguments."""
    for function in functions:
        function(**arguments)


def _functions_of(callback: Any) -> list[tuple[str, Function]]:
    if isinstance(callback, Mapping):
        unknown = [event for event in callback if event not in EVENTS]
        if unknown:
            raise EnvRunnerError(
                f"callbacks: found functions for {unknown}, expected the names of events, {list(EVENTS)}. Correct them."
            )
        return list(callback.items())
    if isinstance(callback, type):
        raise EnvRunnerError(f"callbacks: found the class {callback!r}, expected an instance. Call it.")
    found = [(event, getattr(callback, event)) for event in EVENTS if _is_overridden(callback, event)]
    if not found and not isinstance(callback, Callbacks):
        raise EnvRunnerError(
            f"callbacks: found {callback!r} without a method of any event, expected one of {list(EVENTS)}. Derive its class "
            "from `Callbacks`, or pass a dict of functions."
        )
    return found


def _is_overridden(callback: Any, event: str) -> bool:
    method = getattr(callback, event, None)
    return method is not None and getattr(method, "__func__", None) is not getattr(Callbacks, event)


@final
class Watcher:
    """Calls callbacks about environments and episodes.

    Episodes whose end somebody wants to see are kept until then, also if they are handed out chunk by chunk.

    Args:
        listeners: Whom to call.
        runner: What they get as `env_runner`.
    """

    def __init__(self, listeners: Listeners, runner: Any) -> None:
        self._listeners = listeners
        self._runner = runner
        # What was handed out of episodes that have not ended, by id.
        self._earlier: dict[str, list[SingleAgentEpisode]] = {}
        self.is_listening = bool(listeners.on_episode_start or listeners.on_episode_step or listeners.on_episode_end)

    def on_created(self, rollout: Rollout) -> None:
        """Tell that environments were made."""
        notify(self._listeners.on_environment_created, env_runner=self._runner, env=rollout.env)

    def on_starts(self, rollout: Rollout, lanes: Sequence[int]) -> None:
        """Tell that an episode has begun in each of `lanes`."""
        if self._listeners.on_episode_start:
            for lane in lanes:
                self._tell(self._listeners.on_episode_start, rollout, lane, rollout.recorder.episode(lane))

    def on_steps(self, rollout: Rollout, stepped: Sequence[int], ended: Sequence[int]) -> None:
        """Tell that some lanes have stepped, and that the episodes of some have ended."""
        if self._listeners.on_episode_step:
            for lane in stepped:
                self._tell(self._listeners.on_episode_step, rollout, lane, rollout.recorder.episode(lane))
        if self._listeners.on_episode_end:
            for lane in ended:
                episode = self._whole(rollout.recorder.episode(lane))
                self._tell(self._listeners.on_episode_end, rollout, lane, episode)

    def on_cut(self, chunks: EpisodeList) -> None:
        """Keep what may be needed of chunks that are handed out, now or later."""
        if self._listeners.on_episode_end:
            for chunk in chunks:
                if chunk.is_done:
                    self._earlier.pop(chunk.id_, None)
                else:
                    self._earlier.setdefault(chunk.id_, []).append(chunk)

    def on_sample_end(self, rollout: Rollout, samples: Any) -> None:
        """Tell that a sample is complete."""
        notify(self._listeners.on_sample_end, env_runner=self._runner, env=rollout.env, samples=samples)

    def _whole(self, last: SingleAgentEpisode) -> SingleAgentEpisode:
        whole: SingleAgentEpisode = joined([*self._earlier.get(last.id_, ()), last])
        return whole

    def _tell(self, functions: Any, rollout: Rollout, lane: int, episode: SingleAgentEpisode) -> None:
        notify(
            functions,
            episode=episode,
            env_index=lane,
            env=rollout.env,
            env_runner=self._runner,
            rl_module=rollout.actor.module,
            metrics_logger=None,
        )
